"""Lazy Track-and-Stop: the authors' traces, the twin, one run against many, what it converges to."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

import jaxelim as je
from tests import twin

DATA = Path(__file__).parent / "data"
TRACES = [entry for entry in json.loads((DATA / "traces" / "index.json").read_text()) if entry["rule"] == "lts"]
SETTINGS = {
    "llr": (je.LLR(), None),
    "stop": (je.SelectiveElimination(), None),
    "both": (je.SelectiveElimination(), je.SelectiveElimination()),
}


@functools.cache
def noise():
    return np.load(DATA / "noise_seed124.npy")


def reproduce(entry, pulls):
    trace = np.load(DATA / "traces" / entry["file"])
    problem = {"bai": je.BestArm(), "topm": je.TopM(entry["m"] or 1), "osi": je.Thresholding()}[entry["problem"]]
    stopping, elimination = SETTINGS[entry["variant"]]
    n = min(pulls, int(trace["samples"]))
    ours = je.trace(
        je.load_instance(entry["instance"]), problem, je.LazyTaS(), noise=noise(), stopping=stopping,
        elimination=elimination, max_samples=n + 1,
    )
    np.testing.assert_array_equal(ours.arms[:n], trace["arms"][:n])
    checks = n - len(ours.answer) + 1
    np.testing.assert_array_equal(ours.active[:checks], trace["active"][:checks])
    if n == int(trace["samples"]) and trace["stopped"]:
        assert ours.stopped and ours.samples == n
        answer = trace["answer"]
        if entry["problem"] == "osi":
            np.testing.assert_array_equal(ours.answer, answer.astype(bool))
        else:
            assert set(np.flatnonzero(ours.answer)) == set(np.atleast_1d(answer).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("entry", TRACES, ids=lambda entry: entry["file"][:-4])
def test_every_trace_in_full(entry):
    reproduce(entry, 10**6)


def test_the_beginning_of_a_trace():
    (entry,) = (entry for entry in TRACES if entry["file"] == "linear-d20_bai_lts_both.npz")
    reproduce(entry, 4000)


def batch(structure, count=3, K=5, d=3):
    rng = np.random.default_rng(5)
    arms = np.stack([np.eye(K) if structure == "unstructured" else rng.standard_normal((K, d)) for _ in range(count)])
    return je.Instance(arms, rng.standard_normal((count, arms.shape[2])))


@pytest.mark.parametrize(
    ("problem", "spec", "structure", "variant"),
    [
        (je.BestArm(), ("bai",), "linear", "both"),
        pytest.param(je.TopM(2), ("topm", 2), "linear", "both", marks=pytest.mark.slow),
        pytest.param(je.Thresholding(0.1), ("osi", 0.1), "unstructured", "llr", marks=pytest.mark.slow),
    ],
    ids=lambda x: str(x),
)
def test_agrees_with_the_plain_reading(problem, spec, structure, variant):
    instances, eps = batch(structure), np.random.default_rng(6).standard_normal((2, 600))
    stopping, elimination = SETTINGS[variant]
    ours = je.simulate(
        instances, problem, je.LazyTaS(), runs=2, noise=eps, stopping=stopping, elimination=elimination,
    )
    for i, one in enumerate(instances.singles):
        for run in range(2):
            theirs = twin.run(
                one.arms, one.theta, spec, "lazy_tas", noise=eps[run],
                stopping=("selective" if elimination else "llr",), elimination="selective" if elimination else None,
            )
            (end,) = theirs.stops.values()
            at = (i, 0, 0, run)
            assert ours.samples[at] == end.samples
            np.testing.assert_array_equal(ours.pulls[at], end.pulls)
            assert ours.tests_sampling[at] == end.tests_sampling


@pytest.mark.slow
def test_one_run_at_a_time_gives_the_same_runs():
    instance = batch("linear", K=6)[0]
    asked = dict(
        runs=8, seed=3, stopping=je.SelectiveElimination(), elimination=je.SelectiveElimination(), max_samples=500
    )
    fast = je.simulate(instance, je.BestArm(), je.LazyTaS(), **asked)
    plain = je.simulate(instance, je.BestArm(), je.LazyTaS(), engine=je.Engine(vmapped=True), **asked)
    for name in ("samples", "pulls", "answer", "tests_sampling"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name))


@pytest.mark.slow
def test_pulls_approach_the_optimal_allocation():
    instance = je.instances.two_dimensional(4, 0.4)
    never = lambda t, delta: 1e9 + 0 * (t + delta)  # noqa: E731
    result = je.simulate(instance, je.BestArm(), je.LazyTaS(), runs=2, threshold=never, max_samples=100_000)
    shares = result.pulls[0, 0] / 100_000
    assert np.abs(shares - np.array([0.5, 0.5, 0, 0])).sum(1).max() / 2 < 0.02


def test_arms_that_do_not_span_are_never_explored_for():
    instance = je.Instance([[1.0, 0, 0], [1.0, 0.5, 0], [0.0, 1, 0]], [1.0, 0.4, 0])
    prepared = je.LazyTaS().prepare(instance, je.BestArm(), 1.0)
    np.testing.assert_array_equal(prepared.spanner, [0, 1, 0])
    assert prepared.c0 == 0
    flat = je.Instance(instance.arms[:, :2], instance.theta[:2])
    eps = np.random.default_rng(2).standard_normal((4, 200))
    ends = [
        je.simulate(one, je.BestArm(), je.LazyTaS(), runs=4, noise=eps, delta=0.001) for one in (instance, flat)
    ]
    assert ends[0].correct.all() and np.all(np.isfinite(ends[0].samples))
    # Without exploration, which the flat instance needs at the start, the runs are much alike.
    assert 0.2 < ends[0].samples.mean() / ends[1].samples.mean() < 5
