"""Turning an allocation into pulls."""

from jax import Array

from jaxelim.lanes import Lanes


def cumulative(lanes: Lanes, counts: Array, target: Array) -> Array:
    """C-tracking: the arm with the smallest N_k - W_k, W [K] the sum of all allocations so far. (Garivier & Kaufmann 2016)"""
    return lanes.argmin(counts - target)


def direct(lanes: Lanes, counts: Array, time: Array, weights: Array) -> Array:
    """D-tracking: the arm with the smallest N_k - (t - 1) w_k, t - 1 = `time` - 1 samples so far. (Garivier & Kaufmann 2016)"""
    # The product is rounded before it is subtracted: fused, it would tell equal weights' exact ties apart.
    due = lanes.pin(lambda time, weights: (time - 1) * weights, time, weights)
    return lanes.argmin(counts - due)

