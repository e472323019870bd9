"""The twin against the traces of the authors' program (tests/data/traces) and against what SPEC.md says must hold."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from tests import twin

DATA = Path(__file__).parent / "data"
INSTANCES = Path(__file__).parents[1] / "jaxelim" / "instances" / "data"
INDEX = json.loads((DATA / "traces" / "index.json").read_text())
RULES = {"lts": "lazy_tas", "xya": "xy_adaptive"}
STOPPING = {"llr": "llr", "stop": "selective", "both": "selective", "native": "native"}


def instance(name):
    read = json.loads((INSTANCES / f"{name}.json").read_text())
    return np.array(read["arms"]), np.array(read["theta"])


@functools.cache
def trajectory(name, problem, m, rule, at_sampling, pulls):
    """The twin's run for a trace; LLR and selective stopping share it where elimination is not used at sampling."""
    arms, theta = instance(name)
    rule = RULES.get(rule, rule)
    settings = {}
    if rule == "oracle":
        weights = json.loads((DATA / "oracle_weights.json").read_text())
        settings["weights"] = next(
            w["weights"] for w in weights if (w["instance"], w["problem"]) == (name, problem)
        )
    native = twin.RULES[rule].native
    return twin.run(
        arms,
        theta,
        {"bai": ("bai",), "topm": ("topm", m), "osi": ("osi", 0.0)}[problem],
        rule,
        noise=np.load(DATA / "noise_seed124.npy", mmap_mode="r")[:pulls],
        stopping=("native",) if native else ("selective",) if at_sampling else ("llr", "selective"),
        elimination="selective" if at_sampling else None,
        max_samples=pulls,
        **settings,
    )


def reproduce(entry, pulls):
    trace = np.load(DATA / "traces" / entry["file"])
    n = min(pulls, int(trace["samples"]))
    m = entry["m"] if entry["problem"] == "topm" else None
    at_sampling = entry["variant"] == "both"
    ours = trajectory(entry["instance"], entry["problem"], m, entry["rule"], at_sampling, pulls)
    stop = ours.stops[STOPPING[entry["variant"]]]

    np.testing.assert_allclose(ours.theta_hat_0, trace["theta_hat_0"], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(ours.arms[:n], trace["arms"][:n])
    K = len(instance(entry["instance"])[0])
    checks = n - K + 1
    np.testing.assert_array_equal(stop.active[:checks], trace["active"][:checks])

    if stop.truncated:
        assert not trace["stopped"] or trace["samples"] > n
    else:
        assert trace["stopped"] and stop.samples == trace["samples"]
        expected = trace["answer"].astype(bool)
        if entry["problem"] != "osi":
            expected = np.isin(np.arange(K), trace["answer"])
        np.testing.assert_array_equal(stop.answer, expected)

    if entry["problem"] != "topm" and trace["stopped"]:
        times = trace["elimination_times"]
        np.testing.assert_array_equal(stop.elimination_times, np.where(times <= n, times, 0))
    if "game_sizes_first" in entry:
        more = np.flatnonzero(np.array(ours.sampler.games) > 1)[:5] + 1
        assert more.tolist() == entry["game_sizes_first"][: len(more)]


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["file"].removesuffix(".npz"))
def test_first_400_pulls(entry):
    reproduce(entry, 400)


@pytest.mark.slow
@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["file"].removesuffix(".npz"))
def test_first_3000_pulls(entry):
    reproduce(entry, 3000)
