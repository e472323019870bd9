"""Designs for the differences of arms or items, and their rounding to whole pulls."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.views import View
from jaxelim.evidence.linear import LinearEvidence
from jaxelim.lanes import LaneOps, index_like, over, where

SMALL = 1e-5
"""Smaller entries of a design are dropped."""


def farthest(linear: LinearEvidence, active: Array) -> tuple[Array, Array, Array]:
    """The largest ||phi_i - phi_j||^2_{V^-1} over active i < j, and the first such pair.

    Of items, z takes the place of phi.
    """
    lanes, index = linear.space.lanes, index_like(active)

    def body(i, c):
        best, first = c
        distance = jnp.where(active & active[i] & (index > i), linear.distances(i), -jnp.inf)
        return jnp.where(distance > best, distance, best), jnp.where(distance > best, i, first)

    arms = active.shape[0]
    least = jnp.full(active.shape, -jnp.inf, linear.means.dtype)
    start = (least, jnp.full(active.shape, arms, jnp.int32))
    best, first = jax.lax.fori_loop(np.int32(0), np.int32(arms), body, start)
    most = lanes.max(best)
    i = lanes.min(jnp.where(best == most, first, arms).astype(best.dtype)).astype(jnp.int32)
    return most, i, lanes.argmax(((best == most) & (first == i)).astype(best.dtype))


def farthest_after_pulls(linear: LinearEvidence, active: Array) -> Array:
    """max over active i < j of ||phi_i - phi_j||^2_{(V + phi_k phi_k')^-1}, for every k: [K].

    Active arms come first in every lane. So the loop is as long as the lane with
    the most of them needs.
    """
    space = linear.space
    lanes = space.lanes
    index = index_like(active)
    # The index of the n-th active arm; the inactive arms follow.
    order = jnp.argsort(~active, axis=0, stable=True).astype(jnp.int32)
    held = index < lanes.sum(active)
    norm = 1 / (1 + linear.design.g)
    along = jax.lax.map(linear.toward, order)  # [n, k]: phi_k' V^-1 phi_n
    apart = jax.lax.map(lambda c: linear.distances(*c), (order, along))

    def pair(n, m, worst):
        if space.cancellation_safe:
            fall = linear.along_pair(order[n], order[m], along[n])
        else:
            fall = along[n] - along[m]
        left = lanes.take(apart[n], order[m]) - fall**2 * norm
        return jnp.where(held[m] & (left > worst), left, worst)

    def body(n, worst):
        return jax.lax.fori_loop(n + 1, count, lambda m, worst: pair(n, m, worst), worst)

    count = jnp.max(lanes.sum(active))
    return jax.lax.fori_loop(np.int32(0), count - 1, body, jnp.full_like(norm, -jnp.inf))


def xy_design(
    view: View, active: Array, begins: Array, accuracy: float, steps: int
) -> tuple[Array, Array]:
    """Frank-Wolfe for argmin_w rho(w): the weights [K], and rho [].

    rho(w) = max over active i < j of ||phi_i - phi_j||^2_{V_w^-1}. Steps 2/(n + 2) from the
    uniform weights, until ||step||/||w|| < accuracy or after `steps`. It runs in lanes where
    `begins` [] bool holds. rho is that of the weights which the last step started from.
    """
    lanes, index = view.lanes, index_like(view.means)

    def body(c):
        n, w, rho, runs = c
        now = view.linear.weighted(w)
        far, i, j = farthest(now, active)
        along = now.along_pair(i, j)
        arm = lanes.argmax(along**2)
        # The order matters: where arms tie exactly in turn, rounding decides between them.
        step = over(-w * 2, n + 2)
        step = step + jnp.where(index == arm, 2 / (n + 2), 0)
        after = w + step
        more = jnp.sqrt(lanes.sum(step**2) / lanes.sum(after**2)) >= accuracy
        return n + 1, *where(runs, (after, far), (w, rho)), runs & more

    uniform = jnp.full_like(view.means, 1 / view.means.shape[0])
    start = (jnp.ones((), view.means.dtype), uniform, jnp.ones_like(view.beta), begins)

    def more(c):
        return (c[0] <= steps) & jnp.any(c[3])

    _, w, rho, _ = jax.lax.while_loop(more, body, start)
    w = jnp.where(w < SMALL, 0, w)
    return over(w, lanes.sum(w)), rho


def efficiently_rounded(
    lanes: LaneOps, weights: Array, samples: Array, support: Array, begins: Array
) -> Array:
    """Integers [K] close to samples * weights [K], with sum `samples` [].

    Efficient rounding (Pukelsheim & Rieder 1992). `support` [] is the number of positive
    weights; nothing is rounded where `begins` [] bool does not hold.
    """
    index = index_like(weights)
    held = weights > 0
    some = jnp.where(held, weights, 1)

    def body(c):
        n, missing = c
        real = n.astype(weights.dtype)
        short = lanes.argmin(jnp.where(held, real / some, jnp.inf))
        long = lanes.argmax(jnp.where(held, (real - 1) / some, -jnp.inf))
        change = jnp.sign(missing)
        arm = jnp.where(missing > 0, short, long)
        return n + jnp.where(index == arm, change, 0), missing - change

    target = samples.astype(weights.dtype) - support.astype(weights.dtype) / 2
    n = jnp.ceil(target * weights).astype(jnp.int32)
    missing = jnp.where(begins, samples - lanes.sum(n), 0)
    return jax.lax.while_loop(lambda c: jnp.any(c[1] != 0), body, (n, missing))[0]
