"""FWS against the authors' traces and against the twin."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxelim as je
from jaxelim.testing.settings import run_by_run
from tests import twin

DATA = Path(__file__).parents[1] / "data"
TRACES = [
    entry
    for entry in json.loads((DATA / "traces" / "index.json").read_text())
    if entry["rule"] == "fws"
]
QUICK = "linear-d20_bai_fws_both.npz"
MAXIMIN = twin.maximin


def settings(at_sampling):
    """Stopping, and elimination at sampling."""
    return {
        "stopping": je.SelectiveElimination(),
        "elimination": je.SelectiveElimination() if at_sampling else None,
    }


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(
            entry, marks=pytest.mark.shipped if entry["file"] == QUICK else pytest.mark.slow
        )
        for entry in TRACES
    ],
    ids=lambda entry: entry["file"].removesuffix(".npz"),
)
def test_trace(entry):
    """No trace differs at any pull."""
    expected = np.load(DATA / "traces" / entry["file"])
    problem = {"bai": je.BestArm(), "topm": je.TopM(entry["m"]), "osi": je.Thresholding()}[
        entry["problem"]
    ]
    how = (
        {"stopping": je.LLR()}
        if entry["variant"] == "llr"
        else settings(entry["variant"] == "both")
    )
    n = int(expected["samples"])
    ours = je.trace(
        je.load_instance(entry["instance"]),
        problem,
        je.FWS(),
        noise=np.load(DATA / "noise_seed124.npy"),
        max_samples=n,
        **how,
        ridge=1.0,
    )
    np.testing.assert_array_equal(ours.arms[:n], expected["arms"][:n])
    checks = len(expected["active"])
    np.testing.assert_array_equal(ours.active[:checks], expected["active"])
    assert ours.stopped == bool(expected["stopped"]) and ours.samples == n


def small(seed, structure):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=3 if structure == "linear" else 5)
    arms = rng.normal(size=(6, 3)) if structure == "linear" else np.eye(5)
    return je.Instance(arms, theta)


PROBLEMS = {
    "bai": (je.BestArm(), ("bai",)),
    "topm": (je.TopM(2), ("topm", 2)),
    "osi": (je.Thresholding(), ("osi",)),
}


def widest_face(payoffs):
    """The largest spread of a coordinate over the game's optimal strategies.

    Two linear programs per coordinate, on scaled payoffs.
    """
    rows, arms = payoffs.shape
    scaled = (payoffs - payoffs.min()) / (np.ptp(payoffs) or 1.0)
    value = MAXIMIN(scaled)[1]
    width = 0.0
    for k in range(arms):
        ends = []
        for sign in (1.0, -1.0):
            cost = sign * np.eye(arms)[k]
            best = linprog(
                cost, -scaled, np.full(rows, 1e-10 - value), np.ones((1, arms)), [1.0], (0, 1)
            )
            ends.append(sign * best.fun)
        width = max(width, ends[1] - ends[0])
    return width


@pytest.mark.slow_rows("linear-bai-True-True")
@pytest.mark.parametrize(
    "structure, kind, at_sampling, by_run",
    [
        ("linear", "bai", True, True),
        pytest.param("linear", "topm", True, False, marks=pytest.mark.slow),
        pytest.param("linear", "osi", False, False, marks=pytest.mark.slow),
        pytest.param("unstructured", "osi", False, False, marks=pytest.mark.slow),
        pytest.param("unstructured", "topm", True, False, marks=pytest.mark.slow),
        pytest.param("unstructured", "bai", True, True, marks=pytest.mark.slow),
    ],
)
def test_agrees_with_the_twin(structure, kind, at_sampling, by_run, monkeypatch):
    """Step by step on small instances.

    At a difference, an earlier game must have several optimal strategies.
    """
    problem, of_twin = PROBLEMS[kind]
    noise = np.random.default_rng(5).normal(size=(12, 300))
    rule, engine = je.FWS(), je.Engine(lanes=1, devices=1)
    rule = run_by_run(rule) if by_run else rule
    choose, games, same = twin.Fws.choose, [], 0

    def watched(self, stats, t, active):
        monkeypatch.setattr(
            twin.rules, "maximin", lambda payoffs: (games.append((t, payoffs)), MAXIMIN(payoffs))[1]
        )
        return choose(self, stats, t, active)

    monkeypatch.setattr(twin.Fws, "choose", watched)
    for run in range(12):
        games.clear()
        instance = small(run // 2, structure)
        ours = je.trace(
            instance,
            problem,
            rule,
            noise=noise[run],
            delta=0.1,
            engine=engine,
            **settings(at_sampling),
            ridge=1.0,
        )
        theirs = twin.run(
            instance.arms,
            instance.theta,
            of_twin,
            "fws",
            noise=noise[run],
            delta=0.1,
            stopping=("selective",),
            elimination="selective" if at_sampling else None,
        )
        n = min(ours.samples, len(theirs.arms))
        equal = ours.arms[:n] == theirs.arms[:n]
        if equal.all():
            assert ours.samples == theirs.stops["selective"].samples
            same += 1
        else:
            parting = int(np.argmin(equal)) + 1  # the t of the rule's choice
            assert max(widest_face(game) for t, game in games if t <= parting) > 1e-5, (
                run,
                parting,
            )
    assert same >= (12 if structure == "linear" else 4)
