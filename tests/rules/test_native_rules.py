"""LinGIFA and the rules with a native stopping test, against traces and the twin."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxelim as je
from jaxelim.lanes import LaneOps
from jaxelim.rules.parts.indices import rank
from jaxelim.testing.settings import run_by_run
from tests import twin
from tests.calls import NAMES

DATA = Path(__file__).parents[1] / "data"
ENTRIES = {
    e["rule"]: e
    for e in json.loads((DATA / "traces" / "index.json").read_text())
    if e["rule"] in ("lingifa", "rage", "xya")
}
RULES = {
    "lingifa": je.LinGIFA(),
    "lucb": je.LUCB(),
    "ugape": je.UGapE(),
    "racing": je.Racing(),
    "rage": je.RAGE(),
    "xy_adaptive": je.XYAdaptive(),
}
STOPPING = {
    "llr": je.LLR(),
    "selective": je.SelectiveElimination(),
    "full": je.FullElimination(),
    "native": je.Native(),
}
PROBLEMS = {
    "bai": (je.BestArm(), ("bai",)),
    "topm": (je.TopM(2), ("topm", 2)),
    "top3": (je.TopM(3), ("topm", 3)),
    "osi": (je.Thresholding(0.1), ("osi", 0.1)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pulls"),
    [
        ("rage", 2000),
        ("lingifa", 500),
        *(
            pytest.param(name, 100_000, marks=pytest.mark.slow)
            for name in ("lingifa", "rage", "xya")
        ),
    ],
)
def test_traces_of_the_authors_program(name, pulls):
    entry = ENTRIES[name]
    theirs = np.load(DATA / "traces" / entry["file"])
    pulls = min(pulls, len(theirs["arms"]))
    rule = RULES["xy_adaptive" if name == "xya" else name]
    problem = je.TopM(entry["m"]) if entry["problem"] == "topm" else je.BestArm()
    stopping = je.LLR() if entry["variant"] == "llr" else je.Native()
    noise = np.load(DATA / "noise_seed124.npy")
    # One sample more than the trace: the stop is decided after its last sample.
    instance = je.load_instance(entry["instance"])
    ours = je.trace(
        instance, problem, rule, noise=noise, stopping=stopping, max_samples=pulls + 1, ridge=1.0
    )
    np.testing.assert_array_equal(ours.arms[:pulls], theirs["arms"][:pulls])
    np.testing.assert_allclose(ours.theta_hat_0, theirs["theta_hat_0"], rtol=0, atol=1e-10)
    if theirs["stopped"] and pulls == len(theirs["arms"]):
        assert ours.stopped and ours.samples == theirs["samples"]
        np.testing.assert_array_equal(np.flatnonzero(ours.answer), np.atleast_1d(theirs["answer"]))
    else:
        assert not ours.stopped


def unstructured(arms, count, seed):
    """`count` instances whose means are a permuted even grid with small noise."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(-1, 1, arms) * arms / 2
    theta = np.stack([rng.permutation(grid) for _ in range(count)]) + rng.uniform(
        -0.2, 0.2, (count, arms)
    )
    return np.broadcast_to(np.eye(arms), (count, arms, arms)), theta


