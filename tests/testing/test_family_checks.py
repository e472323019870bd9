"""The check of a family accepts right ones and names the fault of wrong ones."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families.arm import ArmEvidence, Stat
from jaxelim.families.gaussian import Gaussian
from jaxelim.testing import ContractError, check, families
from jaxelim.testing.report import World
from tests.calls import rows
from tests.faces.test_sentences import Shifted
from tests.families.family_cases import Faces, Geometric, Proven, Textbook
from tests.testing import faults


def one(law, family, draws=100_000):
    """One law of the check."""
    with scope.engine():
        return law(World(family, draws=draws))


@pytest.mark.slow
@pytest.mark.parametrize("family, seed, ends", [
    (Geometric(), 1, "0"), (Faces(), 2, "-2 and -1"), (je.Gaussian([1.0, 2.0]), 3, "none"),
], ids=repr)  # fmt: skip
def test_right_families(family, seed, ends):
    """A right family fails a check by luck with probability 1e-6."""
    report = check(family, seed=seed)
    assert report.subject == repr(family) and len(report.held) == 5 + family.has("log_mixture")
    assert "n = 100000 rewards at each of 5 means" in str(report)
    assert [rate.verdict == "above" for rate in report.rates] == [False] * 3
    assert f"ends included: {ends}" in report.held[0]


@pytest.mark.slow
def test_families_without_a_divergence():
    for family in (je.GaussianUnknownVariance(), je.Bounded()):
        report = check(family, draws=5000)
        assert len(report.held) == 4 and "the law of the rewards is not checked" in str(report)


def test_the_report_separates_exact_losses_from_others():
    """The textbook's form cancels for x near y."""
    off = [float(one(families.loss, family).split("off by ")[1].split()[0])
           for family in (Geometric(), Textbook())]  # fmt: skip
    assert off[0] < 1e-7 < 1e-4 < off[1]


def wrong(**members):
    """Geometric rewards with these members in place of the right ones."""
    return faults.subclass(Geometric, **({"name": "wrong"} | members))()


def _loss(change):
    """A loss from Geometric's, the mean and the shift."""
    return dict(loss=lambda self, stat, by: change(Geometric.loss(self, stat, by), stat.mean, by))


LOSSES = {
    "squares": (_loss(lambda d, m, by: by**2 / (2 * (m + by) * (1 + m + by))), "an exponential"),
    "other way round": (
        _loss(lambda d, m, by: Geometric().loss(Stat(m, m + by), -by)), "an exponential"),
    "no number at the end": (
        _loss(lambda d, m, by: m * jnp.log(m / (m + by))
              - (1 + m) * jnp.log((1 + m) / (1 + m + by))), "nan"),
    "0": (_loss(lambda d, m, by: 0 * by), "second derivative"),
    "minus": (_loss(lambda d, m, by: -d), "second derivative"),
    "not 0": (_loss(lambda d, m, by: 0.1 + d), "it has to be 0"),
    "a slope that is not its own": (
        _loss(lambda d, m, by: d + 0.1 * (by - jax.lax.stop_gradient(by))), "an exponential"),
}  # fmt: skip


def _draw(change):
    """Geometric's, changed."""

    def draw(self, lanes, nature, arm, pull, noise):
        reward = Geometric().draw(lanes, nature, arm, pull, noise)
        return change(lanes.take(nature, arm), noise, reward)

    return draw


def _one_nature(self, lanes, nature, arm, pull, noise):
    return Geometric().draw(lanes, nature.reshape(-1)[: nature.shape[0]], arm, pull, noise)


DRAWS = {
    "biased": (_draw(lambda mu, u, x: x + jnp.where((u < 0.05) & (mu > 0), 1.0, 0.0)),
               "have mean .* standard errors off"),
    "not finite": (_draw(lambda mu, u, x: jnp.where(u > 0, x, jnp.inf)), "not finite, for noise 0"),
    "below the range": (_draw(lambda mu, u, x: jnp.where(u < 0.01, -1.0, x)), "out of the range"),
    "at the end": (_draw(lambda mu, u, x: jnp.where(mu > 0, x, 1)),
                   "other than the mean, at an end"),
    "one for all": (_draw(lambda mu, u, x: x[0]), r"rewards are float64\[\]"),
    "of one type": (_draw(lambda mu, u, x: x.astype(jnp.int32)), "rewards are int32"),
    "one nature for all": (_one_nature, "a nature of its own"),
}  # fmt: skip


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Doubled(ArmEvidence):
    """Evidence with a doubled gradient."""

    def gradient(self, piece):
        return 2 * super().gradient(piece)


