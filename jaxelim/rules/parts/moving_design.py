"""The inverse design of an allocation x that moves a little at every sample. No ridge."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.traits import Rarely
from jaxelim.contracts.views import View
from jaxelim.evidence.designs import SquareDesign, weighted
from jaxelim.instances.instance import Instance
from jaxelim.lanes import index_like
from jaxelim.numerics.host import product
from jaxelim.numerics.jacobi import orthonormal


def prepared(instance: Instance) -> tuple[Any, Any]:
    """Host: phi_k' V_x^-1 phi_k, [K], and V_x^-1, [d, d], of each instance at weights 1/K."""
    features = instance.arms.reshape(-1, instance.K, instance.d)
    unit, maps = map(np.stack, zip(*map(orthonormal, features), strict=True))
    if not instance.batched:
        unit, maps = unit[0], maps[0]
    inverse = product(maps, np.swapaxes(maps, -1, -2))
    return instance.K * np.sum(unit**2, -1), instance.K * inverse


def start(view: View) -> SquareDesign | None:
    """The design at weights 1/K; None where it is diagonal, as x then gives it."""
    if not view.evidence.has_matrix:
        return None
    g, inverse = view.prepared
    lanes = view.t.shape
    return SquareDesign(
        jnp.broadcast_to(g, g.shape[:1] + lanes),
        jnp.broadcast_to(inverse, inverse.shape[:2] + lanes),
    )


def moved(
    view: View, design: SquareDesign, x: Array, z: Array, vertex: Array, several: Array,
    recomputed: Array, rarely: Rarely,
) -> SquareDesign:  # fmt: skip
    """The design of x = ((t - 1) x' + z)/t, x' that of `design`, without a factorisation.

    Args:
        x, z: [K] shares of the cost.
        vertex: [] the arm that z is all on, unless `several` [] bool holds; or z is uniform,
            and `recomputed` holds before the design is read.
        several: whether z is on several arms.
        recomputed: [] bool, where the design is computed from x.
        rarely: the third argument of `choose`.
    """
    step = bought = 1 / view.time
    if view.prices is not None:
        bought = step * view.lanes.take(view.per_price(jnp.ones_like(x)), vertex)
    space, old = view.linear.space, design
    design = design.mixed(space, vertex, 1 - step, bought)
    design = rarely(several, lambda: _towards(view, old, z, several), design)
    return rarely(recomputed, lambda: weighted(space, view.per_price(x)), design)


def _towards(view: View, design: SquareDesign, z: Array, go: Array) -> SquareDesign:
    """The design of ((t - 1) x + z)/t where `go` [] bool, by one update for each vertex of z."""
    step, bought = 1 / view.time, view.per_price(jnp.where(go, z, 0))

    def mix(c):
        design, left, keep = c
        k = view.lanes.argmax(left)
        design = design.mixed(view.linear.space, k, keep, step * view.lanes.take(left, k))
        return design, jnp.where(index_like(left) == k, 0, left), jnp.ones_like(keep)

    return jax.lax.while_loop(lambda c: jnp.any(c[1] > 0), mix, (design, bought, 1 - step))[0]