def linear(arms, d, count, seed, near=False):
    """Unit vectors; `near`: the last two arms are 1e-9 apart."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, arms, d))
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    theta = 2 * rng.normal(size=(count, d))
    if near:
        features[:, -1] = features[:, -2] + 1e-9 * rng.normal(size=(count, d))
    return features, theta


LAYOUTS = {
    "unstructured-5": unstructured(5, 3, 1),
    "unstructured-7": unstructured(7, 3, 2),
    "linear-6-3": linear(6, 3, 3, 3),
    "linear-4-4": linear(4, 4, 3, 4),
    "linear-5-4": linear(5, 4, 3, 5),
    "linear-6-3-near": linear(6, 3, 3, 6, near=True),
}


def cases():
    """Every defined rule, problem, layout and variant; all but a few are slow."""
    quick = {
        ("lucb", "topm", "unstructured-5", None, False),
        ("lucb", "bai", "unstructured-5", "selective", True),
        ("lucb", "osi", "unstructured-5", "selective", False),
        ("ugape", "topm", "unstructured-5", None, False),
        ("racing", "topm", "unstructured-5", None, True),
        ("rage", "bai", "unstructured-5", None, False),
        ("xy_adaptive", "bai", "linear-6-3-near", None, False),
    }
    for name, rule in RULES.items():
        for layout in LAYOUTS:
            if layout.split("-")[0] not in rule.traits.structures:
                continue
            for problem, (public, _) in PROBLEMS.items():
                if not rule.traits.defined_for(public.name):
                    continue
                if (name, layout) == ("rage", "linear-4-4"):
                    # Phi V_w^-1 Phi' = diag(1/w) for K = d, so uniform weights tie all
                    # pairs exactly. Rounding would decide, which differs by inversion.
                    continue
                for elimination in (
                    (None, "selective", "full") if rule.traits.elimination else (None,)
                ):
                    for by_run in (False, True):
                        case = (name, problem, layout, elimination, by_run)
                        marks = () if case in quick else pytest.mark.slow
                        quick.discard(case)
                        yield pytest.param(*case, marks=marks)
    assert not quick


@pytest.mark.slow_rows("lucb-topm-unstructured-5-None-False")
@pytest.mark.parametrize(("name", "problem", "layout", "elimination", "by_run"), list(cases()))
def test_agrees_with_the_twin(name, problem, layout, elimination, by_run):
    """Pulls, stops, answers and costs of both forms of every rule, on shared noise."""
    rule, (arms, theta), (public, plain) = RULES[name], LAYOUTS[layout], PROBLEMS[problem]
    stopping = (elimination,) if elimination else rule.traits.stopping
    length = {"rage": 2500, "xy_adaptive": 1000}.get(name, 300)
    noise = np.random.default_rng(7).normal(size=(2, length))
    result = je.simulate(
        je.Instance(arms, theta),
        public,
        run_by_run(rule) if by_run else rule,
        delta=0.1,
        stopping=[STOPPING[s] for s in stopping],
        elimination=STOPPING.get(elimination),
        noise=noise,
        runs=2,
        max_samples=length,
        engine=je.Engine(lanes=8),
        ridge=1.0,
    )
    for i in range(len(arms)):
        for run in range(2):
            known = twin.run(
                arms[i],
                theta[i],
                plain,
                name,
                noise=noise[run],
                delta=0.1,
                stopping=stopping,
                elimination=elimination,
                max_samples=length,
            )
            for s, stop in enumerate(stopping):
                record = known.stops[stop]
                for ours, theirs in (
                    (result.samples, record.samples),
                    (result.stopped, record.stopped),
                    (result.answer, record.answer),
                    (result.pulls, record.pulls),
                    (result.tests_stopping, record.tests_stopping),
                    (result.tests_sampling, record.tests_sampling),
                ):
                    np.testing.assert_array_equal(
                        ours[i, s, 0, run], theirs, f"instance {i}, run {run}, {stop}"
                    )
    samples = dict(zip(stopping, np.moveaxis(result.samples, 1, 0), strict=True))
    if elimination is None and "llr" in samples:
        assert np.all(samples["full"] <= samples["selective"]) and np.all(
            samples["selective"] <= samples["llr"]
        )
        assert np.all(samples["llr"] <= samples.get("native", length))
    if layout.startswith("unstructured") and rule.traits.native == "always":
        assert result.stopped.any()


def test_rank_equals_that_of_a_sorted_column():
    """The m-th largest of each column without its own entry, ties counted."""
    values = np.random.default_rng(3).integers(0, 4, (6, 6)).astype(float)
    np.fill_diagonal(values, -np.inf)
    ranks = jax.jit(lambda values: [
        rank(LaneOps(), lambda some: list(some.of(values)), 6, m, values[0]) for m in range(1, 6)
    ])  # fmt: skip
    for m, ours in enumerate(ranks(values), 1):
        np.testing.assert_array_equal(ours, np.sort(values, 0)[-m])


@pytest.mark.parametrize(
    ("rule", "problem", "instance", "settings"),
    [
        (je.LinGIFA(), je.Thresholding(), "linear-d20-osi", {}),
        (
            je.LinGIFA(),
            je.BestArm(),
            "linear-d20",
            {"elimination": je.SelectiveElimination(), "stopping": je.SelectiveElimination()},
        ),
        (je.LinGIFA(), je.BestArm(), "linear-d20", {"stopping": je.Native()}),
        (je.LUCB(), je.BestArm(), "linear-d20", {}),
        (je.UGapE(), je.TopM(5), "linear-d20", {}),
        (
            je.UGapE(),
            je.BestArm(),
            "unstructured-k40",
            {"elimination": je.SelectiveElimination(), "stopping": je.SelectiveElimination()},
        ),
        (je.UGapE(), je.Thresholding(), "unstructured-k40-osi", {}),
        (je.Racing(), je.BestArm(), "unstructured-k40", {}),
        (
            je.Racing(),
            je.BestArm(),
            "unstructured-k40",
            {"stopping": [je.Native(), je.SelectiveElimination()]},
        ),
        (je.Racing(), je.BestArm(), "linear-d20", {"stopping": je.Native()}),
        (je.Racing(), je.Thresholding(), "unstructured-k40-osi", {"stopping": je.Native()}),
        (je.RAGE(), je.BestArm(), "linear-d20", {}),
        (je.RAGE(), je.TopM(5), "linear-d20", {"stopping": je.Native()}),
        (je.XYAdaptive(), je.BestArm(), "linear-d20", {}),
        (je.XYAdaptive(), je.Thresholding(), "linear-d20-osi", {"stopping": je.Native()}),
        (
            je.XYAdaptive(),
            je.BestArm(),
            "linear-d20",
            {"stopping": je.Native(), "elimination": je.FullElimination()},
        ),
    ],
)
def test_undefined_combinations_are_refused(rule, problem, instance, settings):
    with pytest.raises(je.errors.UnsupportedError, match=type(rule).__name__):
        je.simulate(je.load_instance(instance), problem, rule, runs=1, **settings, ridge=1.0)


@pytest.mark.parametrize(
    ("rule", "field", "value"),
    [
        (je.RAGE, "slack", -0.1),
        (je.RAGE, "accuracy", float("nan")),
        (je.RAGE, "steps", 0),
        (je.XYAdaptive, "alpha", -1),
        (je.XYAdaptive, "every", 0),
    ],
)
def test_settings_are_checked(rule, field, value):
    with pytest.raises(je.errors.ArgumentError, match=field):
        rule(**{field: value})
    names = [f.name for f in dataclasses.fields(rule)]
    assert eval(repr(rule()), NAMES) == rule() and field in names


@pytest.mark.slow
def test_racing_does_not_discard_an_arm_it_may_only_accept():
    """Without such discards 60,000 samples are too few; the paper has 22,670."""
    noise = np.load(DATA / "noise_seed124.npy")
    result = je.simulate(
        je.load_instance("unstructured-k40"),
        je.TopM(3),
        je.Racing(),
        stopping=je.Native(),
        runs=1,
        noise=noise[None],
        max_samples=60_000,
        ridge=1.0,
    )
    assert result.truncated.all()


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_error_rate_is_at_most_delta(name):
    """n = 600, delta = 0.05: the 99.9% lower bound of the error rate is below delta."""
    from scipy.stats import beta

    rule = RULES[name]
    arms, theta = (
        unstructured(5, 1, 8) if rule.traits.structures == ("unstructured",) else linear(6, 3, 1, 9)
    )
    stopping = je.Native() if "native" in rule.traits.stopping else je.LLR()
    result = je.simulate(
        je.Instance(arms[0], theta[0]),
        je.BestArm(),
        rule,
        delta=0.05,
        stopping=stopping,
        runs=600,
        max_samples=200_000,
        ridge=1.0,
    )
    errors = int(np.sum(~result.correct & result.stopped))
    assert result.stopped.all()
    assert errors == 0 or beta.ppf(0.0005, errors, 600 - errors + 1) < 0.05


@pytest.mark.slow
def test_xy_adaptive_on_orthogonal_groups_of_arms():
    """No pull lowers the largest distance while two groups share it: all arms tie.

    Chance must choose: n = 4000 first choices over 6 tied arms, each with probability
    1/6. Some count differs from 667 by more than 140 (6 sd) with probability below
    2e-8. The test detects an arm whose probability is off by 0.07.
    """
    angle = np.array([0.0, 0.7, 1.9])
    arms = np.zeros((6, 4))
    arms[:3, :2] = arms[3:, 2:] = np.stack([np.cos(angle), np.sin(angle)], 1)
    instance = je.Instance(arms, [1.0, 0.3, 0.2, 0.1])
    common = dict(stopping=je.Native(), delta=0.1)
    first = je.simulate(
        instance, je.BestArm(), je.XYAdaptive(), runs=4000, max_samples=16, **common, ridge=1.0
    )
    chosen = first.pulls[0, 0] - 1
    assert (np.sort(chosen, 1) == [0, 0, 0, 0, 0, 10]).all()
    assert np.abs((chosen == 10).sum(0) - 4000 / 6).max() < 140
    whole = je.simulate(
        instance, je.BestArm(), je.XYAdaptive(), runs=50, max_samples=100_000, **common, ridge=1.0
    )
    assert whole.stopped.all() and whole.correct.mean() > 0.5
    again = je.simulate(
        instance,
        je.BestArm(),
        je.XYAdaptive(),
        runs=np.arange(20, 30),
        max_samples=100_000,
        **common,
        ridge=1.0,
    )
    np.testing.assert_array_equal(again.samples, whole.samples[..., 20:30])
