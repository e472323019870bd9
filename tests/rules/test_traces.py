"""The authors' traces in full length: pulls, active sets, stop and answer are equal.

A rule has a row in `RULES` if it has a trace; the twin has the same traces.
"""

import functools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import jaxelim as je
from tests import twin
from tests.places import PROBLEMS

DATA = Path(__file__).parents[1] / "data"
INDEX = json.loads((DATA / "traces" / "index.json").read_text())
SELECTIVE = je.SelectiveElimination()
VARIANTS = {
    "llr": (je.LLR(), None),
    "stop": (SELECTIVE, None),
    "both": (SELECTIVE, SELECTIVE),
    "native": (je.Native(), None),
}
RULES = {
    "lingape": (je.LinGapE, "lingape"), "lingame": (je.LinGame, "lingame"),
    "oracle": (je.Oracle, "oracle"), "fws": (je.FWS, "fws"), "lts": (je.LazyTaS, "lazy_tas"),
    "lingifa": (je.LinGIFA, "lingifa"), "rage": (je.RAGE, "rage"),
    "xya": (je.XYAdaptive, "xy_adaptive"),
}  # fmt: skip
"""The library's and the twin's."""


def settings(entry):
    """The weights of the oracle, by the file of its program."""
    if entry["rule"] != "oracle":
        return {}
    key = (entry["instance"], entry["problem"])
    known = json.loads((DATA / "oracle_weights.json").read_text())
    weights = next(one["weights"] for one in known if (one["instance"], one["problem"]) == key)
    return {"weights": weights}


def answer(entry, trace):
    """A trace's answer, of signs or of arms, as a bool [K]."""
    arms, found = np.arange(len(trace["elimination_times"])), trace["answer"]
    return found.astype(bool) if entry["problem"] == "osi" else np.isin(arms, found)


@functools.cache
def noise():
    return np.load(DATA / "noise_seed124.npy")


FAST = {
    "linear-d20_bai_lingape_both": None,
    "linear-d20_topm_lingape_both": 3000,
    "linear-d20-osi_osi_lingame_llr": None,
    "linear-d20-osi_osi_oracle_stop": None,
    "linear-d20_bai_fws_both": 3000,
    "linear-d20_bai_lts_both": 3000,
}
"""The first pulls of long traces, or all: the traces of `llr` and `stop` pull the same arms."""


def entries():
    for entry in INDEX:
        name = entry["file"].removesuffix(".npz")
        if name in FAST:
            yield pytest.param(entry, FAST[name], id=f"{name}, fast")
        if FAST.get(name, 0) is not None:
            yield pytest.param(entry, None, id=name, marks=pytest.mark.slow)


ENTRIES = list(entries())


def test_the_gate_has_each_rule_problem_and_variant():
    """But for LinGIFA, RAGE and XYAdaptive, of which all traces are long."""
    rows = [param.values[0] for param in ENTRIES if not param.marks]
    assert len(rows) == len(FAST) and {entry["rule"] for entry in INDEX} == set(RULES)
    for key, known in (
        ("rule", list(RULES)[:5]), ("problem", ("bai", "topm", "osi")),
        ("variant", ("llr", "stop", "both")),
    ):  # fmt: skip
        assert {row[key] for row in rows} == set(known)


