"""Derivatives of H* and w* at ties: finite, and as their docstrings say."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je

COIN, UNIT = je.Bernoulli(), je.Gaussian()
TIED = {
    "on a level": (None, [0.5, 0.4, 0.6, 0.2], je.Thresholding(0.5), COIN),
    "linear": ([[1, 0], [0, 1], [0.5, 0.5]], [1.0, 1.0], je.BestArm(), UNIT),
}
@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def slopes(case):
    """Values, and derivatives in reverse and forward, of H* and sum_k k w*_k."""
    arms, theta, problem, family = case
    arms = None if arms is None else jnp.asarray(arms, float)

    def every(theta, arms):
        found = je.bounds.optimum(arms, theta, problem, family)
        weights = found.allocation @ jnp.arange(len(found.allocation), dtype=float)
        numbers = jnp.stack([found.value, weights])
        return numbers, numbers

    at, which = (jnp.asarray(theta), arms), (0,) if arms is None else (0, 1)
    forward, values = jax.jacfwd(every, which, has_aux=True)(*at)
    return values, jax.jacrev(every, which, has_aux=True)(*at)[0], forward


@pytest.mark.slow
@pytest.mark.parametrize("name", TIED)
def test_a_tie_of_the_answer(name):
    """H* = 0, with derivatives 0, also of w*, in both modes."""
    values, *both = slopes(TIED[name])
    assert values[0] == 0 and np.isfinite(values[1])
    for slope in jax.tree.leaves(both):
        np.testing.assert_array_equal(slope, 0)


@pytest.mark.slow
def test_other_ties():
    """Two equal arms: forward and reverse agree; H* changes by a small step as they say."""
    arms, theta = [[1, 0], [0, 1], [0, 1]], [1.0, 0.5]
    problem, family = je.BestArm(), UNIT
    values, reverse, forward = slopes((arms, theta, problem, family))
    chex.assert_tree_all_finite((values, reverse))
    for a, b in zip(jax.tree.leaves(reverse), jax.tree.leaves(forward), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * np.abs(b).max())
    step, h = np.linspace(1, -0.5, len(theta)), 2e-5
    ends = [je.bounds.optimum(arms, theta + s * h * step, problem, family).value for s in (1, -1)]
    assert reverse[0][0] @ step == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)
