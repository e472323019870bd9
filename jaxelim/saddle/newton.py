"""One primal-dual Newton step, for starts near the solution and far from it.

The step is on the optimality conditions

    sum_p q_p dH_p/dw_k + b_k + z_k = nu,   H_p(w) - s = r_p,   sum_k w_k = 1,
    q_p r_p = mu,   w_k z_k = mu,

sum_p q_p = 1, of "maximise s + b . w subject to H_p(w) >= s" over the simplex; its value at
b = 0 is H*.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.evidence.half_spaces import Derivatives
from jaxelim.lanes import PLAIN, LaneOps
from jaxelim.matrices import product

# Least share of the complementarity mu that a step aims at. Less centring, and Mehrotra's
# second-order correction, save steps but cycle on some instances of few arms.
CENTRING = 1e-2
_LONG = 0.9  # a step to `floor` of at least this length needs no centring


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """An iterate or a step. All but s and nu stay positive; the conditions need not hold."""

    w: Array  # [K] allocation
    s: Array  # [] level
    r: Array  # [P] slack of H_p >= s; 1 on padding
    q: Array  # [P] multipliers of the slack: the mixture; 0 on padding
    z: Array  # [K] multipliers of w >= 0
    nu: Array  # [] multiplier of sum w = 1

    @staticmethod
    def none(arms: Array, pieces: Array) -> "State":
        """No pair yet: uniform weights; arms [K] and pieces [P] give the shapes, in float64."""
        one, zero, unit = jnp.ones_like(arms), jnp.zeros_like(pieces), jnp.ones_like(arms[0])
        return State(one / arms.shape[0], unit, zero + 1, zero, one, unit)


def newton(
    state: State, at: Derivatives, live: Array, objective: Array, floor: Array,
    lanes: LaneOps = PLAIN,
) -> State:  # fmt: skip
    """Take one step and return the next iterate.

    The step goes to `floor`. If it is cut short, Mehrotra's predictor centres it.

    Args:
        state: the current iterate.
        at: H_p and its derivatives at state.w.
        live: [P] bool, False on padding.
        objective: [K] b.
        floor: least complementarity mu that a step aims at; below what the gap requires
            only rounding errors grow.
        lanes: the primitives, which solve for the step.
    """
    w, s, r, q, z, nu = (getattr(state, name) for name in ("w", "s", "r", "q", "z", "nu"))
    slopes, terms = at.gradient, (jnp.sum(live) + w.shape[0]).astype(w.dtype)

    def here(x: Array, other: float = 0.0) -> Array:
        """x [P] on live pieces, else `other`."""
        return jnp.where(live, x, other)

    primal, pull = here(at.value - s - r), here(q / r)
    matrix = at.curvature(q, pull)
    # Scale to a unit diagonal, since w spans many orders of magnitude.
    # XLA computes 1/sqrt(x) by an approximation that depends on the processor.
    size = jnp.sqrt(1 / (jnp.diagonal(matrix) + z / w))
    eps = 9 * jnp.finfo(w.dtype).eps
    matrix = matrix * size[:, None] * size[None] + jnp.diag(z / w * size * size + eps)
    solver = lanes.solver(matrix)
    pulled = product(slopes, pull)
    push = here((floor - q * r) / r) - pull * primal
    right = product(slopes, q) + objective + z - nu + product(slopes, push) + (floor - z * w) / w
    per_mu = product(slopes, here(1 / r)) + 1 / w  # of a complementarity above `floor`
    columns = jnp.stack([right, per_mu, pulled, jnp.ones_like(w)], 1)
    to_floor, more, along, level = (size[:, None] * solver(size[:, None] * columns)).T

    def direction(target: Array | float) -> State:
        base, push = to_floor + (target - floor) * more, here((target - q * r) / r)
        # The sums remain: two equations for ds and dnu.
        a, b, e = jnp.sum(along), -jnp.sum(level), 1 - jnp.sum(w) - jnp.sum(base)
        c, d = jnp.sum(pull) - product(pulled, along), product(pulled, level)
        f = 1 - jnp.sum(q) - jnp.sum(push) + product(pull, primal) + product(pulled, base)
        det = a * d - b * c
        ds, dnu = (d * e - b * f) / det, (a * f - c * e) / det
        dw = base + along * ds - level * dnu
        dr = here(product(slopes.T, dw) - ds + primal)
        return State(dw, ds, dr, push - pull * dr, (target - z * w - z * dw) / w, dnu)

    def reach(step: State) -> Array:
        """The largest step that keeps w, r, q and z non-negative."""
        x = jnp.concatenate([w, r, q, z])
        dx = jnp.concatenate([step.w, step.r, step.q, step.z])
        return jnp.min(jnp.where(dx < 0, -x / jnp.where(dx < 0, dx, 1), jnp.inf))

    def complementarity(x: State) -> Array:
        return (jnp.sum(here(x.q * x.r)) + product(x.z, x.w)) / terms

    def move(step: State, length: Array) -> State:
        return jax.tree.map(lambda x, dx: x + length * dx, state, step)

    def centred() -> State:
        """Mehrotra's predictor says how far down mu can go."""
        far, mu = direction(0.0), complementarity(state)
        after = complementarity(move(far, jnp.minimum(1, reach(far))))
        return direction(jnp.maximum(mu * jnp.clip((after / mu) ** 3, CENTRING, 1), floor))

    step = direction(floor)
    step = jax.lax.cond(reach(step) < _LONG, centred, lambda: step)
    new = move(step, jnp.minimum(1, 0.995 * reach(step)))
    return dataclasses.replace(new, w=new.w / jnp.sum(new.w))
