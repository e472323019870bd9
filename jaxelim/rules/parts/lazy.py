"""Lazy Track-and-Stop's allocation, with the authors' rounding, and lambda_min(V) for its test."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.traits import Rarely
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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LeastEigenvalue:
    """Bounds on lambda_min(V), V with the family's ridge."""

    low: Array  # []: the last exact value, as V only grows
    high: Array  # []: u' V u, u the unit eigenvector of that value
    toward: Array  # [K]: (phi_k . u)^2, which one more pull of k adds to `high`

    def decided(self, view: View, need: Array, rarely: Rarely) -> "LeastEigenvalue":
        """Bounds of which both lie on one side of `need` []."""
        unsure = (self.low < need) & (self.high >= need)
        return rarely(unsure, lambda: _exact(view), self)

    def pulled(self, view: View, arm: Array) -> "LeastEigenvalue":
        """After one more pull of an arm []."""
        return dataclasses.replace(self, high=self.high + view.lanes.take(self.toward, arm))


def _exact(view: View) -> LeastEigenvalue:
    """Both bounds at the present V."""
    def of_run(features, counts):
        v = jnp.matmul(features.T, counts[:, None] * features, precision="highest")
        least, u = view.lanes.least_eigenpair(
            v + view.family.ridge * jnp.eye(features.shape[1], dtype=features.dtype)
        )
        toward = jnp.matmul(features, u, precision="highest") ** 2
        return LeastEigenvalue(least, least, toward)

    if view.means.ndim == 1:
        return of_run(view.features, view.counts)
    shared = view.features.ndim == 2
    return jax.vmap(of_run, in_axes=(None if shared else -1, -1), out_axes=-1)(
        view.features, view.counts
    )
