"""Rules that compare arms by KL bounds, on families: against the twin, and their laws."""

import dataclasses

import numpy as np
import pytest

import jaxelim as je
from tests import twin
from tests.twin import arm_rules

SLOW = pytest.mark.slow
RULES = {
    "uniform": je.Uniform(),
    "lucb": je.LUCB(),
    "lucb-2": je.LUCB(pulls=2),
    "ugape": je.UGapE(),
    "racing": je.Racing(),
}
STOPPING = {"llr": je.LLR(), "selective": je.SelectiveElimination(), "full": je.FullElimination(),
            "native": je.Native()}  # fmt: skip
PROBLEMS = {"bai": (je.BestArm(), ("bai",)), "topm": (je.TopM(2), ("topm", 2)),
            "osi": (je.Thresholding(0.45), ("osi", 0.45))}  # fmt: skip
STD = [0.5, 1.0, 2.0, 1.5, 0.7]
FAMILIES = {
    "bernoulli": je.Bernoulli(),
    "poisson": je.Poisson(),
    "exponential": je.Exponential(),
    "gaussian": je.Gaussian(std=STD),
}
MEANS = {
    "bernoulli": np.array([[0.9, 0.2, 0.25, 0.65, 0.0], [0.05, 1.0, 0.1, 0.8, 0.7]]),
    "poisson": np.array([[3.0, 0.2, 0.8, 1.4, 0.0], [0.1, 4.0, 0.3, 1.2, 2.2]]),
    "exponential": np.array([[3.0, 0.5, 0.6, 1.4, 0.1], [0.1, 4.0, 0.3, 1.2, 0.9]]),
    "gaussian": np.array([[2.0, -0.5, -1.5, 1.1, 0.0], [-1.0, 2.0, -1.5, 1.2, 0.9]]),
}
LAWS = {**arm_rules.LAWS, "gaussian": arm_rules.gaussian(STD)}
LENGTH = 500


def observed(rule):
    """The names of all stopping rules that the rule supports."""
    return [name for name in STOPPING if name in RULES[rule].traits.stopping]


