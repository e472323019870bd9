"""`BestArm(items=..)`: against the twin, pull by pull, and against `BestArm()`."""

import dataclasses

import numpy as np
import pytest

import jaxelim as je
from jaxelim.testing.settings import run_by_run
from tests import twin

SELECTIVE, FULL = je.SelectiveElimination(), je.FullElimination()
STOPPING = {"llr": je.LLR(), "selective": SELECTIVE, "full": FULL, "native": je.Native()}
ALL = ("llr", "selective", "full")
RULES = {
    "uniform": je.Uniform(),
    "lingape": je.LinGapE(),
    "lingame": je.LinGame(),
    "fws": je.FWS(),
    "lazy_tas": je.LazyTaS(),
    "oracle": je.Oracle(),
    "tas": je.TrackAndStop(),
    "optimistic_tas": je.OptimisticTaS(),
    "lingifa": je.LinGIFA(),
    "rage": je.RAGE(),
    "xy_adaptive": je.XYAdaptive(),
}


def layout(kind, seed=0):
    """Arms [3, K, d], theta [3, d] and items [P, d], P other than K and d."""
    rng = np.random.default_rng(seed)
    d, arms = (5, np.broadcast_to(np.eye(5), (3, 5, 5))) if kind == "basis" else (3, None)
    if arms is None:
        arms = rng.normal(size=(3, 6, 3))
    items = rng.normal(size=(4, d))
    if kind == "near":  # items 2e-6 apart; the pair is never the best one's
        items = np.concatenate([items, items[:1] + 1e-6 * rng.normal(size=(1, d))])
        items[[0, 4], -1] -= 9.0
    theta = 1.5 * rng.normal(size=(3, d))
    theta[:, -1] = np.abs(theta[:, -1])
    return arms, theta, items


def cases():
    quick = {
        ("lingape", "linear", None), ("lingame", "linear", "selective"), ("rage", "basis", None),
    }  # fmt: skip
    for name, rule in RULES.items():
        if name in ("tas", "optimistic_tas", "oracle"):
            continue  # their solvers differ from the twin's: see `test_items_that_are_the_arms`
        for kind in ("linear", "basis", "near"):
            if (name, kind) in (("xy_adaptive", "basis"), ("lingame", "basis"), ("fws", "basis")):
                continue  # arms tie exactly, and chance or rounding decides
            for elimination in (None, *(("selective", "full") if rule.traits.elimination else ())):
                case = name, kind, elimination
                yield pytest.param(*case, marks=() if case in quick else pytest.mark.slow)


@pytest.mark.slow_rows("rage-basis-None")
@pytest.mark.parametrize(("name", "kind", "elimination"), list(cases()))
def test_agrees_with_the_twin(name, kind, elimination):
    """Pulls, stops, answers, elimination times and tests, on shared noise: equal, not close."""
    rule, (arms, theta, items) = RULES[name], layout(kind)
    native = "native" in rule.traits.stopping
    names = ("native",) if native else (elimination,) if elimination else ALL
    length = {"rage": 4000, "xy_adaptive": 1000}.get(name, 300)
    theta = theta * (4 if native else 1)
    noise = np.random.default_rng(7).normal(size=(2, length))
    ours = je.simulate(
        je.Instance(arms, theta), je.BestArm(items=items), rule, delta=0.1, noise=noise, runs=2,
        stopping=[STOPPING[one] for one in names], elimination=STOPPING.get(elimination),
        max_samples=length, ridge=1.0, engine=je.Engine(devices=1),
    )  # fmt: skip
    assert ours.answer.shape == (3, len(names), 1, 2, len(items)) and ours.stopped.any()
    for i, run in np.ndindex(3, 2):
        theirs = twin.run(
            arms[i], theta[i], ("items", items), name, noise=noise[run], delta=0.1,
            stopping=names, elimination=elimination, max_samples=length,
        )  # fmt: skip
        for s, stop in enumerate(names):
            for field in ("samples", "stopped", "answer", "pulls", "elimination_times",
                          "tests_stopping", "tests_sampling"):  # fmt: skip
                if field == "elimination_times" and stop in ("llr", "native"):
                    continue
                np.testing.assert_array_equal(
                    getattr(ours, field)[i, s, 0, run], getattr(theirs.stops[stop], field),
                    f"{field} of {stop}, instance {i}, run {run}",
                )  # fmt: skip
    samples = dict(zip(names, np.moveaxis(ours.samples, 1, 0), strict=True))
    if len(names) == 3:
        assert np.all(samples["full"] <= samples["selective"])
        assert np.all(samples["selective"] <= samples["llr"])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RULES))
