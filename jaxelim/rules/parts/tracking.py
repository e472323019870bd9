"""Tracking: choose arms so that counts follow an allocation. (Garivier & Kaufmann 2016)"""

import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.views import View
from jaxelim.lanes import LaneOps


def shares_of_pulls(view: View, weights: Array) -> Array:
    """The shares of the pulls [K] of an allocation of the cost: w_k/c_k, to sum 1."""
    if view.prices is None:
        return weights
    pulls = view.per_price(weights)
    return pulls / view.lanes.sum(pulls)


def shares_of_cost(view: View) -> Array:
    """What the pulls of each arm have cost, of the whole: [K]; without costs N_k/(t - 1)."""
    if view.prices is None:
        return view.counts / (view.time - 1)
    spent = view.counts * view.prices
    return spent / view.lanes.sum(spent)


def cumulative(lanes: LaneOps, counts: Array, target: Array) -> Array:
    """C-tracking: the arm with the smallest N_k - W_k, W [K] the sum of all allocations so far."""
    return lanes.argmin(counts - target)


def direct(lanes: LaneOps, counts: Array, time: Array, weights: Array) -> Array:
    """D-tracking: the arm with the smallest N_k - (t - 1) w_k, after t - 1 = `time` - 1 samples."""
    # The product is rounded before the subtraction: a fused one would break ties of equal weights.
    due = lanes.materialize(lambda time, weights: (time - 1) * weights, time, weights)
    return lanes.argmin(counts - due)


def underexplored(counts: Array, time: Array) -> Array:
    """Which arms have N_k <= sqrt(t - 1) - K/2, after t - 1 samples: [K] bool."""
    return counts <= jnp.sqrt(time - 1) - counts.shape[0] / 2


def force_exploration(lanes: LaneOps, counts: Array, time: Array, weights: Array) -> Array:
    """Forced exploration: uniform weights on underexplored arms, if any, else `weights`: [K]."""
    missing = underexplored(counts, time)
    missing = missing.astype(weights.dtype)
    count = lanes.sum(missing)
    return jnp.where(count > 0, missing / jnp.maximum(count, 1), weights)