def drawn(family, seed, shape):
    """Noise of a family."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) if family == "gaussian" else rng.random(shape)


def cases(quick):
    quick = set(quick)
    for family in FAMILIES:
        for problem, (public, _) in PROBLEMS.items():
            for name, rule in RULES.items():
                if rule.traits.defined_for(public.name):
                    case = family, problem, name
                    yield pytest.param(*case, marks=() if case in quick else SLOW)
                    quick.discard(case)
    assert not quick


@pytest.mark.slow_rows("bernoulli-topm-ugape")
@pytest.mark.parametrize(("family", "problem", "rule"), list(cases([
    ("bernoulli", "topm", "ugape"), ("gaussian", "topm", "racing"),
])))  # fmt: skip
def test_runs_are_those_of_the_twin(family, problem, rule):
    """Stops, answers, pulls and costs of two instances; means of 0 and 1, and ties."""
    names, bounded = observed(rule), 0
    noise = drawn(family, 11, (3, LENGTH))
    result = je.simulate(
        je.Instance.unstructured(MEANS[family], FAMILIES[family]), PROBLEMS[problem][0],
        RULES[rule], delta=0.1, runs=3, noise=noise, threshold=je.GK16(), max_samples=LENGTH,
        stopping=[STOPPING[name] for name in names], engine=je.Engine(devices=1, lanes=16),
    )  # fmt: skip
    for i, means in enumerate(MEANS[family]):
        for run in range(3):
            known = arm_rules.run(LAWS[family], means, PROBLEMS[problem][1], rule, noise=noise[run],
                                  beta=twin.gk16, stopping=names)  # fmt: skip
            bounded += known.bounded
            for s, name in enumerate(names):
                stop, at = known.stops[name], (i, s, 0, run)
                where = f"instance {i}, run {run}, {name}"
                assert result.samples[at] == stop.samples, where
                assert result.stopped[at] == stop.stopped, where
                assert result.tests_stopping[at] == stop.tests, where
                np.testing.assert_array_equal(result.answer[at], stop.answer, where)
                np.testing.assert_array_equal(result.pulls[at], stop.pulls, where)
    assert result.stopped.any() and len(np.unique(result.samples)) > 3
    assert (bounded > 50) == (family in ("bernoulli", "poisson"))


@pytest.mark.slow_rows("bernoulli-bai-racing")
@pytest.mark.parametrize(("family", "problem", "rule"), list(cases([
    ("bernoulli", "bai", "racing"),
])))  # fmt: skip
def test_pulls_are_those_of_the_twin(family, problem, rule):
    """Every arm and every reward, up to the last stop."""
    name = observed(rule)[-1]
    for i, means in enumerate(MEANS[family]):
        noise = drawn(family, i, LENGTH)
        run = je.trace(
            je.Instance.unstructured(means, FAMILIES[family]), PROBLEMS[problem][0], RULES[rule],
            noise=noise, delta=0.1, stopping=STOPPING[name], max_samples=LENGTH,
            engine=je.Engine(lanes=1, devices=1),
        )  # fmt: skip
        known = arm_rules.run(LAWS[family], means, PROBLEMS[problem][1], rule, noise=noise,
                              stopping=[name])  # fmt: skip
        np.testing.assert_array_equal(run.arms, known.arms)
        np.testing.assert_allclose(run.rewards, known.rewards, rtol=1e-13)
        assert (run.samples, run.stopped) == (known.stops[name].samples, known.stops[name].stopped)


# What the twin and the engine share: laws of runs.

HARD = je.Instance.unstructured([0.7, 0.35, 0.55, 0.3], je.Bernoulli())
NEW = ("ugape", "racing")
FIELDS = ("samples", "stopped", "answer", "pulls", "tests_stopping", "tests_sampling")


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["bai", "topm"])
@pytest.mark.parametrize("rule", NEW)
def test_laws_of_all_runs(problem, rule):
    """The order of the stops holds; layouts, and runs alone, agree."""
    if not RULES[rule].traits.defined_for(PROBLEMS[problem][0].name):
        pytest.skip("not defined")
    names = observed(rule)
    common = dict(delta=0.1, stopping=[STOPPING[name] for name in names], threshold=je.GK16(),
                  seed=5, max_samples=3000)  # fmt: skip
    given = HARD, PROBLEMS[problem][0], RULES[rule]
    known = je.simulate(*given, runs=32, **common)
    tau = dict(zip(names, known.samples[:, 0], strict=True))
    assert known.stopped.all() and (known.pulls.sum(-1) == known.samples).all()
    if "llr" in tau:
        assert (tau["full"] <= tau["selective"]).all() and (tau["selective"] <= tau["llr"]).all()
        assert (tau["llr"] <= tau["native"]).all() and (tau["full"] < tau["native"]).any()
    layout = je.Engine(lanes=16, chunk=37, devices=1)
    other = je.simulate(*given, runs=32, engine=layout, **common)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(other, name), getattr(known, name), name)
    alone = je.simulate(*given, runs=[17, 3], engine=je.Engine(devices=1), **common)
    for name in FIELDS:
        np.testing.assert_array_equal(
            getattr(alone, name), getattr(known, name)[:, :, [17, 3]], name
        )


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["bai", "topm"])
@pytest.mark.parametrize("rule", NEW)
def test_permuted_arms_permute_the_result(problem, rule):
    """Exponential rewards never tie. The noise of the initial pulls is permuted too.

    Racing pulls its rounds in index order, so there all rewards are the means, and only
    the last round's pulls may differ.
    """
    if not RULES[rule].traits.defined_for(PROBLEMS[problem][0].name):
        pytest.skip("not defined")
    means, order = np.array([6.0, 0.5, 2.5, 0.7, 0.2]), np.array([3, 0, 4, 2, 1])
    noise = np.random.default_rng(4).random((8, 1500))
    permuted = noise.copy()
    permuted[:, :5] = noise[:, order]
    racing = rule != "ugape"
    if racing:  # no number decides: the same for all samples, and rewards are the means
        noise = permuted = np.full((1, 1500), 1 - np.exp(-1.0))
    common = dict(stopping=je.Native(), delta=0.1, runs=len(noise), engine=je.Engine(devices=1))
    one, other = (
        je.simulate(
            je.Instance.unstructured(m, FAMILIES["exponential"]), PROBLEMS[problem][0],
            RULES[rule], noise=u, **common,
        )
        for m, u in ((means, noise), (means[order], permuted))
    )  # fmt: skip
    assert one.stopped.any()
    if racing:
        np.testing.assert_array_equal(other.answer, one.answer[..., order])
        assert np.ptp(other.pulls - one.pulls[..., order]) <= 2
        return
    np.testing.assert_array_equal(other.samples, one.samples)
    for name in ("pulls", "answer"):
        np.testing.assert_array_equal(getattr(other, name), getattr(one, name)[..., order], name)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["ugape", "racing", "lucb"])
def test_gaussian_rewards_keep_their_bounds(rule):
    """A family whose divergence is (x - y)^2/2 gives the runs of `je.Gaussian`."""
    means = np.array([1.0, 0.4, -0.3, 0.1])
    common = dict(delta=0.1, runs=20, seed=3, stopping=je.Native(), max_samples=4000)
    for problem in (je.BestArm(), je.TopM(2)):
        one, other = (
            je.simulate(je.Instance.unstructured(means, family), problem, RULES[rule], **common)
            for family in (je.Gaussian(), Normal())
        )
        assert one.stopped.any()
        for name in ("samples", "answer", "pulls"):
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name), name)


@dataclasses.dataclass(frozen=True)
class Normal(je.families.OneParameter):
    """Unit Gaussians as a one-parameter family."""

    name = "normal"
    noise = "normal"

    def draw(self, lanes, nature, arm, pull, noise):
        return lanes.take(nature, arm) + noise

    def divergence(self, x, y):
        return (x - y) ** 2 / 2

    def variance(self, y):
        return 0 * y + 1

    def bracket(self, mean, radius):
        wide = 1.1 * (2 * radius) ** 0.5
        return mean - wide, mean + wide
