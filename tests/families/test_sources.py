"""Sources of rewards: draws, orders of recorded rewards, refusals; instances as values."""

import copy
import dataclasses
import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxelim as je
from jaxelim import scope
from jaxelim.families.sources import ROUNDS, Betas, Normal, Points, shuffled
from jaxelim.lanes import PLAIN
from jaxelim.simulation.refusals import proven
from jaxelim.simulation.results.descriptions import hash_of
from jaxelim.simulation.results.summaries import law
from tests.calls import NAMES, checked, stack
from tests.families.family_cases import Binomial

RNG = np.random.default_rng(11)
STACKS = [np.append(np.ones(20), np.zeros(10)), np.arange(40) % 2, np.arange(25) % 3 == 0]
STACKS = [RNG.permutation(np.asarray(stack, float)) for stack in STACKS]
BINARY = je.Recorded(STACKS)
NUMBERS = [np.round(RNG.normal(mean, 2, n), 6) for mean, n in ((3, 60), (1, 40), (0, 50))]
CHANCE = 1e-7
"""Of each statistical test to fail by luck."""


def on(past, family=je.Bernoulli()):  # noqa: B008
    return je.Instance.unstructured(source=past, family=family)


def orders(seeds, n, rounds=ROUNDS):
    """pi(0), .., pi(n - 1) for every seed: [n, seeds]."""
    with scope.engine():
        each = jax.jit(
            lambda seed, place: shuffled(seed, place, jnp.full(seed.shape, n, jnp.uint64), rounds)
        )
        places = np.broadcast_to(np.arange(n, dtype=np.uint64)[:, None], (n, seeds.size))
        found = each(np.tile(seeds, n), places.ravel())
        return np.asarray(found).reshape(n, seeds.size).astype(int)


def uniform(found, kinds):
    """The p-value of equal chances of the numbers 0 .. kinds - 1, by chi-square."""
    return stats.chisquare(np.bincount(found, minlength=kinds)).pvalue


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 97, 1000])
def test_the_shuffle_is_a_permutation_for_every_seed(n):
    found = orders(RNG.integers(2**64, size=20, dtype=np.uint64), n)
    assert (np.sort(found, 0) == np.arange(n)[:, None]).all()
    if n > 16:
        assert np.unique(found, axis=1).shape[1] == 20


def power(n, kinds, off):
    """The probability that the chi-square test of n draws sees one chance of 1/kinds (1 + off)."""
    return stats.ncx2.sf(stats.chi2.isf(CHANCE, kinds - 1), kinds - 1, n * off**2 / kinds)


@pytest.mark.parametrize("n, off", [(2, 0.06), (3, 0.12), (4, 0.25)])
def test_every_order_of_a_short_stack_is_equally_likely(n, off):
    """All n! orders of 48,000 seeds, by chi-square.

    It fails by luck with probability 1e-7. An order whose chance is `off` of itself too
    large is seen with probability 0.99. Eight rounds in place of 96 are seen for n = 4:
    their law is 1.6% off in total variation.
    """
    seeds, kinds = np.arange(48_000, dtype=np.uint64), list(itertools.permutations(range(n)))
    assert power(seeds.size, len(kinds), off) > 0.99
    digits = n ** np.arange(n)
    names = {int(np.dot(kind, digits)): i for i, kind in enumerate(kinds)}
    of = lambda rounds: np.vectorize(names.get)(digits @ orders(seeds, n, rounds))  # noqa: E731
    assert uniform(of(ROUNDS), len(kinds)) > CHANCE
    if n == 4:
        assert uniform(of(8), len(kinds)) < CHANCE


