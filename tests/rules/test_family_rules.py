"""Rules that evaluate H at weights, on families with one parameter: twin, order, refusals."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim.testing.settings import run_by_run
from tests.twin import weighing

SLOW = pytest.mark.slow
LLR, SELECTIVE, FULL = je.LLR(), je.SelectiveElimination(), je.FullElimination()
PROBLEMS = {"bai": (je.BestArm(), ("bai",)), "topm": (je.TopM(2), ("topm", 2)),
            "osi": (je.Thresholding(0.45), ("osi", 0.45))}  # fmt: skip
STD = [0.8, 0.5, 1.0, 0.9, 0.6]  # a run is in units of the largest
FAMILIES = {
    "bernoulli": je.Bernoulli(), "poisson": je.Poisson(), "exponential": je.Exponential(),
    "gaussian": je.Gaussian(), "by-arm": je.Gaussian(STD),
}  # fmt: skip
MEANS = {
    "bernoulli": [[0.6, 0.3, 0.25, 0.35, 0.0], [0.95, 0.1, 1.0, 0.3, 0.5]],
    "poisson": [[0.9, 0.2, 0.4, 1.5, 0.0], [0.1, 3.0, 0.6, 0.0, 2.0]],
    "exponential": [[2.0, 0.5, 1.0, 0.8, 0.3], [0.1, 0.7, 0.6, 0.2, 3.0]],
    "gaussian": [[1.2, 0.0, 0.5, -0.3, 0.4], [0.1, 0.3, -1.0, 0.9, 0.2]],
    "by-arm": [[1.2, 0.0, 0.5, -0.3, 0.4], [0.1, 0.3, -1.0, 0.9, 0.2]],
}
"""Two instances a family, with means at the ends of the range."""
RULES = {
    "k-learner": (je.LinGame(), {}),
    "fws": (je.FWS(), {}), "lazy-tas": (je.LazyTaS(), {}), "oracle": (je.Oracle(), {}),
    "tas": (je.TrackAndStop(gap_share=1e-10), {}),
    "tas, C": (je.TrackAndStop("C", gap_share=1e-10, schedule=3), {"tracking": "C", "every": 3}),
}  # fmt: skip


def instance(family, means):
    return je.Instance.unstructured(means, FAMILIES[family])


def length(rule, problem, family):
    """The samples compared; cutting planes for w* of top m are slow, and few digits are right."""
    if "tas" in rule and rule != "lazy-tas" and problem == "topm":
        return 40
    return 100 if "tas" in rule else 250


def initial(rule, problem, family):
    """Initial pulls of an arm: four where means of 0 and 1 would tie at once for w* of top m."""
    return 4 if (family, problem) == ("bernoulli", "topm") and rule.startswith("tas") else 1


def both(family, problem, rule, eliminates, means, seed):
    """A run of the library, the same by the twin, and the samples in which they must agree."""
    first = initial(rule, problem, family)
    (ours, settings), T = RULES[rule], length(rule, problem, family)
    rng = np.random.default_rng(seed)
    normal = family in ("gaussian", "by-arm")
    noise = rng.standard_normal(T) if normal else rng.random(T)
    stopping = SELECTIVE if eliminates else LLR
    run = je.trace(
        instance(family, means), PROBLEMS[problem][0], ours, noise=noise, delta=0.01,
        stopping=stopping, elimination=stopping if eliminates else None, max_samples=T,
        engine=je.Engine(lanes=1, devices=1), initial_pulls=first,
        **({"ridge": 0.0} if family == "gaussian" else {}),
    )  # fmt: skip
    known = weighing.run(
        means, "gaussian" if normal else family, PROBLEMS[problem][1], rule.split(",")[0],
        noise=noise, delta=0.01, stopping=(stopping.name,), settings=settings,
        elimination=stopping.name if eliminates else None,
        costs=np.square(STD) if family == "by-arm" else None, initial=first,
        follow=run.arms,
    )  # fmt: skip
    return run, known


CASES = [
    (family, problem, rule, eliminates)
    for family in FAMILIES for problem in PROBLEMS for rule in RULES for eliminates in (False, True)
    if not (rule == "oracle" and eliminates)
    and ((family, problem) != ("gaussian", "topm") or rule not in ("tas", "tas, C"))
]  # fmt: skip
QUICK = [("bernoulli", "bai", "tas", False), ("poisson", "topm", "k-learner", True)]


@pytest.mark.slow_rows("poisson-topm-k-learner-True")
@pytest.mark.parametrize(
    ("family", "problem", "rule", "eliminates"),
    [pytest.param(*case, marks=() if case in QUICK else SLOW) for case in CASES],
)
def test_pulls_are_those_of_the_twin(family, problem, rule, eliminates):
    """Every pull, up to where rounding alone decides; edges of the range among the means.

    Gaussian rewards of one variance at ridge 0 run the Gaussian form of each rule.
    """
    compared = 0
    for seed, means in enumerate(MEANS[family]):
        run, known = both(family, problem, rule, eliminates, means, seed)
        n = known.sure
        np.testing.assert_array_equal(run.arms[:n], known.arms[:n])
        compared += n
        if n == len(known.arms):
            (stop,) = known.stops.values()
            assert (run.samples, run.stopped) == (stop.samples, stop.stopped)
            np.testing.assert_array_equal(run.answer, stop.answer)
    # Ties decide early for these rules, and for w* of top m.
    early = rule in ("fws", "lazy-tas") or ("tas" in rule and problem == "topm")
    assert compared > 10 * initial(rule, problem, family) + (0 if early else 20)


def test_quick_cases_exist():
    assert set(QUICK) <= set(CASES)


HARD = {"bernoulli": [0.7, 0.35, 0.55, 0.3], "poisson": [2.0, 0.6, 1.2, 0.3],
        "exponential": [2.0, 0.6, 1.1, 0.3], "by-arm": [1.2, 0.0, 0.4, -0.3, 0.5]}  # fmt: skip


# D-tracking of top m on Bernoulli rewards is left out: where the means of two arms add up
# to 1, their weights are equal, and rounding alone decides between them.
ONE_RUN_FORM = [
    (family, rule, problem)
    for family in HARD for rule in RULES for problem in PROBLEMS
    if (family, rule, problem) != ("bernoulli", "tas", "topm")
]  # fmt: skip


@SLOW
@pytest.mark.parametrize(("family", "rule", "problem"), ONE_RUN_FORM, ids=str)
def test_the_one_run_form_gives_the_same_runs(family, rule, problem):
    """The laws of runs, with other layouts, are in test_family_laws."""
    common = dict(
        delta=0.1, stopping=(LLR, SELECTIVE, FULL), threshold=je.GK16(), runs=10, seed=5,
        max_samples=300 if "tas" in rule and problem == "topm" else 1500,
        initial_pulls=initial(rule, problem, family),
    )  # fmt: skip
    given, asked = (instance(family, HARD[family]), PROBLEMS[problem][0]), RULES[rule][0]
    one, other = (
        je.simulate(*given, same, engine=je.Engine(devices=1), **common)
        for same in (asked, run_by_run(asked))
    )
    for name in ("samples", "answer", "pulls"):
        np.testing.assert_array_equal(getattr(other, name), getattr(one, name), name)


@SLOW
@pytest.mark.parametrize("problem", PROBLEMS)
def test_permuted_arms_permute_the_pulls(problem):
    """Of the oracle: exponential rewards never tie; others explore, or begin, with ties of arms."""
    means, order = np.array([2.0, 0.3, 1.0, 0.8, 0.1]), np.array([3, 0, 4, 2, 1])
    noise = np.random.default_rng(4).random((4, 60))
    permuted = noise.copy()
    permuted[:, :5] = noise[:, order]
    one, other = (
        je.simulate(
            instance("exponential", m), PROBLEMS[problem][0], je.Oracle(), runs=4, noise=u,
            delta=0.01, stopping=LLR,
        )
        for m, u in ((means, noise), (means[order], permuted))
    )  # fmt: skip
    np.testing.assert_array_equal(other.pulls, one.pulls[..., order])


@pytest.mark.parametrize(
    ("rule", "problem", "family"),
    [(je.OptimisticTaS(), je.TopM(2), je.Bernoulli()),
     (je.OptimisticLinGame(), je.BestArm(), je.Gaussian([1.0, 2.0, 3.0])),
     (je.LinGapE(), je.BestArm(), je.Bernoulli())],
    ids=["optimistic-topm", "optimistic-lingame", "lingape"],
)  # fmt: skip
def test_what_is_not_defined_is_refused(rule, problem, family):
    with pytest.raises(je.errors.UnsupportedError, match=r"^(family|instance): got"):
        je.simulate(je.Instance.unstructured([0.5, 0.3, 0.1], family), problem, rule)


class NoDivergence(je.contracts.Family):
    """A family that gives rules nothing but evidence."""

    name = "nothing"


@pytest.mark.parametrize("rule", [je.LinGame(), je.FWS(), je.LazyTaS(), je.TrackAndStop()])
def test_what_the_rules_need(rule):
    """Evidence alone is enough but for w*."""
    solves = isinstance(rule, je.TrackAndStop)
    assert bool(rule.needs(NoDivergence(), je.BestArm())) == solves
    assert all(map(je.Gaussian().has, rule.needs(je.Gaussian(), je.BestArm())))
    assert bool(rule.needs(NoDivergence(), je.Thresholding(0.1))) == solves
    missing = [one for one in rule.needs(je.Bernoulli(), je.TopM()) if not je.Bernoulli().has(one)]
    assert not missing and je.Gaussian().has("design") and not je.Bernoulli().has("design")


@SLOW
def test_the_published_experiment():
    """Garivier & Kaufmann 2016, [.3 .21 .2 .19 .18]: 500 runs of TaS-D within 5 standard errors.

    The reference is 1338 +- 34 draws; ours has a standard error of at most 55. A change by
    a quarter is seen. By luck it fails with probability below 1e-6.
    """
    result = je.simulate(
        instance("bernoulli", [0.3, 0.21, 0.2, 0.19, 0.18]), je.BestArm(), je.TrackAndStop(),
        delta=0.1, threshold=je.GK16(), stopping=LLR, runs=500, max_samples=10**5,
    )  # fmt: skip
    assert abs(result.samples.mean() - 1338) < 5 * np.hypot(34, 55)
    assert result.stopped.all() and (~result.correct).sum() <= 50
