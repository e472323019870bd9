"""The optimal allocation, with a certificate.

Solves

    H* = max_{w in simplex} min_p H_p(w) + c . w        (c = 0 but in the optimistic form)

as "maximise s subject to H_p(w) + c . w >= s, w >= 0, sum_k w_k = 1". A few projected
first-order steps come first, then a primal-dual interior-point method: Newton steps on
the perturbed optimality conditions, centred by Mehrotra's predictor.

The certificate does not depend on the method. For any mixture q over the pieces and
any weights w,

    H* <= max_k sum_p q_p (dH_p/dw_k (w) + c_k),

since H_p is concave and homogeneous of degree one. The reported gap compares this bound
with min_p H_p(w) + c . w.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxelim.lanes import PLAIN, LaneOps
from jaxelim.lower_bound.information import coordinates, product
from jaxelim.lower_bound.newton import State, newton

Array = jax.Array | np.ndarray


_WARM = 30  # most steps of a warm start, before a start from uniform weights


class Solution(NamedTuple):
    """What `solve` returns. All fields but the last two have the dtype of the arms."""

    allocation: Array  # [K] weights on the simplex
    mixture: Array  # [P] weights over pieces, on the simplex; 0 on pieces that are not valid
    value: Array  # [] min_p H_p(allocation) + bonus . allocation: a lower bound on H*
    gap: Array  # [] relative duality gap: H* <= (1 + gap) value
    iterations: Array  # [] int32 interior-point steps
    converged: Array  # [] bool: gap <= the requested gap


class _Carry(NamedTuple):
    state: State
    info: Any  # information at state.w
    w: jax.Array  # the best certified pair so far
    q: jax.Array
    value: jax.Array
    gap: jax.Array
    iterations: jax.Array


def first_order(where, gaps, valid, bonus, steps: int):
    """Average projected supergradient steps from the uniform allocation; [K] weights."""
    K = bonus.shape[0]
    start = jnp.full(K, 1 / K, bonus.dtype)

    def step(i, carry):
        w, mean = carry
        n = jnp.asarray(i, w.dtype) + 1
        # A share of the uniform allocation keeps V_w regular at every projected point.
        info = where.information(0.9 * w + 0.1 * start, gaps)
        slope = info.gradient[:, jnp.argmin(jnp.where(valid, info.value, jnp.inf))] + bonus
        slope = slope - jnp.mean(slope)
        size = jnp.linalg.norm(slope)
        w = w + slope / jnp.where(size > 0, size, 1) / jnp.sqrt(n)
        with jax.numpy_dtype_promotion("standard"):  # optax divides floats by integers
            w = optax.projections.projection_simplex(w)
        return w, mean + (w - mean) / n

    return jax.lax.fori_loop(0, steps, step, (start, start))[1]


def solve(
    arms,
    theta,
    directions,
    offsets,
    *,
    valid=None,
    bonus=None,
    gap=1e-6,
    max_iterations: int = 100,
    warm: int = 8,
) -> Solution:
    """Maximise over allocations the least information over pieces.

    Pure, for jit and vmap; computes in the dtype of `arms`.

    Args:
        arms: [K, d] features; rows of zeros are allowed, as padding.
        theta: [d] the parameter.
        directions: [P, d], y of the pieces {lambda : y . lambda <= c} of the answer.
        offsets: [P], c of these pieces.
        valid: [P] bool, False on padding; None: all valid.
        bonus: [K] per-arm bonus c of the optimistic form (paper, appendix on sampling
            rules); None: 0.
        gap: relative duality gap to stop at.
        max_iterations: bound on the interior-point steps; about 12 to 30 are needed.
        warm: number of projected first-order steps that come first.

    Returns:
        A `Solution`. H* is 0 where theta lies in a valid piece (a tie), or where the
        features do not span a valid direction. Then value is 0 (bonus apart), gap is
        infinite, converged is False, and all other fields are finite. Where the optimal
        allocation leaves V_w singular, weights stay positive, of the order of the gap.
    """
    dtype = arms.dtype
    K, P = arms.shape[0], directions.shape[0]
    valid = jnp.ones(P, bool) if valid is None else valid
    bonus = jnp.zeros(K, dtype) if bonus is None else bonus
    margin = product(directions, theta) - offsets
    where = coordinates(arms, directions)
    solvable = jnp.all(jnp.where(valid, (margin > 0) & where.spanned, True)) & jnp.any(valid)
    # A solvable problem replaces an unsolvable one, so that a batch stays finite.
    gaps = jnp.where(valid & (margin > 0) & where.spanned, margin, 0)
    return interior_point(where, gaps, bonus, gap, max_iterations, warm, solvable)


def interior_point(where, gaps, bonus, gap, max_iterations: int, warm: int, solvable) -> Solution:
    """Solve from uniform weights, after some first-order steps.

    Args:
        where: `Coordinates` of features and directions, or an `ArmModel`.
        gaps: [P], positive on pieces that the parameter is not in, else 0.
        bonus: [K] c.
        gap: relative duality gap to stop at.
        max_iterations: bound on the interior-point steps.
        warm: number of first-order steps.
        solvable: [] bool; False for a tie.
    """
    K, P, dtype = bonus.shape[0], gaps.shape[0], bonus.dtype
    live = gaps > 0
    live = jnp.where(jnp.any(live), live, True)

    start = first_order(where, gaps, live, bonus, warm) / 2 + 1 / (2 * K)
    found = climb(
        where, gaps, live, bonus, start, jnp.zeros(P, dtype), gap, max_iterations, solvable
    )
    value = jnp.where(solvable, found.value, 0)
    reached = jnp.where(solvable, found.gap, jnp.inf)
    return found._replace(value=value, gap=reached, converged=reached <= gap)


def climb(
    where,
    gaps,
    live,
    bonus,
    weights,
    mixture,
    gap,
    max_iterations: int,
    go: jax.Array | bool = True,
    lanes: LaneOps = PLAIN,
) -> Solution:
    """Run interior-point steps from a given pair (weights, mixture).

    The start is warm where the pair solves a nearby problem. If 30 steps do not solve
    the problem from there, a second attempt starts from uniform weights.

    Args:
        where: `Coordinates` of features and directions, or an `ArmModel`.
        gaps: [P] y . theta - c, or 1 for an `ArmModel`; 0 where not live.
        live: [P] bool, at least one True.
        bonus: [K] c.
        weights: [K] on the simplex, positive.
        mixture: [P] non-negative, of any sum; all zero: unknown.
        gap: relative duality gap to stop at; a pair within it is returned unchanged.
        max_iterations: bound on the steps from one start.
        go: [] bool; False returns the pair unchanged.
        lanes: the primitives, which solve for the steps.
    """
    dtype, go = weights.dtype, jnp.asarray(go)
    K = weights.shape[0]
    terms = (jnp.sum(live) + K).astype(dtype)
    info = where.information(weights, gaps)
    scale = jnp.min(jnp.where(live, info.value + product(bonus, weights), jnp.inf))
    scale = jnp.where(scale > 0, scale, 1)
    gaps, bonus = gaps / jnp.sqrt(scale), bonus / scale
    info = info._replace(value=info.value / scale, gradient=info.gradient / scale)

    def levels(info, w):
        return jnp.where(live, info.value + product(bonus, w), jnp.inf)

    def certificate(info, w, q):
        low = jnp.min(levels(info, w))
        return low, (jnp.max(product(info.gradient, q / jnp.sum(q)) + bonus) - low) / low

    def body(carry: _Carry) -> _Carry:
        # Complementarity far below the gap would only increase rounding errors.
        floor = 0.1 * jnp.maximum(gap, jnp.finfo(dtype).eps) * carry.value / terms
        state = newton(carry.state, carry.info, gaps, live, bonus, floor, lanes=lanes)
        state = state._replace(w=state.w / jnp.sum(state.w))
        info = where.information(state.w, gaps)
        value, reached = certificate(info, state.w, state.q)
        better = reached < carry.gap  # False where a number is not finite
        w, q, value, reached = jax.tree.map(
            lambda new, old: jnp.where(better, new, old),
            (state.w, state.q, value, reached),
            (carry.w, carry.q, carry.value, carry.gap),
        )
        return _Carry(state, info, w, q, value, reached, carry.iterations + 1)

    known = jnp.where(live, mixture, 0)
    warm = jnp.any(known > 0)
    known = jnp.where(warm, known, _even(info.value, live))
    known = known / jnp.sum(known)
    low, reached = certificate(info, weights, known)
    # The further a pair is from the optimum, the further it moves away from the boundary, so
    # that the boundary does not shorten its steps.
    share = jnp.where(warm, jnp.where(reached < 0.5, jnp.maximum(reached, 0), 0.5), 0)
    uniform = live.astype(dtype) / jnp.sum(live).astype(dtype)

    def attempt(carry):
        tries, (w, q, value, reached, iterations) = carry
        again = tries > 0
        start = jnp.where(again, 1 / K, (1 - share) * weights + share / K)
        inside = where.information(start, gaps)
        least = jnp.min(jnp.where(live, inside.value, jnp.inf))
        even = _even(inside.value, live)
        mixed = jnp.where(
            ~again & (share < 0.5), (1 - share) * known + share * uniform, even / jnp.sum(even)
        )
        slope = product(inside.gradient, mixed) + bonus
        most = jnp.max(slope)
        short = jnp.maximum(most - least - product(bonus, start), 4 * jnp.finfo(dtype).eps * most)
        s = least - jnp.minimum(short, least) / 2
        r = jnp.where(live, inside.value - s, 1)
        nu = most + jnp.minimum(short, most / 10)
        nu = jnp.where(nu > 0, nu, 1)
        state = State(start, s, r, mixed, nu - slope, nu)
        # A pair near the boundary can shorten all steps; most solves from the centre take 10 to 15.
        most_steps = jnp.where(warm & ~again, min(_WARM, max_iterations), max_iterations)
        more = lambda c: go & (c.gap > gap) & (c.iterations - iterations < most_steps)  # noqa: E731
        found = jax.lax.while_loop(
            more, body, _Carry(state, inside, w, q, value, reached, iterations)
        )
        return tries + 1, (found.w, found.q, found.value, found.gap, found.iterations)

    best = (weights, known, low, reached, jnp.int32(0))
    unsolved = lambda c: go & (c[1][3] > gap) & (c[0] < jnp.where(warm, 2, 1))  # noqa: E731
    w, q, value, reached, iterations = jax.lax.while_loop(unsolved, attempt, (jnp.int32(0), best))[
        1
    ]
    return Solution(w, q / jnp.sum(q), value * scale, reached, iterations, reached <= gap)


def _even(value, live):
    """Multipliers [P], of any sum, largest at the piece of least information."""
    least = jnp.min(jnp.where(live, value, jnp.inf))
    return jnp.where(live, 1 / jnp.where(live, value - least / 2, 1), 0)
