"""The NumPy reference of Bernoulli runs by itself: numbers, order of stops, rules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.families.bernoulli import Bernoulli
from tests import twin
from tests.twin import families

MU = np.array([0.95, 0.05, 0.2, 0.7])
PROBLEMS = {"bai": ("bai",), "topm": ("topm", 2), "osi": ("osi", 0.45)}
RIGHT = {"bai": [1, 0, 0, 0], "topm": [1, 0, 0, 1], "osi": [1, 0, 0, 1]}


def noise(seed, length=3000):
    return np.random.default_rng(seed).random(length)


@pytest.mark.slow
def test_the_reference_agrees_with_the_library():
    """Pairs and levels to 1e-12, bounds to 1e-14."""
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 500, (2, 400)).astype(float)
    sums = rng.binomial(counts.astype(int), rng.choice([0, 0.03, 0.5, 1], (2, 400)))
    (n_a, n_b), (a, b) = counts, sums / counts
    radius = rng.uniform(0.1, 9, 400) / n_a
    with scope.engine():
        n, x, k, y, r = map(jnp.asarray, (n_a, a, n_b, b, radius))
        library = Bernoulli()
        above = rng.random(400) < 0.5
        all_of = jax.jit(lambda n, x, k, y, r, line, above: (
            library.pair(n, x, k, y), library.level(n, x, line, above), library.bounds(x, r)
        ))  # fmt: skip
        pairs, levels, bounds = all_of(n, x, k, y, r, np.full(400, 0.3), above)
    ours = [families.pair(*v) for v in zip(n_a, a, n_b, b, strict=True)]
    np.testing.assert_allclose(ours, pairs, rtol=1e-12, atol=1e-12)
    ours = [families.level(m, v, 0.3, s) for m, v, s in zip(n_a, a, above, strict=True)]
    np.testing.assert_allclose(ours, levels, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(families.bounds(a, radius), bounds, rtol=0, atol=1e-14)


def test_pairs_on_paper():
    """1 against 0 with one pull each: 2 log 2. [1, 1] against [0]: u = 2/3."""
    np.testing.assert_allclose(families.pair(1, 1.0, 1, 0.0), 2 * np.log(2))
    np.testing.assert_allclose(families.pair(2, 1.0, 1, 0.0), 2 * np.log(3 / 2) + np.log(3))


SPREAD = {
    "bai": [0.9, 0.3, 0.35, 0.4, 0.3, 0.0],
    "topm": [0.9, 0.85, 0.3, 0.25, 0.35, 0.0],
    "osi": [0.9, 0.1, 0.2, 0.7, 1.0, 0.0],
}
"""Arms of similar difficulty, so that pieces are eliminated one after the other."""


@pytest.mark.parametrize("rule", ["uniform", "lucb"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_order_of_the_stops(problem, rule):
    """tau_full <= tau_selective <= tau_LLR, and observers do not affect each other."""
    stopping = ("llr", "selective", "full")
    mu, earlier = np.array(SPREAD[problem]), 0
    for seed in range(20 if rule == "uniform" else 4):
        known = {"noise": noise(seed), "beta": twin.gk16}
        both = families.run(mu, PROBLEMS[problem], rule, stopping=stopping, **known)
        llr, selective, full = (both.stops[name] for name in stopping)
        assert full.samples <= selective.samples <= llr.samples == len(both.arms) < 3000
        earlier += full.samples < llr.samples
        np.testing.assert_array_equal(both.arms[:6], range(6))
        for name in stopping:
            alone = families.run(mu, PROBLEMS[problem], rule, stopping=(name,), **known)
            beside = both.stops[name]
            assert alone.stops[name].samples == beside.samples == len(alone.arms)
            np.testing.assert_array_equal(alone.stops[name].answer, beside.answer)
            np.testing.assert_array_equal(alone.arms, both.arms[: beside.samples])
            np.testing.assert_array_equal(np.bincount(alone.arms, minlength=6), beside.pulls)
    assert rule == "lucb" or earlier > 0


@pytest.mark.parametrize("pulls", [1, 2])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_lucb_stops_by_itself(problem, pulls):
    """On an easy instance: right answers, and disjoint intervals at the stop."""
    for seed in range(2):
        run = families.run(
            MU,
            PROBLEMS[problem],
            "lucb",
            noise=noise(seed),
            stopping=("native",),
            delta=0.01,
            pulls=pulls,
        )
        stop = run.stops["native"]
        assert stop.stopped and stop.samples == len(run.arms) < 3000
        np.testing.assert_array_equal(stop.answer, RIGHT[problem])
        n = np.bincount(run.arms, minlength=4)
        means = np.bincount(run.arms, run.rewards, 4) / n
        lower, upper = families.bounds(means, twin.heuristic(stop.samples + 1, 0.01) / n)
        if problem == "osi":
            assert lower[stop.answer].min() >= 0.45 >= upper[~stop.answer].max()
        else:
            assert lower[stop.answer].min() >= upper[~stop.answer].max()
        before = families.run(
            MU,
            PROBLEMS[problem],
            "lucb",
            noise=noise(seed),
            delta=0.01,
            stopping=("native",),
            pulls=pulls,
            max_samples=stop.samples - 1,
        )
        assert not before.stops["native"].stopped
        assert before.stops["native"].samples == stop.samples - 1


def test_two_pulls_are_of_one_pair():
    """After the start, samples are pairs (b, c): b has the largest mean, c differs."""
    run = families.run(MU, ("bai",), "lucb", noise=noise(5), stopping=("native",), pulls=2)
    K, arms = 4, run.arms
    assert (len(arms) - K) % 2 == 0 and run.stops["native"].stopped
    for t in range(K, len(arms), 2):
        n = np.bincount(arms[:t], minlength=K)
        means = np.bincount(arms[:t], run.rewards[:t], K) / n
        upper = families.bounds(means, twin.heuristic(t + 1, 0.1) / n)[1]
        upper[np.argmax(means)] = -1
        assert (arms[t], arms[t + 1]) == (np.argmax(means), np.argmax(upper))


def test_the_native_test_ends_every_open_run_and_the_cap_stops_nothing():
    both = families.run(MU, ("bai",), "lucb", noise=noise(6), stopping=("native", "full", "llr"))
    assert {s.stopped for s in both.stops.values()} == {True}
    assert both.stops["native"].samples >= both.stops["llr"].samples
    few = families.run(MU, ("topm", 2), "uniform", noise=noise(6)[:9], stopping=("llr", "full"))
    np.testing.assert_array_equal(few.arms, [0, 1, 2, 3, 0, 1, 2, 3, 0])
    assert {(s.stopped, s.samples, s.answer.sum()) for s in few.stops.values()} == {(False, 9, 2)}
    with pytest.raises(ValueError, match="native"):
        families.run(MU, ("bai",), "uniform", noise=noise(7), stopping=("native",))
