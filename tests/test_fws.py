"""FWS against the traces of the authors' program and against the twin."""

import json
from pathlib import Path

import numpy as np
import pytest

import jaxelim as je
from tests import twin

DATA = Path(__file__).parent / "data"
TRACES = [entry for entry in json.loads((DATA / "traces" / "index.json").read_text()) if entry["rule"] == "fws"]
QUICK = "linear-d20_bai_fws_both.npz"


def settings(at_sampling):
    """Stopping, and elimination at sampling."""
    return {"stopping": je.SelectiveElimination(), "elimination": je.SelectiveElimination() if at_sampling else None}


@pytest.mark.parametrize(
    "entry",
    [pytest.param(entry, marks=() if entry["file"] == QUICK else pytest.mark.slow) for entry in TRACES],
    ids=lambda entry: entry["file"].removesuffix(".npz"),
)
def test_trace(entry):
    """No trace parts anywhere, so none needs a word about optimal faces."""
    expected = np.load(DATA / "traces" / entry["file"])
    problem = {"bai": je.BestArm(), "topm": je.TopM(entry["m"]), "osi": je.Thresholding()}[entry["problem"]]
    how = {"stopping": je.LLR()} if entry["variant"] == "llr" else settings(entry["variant"] == "both")
    n = int(expected["samples"])
    ours = je.trace(je.load_instance(entry["instance"]), problem, je.FWS(), noise=np.load(DATA / "noise_seed124.npy"),
                    max_samples=n, **how)
    np.testing.assert_array_equal(ours.arms[:n], expected["arms"][:n])
    checks = len(expected["active"])
    np.testing.assert_array_equal(ours.active[:checks], expected["active"])
    assert ours.stopped == bool(expected["stopped"]) and ours.samples == n


def small(seed, structure):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=3 if structure == "linear" else 5)
    arms = rng.normal(size=(6, 3)) if structure == "linear" else np.eye(5)
    return je.Instance(arms, theta)


PROBLEMS = {"bai": (je.BestArm(), ("bai",)), "topm": (je.TopM(2), ("topm", 2)), "osi": (je.Thresholding(), ("osi",))}


@pytest.mark.parametrize("structure, kind, at_sampling, vmapped", [
    ("linear", "bai", True, True),
    ("unstructured", "topm", False, False),
    pytest.param("linear", "topm", True, False, marks=pytest.mark.slow),
    pytest.param("linear", "osi", False, False, marks=pytest.mark.slow),
    pytest.param("unstructured", "bai", True, False, marks=pytest.mark.slow),
    pytest.param("unstructured", "osi", True, True, marks=pytest.mark.slow),
    pytest.param("unstructured", "bai", False, True, marks=pytest.mark.slow),
])
def test_agrees_with_the_twin(structure, kind, at_sampling, vmapped):
    """Small instances, stepped together; two optimal strategies of one game would part them, and do not here."""
    problem, of_twin = PROBLEMS[kind]
    noise = np.random.default_rng(5).normal(size=(4, 300))
    engine = je.Engine(vmapped=vmapped, devices=1)
    for seed in range(3):
        instance = small(seed, structure)
        ours = je.simulate(instance, problem, je.FWS(), noise=noise, runs=4, delta=0.1, engine=engine,
                           **settings(at_sampling))
        for run in range(4):
            theirs = twin.run(instance.arms, instance.theta, of_twin, "fws", noise=noise[run], delta=0.1,
                              stopping=("selective",), elimination="selective" if at_sampling else None)
            stop = theirs.stops["selective"]
            pulls = np.bincount(theirs.arms[: stop.samples], minlength=instance.K)
            assert ours.samples.reshape(-1)[run] == stop.samples, (seed, run)
            np.testing.assert_array_equal(ours.pulls.reshape(4, -1)[run], pulls)
