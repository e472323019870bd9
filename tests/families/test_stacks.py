"""Stacks that end: the twin pull by pull, what is decided, and the runs of every rule."""

import dataclasses
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families.bounded import BETS
from tests import twin
from tests.families.family_cases import best_stop
from tests.families.test_bounded import wins_of

SLOWLY = pytest.mark.slow
RNG = np.random.default_rng(5)
SIZES = (9, 14, 6, 11)
COINS = [RNG.permutation((np.arange(n) < round(n * p)) + 0.0)
         for n, p in zip(SIZES, (0.8, 0.6, 0.4, 0.7), strict=True)]  # fmt: skip
NORMAL = [np.round(RNG.normal(m, 2, n), 3) for n, m in zip(SIZES, (1, 0.4, -1, 0.8), strict=True)]
PROBLEMS = {
    "bai": (je.BestArm(), ("bai",)), "slack": (je.BestArm(0.05), ("slack", 0.05)),
    "reference": (je.BestArm(reference=0.62), ("reference", 0.62)),
    "topm": (je.TopM(2), ("topm", 2)),
}  # fmt: skip
RULES = {
    "uniform": (je.Uniform(), "uniform", {}),
    "eb": (je.TopTwo("eb", "tci", select="tracking"), "top_two",
           dict(leader="eb", challenger="tci", select="tracking")),
    "lucb": (je.LUCB(), "lucb", {}),
}  # fmt: skip
KINDS = {
    "coins": (je.Bernoulli(), COINS, type("Coins", (twin.Stacks, twin.Bernoulli), {})),
    "normal": (je.Gaussian([1.0] * 4), NORMAL, type("Normal", (twin.Stacks, twin.Gaussian), {})),
}


def of(stacks, order="permuted", family=je.Bernoulli()):  # noqa: B008
    return je.Instance.unstructured(source=je.Recorded(stacks, order), family=family)


CASES = [
    ("coins", "bai", "uniform", {}),
    *(pytest.param(*case, marks=SLOWLY) for case in (
        ("normal", "slack", "eb", {}), ("coins", "topm", "lucb", {"batch": 4}),
        ("coins", "reference", "eb", {"batch": 5, "delay": 2}),
    )),
]  # fmt: skip


@pytest.mark.parametrize("kind, problem, rule, wait", CASES)
def test_the_twin_pulls_the_same_arms(kind, problem, rule, wait):
    """At delta = 1e-9 until known means decide, at 0.3 mostly not so far."""
    family, stacks, world = KINDS[kind]
    (ours, spec), (plays, name, settings) = PROBLEMS[problem], RULES[rule]
    stopping = {"llr": je.LLR(), "selective": je.SelectiveElimination()}
    for delta in (0.3, 1e-9):
        run = twin.run(world(stacks), spec, name, noise=np.zeros(sum(SIZES) + 1), delta=delta,
                       stopping=tuple(stopping), beta=twin.gk16, **wait, **settings)  # fmt: skip
        for stop, by in stopping.items():
            found = je.trace(of(stacks, "given", family), ours, plays, delta=delta, stopping=by,
                             threshold=je.GK16(), **wait)  # fmt: skip
            theirs = run.stops[stop]
            assert found.stopped and theirs.stopped and found.samples == theirs.samples
            np.testing.assert_array_equal(found.arms, run.arms[: found.samples])
            np.testing.assert_array_equal(found.answer, theirs.answer)
        assert delta == 0.3 or (found.pulls == SIZES).sum() >= 2


