"""The optimal allocation, with a certificate.

Solves

    H* = max_{w in simplex} min_p H_p(w) + c . w        (c = 0 but in the optimistic form)

as "maximise s subject to H_p(w) + c . w >= s, w >= 0, sum_k w_k = 1". A few projected
first-order steps come first, then a primal-dual interior-point method: Newton steps on
the perturbed optimality conditions, centred by Mehrotra's predictor. All that it reads is
`Evidence`: how far the truth lies outside each piece, and H_p at weights.

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

from jaxelim.contracts.views import Derivatives, Evidence
from jaxelim.evidence.derivatives import product
from jaxelim.lanes import PLAIN, LaneOps
from jaxelim.saddle.newton import State, newton

Array = jax.Array | np.ndarray


_WARM = 30  # most steps of a warm start, before a start from uniform weights


class Solution(NamedTuple):
    """What `solve` returns. All fields but the last two have the dtype of the bonus."""

    allocation: Array  # [K] weights on the simplex
    mixture: Array  # [P] weights over pieces, on the simplex; 0 on pieces that are not valid
    value: Array  # [] min_p H_p(allocation) + bonus . allocation: a lower bound on H*
    gap: Array  # [] relative duality gap: H* <= (1 + gap) value
    iterations: Array  # [] int32 interior-point steps
    converged: Array  # [] bool: gap <= the requested gap


class _Carry(NamedTuple):
    state: State
    at: Derivatives  # at state.w, in units of a first value
    w: jax.Array  # the best certified pair so far
    q: jax.Array
    value: jax.Array
    gap: jax.Array
    iterations: jax.Array


def _first_order(evidence: Evidence, live, bonus, steps: int):
    """Average projected supergradient steps from the uniform allocation; [K] weights."""
    import optax  # it takes longer to import than all of JAX's linear algebra

    K = bonus.shape[0]
    start = jnp.full(K, 1 / K, bonus.dtype)

    def step(i, carry):
        w, mean = carry
        n = jnp.asarray(i, w.dtype) + 1
        # A share of the uniform allocation keeps V_w regular at every projected point.
        at = evidence.weighted(0.9 * w + 0.1 * start).derivatives()
        slope = at.gradient[:, jnp.argmin(jnp.where(live, at.value, jnp.inf))] + bonus
        slope = slope - jnp.mean(slope)
        size = jnp.linalg.norm(slope)
        w = w + slope / jnp.where(size > 0, size, 1) / jnp.sqrt(n)
        with jax.numpy_dtype_promotion("standard"):  # optax divides floats by integers
            w = optax.projections.projection_simplex(w)
        return w, mean + (w - mean) / n

    return jax.lax.fori_loop(0, steps, step, (start, start))[1]


def solve(
    evidence: Evidence, valid, bonus, gap, max_iterations: int = 100, warm: int = 8
) -> Solution:
    """Maximise over allocations the least information over pieces.

    Pure, for jit and vmap; from uniform weights, after some first-order steps.

    Args:
        evidence: about the P pieces of one instance; see `Family.truth`.
        valid: [P] bool, False on padding.
        bonus: [K] per-arm bonus c of the optimistic form (paper, appendix on sampling
            rules).
        gap: relative duality gap to stop at.
        max_iterations: bound on the interior-point steps; about 12 to 30 are needed.
        warm: number of projected first-order steps that come first.

    Returns:
        A `Solution`. H* is 0 where the truth lies in a valid piece (a tie), or where no arm
        tells it from one. Then value is 0 (bonus apart), gap is infinite, converged is
        False, and all other fields are finite. Where the optimal allocation leaves V_w
        singular, weights stay positive, of the order of the gap.
    """
    K, dtype = bonus.shape[0], bonus.dtype
    ahead = evidence.outside() > 0
    solvable = jnp.all(ahead | ~valid) & jnp.any(valid)
    # A solvable problem replaces an unsolvable one, so that a batch stays finite.
    live = valid & ahead
    live = jnp.tile(jnp.where(jnp.any(live), live, True), evidence.parts)
    start = _first_order(evidence, live, bonus, warm) / 2 + 1 / (2 * K)
    unknown = jnp.zeros(live.shape, dtype)
    end = climb(evidence, live, bonus, start, unknown, gap, max_iterations, solvable)
    value = jnp.where(solvable, end.value, 0)
    reached = jnp.where(solvable, end.gap, jnp.inf)
    mixture = jnp.sum(end.mixture.reshape(evidence.parts, -1), 0)
    return end._replace(mixture=mixture, value=value, gap=reached, converged=reached <= gap)


def climb(
    evidence: Evidence,
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
        evidence: of Q pieces, each in its `parts`.
        live: [parts Q] bool, at least one True.
        bonus: [K] c.
        weights: [K] on the simplex, positive.
        mixture: [parts Q] non-negative, of any sum; all zero: unknown.
        gap: relative duality gap to stop at; a pair within it is returned unchanged.
        max_iterations: bound on the steps from one start.
        go: [] bool; False returns the pair unchanged.
        lanes: the primitives, which solve for the steps.
    """
    dtype, go = weights.dtype, jnp.asarray(go)
    K = weights.shape[0]
    terms = (jnp.sum(live) + K).astype(dtype)
    first = evidence.weighted(weights).derivatives()
    scale = jnp.min(jnp.where(live, first.value + product(bonus, weights), jnp.inf))
    scale = jnp.where(scale > 0, scale, 1)
    first, bonus = first.over(scale), bonus / scale

    def under(w) -> Any:
        return evidence.weighted(w).derivatives().over(scale)

    def certificate(at, w, q):
        low = jnp.min(jnp.where(live, at.value + product(bonus, w), jnp.inf))
        return low, (jnp.max(product(at.gradient, q / jnp.sum(q)) + bonus) - low) / low

    def body(carry: _Carry) -> _Carry:
        # Complementarity far below the gap would only increase rounding errors.
        floor = 0.1 * jnp.maximum(gap, jnp.finfo(dtype).eps) * carry.value / terms
        state = newton(carry.state, carry.at, live, bonus, floor, lanes=lanes)
        at = under(state.w)
        value, reached = certificate(at, state.w, state.q)
        better = reached < carry.gap  # False where a number is not finite
        w, q, value, reached = jax.tree.map(
            lambda new, old: jnp.where(better, new, old),
            (state.w, state.q, value, reached),
            (carry.w, carry.q, carry.value, carry.gap),
        )
        return _Carry(state, at, w, q, value, reached, carry.iterations + 1)

    known = jnp.where(live, mixture, 0)
    warm = jnp.any(known > 0)
    known = jnp.where(warm, known, _even(first.value, live))
    known = known / jnp.sum(known)
    low, reached = certificate(first, weights, known)
    # The further a pair is from the optimum, the further it moves away from the boundary, so
    # that the boundary does not shorten its steps.
    share = jnp.where(warm, jnp.where(reached < 0.5, jnp.maximum(reached, 0), 0.5), 0)
    uniform = live.astype(dtype) / jnp.sum(live).astype(dtype)

    def attempt(carry):
        tries, (w, q, value, reached, iterations) = carry
        again = tries > 0
        start = jnp.where(again, 1 / K, (1 - share) * weights + share / K)
        inside = under(start)
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

        def more(carry: _Carry) -> jax.Array:
            return go & (carry.gap > gap) & (carry.iterations - iterations < most_steps)

        first = _Carry(state, inside, w, q, value, reached, iterations)
        last = jax.lax.while_loop(more, body, first)
        return tries + 1, (last.w, last.q, last.value, last.gap, last.iterations)

    best = (weights, known, low, reached, jnp.int32(0))

    def unsolved(carry):
        tries, (_, _, _, reached, _) = carry
        return go & (reached > gap) & (tries < jnp.where(warm, 2, 1))

    _, best = jax.lax.while_loop(unsolved, attempt, (jnp.int32(0), best))
    w, q, value, reached, iterations = best
    return Solution(w, q / jnp.sum(q), value * scale, reached, iterations, reached <= gap)


def _even(value, live):
    """Multipliers [P], of any sum, largest at the piece of least information."""
    least = jnp.min(jnp.where(live, value, jnp.inf))
    return jnp.where(live, 1 / jnp.where(live, value - least / 2, 1), 0)
