"""Turning an allocation into pulls."""

import jax.numpy as jnp
from jax import Array

from jaxelim.lanes import LaneOps


def cumulative(lanes: LaneOps, counts: Array, target: Array) -> Array:
    """C-tracking: the arm with the smallest N_k - W_k, W [K] the sum of all allocations so far. (Garivier & Kaufmann 2016)"""
    return lanes.argmin(counts - target)


def direct(lanes: LaneOps, counts: Array, time: Array, weights: Array) -> Array:
    """D-tracking: the arm with the smallest N_k - (t - 1) w_k, t - 1 = `time` - 1 samples so far. (Garivier & Kaufmann 2016)"""
    # The product is rounded before it is subtracted: fused, it would tell equal weights' exact ties apart.
    due = lanes.materialize(lambda time, weights: (time - 1) * weights, time, weights)
    return lanes.argmin(counts - due)



def underexplored(counts: Array, time: Array) -> Array:
    """Which arms have N_k <= sqrt(t - 1) - K/2, t - 1 samples so far: [K]. (Garivier & Kaufmann 2016, D-tracking)"""
    return counts <= jnp.sqrt(time - 1) - counts.shape[0] / 2


def force_exploration(lanes: LaneOps, counts: Array, time: Array, weights: Array) -> Array:
    """Forced exploration: the uniform weights over the starved arms, where there are any, else `weights`: [K]."""
    missing = underexplored(counts, time)
    missing = missing.astype(weights.dtype)
    count = lanes.sum(missing)
    return jnp.where(count > 0, missing / jnp.maximum(count, 1), weights)