EVERY = [
    (je.Racing(), je.BestArm(), je.Bernoulli()), (je.UGapE(), je.TopM(2), je.Bounded()),
    (je.TTUCB(), je.BestArm(), je.Bounded()), (je.LazyTaS(), je.BestArm(), je.Bounded()),
    (je.TrackAndStop(), je.Thresholding(0.55), je.Bounded()),
    (je.LinGame(), je.TopM(2), je.Gaussian()), (je.FWS(), je.BestArm(), je.Bernoulli()),
    (je.TTTS(), je.BestArm(), je.Bernoulli()), (je.LUCB(2), je.TopM(2), je.Bounded()),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("rule, problem, family", EVERY)
def test_every_rule_ends_with_the_answer(rule, problem, family):
    """At delta = 1e-300 known means alone decide, so every answer of every stop is the truth."""
    native = rule.traits.native == "only"
    stopping = je.LLR(), je.SelectiveElimination(), je.FullElimination()
    found = je.simulate(of(COINS, family=family), problem, rule, delta=1e-300, runs=8,
                        stopping=je.Native() if native else stopping,
                        threshold=je.GK16())  # fmt: skip
    assert found.stopped.all() and found.correct.all()
    assert (found.pulls <= SIZES).all() and (found.samples > 2 * min(SIZES)).all()
    if not native:  # tau_full <= tau_selective <= tau_LLR
        assert (np.diff(found.samples, axis=0) <= 0).all()


@pytest.mark.slow
def test_equal_known_means_do_not_hand_the_answer_to_a_third_arm():
    """Arms 0 and 1 are used up at the same mean; arm 2 is below them, and not used up."""
    stacks = [[1.0, 1, 1, 0], [0.0, 1, 1, 1], np.arange(60) % 2]
    for problem in (je.BestArm(0.01), je.TopM(2)):
        for stopping in (je.SelectiveElimination(), je.FullElimination()):
            found = je.simulate(of(stacks), problem, je.Uniform(), delta=1e-9, runs=20,
                                stopping=stopping, threshold=je.GK16())  # fmt: skip
            assert found.stopped.all() and found.correct.all()
            assert not found.answer[..., 2].any()


@dataclasses.dataclass(frozen=True)
class Shrinking(je.contracts.Source):
    """Rewards j/n of the j-th pull, so that the first estimates are wrong."""

    name: ClassVar[str] = "shrinking"
    means = property(lambda self: np.array([0.5, 0.25]))

    def nature(self, instance):
        return {"n": np.array([[5, 9]], np.int32), "top": np.array([[1.0, 0.5]])}

    def lengths(self, nature):
        return nature["n"]

    def draw(self, lanes, nature, arm, pull, noise):
        n, top = (lanes.take(nature[name], arm) for name in ("n", "top"))
        return top * pull.astype(noise.dtype) / (n - 1).astype(noise.dtype)


@pytest.mark.slow
def test_a_source_of_ones_own_may_end():
    instance = je.Instance.unstructured(source=Shrinking(), family=je.Bounded())
    found = je.simulate(instance, je.BestArm(), je.Uniform(), delta=1e-9, runs=3)
    assert found.stopped.all() and found.correct.all()
    np.testing.assert_array_equal(found.pulls[0, 0], np.tile([5, 9], (3, 1)))


STACKS = [(0.0, 0.0, 1.0, 1.0, 1.0, 1.0), (0.0, 0.1, 0.1, 0.5, 1.0, 1.0), (0.0,) * 6 + (1.0,) * 2]


@pytest.mark.parametrize("values", STACKS)
def test_no_time_to_stop_makes_a_stake_worth_more_than_one(values):
    """The best stopping time of each of 36 bets, at the true mean, by backward induction.

    Draws are without replacement. The stakes with replacement would be worth up to 1.2.
    """
    whole, u, bets = set(itertools.permutations(values)), np.mean(values), BETS
    orders = sorted({order[:n] for order in whole for n in range(1, len(values) + 1)})
    for size in (len(values), None):
        with scope.engine():
            each = [wins_of(np.array(order), size) for order in orders]
            wins = jax.tree.map(lambda *x: jnp.stack(x)[:, None], *each)
        for up in (True, False):
            with scope.engine():
                logs = wins.stake(jnp.full((1, 1), u), jnp.asarray(bets)[None], up)
            worth = dict(zip(orders, np.exp(np.asarray(logs)), strict=True))
            best = best_stop(values, worth | {(): np.ones(len(bets))})
            assert (best <= 1 + 1e-9).all() if size else best.max() > 1.05


def test_sums_of_a_stack_are_those_of_the_definition():
    family, rewards = je.Bounded(-1, 3), np.round(RNG.random((2, 7)), 2)
    tables = family.tables(of([[0.0] * 7 + [1.0] * 3, [0.0] * 20 + [1.0] * 5], family=family))
    with scope.engine():
        stats = family.start(None, None, jnp.asarray(tables[0]), 4 * rewards[:, :1] - 1)
        stat = family.stat(stats)
        for n in range(1, 7):
            stat = family.more(stat, jnp.asarray(4 * rewards[:, n : n + 1] - 1))
        for k, size in enumerate((10, 25)):
            known = wins_of(rewards[k], size)
            for x, y in zip(stat[2:], known[2:], strict=True):
                np.testing.assert_allclose(np.asarray(x)[k, 0], float(y), rtol=1e-12)


@SLOWLY
def test_few_runs_without_replacement_are_wrong():
    """Of 4000 runs near a tie at delta = 0.1, with batches, at most 13% are wrong.

    An error rate of 0.1 fails by luck with probability 4e-10; one of 0.15 is seen with 0.999.
    """
    stacks = [(np.arange(n) < k) + 0.0 for n, k in ((80, 41), (80, 40), (60, 29))]
    for wait in ({}, {"batch": 16}):
        found = je.simulate(of(stacks, family=je.Bounded()), je.BestArm(), je.EBTCI(), delta=0.1,
                            threshold=je.Mixture(), runs=4000, **wait)  # fmt: skip
        assert found.proven is True and found.stopped.all()
        assert (~found.correct).mean() < 0.13


def test_common_items_end_too():
    """Scores of three arms on the same 30 items: with delta = 1e-300 all of them are seen."""
    hard = RNG.permutation(30) / 30
    scores = [(hard < p) + 0.0 for p in (0.8, 0.7, 0.5)]
    past = je.Recorded(scores, common=True)
    instance = je.Instance.unstructured(source=past, family=je.Paired(items=30))
    found = je.simulate(instance, je.BestArm(), je.EBTCI(), delta=1e-300, runs=6,
                        stopping=(je.LLR(), je.SelectiveElimination()))  # fmt: skip
    assert found.stopped.all() and found.correct.all() and (found.pulls <= 30).all()
    assert (found.pulls[..., :2] == 30).all()
