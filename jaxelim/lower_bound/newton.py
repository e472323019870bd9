"""One primal-dual Newton step, centred by Mehrotra's predictor.

The step is on the optimality conditions

    sum_p q_p dH_p/dw_k + b_k + z_k = nu,   H_p(w) - s = r_p,   sum_k w_k = 1,
    q_p r_p = mu,   w_k z_k = mu,

of two problems over the simplex. In "maximise s + b . w subject to H_p(w) >= s" the
level s is free, so sum_p q_p = 1; its value at b = 0 is H*. In "maximise b . w subject
to H_p(w) >= s" the level s is fixed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxelim.lanes import PLAIN, LaneOps
from jaxelim.lower_bound.information import product

# Least share of the complementarity mu that a step aims at. Less centring, and Mehrotra's
# second-order correction, save steps but cycle on some instances of few arms.
CENTRING = 1e-2


class State(NamedTuple):
    """An iterate or a step. All but s and nu stay positive; the conditions need not hold."""

    w: jax.Array  # [K] allocation
    s: jax.Array  # [] level
    r: jax.Array  # [P] slack of H_p >= s; 1 on padding
    q: jax.Array  # [P] multipliers of the slack: the mixture; 0 on padding
    z: jax.Array  # [K] multipliers of w >= 0
    nu: jax.Array  # [] multiplier of sum w = 1


def newton(
    state: State, info: Any, gaps, live, objective, floor, level_is_free: bool = True,
    lanes: LaneOps = PLAIN,
) -> State:  # fmt: skip
    """Take one step and return the next iterate.

    Args:
        state: the current iterate.
        info: information at state.w: an `Information` or `ArmInformation`.
        gaps: [P] y . theta - c, 0 on padding.
        live: [P] bool, False on padding.
        objective: [K] b.
        floor: least complementarity mu that a step aims at; below what the gap requires
            only rounding errors grow.
        level_is_free: which of the two problems; static.
        lanes: the primitives, which solve for the step.
    """
    w, s, r, q, z, nu = state
    K = w.shape[0]
    slopes = info.gradient
    dual = product(slopes, q) + objective + z - nu
    primal = jnp.where(live, info.value - s - r, 0)
    pull = jnp.where(live, q / r, 0)
    matrix = info.curvature(gaps, q) + product(slopes * pull[None, :], slopes.T) + jnp.diag(z / w)
    # Scale to a unit diagonal, since w spans many orders of magnitude.
    size = jax.lax.rsqrt(jnp.diagonal(matrix))
    matrix = matrix * size[:, None] * size[None, :] + 8 * jnp.finfo(w.dtype).eps * jnp.eye(
        K, dtype=w.dtype
    )
    solver = lanes.solver(matrix)

    def inverse(b):
        return size[:, None] * solver(size[:, None] * b)

    pulled = product(slopes, pull)
    columns = inverse(jnp.stack([pulled, jnp.ones_like(w)], axis=1))

    def direction(target) -> State:
        eq = jnp.where(live, target - q * r, 0) - q * primal
        ew = target - z * w
        push = jnp.where(live, eq / r, 0)
        base = inverse((dual + product(slopes, push) + ew / w)[:, None])[:, 0]
        # The sums remain: one equation for dnu, and one for ds where the level is free.
        a, b = jnp.sum(columns[:, 0]), -jnp.sum(columns[:, 1])
        e = 1 - jnp.sum(w) - jnp.sum(base)
        if level_is_free:
            c, d = jnp.sum(pull) - product(pulled, columns[:, 0]), product(pulled, columns[:, 1])
            f = 1 - jnp.sum(q) - jnp.sum(push) + product(pulled, base)
            det = a * d - b * c
            ds, dnu = (d * e - b * f) / det, (a * f - c * e) / det
        else:
            ds, dnu = jnp.zeros_like(s), e / b
        dw = base + columns[:, 0] * ds - columns[:, 1] * dnu
        dr = jnp.where(live, product(slopes.T, dw) - ds + primal, 0)
        dq = jnp.where(live, push - pull * (dr - primal), 0)
        return State(dw, ds, dr, dq, (ew - z * dw) / w, dnu)

    def reach(step: State):
        """The largest step that keeps w, r, q and z non-negative."""
        x = jnp.concatenate([w, r, q, z])
        dx = jnp.concatenate([step.w, step.r, step.q, step.z])
        return jnp.min(jnp.where(dx < 0, -x / jnp.where(dx < 0, dx, 1), jnp.inf))

    def complementarity(x: State):
        total = jnp.sum(jnp.where(live, x.q * x.r, 0)) + product(x.z, x.w)
        return total / (jnp.sum(live) + K).astype(w.dtype)

    def move(step: State, length) -> State:
        return jax.tree.map(lambda x, dx: x + length * dx, state, step)

    mu = complementarity(state)
    trial = direction(0.0)
    after = complementarity(move(trial, jnp.minimum(1, reach(trial))))
    step = direction(jnp.maximum(mu * jnp.clip((after / mu) ** 3, CENTRING, 1), floor))
    return move(step, jnp.minimum(1, 0.995 * reach(step)))
