"""Lazy Track-and-Stop's allocation: Frank-Wolfe steps with the authors' rounding."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.views import View
from jaxelim.evidence.designs import weighted
from jaxelim.lanes import index_like

FLOOR = 1e-12
"""The least weight inside V_U, and inside H of families without a design."""
_STEPS, _SHORT = 1000, 0.001


def frank_wolfe(view: View, weights: Array, due: Array) -> tuple[Array, Array]:
    """The new allocation of the lanes that are due, and its number of steps, 0 elsewhere."""
    lanes, arms = view.lanes, index_like(view.means)
    matrix, floor = view.evidence.has_matrix, FLOOR
    if view.family.design:
        floor = np.sqrt(np.finfo(weights.dtype).tiny)

    evidence: Any = view.priced

    def bought(arm):
        """The pulls of an arm that a unit of cost buys."""
        if view.prices is None:
            return 1.0
        return lanes.take(view.per_price(jnp.ones_like(view.means)), arm)

    def step(carry):
        i, weights, design, steps, go = carry
        floored = jnp.maximum(weights, floor)
        here = evidence.under(design) if matrix else evidence.weighted(floored)
        closest = lanes.argmin(jnp.where(view.active, here.values(), jnp.inf))
        arm = lanes.argmax(here.gradient(closest))
        weights = jnp.where(go, averaged(weights, arms == arm, i), weights)
        if matrix:  # the design of a lane that is finished, or not due, is never read
            design = design.add(evidence.space, arm, bought(arm))[0]
        norm = jnp.sqrt(lanes.sum(weights**2))
        short = 1 / ((i + 1).astype(norm.dtype) * norm) < _SHORT
        return i + 1, weights, design, steps + go.astype(steps.dtype), go & ~short

    design = None
    if matrix:
        floored = view.per_price(jnp.maximum(weights, FLOOR))
        design = weighted(evidence.space, floored, view.prepared.ridge)  # V_U
    carry = jnp.int32(1), weights, design, jnp.zeros_like(view.t), due
    _, weights, _, steps, _ = jax.lax.while_loop(
        lambda carry: (carry[0] <= _STEPS) & jnp.any(carry[4]), step, carry
    )
    return weights, steps


def averaged(weights: Array, chosen: Array, i: Array) -> Array:
    """w (i/(i + 1)) + e/(i + 1), quotients first, with each operation rounded: [K].

    e is the unit vector of the arm where `chosen` [K] holds, i [] int32 the
    step, from 1 on.
    """
    i = i.astype(weights.dtype)
    kept, added = i / (i + 1), 1 / (i + 1)
    # XLA fuses a product and a sum into one multiply-add, which rounds once. An abs between them
    # prevents that in every form of the loop. It changes no weight, since none is negative.
    return jnp.abs(weights * kept) + jnp.where(chosen, added, jnp.zeros_like(added))