def _starts_at_0(self, space, problem, tables, rewards):
    start = Gaussian.start(self, space, problem, tables, rewards)
    return dataclasses.replace(start, counts=0 * start.counts)


def _with_neighbours(self, seen, arms, beta):
    pairs = Geometric.refuted_pairs(self, seen, arms, beta)
    return [(i, row | jnp.roll(row, 1, -1)) for i, row in pairs]


SHORT = dict(reach=lambda self, stat, radius, up: 0.9 * Geometric.reach(self, stat, radius, up))
LATE = dict(refuted_pairs=lambda self, seen, arms, beta: Geometric.refuted_pairs(
    self, seen, arms, 2 * beta))  # fmt: skip
WALKS, RUNS = families.walks, families.runs
INHERITED = {
    "start": (WALKS, dict(start=_starts_at_0), "after start and update"),
    "gradient": (
        WALKS, dict(evidence=lambda self, space, stats, shape: Doubled(
            self, space, shape, self.stat(stats), stats.counts)), "gradient is not that of"),
    "meet": (WALKS, dict(meet=lambda self, w_a, a, w_b, b, off: off / 2), "not that of the losses"),
    "reach": (WALKS, SHORT, "not the radius"),
    "go": (WALKS, dict(update=lambda self, seen, arm, reward, go: Geometric.update(
        self, seen, arm, reward, go | True)), "update"),
    "sums": (WALKS, dict(update=lambda self, seen, arm, reward, go: dataclasses.replace(
        Geometric.update(self, seen, arm, reward, go), reward_sums=seen.stats.reward_sums)),
        "update"),
    "counts": (WALKS, dict(evidence=lambda self, space, stats, shape: ArmEvidence(
        self, space, shape, self.stat(stats), 2 * stats.counts)), "not the LLR at the counts"),
    "pairs": (WALKS, LATE, "refuted_pairs is not where"),
    "order": (RUNS, LATE, "tau_full = .*, tau_selective"),
    "lanes": (RUNS, dict(refuted_pairs=_with_neighbours), "a run alone and the same run in"),
}  # fmt: skip
"""Faults of geometric rewards, but for the first two: of Gaussians, whose programs are small."""
GAUSSIAN = ("start", "gradient")
CASES = {
    **{f"loss: {name}": (families.loss, *case) for name, case in LOSSES.items()},
    **{f"draws: {name}": (families.draws, dict(draw=draw), sentence)
       for name, (draw, sentence) in DRAWS.items()},
}  # fmt: skip


def fails(law, members, sentence, made=wrong):
    """One law is broken by a wrong family."""
    with pytest.raises(ContractError, match=sentence):
        one(law, made(**members))


@pytest.mark.parametrize("case", CASES)
def test_laws_of_wrong_families(case):
    fails(*CASES[case])


@pytest.mark.parametrize("cases", rows([GAUSSIAN, (*INHERITED,)[2:]], [GAUSSIAN], " ".join))
def test_laws_of_wrong_methods(cases):
    for case in cases:
        fails(*INHERITED[case], faults.family if case in GAUSSIAN else wrong)


@pytest.mark.slow
def test_the_whole_check_says_all_that_is_wrong():
    """The laws that hold are in the report; values of no exponential family have other slopes."""
    fails(WALKS, dict(exponential=True, **LOSSES["squares"][0]),
          "the gradient at weights .* is no cut")  # fmt: skip
    with pytest.raises(ContractError) as caught:
        check(wrong(**SHORT, draw=DRAWS["biased"][0]), seed=1)
    text, report = str(caught.value), caught.value.report
    assert "draws: mean" in text and "not the radius" in text
    assert report.verdict.endswith("laws are broken") and "400 shifts" in str(report)


def test_what_raises_is_said_by_the_name_of_its_method():
    def loss(self, stat, by):
        return by @ jnp.ones((3, 3))

    with pytest.raises(ContractError, match="loss: loss raised ValueError"):
        check(wrong(loss=loss), draws=100)


