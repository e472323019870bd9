"""The secular equation for w* of best arm: the definition, starts, lanes, ties, costs."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.lanes import LaneOps
from jaxelim.saddle.best_arm import gaussian_weights


@functools.partial(jax.jit, static_argnames="equal")
def traced(flag, means, best, counted, costs, start, equal):
    return gaussian_weights(LaneOps(flag), means, best, counted, None if equal else costs, start)


def solved(means, costs=None, start=None, counted=None):
    """Weights [K, B] and roots [B] of means [K, B], in lanes."""
    counted = np.ones(means.shape, bool) if counted is None else counted
    best = np.argmax(np.where(counted, means, -np.inf), 0).astype(np.int32)
    wide = np.broadcast_to(1.0 if costs is None else costs[:, None], means.shape)
    start = np.zeros(means.shape[1]) if start is None else start
    with scope.engine():
        given = map(jnp.asarray, (np.int32(1), means, best, counted, wide, start))
        weights, root = map(np.asarray, traced(*given, costs is None))
        return SimpleNamespace(weights=weights, root=root)


def certified(means, costs, counted, weights):
    """The relative duality gap, by the best mixture at the weights: H* <= (1 + gap) value.

    Where all pieces have the same information, w maximises it iff some mixture q makes
    sum_p q_p dH_p/dw_k equal for all arms. Its q_p are fixed by the arms other than the best.
    """
    i = int(np.argmax(np.where(counted, means, -np.inf)))
    others = counted & (np.arange(means.size) != i)
    n = weights / costs
    u = (n[i] * means[i] + n[others] * means[others]) / (n[i] + n[others])
    up, down = (means[i] - u) ** 2 / 2 / costs[i], (means[others] - u) ** 2 / 2 / costs[others]
    value = np.min(n[i] * up * costs[i] + n[others] * down * costs[others])
    q = 1 / down / np.sum(1 / down)
    slopes = np.append(q * down, np.sum(q * up))
    return slopes.max() / value - 1


def cases(k, size, seed):
    """Means [k, size] over nine orders of magnitude, and which arms count, the best one among."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((k, size)) * 10.0 ** rng.uniform(-6, 3, size)
    counted = rng.random((k, size)) < 0.7
    counted[:2] = True
    return means, counted


def test_every_solve_is_certified():
    """Both forms, of 2 to 40 arms: a gap below 1e-12 and other rounding; 0 where none counts."""
    for k in (2, 40):
        means, counted = cases(k, 256, k)
        costs = np.exp(np.random.default_rng(1).uniform(-4, 4, k))
        for given in (None, costs):
            found = solved(means, given, counted=counted)
            np.testing.assert_allclose(found.weights.sum(0), 1, rtol=1e-13)
            assert np.all(found.weights[~counted] == 0) and np.all(found.weights >= 0)
            for j in range(256):
                c = np.ones(k) if given is None else given
                # Rounding of u - m costs digits where an arm has a small share.
                assert certified(means[:, j], c, counted[:, j], found.weights[:, j]) < 1e-8
            root = found.root
            assert np.all(root > 1)


def test_any_start_gives_the_same_weights():
    """Starts off by factors of 1e-9 to 1e9, in lanes whose neighbours start elsewhere."""
    means, counted = cases(7, 128, 3)
    known = solved(means, counted=counted)
    for seed in range(3):
        factor = 10.0 ** np.random.default_rng(seed).uniform(-9, 9, 128)
        found = solved(means, counted=counted, start=known.root * factor)
        np.testing.assert_allclose(found.weights, known.weights, rtol=1e-11, atol=1e-15)


def test_a_lane_does_not_depend_on_its_neighbours():
    means, counted = cases(5, 64, 4)
    start = np.random.default_rng(5).uniform(0, 9, 64)
    together = solved(means, counted=counted, start=start)
    turned = solved(*(x[..., ::-1] for x in (means,)), counted=counted[:, ::-1], start=start[::-1])
    np.testing.assert_array_equal(turned.weights[:, ::-1], together.weights)
    copies = [np.repeat(x[..., 9:10], 64, -1) for x in (means, counted, start)]
    alone = solved(copies[0], counted=copies[1], start=copies[2])
    np.testing.assert_array_equal(alone.weights[:, 0], together.weights[:, 9])


def test_ties_share_and_one_arm_takes_all():
    means = np.array([[1.0, 1.0, 2.0], [1.0, 3.0, 2.0], [0.5, 3.0, 2.0], [0.2, 3.0, 0.1]])
    counted = np.array([[1, 1, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]], bool)
    counted[1:, 2] = [True, False, True]
    found = solved(means, counted=counted).weights
    np.testing.assert_array_equal(found, [[0.5, 1, 0.5], [0.5, 0, 0.5], [0, 0, 0], [0, 0, 0]])
