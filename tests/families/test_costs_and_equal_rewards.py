"""Evidence by its definition: costs, weights of 0, widest gains; arms of equal rewards."""

from types import SimpleNamespace
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext
from jaxelim.evidence.designs import LinearContext, weighted
from jaxelim.evidence.linear import LinearEvidence
from jaxelim.families.arm import ArmEvidence, Stat
from jaxelim.families.unknown_variance import StudentStatistics
from jaxelim.lanes import LaneOps


def test_the_gradient_of_a_level_is_that_of_its_value():
    """dH_p/dw_k = d(m_k, l)/c_k with costs c_k = std_k^2."""
    std = (1.0, 0.5, 2.0)
    family = je.Gaussian(std=std)
    with scope.engine():
        means, weights = jnp.asarray([1.0, -0.5, 0.3]), jnp.asarray([0.2, 0.5, 0.3])
        shape = Pairs(None, jnp.ones(3, bool), means > 0.1, level=0.1)
        stat, space = Stat(weights, means), ArmContext(LaneOps(), jnp.eye(3))
        evidence = ArmEvidence.of(family, space, shape, stat, family.weight(stat))
        for piece in range(3):
            found = np.asarray(evidence.gradient(jnp.int32(piece)))
            known = np.zeros(3)
            known[piece] = (float(means[piece]) - 0.1) ** 2 / 2
            known /= np.square(family.std)
            np.testing.assert_allclose(found, known, rtol=1e-12)
            value = lambda w, p=piece: evidence.weighted(w).values()[p]  # noqa: E731
            np.testing.assert_allclose(found, jax.grad(value)(weights), rtol=1e-12)


def test_pairs_without_weight_have_finite_bends():
    """Second derivatives of H_p at weights 0 of both arms: 0, as its value and gradient."""
    with scope.engine():
        means, weights = jnp.asarray([0.7, 0.5, 0.2]), jnp.asarray([0.0, 0.0, 1.0])
        shape = Pairs(jnp.int32(0), jnp.asarray([False, True, True]))
        space = ArmContext(LaneOps(), jnp.eye(3))
        stat = Stat(weights, means)
        evidence = ArmEvidence.of(je.Bernoulli(), space, shape, stat, weights)
        found = evidence.with_derivatives().weighted(weights).derivatives()
    chex.assert_tree_all_finite(found)
    np.testing.assert_array_equal(found.value[1:], 0)


def test_the_largest_gain_of_linear_arms():
    """max over theta in an ellipsoid of (phi_k . (theta - lambda))^2/2, by its two ends."""
    rng = np.random.default_rng(3)
    arms, theta, level = rng.standard_normal((4, 2)), np.array([1.0, 0.3]), 1.7
    counts = np.array([3.0, 5.0, 2.0, 4.0])
    best = int(np.argmax(arms @ theta))
    with scope.engine():
        space = LinearContext(LaneOps(), jnp.asarray(arms))
        shape = Pairs(jnp.int32(best), jnp.arange(4) != best)
        given = jnp.asarray(arms @ theta), jnp.asarray(theta)
        seen = LinearEvidence.of(space, shape, weighted(space, jnp.asarray(counts)), *given)
        view: Any = SimpleNamespace(time=jnp.exp(jnp.float64(level)), linear=seen)
        found = [je.OptimisticLinGame().gain(view, seen, jnp.int32(k)) for k in range(4)]
    inverse = np.linalg.inv((arms.T * counts) @ arms)
    for k in set(range(4)) - {best}:
        y = arms[best] - arms[k]
        moved = inverse @ y * (y @ theta) / (y @ inverse @ y)
        spread = np.sqrt(2 * level * np.einsum("kd,de,ke->k", arms, inverse, arms))
        np.testing.assert_allclose(found[k], (np.abs(arms @ moved) + spread) ** 2 / 2, rtol=1e-9)


@pytest.mark.parametrize("counts, said", [((2, 2, 5), 0), ((2, 3, 5), 2), ((4, 3, 5), 1)])
def test_an_arm_of_equal_rewards_is_told_from_three_on(counts, said):
    """Two rewards may be equal by rounding; from three on it is an error of the model."""
    family = je.GaussianUnknownVariance()
    with scope.engine():
        counts = jnp.asarray(counts, jnp.float64)
        t, zero = jnp.sum(counts).astype(jnp.int32), jnp.zeros(3)
        rest = (jnp.asarray([0.0, 0.0, 1.0]),)
        stats = StudentStatistics(t=t, counts=counts, means=zero, reward_sums=zero, rest=rest)
        assert int(family.degenerate(stats)) == said
