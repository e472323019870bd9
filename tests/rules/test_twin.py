"""The twin against the authors' traces and the properties in docs/reference/definitions.md."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from tests import twin

DATA = Path(__file__).parents[1] / "data"
INSTANCES = Path(__file__).parents[2] / "jaxelim" / "instances" / "data"
INDEX = json.loads((DATA / "traces" / "index.json").read_text())
RULES = {"lts": "lazy_tas", "xya": "xy_adaptive"}
STOPPING = {"llr": "llr", "stop": "selective", "both": "selective", "native": "native"}


def instance(name):
    read = json.loads((INSTANCES / f"{name}.json").read_text())
    return np.array(read["arms"]), np.array(read["theta"])


@functools.cache
def trajectory(name, problem, m, rule, at_sampling, pulls):
    """The twin's run for a trace; LLR and selective stopping share a trajectory."""
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
def test_first_200_pulls(entry):
    reproduce(entry, 200)


@pytest.mark.slow
@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["file"].removesuffix(".npz"))
def test_first_3000_pulls(entry):
    reproduce(entry, 3000)


EASY = np.array([1.0, 0.4, -0.5, -1.0, -1.6])
PROBLEMS = [("bai",), ("topm", 2), ("osi", 0.0), ("osi", 0.7)]
ALL = ("llr", "selective", "full", "selective-definition", "full-definition")


def play(problem, rule, *, seed=0, arms=None, theta=EASY, pulls=3000, **settings):
    arms = np.eye(5) if arms is None else arms
    noise = np.random.default_rng(seed).standard_normal(pulls)
    return twin.run(arms, theta, problem, rule, noise=noise, max_samples=pulls, **settings)


def span(seed=0):
    """Six arms in three dimensions, with a unique answer for every problem."""
    arms = np.random.default_rng(seed).normal(size=(6, 3))
    return arms, np.array([1.5, -1.0, 0.8])


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("rule", ["uniform", "oracle", "lingape", "lingame", "fws", "lazy_tas"])
def test_elimination_stops_in_order(rule, problem):
    arms, theta = span()
    stops = play(problem, rule, arms=arms, theta=theta, pulls=250, stopping=ALL).stops
    samples = {name: stop.samples for name, stop in stops.items()}
    assert samples["full"] <= samples["selective"] <= samples["llr"]
    assert (
        samples["full"]
        <= samples["full-definition"]
        <= samples["selective-definition"]
        <= samples["llr"]
    )
    assert samples["selective"] <= samples["selective-definition"]
    assert stops["selective"].tests_stopping <= stops["selective-definition"].tests_stopping


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(twin.RULES))
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_every_rule_finds_the_answer_of_an_easy_instance(rule, problem):
    settings = {"every": 40} if rule == "tas" else {}
    if rule == "optimistic_tas":
        settings["pulls"] = 15
    stopping = ("native",) if twin.RULES[rule].native else ("selective",)
    arms, theta = np.eye(5), EASY
    if rule in ("rage", "xy_adaptive"):
        # On the canonical basis all choices of xy_adaptive tie, and it repeats arm 0.
        arms, theta = span()
        settings["pulls"] = 8000
    try:
        result = play(problem, rule, arms=arms, theta=theta, stopping=stopping, **settings)
    except ValueError as refused:
        assert "is for" in str(refused)
        return
    stop = result.stops[stopping[0]]
    if rule != "optimistic_tas":
        assert stop.stopped
    if stop.stopped:
        np.testing.assert_array_equal(stop.answer, twin.Problem(arms, problem).answer(arms @ theta))
    np.testing.assert_array_equal(
        stop.pulls, np.bincount(result.arms[: stop.samples], minlength=len(arms))
    )


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_stopping_rules_do_not_change_the_trajectory(problem):
    together = play(problem, "lingape", stopping=ALL)
    for name in ALL:
        alone = play(problem, "lingape", stopping=(name,))
        n = alone.stops[name].samples
        assert n == together.stops[name].samples
        np.testing.assert_array_equal(alone.arms, together.arms[:n])


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("full", ["selective", "full"])
def test_resets_drop_pieces_and_restore_them(full, problem):
    resets = twin.Resets(full, alpha=lambda t, delta: 0.5, t0=2.0)
    arms, theta = span(1)
    plain = play(problem, "lingape", arms=arms, theta=theta, pulls=400, stopping=("llr",))
    ours = play(
        problem, "lingape", arms=arms, theta=theta, pulls=400, stopping=("llr",), elimination=resets
    )
    reads, reads_plain = (
        run.stops["llr"].tests_sampling / (len(run.arms) - 6) for run in (ours, plain)
    )
    assert reads < reads_plain
    never = twin.Resets(full, alpha=lambda t, delta: np.inf)
    same = play(
        problem, "lingape", arms=arms, theta=theta, pulls=400, stopping=("llr",), elimination=never
    )
    np.testing.assert_array_equal(same.arms, plain.arms)


def test_resets_need_constants_or_alpha():
    with pytest.raises(ValueError, match="alpha"):
        play(("bai",), "lingape", beta=twin.gk16, elimination=twin.Resets())
    alpha = twin.paper_alpha(twin.heuristic)
    # At t = 50, beta(t, 1/t^2) = log(51 * 2500).
    c2 = np.log(3) / np.log(2)
    expected = (
        np.sqrt(np.log(5100) + (4 * c2 - 1) * np.log(50)) + 4 * np.sqrt(c2 * np.log(51 * 2500))
    ) ** 2
    np.testing.assert_allclose(alpha(50, 0.01), expected)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_lucb_stops_at_the_earlier_of_two_tests(problem):
    native = play(problem, "lucb", stopping=("native",)).stops["native"]
    both = play(problem, "lucb", stopping=("llr", "selective", "native")).stops
    assert all(stop.samples <= native.samples for stop in both.values())
    assert both["native"].samples == native.samples


def test_noise_std_scales_the_run():
    plain = play(("osi", 0.7), "lingape")
    scaled = play(("osi", 2.8), "lingape", theta=4.0 * EASY, noise_std=4.0)
    np.testing.assert_array_equal(plain.arms, scaled.arms)
    np.testing.assert_allclose(scaled.rewards, 4.0 * plain.rewards)


def test_allocation_of_the_two_dimensional_example():
    angles = np.pi + np.array([0.3, 0.8, 1.2])
    arms = np.vstack([np.eye(2), np.column_stack([np.cos(angles), np.sin(angles)])])
    theta = np.array([1.0, 0.9])
    problem = twin.Problem(arms, ("bai",))
    y, c = problem.halfspaces(problem.pieces(problem.answer(arms @ theta)))
    w, value, upper, _ = twin.best_allocation(arms, y, c, theta)
    np.testing.assert_allclose([value, upper], 0.1**2 / 8, rtol=1e-5)
    np.testing.assert_allclose(w, [0.5, 0.5, 0, 0, 0], atol=2e-3)


def test_the_cap_truncates():
    stop = play(("topm", 2), "uniform", theta=0.01 * EASY, pulls=37).stops["llr"]
    assert (stop.samples, stop.stopped, stop.truncated) == (37, False, True)
    assert len(stop.active) == 37 - 5 + 1