SETTINGS = {
    "name of ours": (dict(name="bernoulli"), "has to be its own"),
    "no name": (dict(name=""), "has to be its own"),
    "noise": (dict(noise="cauchy"), "noise is 'cauchy'"),
    "range": (dict(high=0.0), "no mean is between"),
    "refused": (
        dict(high=50.0, check=lambda self, instance: je.Bernoulli().check(instance)),
        "refuses means inside",
    ),
    "docstring": (dict(__doc__="Args:\n    size: none."), "docstring"),
    "repr": (dict(__repr__=lambda self: "Other()"), "repr"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_wrong_settings(case):
    members, sentence = SETTINGS[case]
    with pytest.raises(ContractError, match=sentence) as caught:
        check(wrong(**members))
    assert len(caught.value.report.broken) == 1


class NoDataclass(Geometric):
    """Not decorated, so its fields would be its parent's."""


@dataclasses.dataclass
class Mutable(je.families.OneParameter):
    """Not frozen."""


@pytest.mark.parametrize("family, sentence", [
    (je.Gaussian(), "not a OneParameter family"), (NoDataclass(), "no frozen dataclass"),
    (Mutable(), "no frozen dataclass"),
], ids=repr)  # fmt: skip
def test_objects_that_are_no_family(family, sentence):
    with pytest.raises(ContractError, match=sentence):
        check(family)


@pytest.mark.parametrize("thing, argument, value", [
    (Geometric(), "draws", 19), (Geometric(), "draws", 1.5), (Geometric(), "seed", -1),
    (Geometric(), "problem", je.BestArm()), (je.BestArm(), "runs", 3), (je.Uniform(), "draws", 3),
    (Geometric(), "progress", "bar"), (je.Uniform(), "stopping", je.LLR()),
])  # fmt: skip
def test_arguments(thing, argument, value):
    with pytest.raises(je.errors.ArgumentError, match=f"^{argument}: got "):
        check(thing, **{argument: value})


@pytest.mark.parametrize("thing", [None, Geometric, 3, je.Instance(np.eye(2), [1.0, 0.0])])
def test_what_cannot_be_checked(thing):
    with pytest.raises(je.errors.ArgumentError, match="^thing: got "):
        check(thing)


@pytest.mark.slow
def test_a_good_source(tmp_path):
    instance = je.Instance.unstructured([0.5, 0.2, 0.0], source=Shifted())
    assert check(instance).verdict == "passed"
    result = je.simulate(instance, je.BestArm(), je.Uniform(), runs=2, threshold=je.Mixture())
    assert "shifted is not that of Gaussian" in str(result.proven)
    result.save(tmp_path / "x.nc")
    assert je.load_result(tmp_path / "x.nc", source=Shifted()).instance == instance
    assert str(je.load_result(tmp_path / "x.nc").instance.source) == "Shifted()"

# Mixtures

RIGHT = Gaussian.log_mixture


def checked(family):
    return one(families.mixtures, family, draws=40_000)


def _with_the_largest(self, stat, at, c):
    """The mean of the mixture and of the largest likelihood ratio."""
    largest = stat.n / stat.cost * (stat.mean - at) ** 2 / 2
    return jnp.logaddexp(RIGHT(self, stat, at, c), largest) - np.log(2)


def test_a_right_mixture_passes():
    """Each law fails a right family by luck with probability below 1e-9; it sees 0.2."""
    assert "convex in the" in checked(je.Gaussian(std=[1.0, 2.0]))


@pytest.mark.slow
def test_a_mixture_that_is_least_at_the_estimate():
    """It passes; what falls everywhere does not. Its runs have a proof, and end."""
    assert "least at the estimate" in checked(Proven())

    class Falls(Proven):
        def log_mixture(self, stat, at, c):
            value = super().log_mixture(stat, at, c)
            return jnp.where(at > stat.mean, -at, value)

    with pytest.raises(ContractError, match="does not fall up to that mean and rise from there"):
        checked(Falls())
    instance = je.Instance.unstructured([3.0, 1.0, 0.5], Proven())
    found = je.simulate(instance, je.BestArm(), je.LUCB(), threshold=je.Mixture(), delta=0.05,
                        runs=20, max_samples=3000)  # fmt: skip
    assert found.proven is True and found.stopped.all() and (~found.correct).sum() <= 5


MIXTURES = {
    "half of the largest likelihood ratio": (_with_the_largest, "exp(log_mixture) has mean"),
    "too large by 20%": (
        lambda *of: RIGHT(*of) + np.log(1.2), "the largest log-likelihood ratio"),
    "1.5 times": (lambda *of: 1.5 * RIGHT(*of), "the largest log-likelihood ratio"),
    "capped, so not convex": (lambda *of: RIGHT(*of).clip(max=-0.01), "not convex"),
    "not a number where it is large": (
        lambda *of: jnp.where(of[3] == 3, np.nan, RIGHT(*of)), "it has to be finite"),
    "one prior alone": (lambda *of: RIGHT(*of)[..., :1], "log_mixture returns an array"),
}  # fmt: skip


@pytest.mark.parametrize("fault", MIXTURES)
def test_faults_are_found(fault):
    log_mixture, sentence = MIXTURES[fault]
    with pytest.raises(ContractError) as caught:
        checked(faults.family(log_mixture=log_mixture))
    assert sentence in str(caught.value)