@pytest.mark.parametrize(("entry", "first"), ENTRIES)
def test_trace(entry, first):
    """All pulls of a trace, or the first ones."""
    theirs = np.load(DATA / "traces" / entry["file"])
    pulls, stopped = first or len(theirs["arms"]), bool(theirs["stopped"]) and first is None
    problem, _ = PROBLEMS[entry["problem"]](SimpleNamespace(m=entry["m"], level=0.0))
    stopping, elimination = VARIANTS[entry["variant"]]
    instance, rule = je.load_instance(entry["instance"]), RULES[entry["rule"]][0]
    ours = je.trace(
        instance, problem, rule(**settings(entry)), noise=noise(), stopping=stopping,
        elimination=elimination, delta=0.01, max_samples=min(pulls + 1, noise().size), ridge=1.0,
    )  # fmt: skip

    np.testing.assert_allclose(ours.theta_hat_0, theirs["theta_hat_0"], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(ours.arms[:pulls], theirs["arms"][:pulls])
    if entry["variant"] != "native":
        seen = len(theirs["active"]) - len(theirs["arms"]) + pulls
        np.testing.assert_array_equal(ours.active[:seen], theirs["active"][:seen])
    means = instance.means
    rewards = means[ours.arms[:pulls]] + noise()[:pulls]
    np.testing.assert_allclose(ours.rewards[:pulls], rewards, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(np.bincount(ours.arms, minlength=means.size), ours.pulls)
    if not stopped:  # the trace ends there; our run continues
        assert not ours.stopped and ours.samples >= pulls
        return
    assert ours.stopped and ours.samples == int(theirs["samples"]) == pulls
    np.testing.assert_array_equal(ours.answer, answer(entry, theirs))
    if stopping.eliminates and ours.elimination_times is not None:
        np.testing.assert_array_equal(ours.elimination_times, theirs["elimination_times"])


# The twin.


@functools.cache
def trajectory(name, problem, m, rule, at_sampling, pulls):
    """The twin's run for a trace; LLR and selective stopping share a trajectory."""
    entry = {"instance": name, "problem": problem, "rule": rule}
    instance, (_, rule) = je.load_instance(name), RULES[rule]
    _, spec = PROBLEMS[problem](SimpleNamespace(m=m, level=0.0))
    usual = ("native",) if twin.RULES[rule].native else ("llr", "selective")
    return twin.run(
        twin.Linear(instance.arms, instance.theta), spec, rule, noise=noise()[:pulls],
        stopping=("selective",) if at_sampling else usual, max_samples=pulls,
        elimination="selective" if at_sampling else None, **settings(entry),
    )  # fmt: skip


def first_pulls():
    """200 of each trace, and 3000 of one of each rule."""
    long = {entry["rule"]: entry for entry in reversed(INDEX)}.values()
    for entry in INDEX:
        name = entry["file"].removesuffix(".npz")
        yield pytest.param(entry, 200, id=name)
        if entry in long:
            yield pytest.param(entry, 3000, id=f"{name}, 3000 pulls", marks=pytest.mark.slow)


@pytest.mark.parametrize(("entry", "pulls"), list(first_pulls()))
def test_the_twins_first_pulls(entry, pulls):
    trace = np.load(DATA / "traces" / entry["file"])
    n, variant = min(pulls, int(trace["samples"])), entry["variant"]
    given = (entry[name] for name in ("instance", "problem", "m", "rule"))
    run = trajectory(*given, variant == "both", pulls)
    stop = run.stops[{"llr": "llr", "native": "native"}.get(variant, "selective")]

    np.testing.assert_allclose(run.first.theta, trace["theta_hat_0"], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(run.arms[:n], trace["arms"][:n])
    checks = n - len(stop.pulls) + 1
    np.testing.assert_array_equal(stop.active[:checks], trace["active"][:checks])
    assert stop.truncated == (not trace["stopped"] or trace["samples"] > n)
    if not stop.truncated:
        assert stop.samples == trace["samples"]
        np.testing.assert_array_equal(stop.answer, answer(entry, trace))
    if entry["problem"] != "topm" and trace["stopped"]:
        times = trace["elimination_times"]
        np.testing.assert_array_equal(stop.elimination_times, np.where(times <= n, times, 0))
    if "game_sizes_first" in entry:
        more = np.flatnonzero(np.array(run.sampler.games) > 1)[:5] + 1
        assert more.tolist() == entry["game_sizes_first"][: len(more)]


# The twin alone: order of its stops, resets, an allocation on paper.

THETA = [1.5, -1.0, 0.8]
SPECS = [("bai",), ("topm", 2), ("osi", 0.0), ("osi", 0.7)]
ALL = ("llr", "selective", "full", "selective-definition", "full-definition")


def play(problem, world, pulls=400, **settings):
    noise = np.random.default_rng(0).standard_normal(pulls)
    return twin.run(world, problem, "lingape", noise=noise, max_samples=pulls, **settings)


@pytest.mark.parametrize("problem", SPECS, ids=str)
def test_elimination_stops_in_order(problem):
    world = twin.Linear(np.random.default_rng(0).normal(size=(6, 3)), THETA)
    stops = play(problem, world, 250, stopping=ALL).stops
    samples = {name: stop.samples for name, stop in stops.items()}
    assert samples["full"] <= samples["selective"] <= samples["llr"]
    assert samples["full"] <= samples["full-definition"] <= samples["selective-definition"]
    assert samples["selective-definition"] <= samples["llr"]
    assert samples["selective"] <= samples["selective-definition"]
    assert stops["selective"].tests_stopping <= stops["selective-definition"].tests_stopping


@pytest.mark.parametrize("problem", SPECS, ids=str)
@pytest.mark.parametrize("full", ["selective", "full"])
def test_resets_drop_pieces_and_restore_them(full, problem):
    arms = np.random.default_rng(1).normal(size=(6, 3))
    plain, ours, same = (
        play(problem, twin.Linear(arms, THETA), elimination=elimination)
        for elimination in (
            None, twin.Resets(full, alpha=lambda t, delta: 0.5, t0=2.0),
            twin.Resets(full, alpha=lambda t, delta: np.inf),
        )
    )  # fmt: skip
    reads, plainly = (run.stops["llr"].tests_sampling / len(run.arms) for run in (ours, plain))
    assert reads < plainly
    np.testing.assert_array_equal(same.arms, plain.arms)


def test_allocation_of_the_two_dimensional_example():
    angles = np.pi + np.array([0.3, 0.8, 1.2])
    arms = np.vstack([np.eye(2), np.column_stack([np.cos(angles), np.sin(angles)])])
    world = twin.Linear(arms, [1.0, 0.9])
    seen = world.truth(world.pieces(("bai",)))
    labels = seen.pieces.of(seen.answer)
    w = twin.piece_weights(seen, labels)
    np.testing.assert_allclose(seen.values(labels, w).min(), 0.1**2 / 8, rtol=1e-5)
    np.testing.assert_allclose(w, [0.5, 0.5, 0, 0, 0], atol=2e-3)


# Means of other programs' runs beside ours.

SECOND, FIRST = [0.3, 0.21, 0.2, 0.19, 0.18], [0.5, 0.45, 0.43, 0.4]
"""Of Garivier & Kaufmann 2016."""
ROWS = {
    "TaS-D": (SECOND, je.TrackAndStop(), 1338, 34),
    "EB-TCI, ids": (SECOND, je.EBTCI("ids", "tracking"), 1426, 32),
    "KL-LUCB, first": (FIRST, je.LUCB(pulls=2), 8510, 235),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_another_programs_means(name):
    """2000 runs beside 500 of another program: |z| at most 3.5.

    By luck each row fails with probability 5e-4, as noise is not shared. Two standard errors
    are some 35 samples, so a mean off by 8% is seen; of the first instance, by 15%.
    """
    means, rule, mean, se = ROWS[name]
    result = je.simulate(
        je.Instance.unstructured(means, je.Bernoulli()), je.BestArm(), rule, delta=0.1,
        threshold=je.GK16(), runs=2000, max_samples=10**6,
        stopping=je.Native() if isinstance(rule, je.LUCB) else je.LLR(),
    )  # fmt: skip
    tau = result.samples[0, 0]
    assert result.stopped.all() and (~result.correct).sum() <= 50
    ours = tau.std(ddof=1) / len(tau) ** 0.5
    assert abs(tau.mean() - mean) <= 3.5 * np.hypot(se, ours)