@pytest.mark.parametrize("n", [50, 1009])
def test_places_of_a_long_stack_are_uniform(n):
    """Of 100,000 seeds: pi(j) at the first, middle and last pull, and two pulls together.

    Chi-square in 50 cells; each fails by luck with probability 1e-7. A cell whose chance is
    too large by 0.3 of itself is seen with probability 0.99.
    """
    assert power(100_000, 50, 0.3) > 0.99
    seeds = np.arange(100_000, dtype=np.uint64) * np.uint64(3)
    with scope.engine():
        take = jax.jit(lambda s, j: shuffled(s, j, jnp.full(s.shape, n, jnp.uint64)))
        at = {j: np.full(seeds.size, j, np.uint64) for j in (0, 1, n // 2, n - 1)}
        found = {j: np.asarray(take(seeds, x)).astype(int) for j, x in at.items()}
    cells = lambda x: np.minimum(x * 50 // n, 49)  # noqa: E731
    sizes = np.bincount(cells(np.arange(n)), minlength=50) / n
    for places in found.values():
        seen = np.bincount(cells(places), minlength=50)
        assert stats.chisquare(seen, sizes * seeds.size).pvalue > CHANCE
    for one, other in ((0, 1), (0, n - 1), (1, n // 2)):
        apart = (found[one] - found[other]) % n
        assert (apart > 0).all()
        seen = np.bincount((apart - 1) * 49 // (n - 1), minlength=49)
        sizes_apart = np.bincount(np.arange(n - 1) * 49 // (n - 1), minlength=49) / (n - 1)
        assert stats.chisquare(seen, sizes_apart * seeds.size).pvalue > CHANCE


def test_a_run_takes_each_reward_once_and_ends_when_none_is_left():
    """They are those of (run, arm, pull); the evidence is that of noise with the same rewards."""

    def traced(delta, run):
        return je.trace(on(BINARY), je.BestArm(), je.LUCB(), delta=delta, run=run)

    all_of = run, other = traced(1e-200, 2), traced(1e-200, 5)
    assert run.stopped and run.samples == 95 and run.answer.tolist() == [True, False, False]
    early = traced(0.8, 2)
    for k in range(3):
        drawn, first = (one.rewards[one.arms == k] for one in (run, early))
        np.testing.assert_array_equal(np.sort(drawn), np.sort(STACKS[k]))
        np.testing.assert_array_equal(drawn[: first.size], first)
    both = [one.rewards[one.arms == 1][:20] for one in all_of]
    assert min(map(len, both)) == 20 and not np.array_equal(*both)
    noise = np.where(early.rewards == 1, 0.0, 1 - 2.0**-53)
    plain = je.Instance.unstructured(BINARY.means, je.Bernoulli())
    again = je.trace(plain, je.BestArm(), je.LUCB(), delta=0.8, noise=np.append(noise, noise))
    assert early.stopped and again.samples == early.samples
    np.testing.assert_array_equal(again.arms, early.arms)
    np.testing.assert_array_equal(again.answer, early.answer)


@pytest.mark.slow
@pytest.mark.devices
def test_runs_do_not_depend_on_lanes_batches_or_devices():
    """And a run has pulled no arm more often than its stack is long."""
    instance, job = on(BINARY), (je.BestArm(), je.LUCB())
    given = dict(delta=[0.3, 1e-4], runs=60, stopping=(je.LLR(), je.SelectiveElimination()))
    whole = je.simulate(instance, *job, **given, engine=je.Engine(lanes=16, devices=1))
    sizes = [stack.size for stack in STACKS]
    assert whole.stopped.all() and (whole.pulls <= sizes).all()
    assert (whole.pulls == sizes).any(-1).any() and (whole.samples < 95).any()
    layout = je.Engine(lanes=32, chunk=8, devices=2)
    other = je.simulate(instance, *job, **given, engine=layout)
    for name in ("samples", "stopped", "answer", "pulls"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(other, name))
    part = je.simulate(instance, *job, **{**given, "runs": [41, 7]})
    np.testing.assert_array_equal(part.samples, whole.samples[..., [41, 7]])


@pytest.mark.slow
def test_a_bootstrap_draws_with_replacement_and_never_ends():
    """Chi-square of the places of 40,000 rewards, told apart by their values.

    It fails by luck with probability 1e-7; a place whose chance is too large by 0.4 of
    itself is seen with probability 0.99.
    """
    assert power(40_000, 40, 0.4) > 0.99
    values = [np.arange(40) + 0.0, np.arange(40) + 0.5]
    past = on(je.Recorded(values, "bootstrap"), je.Gaussian(30.0))
    run = je.trace(past, je.BestArm(), je.Uniform(), delta=1e-300, max_samples=80_000)
    for k in range(2):
        drawn = run.rewards[run.arms == k]
        places = np.searchsorted(values[k], np.round(drawn, 6))
        np.testing.assert_allclose(drawn, values[k][places])
        assert uniform(places, 40) > CHANCE
        later = np.bincount(places[:-1] * 40 + places[1:], minlength=1600)
        assert stats.chisquare(later).pvalue > CHANCE


@pytest.mark.slow
def test_a_broken_order_is_seen():
    class Twice(je.Recorded):
        __doc__ = je.Recorded.__doc__

        def draw(self, lanes, nature, arm, pull, noise):
            return super().draw(lanes, nature, arm, pull // 2, noise)

    right = on(je.Recorded(NUMBERS), je.Gaussian([2.0, 1.0, 0.5]))  # in units of the largest std
    assert "first rewards of each arm have their mean" in str(je.testing.check(right))
    source = Twice([np.arange(40.0), np.arange(50.0)])
    with pytest.raises(je.testing.ContractError, match="until it is used up"):
        je.testing.check(on(source, je.Gaussian(9.0)), draws=2000)


def test_proofs_of_orders_and_of_families_without_replacement():
    class Mine(je.Bounded):
        def law(self):
            return je.Bounded().law()

    class Shuffled(Mine):
        without_replacement = True

        def law(self):
            return je.Bounded().law()

    past = je.Recorded([[0.0, 1.0], [0.0, 0.0]])
    assert past.law(je.Bounded()) == past.law(Shuffled()) == je.Bounded().law()
    assert "without replacement" in past.law(Mine())
    assert "in a random order" in law(on(past, je.Bounded()))
    for order, sure in (("permuted", True), ("bootstrap", True), ("given", False)):
        given = on(dataclasses.replace(past, order=order), je.Bounded())
        call = checked(given, je.BestArm(), je.Uniform(), threshold=je.Mixture(), runs=1)
        assert (proven(call) is True) == sure


def test_values():
    """Equal stacks are equal sources; hashes tell others apart."""
    same = je.Recorded({"a": STACKS[0], "b": STACKS[1], "c": STACKS[2]})
    other = je.Recorded([STACKS[0], STACKS[1], 1 - STACKS[2]])
    assert same == BINARY and hash(same) == hash(BINARY) and other != BINARY
    assert dataclasses.replace(BINARY, order="given") != BINARY
    plain = je.Instance.unstructured(BINARY.means, je.Bernoulli())
    assert len({hash_of(one) for one in (on(same), on(BINARY), on(other), plain)}) == 3
    assert len({on(same), on(BINARY), on(other), plain}) == 3
    gauss = je.Recorded(NUMBERS)
    assert on(gauss, je.Gaussian(2.0)).noise_std == 2.0 and "sha256" in repr(gauss)
    settings = on(gauss, je.Gaussian(2.0)).family_settings
    assert settings == {"noise_std": 2.0, "source": repr(gauss)}
    short = je.Recorded([[0, 1], [1, 1, 0]], "given")
    assert repr(short) == "Recorded([[0.0, 1.0], [1.0, 1.0, 0.0]], 'given')"
    assert short.means.tolist() == [0.5, 2 / 3]


def test_draws_are_those_of_the_distributions():
    """20,000 draws of each of three points, and of a Beta: six standard errors, 2e-9 of luck."""
    means = Betas([(0.5, 0.5), (4, 2), (0.05, 3)]).means
    np.testing.assert_allclose(means, [0.5, 2 / 3, 0.05 / 3.05], atol=2e-5)
    points = Points([0, 1, 5], [[0.5, 0.3, 0.2], [0.2, 0, 0.8]])
    betas = Betas([(0.5, 0.5), (4, 2)], -1, 1)
    for source, family in ((points, je.Bounded(0, 5)), (betas, je.Bounded(-1, 1))):
        u = (np.arange(20_000) + np.random.default_rng(0).random(20_000)) / 20_000
        instance = je.Instance.unstructured(source=source, family=family)
        with scope.engine():
            nature = jax.tree.map(lambda x: jnp.asarray(x[0]), source.nature(instance))
            arms = jnp.asarray(np.repeat([0, 1], 20_000).astype(np.int32))
            x = np.asarray(source.draw(PLAIN, nature, arms, arms, jnp.asarray(np.tile(u, 2))))
        for arm, own in enumerate(x.reshape(2, -1)):
            assert abs(own.mean() - source.means[arm]) <= 6 * own.std() / 20_000**0.5
            if source is points:
                shares = [(own == point).mean() for point in (0, 1, 5)]
                np.testing.assert_allclose(shares, source.probabilities[arm], atol=0.02)


@pytest.mark.slow
def test_a_source_of_betas_is_certified():
    source = Betas([(4, 1), (1, 2)])
    instance = je.Instance.unstructured(source=source, family=je.Gaussian(0.5))
    assert je.testing.check(instance).verdict == "passed"


@pytest.mark.parametrize("call, words", [
    (lambda: Points([0, 1], [[0.5, 0.6], [0.5, 0.5]]), "sum to 1"),
    (lambda: Points([0, 1], [[1.5, -0.5], [0.5, 0.5]]), "at least 0"),
    (lambda: Points([0, 1, 1], [[0.5, 0.5]] * 2), "S as of"),
    (lambda: Betas([(1, 0), (1, 1)]), "0.01"), (lambda: Betas([(1, 1, 1)] * 2), "two numbers"),
    (lambda: Betas([(1, 1)] * 2, 1, 0), "above low"),
    (lambda: Normal(0.0), "from 1e-100 to 1e[+]100"),
    (lambda: Normal([1.0, 1, -1, 1]), "-1 is not"), (lambda: Normal(np.ones((2, 2))), "shape"),
    (lambda: on(Points([0, 2], [[0.8, 0.2], [0.6, 0.4]]), je.Bounded()), "support.*0 to 1"),
    (lambda: je.Instance.unstructured(
        [1, 1.7], je.Poisson(), source=Points([0, 2], [[0.8, 0.2], [0.6, 0.4]])), "the source"),
])  # fmt: skip
def test_bad_settings(call, words):
    with pytest.raises(je.errors.ArgumentError, match=words):
        call()


arms = je.Instance.unstructured
ONE, TWO = [0.9, 0.2, 0.3, 0.4], [[0.9, 0.2, 0.3, 0.4], [0.1, 0.7, 0.5, 0.3]]
STD = [1.0, 0.5, 2.0, 0.1 + 0.2]
FAMILIES = [
    je.Bernoulli(), je.Poisson(), je.Exponential(), je.Gaussian(STD), je.Gaussian(2.0),
    je.GaussianUnknownVariance("free"), je.GaussianUnknownVariance("glr"), je.Bounded(-1, 3),
    je.Logistic(), Binomial(3),
]  # fmt: skip
SOURCED = [
    arms(ONE, je.GaussianUnknownVariance(), source=Normal(STD)),
    arms(family=je.Poisson(), source=Points([0, 1], [[0.3, 0.7], [0.9, 0.1]])),
    arms(family=je.Gaussian(0.5), source=Betas([(4, 1), (1, 2)])),
    arms(family=je.Gaussian(2.0), source=je.Recorded([[0.5, 1, 2], [0, 1]])),
]
INSTANCES = [
    *(arms(means, family, name="small") for family in FAMILIES for means in (ONE, TWO)), *SOURCED
]  # fmt: skip


@pytest.mark.parametrize("instance", INSTANCES, ids=repr)
def test_an_instance_survives(instance, tmp_path):
    """Copies, pickles, files, slices, stacks, and the printed form."""
    family, path = instance.family, tmp_path / "mine.json"
    names = {**vars(je.families), **NAMES, "Binomial": Binomial}
    copies = [copy.copy(instance), copy.deepcopy(instance), pickle.loads(pickle.dumps(instance))]
    copies += [] if instance.batched else [eval(repr(instance), names)]
    if isinstance(family, Binomial):
        allowed = "family: got Binomial.* load_instance knows: gaussian, bernoulli"
        with pytest.raises(je.errors.UnsupportedError, match=allowed):
            instance.to_json(path)
        assert not path.exists()
    else:
        instance.to_json(path)
        copies.append(je.load_instance(path))
    for one in copies:
        assert one == instance and hash(one) == hash(instance) and one.name == instance.name
        assert one.family == family and type(one.family) is type(family)
        assert not one.arms.flags.writeable and not one.theta.flags.writeable
    if instance.batched:
        assert [one.family for one in instance] == [family] * 2 == [instance[-1].family] * 2
        assert instance[:1].family == family and stack(list(instance)) == instance
        assert stack([instance, instance[0]]).family == family
    assert family == instance.unbatched[0].family
    if getattr(instance.source, "means", None) is None:
        assert stack(instance).family == family


def test_equality_includes_the_family():
    """And so does the key of stored results."""
    plain = arms(ONE)
    assert plain == je.Instance(np.eye(4), ONE) == je.Instance(np.eye(4), ONE, family=je.Gaussian())
    assert hash(plain) == hash(je.Instance(np.eye(4), ONE)) and plain.structure == "unstructured"
    assert arms(ONE, noise_std=2.0) == je.Instance(np.eye(4), ONE, 2.0)
    kinds = [arms(ONE, family) for family in (*FAMILIES, je.Gaussian(), Binomial(4))] + SOURCED
    assert len(set(kinds)) == len(kinds) and all((a == b) == (a is b) for a in kinds for b in kinds)
    calls = [je.Experiment(one, je.BestArm(), je.Uniform()) for one in kinds[:9] + SOURCED]
    assert len({one.key for one in calls}) == len(calls)