def test_items_that_are_the_arms(name):
    """The same runs as `BestArm()`; all but the tests at sampling, of which solvers differ.

    Allocations are solved to a gap at which both ways to them give the same pulls.
    """
    rule = RULES[name]
    if isinstance(rule, je.TrackAndStop | je.OptimisticTaS):
        rule = dataclasses.replace(rule, gap_share=1e-10)
    rng = np.random.default_rng(0)
    instance = je.Instance(rng.normal(size=(6, 3)), [1.5, -1.0, 0.8])
    names = ("native",) if "native" in RULES[name].traits.stopping else ALL
    given = dict(stopping=[STOPPING[one] for one in names], runs=8, max_samples=1500, delta=0.1)
    known = je.simulate(instance, je.BestArm(), rule, **given)
    ours = je.simulate(instance, je.BestArm(items=instance.arms), rule, **given)
    assert known.correct.shape == ours.correct.shape
    for field in ("samples", "stopped", "answer", "correct", "pulls", "tests_stopping"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(known, field), field)
    if known.elimination_times is not None:
        np.testing.assert_array_equal(ours.elimination_times, known.elimination_times)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lingape", "rage", "xy_adaptive", "lingifa"])
def test_lanes_and_runs_one_by_one_agree(name):
    arms, theta, items = layout("linear")
    stop = je.Native() if "native" in RULES[name].traits.stopping else FULL
    given = dict(stopping=stop, runs=16, max_samples=3000, delta=0.1)
    instance, problem = je.Instance(arms, theta), je.BestArm(items=items)
    known = je.simulate(instance, problem, RULES[name], **given)
    for rule, lanes in ((run_by_run(RULES[name]), None), (RULES[name], 32)):
        ours = je.simulate(instance, problem, rule, **given, engine=je.Engine(lanes=lanes))
        for field in ("samples", "answer", "pulls"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(known, field), field)


@pytest.mark.slow
@pytest.mark.parametrize("full", [SELECTIVE, FULL], ids=str)
def test_resets(full):
    """Sets with resets at a level of 0.5 drop pieces; with one out of reach they drop none."""
    arms, theta, items = layout("linear")
    given = dict(stopping=je.LLR(), runs=8, max_samples=400, delta=0.1)
    instance, problem = je.Instance(arms, theta), je.BestArm(items=items)
    plain = je.simulate(instance, problem, je.LinGapE(), **given)
    drop = je.Resets(full, alpha=_low)
    ours = je.simulate(instance, problem, je.LinGapE(), **given, elimination=drop)
    never = je.simulate(
        instance, problem, je.LinGapE(), **given, elimination=je.Resets(full, alpha=_high)
    )
    rate = lambda x: x.tests_sampling.sum() / x.samples.sum()  # noqa: E731
    assert rate(ours) < rate(plain)
    np.testing.assert_array_equal(never.samples, plain.samples)


def _low(t, delta):
    return 0.5 + 0 * t


def _high(t, delta):
    return 1e9 + 0 * t


def test_a_problem_without_items_is_as_it_was():
    plain = je.BestArm(items=None)
    assert plain == je.BestArm() and hash(plain) == hash(je.BestArm())
    assert repr(plain) == "BestArm()"
    assert plain.items is None and plain.name == "best-arm"
    one, other = (je.BestArm(items=z) for z in ([[1, 0], [0, -0.0]], [[1.0, 0.0], [0.0, 0.0]]))
    assert type(one) is je.BestArm and one.name == "best-item"
    assert one == other and hash(one) == hash(other)
    assert repr(one) == "BestArm(items=[[1.0, 0.0], [0.0, 0.0]])"
    assert str(one) == "BestArm(items=<2x2>)"
    assert eval(repr(one), {"BestArm": je.BestArm}) == one  # noqa: S307
    assert one != je.BestArm(items=[[1, 0], [0, 1]]) and one != plain


def test_the_threshold_of_kaufmann_and_koolen():
    """A piece compares means of all K arms, also where the arms are the canonical basis."""
    arms, theta, items = layout("basis")
    problem = je.BestArm(items=items)
    instance = je.Instance(arms[0], theta[0])
    assert instance.structure == "unstructured"
    koolen = je.thresholds.KaufmannKoolen
    assert koolen().bound(instance, problem) == koolen(1, 5, True)
    assert koolen().bound(instance, je.BestArm()) == koolen(4, 2, True)


def test_the_problem_is_certified():
    """Answers, pieces and sets agree, on the arms of a random instance."""
    arms, theta, items = layout("linear")
    je.testing.check_problem(je.BestArm(items=items), je.Instance(arms[0], theta[0]), draws=60)
