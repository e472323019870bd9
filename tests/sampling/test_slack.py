"""Best arm with slack: every allowed rule and family against the twin, laws and errors."""

import numpy as np
import pytest

import jaxelim as je
from tests import twin
from tests.twin import slack

SLOW = pytest.mark.slow
STOPPING = {"llr": je.LLR(), "selective": je.SelectiveElimination(), "full": je.FullElimination(),
            "native": je.Native()}  # fmt: skip
RULES = {
    "uniform": je.Uniform(), "lucb": je.LUCB(), "lucb-2": je.LUCB(pulls=2),
    "tas": je.TrackAndStop(gap=1e-10), "oracle": je.Oracle(),
}  # fmt: skip
STD = [0.5, 1.0, 2.0, 1.5, 0.7]
FAMILIES = {
    "bernoulli": je.Bernoulli(), "poisson": je.Poisson(), "exponential": je.Exponential(),
    "gaussian": je.Gaussian(), "by-arm": je.Gaussian(STD),
}  # fmt: skip
MEANS = {
    "bernoulli": [
        [0.9, 0.2, 0.8, 0.65, 0.0],
        [0.3, 1.0, 0.95, 0.8, 0.7],
        [0.02, 0.05, 0.0, 0.1, 0.0],
    ],
    "poisson": [[2.0, 0.2, 1.9, 1.4, 0.0], [0.1, 0.0, 0.05, 0.2, 0.15]],
    "exponential": [[2.0, 0.5, 1.8, 1.4, 0.1], [0.1, 3.0, 0.3, 2.7, 0.9]],
    "gaussian": [[1.5, -0.5, 1.3, 1.1, 0.0], [-1.0, 2.0, -1.5, 1.2, 0.9]],
    "by-arm": [[1.5, -0.5, 1.3, 1.1, 0.0], [-1.0, 2.0, -1.5, 1.2, 0.9]],
}
"""Two or three instances a family: ends of the range, ties, means above 1 - epsilon."""
EPSILON = {"bernoulli": 0.2, "poisson": 0.4, "exponential": 0.5, "gaussian": 0.4, "by-arm": 0.4}
FIELDS = ("samples", "stopped", "answer", "pulls", "tests_stopping")


def instance(family, means):
    return je.Instance.unstructured(means, FAMILIES[family])


def drawn(family, seed, shape):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) if family in ("gaussian", "by-arm") else rng.random(shape)


def observed(rule):
    return [name for name in STOPPING if name in RULES[rule].traits.stopping]


def known(family, means, rule, noise, names, delta=0.1):
    """The same run by the twin."""
    return slack.run(
        means, "gaussian" if family == "by-arm" else family, EPSILON[family], rule, noise=noise,
        costs=np.square(STD) if family == "by-arm" else None, delta=delta, beta=twin.gk16,
        stopping=names,
    )  # fmt: skip


CASES = [(family, rule) for family in FAMILIES for rule in ("uniform", "lucb", "lucb-2")]
QUICK = [("bernoulli", "lucb"), ("gaussian", "uniform")]


@pytest.mark.parametrize(
    ("family", "rule"), [pytest.param(*case, marks=() if case in QUICK else SLOW) for case in CASES]
)
def test_runs_are_those_of_the_twin(family, rule):
    """Stops, answers, pulls and costs; estimates of 0 and 1, and ties."""
    names, bounded, T, epsilon = observed(rule), 0, 400, EPSILON[family]
    noise = drawn(family, 11, (3, T))
    result = je.simulate(
        instance(family, MEANS[family]), je.BestArm(epsilon=epsilon), RULES[rule], delta=0.1,
        runs=3, noise=noise, threshold=je.GK16(), max_samples=T,
        stopping=[STOPPING[name] for name in names], engine=je.Engine(devices=1, lanes=16),
    )  # fmt: skip
    for i, means in enumerate(MEANS[family]):
        right = np.array(means) >= max(means) - epsilon - 1e-12
        for run in range(3):
            found = known(family, means, rule, noise[run], names)
            bounded += found.bounded
            for s, name in enumerate(names):
                stop, at = found.stops[name], (i, s, 0, run)
                where = f"instance {i}, run {run}, {name}"
                assert result.samples[at] == stop.samples, where
                assert result.stopped[at] == stop.stopped, where
                assert result.tests_stopping[at] == stop.tests, where
                assert result.correct[at] == (stop.answer & right).any(), where
                np.testing.assert_array_equal(result.answer[at], stop.answer, where)
                np.testing.assert_array_equal(result.pulls[at], stop.pulls, where)
    assert result.stopped.any() and len(np.unique(result.samples)) > 3
    assert (bounded > 50) == (family in ("bernoulli", "poisson"))


@pytest.mark.parametrize(
    ("family", "rule"),
    [pytest.param(family, rule, marks=() if (family, rule) == ("bernoulli", "tas") else SLOW)
     for family in FAMILIES for rule in ("tas", "oracle")],
)  # fmt: skip
def test_pulls_are_those_of_the_twin(family, rule):
    """Every pull of rules that solve for w*, up to where rounding alone decides."""
    compared, T = 0, 60 if rule == "tas" else 250
    for seed, means in enumerate(MEANS[family]):
        noise = drawn(family, seed, T)
        run = je.trace(
            instance(family, means), je.BestArm(epsilon=EPSILON[family]), RULES[rule], noise=noise,
            delta=0.01, threshold=je.GK16(), stopping=STOPPING["full"], max_samples=T,
            engine=je.Engine(lanes=1, devices=1),
        )  # fmt: skip
        found = known(family, means, rule, noise, ["full"], 0.01)
        n = found.sure
        np.testing.assert_array_equal(run.arms[:n], found.arms[:n])
        compared += n
        if n == len(found.arms):
            stop = found.stops["full"]
            assert (run.samples, run.stopped) == (stop.samples, stop.stopped)
            np.testing.assert_array_equal(run.answer, stop.answer)
    assert compared > 60


# Laws of runs.

HARD = {"bernoulli": [0.7, 0.35, 0.65, 0.55, 0.3], "poisson": [2.0, 0.6, 1.8, 1.2, 0.3],
        "exponential": [2.0, 0.6, 1.8, 1.1, 0.3], "gaussian": [1.2, 0.0, 1.0, -0.3, 0.5],
        "by-arm": [1.2, 0.0, 1.0, -0.3, 0.5]}  # fmt: skip


@SLOW
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", HARD)
def test_order_of_the_stops_and_layouts(family, rule):
    """tau_full <= tau_selective <= tau_LLR; lanes, vmap and single runs agree."""
    names = observed(rule)
    common = dict(delta=0.1, stopping=[STOPPING[name] for name in names], threshold=je.GK16(),
                  seed=5, max_samples=2000)  # fmt: skip
    given = instance(family, HARD[family]), je.BestArm(epsilon=0.5 * EPSILON[family]), RULES[rule]
    one = je.simulate(*given, runs=24, engine=je.Engine(devices=1), **common)
    llr, selective, full = one.samples[:3, 0]
    assert (full <= selective).all() and (selective <= llr).all() and one.stopped.any()
    assert (full < llr).any()
    for layout in (je.Engine(vmapped=True, devices=1), je.Engine(lanes=16, chunk=37, devices=1)):
        other = je.simulate(*given, runs=24, engine=layout, **common)
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name), name)
    alone = je.simulate(*given, runs=[17, 3], engine=je.Engine(devices=1), **common)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(alone, name), getattr(one, name)[:, :, [17, 3]], name)
