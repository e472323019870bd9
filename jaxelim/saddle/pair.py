"""Optimal allocations from sample to sample: a certificate first, Newton steps where it fails.

Solves max over w in the simplex of min_p H_p(w) + c . w, H_p = g_p^2/(2 n_p), n_p =
||y_p||^2 in the inverse of V_w, for a sequence of nearby gaps g_p.

A run keeps the whole primal-dual pair, at its own distance mu from complementarity (w z
= q r = mu). The next problem is one or two Newton steps away from there. A start rebuilt
from (w, q) alone takes ten or more.

At fixed w the norms n_p stay. With q'_p = 2 pull_p (n_p/g'_p)^2 in place of q_p, every
product q_p dH_p/dw_k = pull_p (phi_k' V_w^-1 y_p)^2 stays too. So at new gaps g'

    H* <= max_k slope_k / sum_p q'_p + c_k,   slope_k = sum_p pull_p (phi_k' V_w^-1 y_p)^2,

which costs O(pieces + arms) and touches no matrix. Arrays of one run are [K, d], [P, d],
[K], [P]; only `certificate` takes lanes too.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.evidence.derivatives import Crossed, product
from jaxelim.evidence.gaussian import HalfSpaceEvidence, Standard
from jaxelim.lanes import PLAIN, LaneOps
from jaxelim.saddle.newton import State, newton

_CENTRED = 0.3  # the complementarity mu is this share of what the gap allows
_ROUNDS = 4  # starts: the last one is from uniform weights, with all pieces
_STEPS, _FRESH_STEPS = 12, 60  # Newton steps of one start


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Pair:
    """A primal-dual pair, scaled so that the optimum is about 1, and what certifies it later."""

    w: Array  # [K] allocation
    z: Array  # [K] multipliers of w >= 0
    q: Array  # [P] mixture; 0 where a piece was not in Newton's matrix
    r: Array  # [P] slack of H_p >= s
    s: Array  # [] level
    nu: Array  # [] multiplier of sum w = 1
    norm: Array  # [P] n_p at w
    pull: Array  # [P] q_p (g_p/n_p)^2/2, not scaled; all 0: there is no pair
    slope: Array  # [K] sum_p pull_p (phi_k' V_w^-1 y_p)^2


def start(arms: Array, pieces: Array) -> Pair:
    """No pair yet: uniform weights; arms [K] and pieces [P] give the shapes, in float64."""
    unit = jnp.zeros_like(arms[0]) + 1
    zero = jnp.zeros_like(pieces)
    w = jnp.zeros_like(arms) + 1 / arms.shape[0]
    return Pair(w, jnp.ones_like(arms), zero, zero + 1, unit, unit, zero + 1, zero, unit + 0 * arms)


def certificate(
    lanes: LaneOps, pair: Pair, gaps: Array, live: Array, bonus: Array | None = None
) -> Array:
    """The relative gap of an old pair at new gaps of the same pieces: []; inf without a pair.

    Pieces that have been eliminated since drop out of the sum.
    """
    ratio = pair.norm / jnp.where(live, gaps * gaps, 1)
    top = lanes.max(jnp.where(live, ratio, 0))
    mass = lanes.sum(jnp.where(live, pair.pull * pair.norm * ratio, 0))
    known = mass > 0
    mass = jnp.where(known, mass, 1)
    if bonus is None:
        reached = lanes.max(pair.slope) * top / mass - 1
    else:
        low = 1 / (2 * jnp.where(top > 0, top, 1)) + lanes.sum(bonus * pair.w)
        reached = lanes.max(pair.slope / (2 * mass) + bonus) / low - 1
    return jnp.where(known, reached, jnp.inf)


class SaddleProblem(NamedTuple):
    """One problem of one run."""

    evidence: HalfSpaceEvidence  # gaps are positive where live
    live: Array  # [P] bool, at least one
    bonus: Array | None  # [K] c; None: 0
    lanes: LaneOps = PLAIN


def solve(
    problem: SaddleProblem, pair: Pair, goal: Array, pieces: int
) -> tuple[Pair, Array, Array]:
    """Solve one run's problem to the relative duality gap `goal` [].

    Newton's matrix takes the `pieces` of least information, the certificate all. Where
    others turn out to bind, another round takes those of then. The last round, and the
    first where there is no pair, starts from the centre with all.

    Args:
        problem: what is maximised.
        pair: of the same pieces at other gaps; `pull` all 0: only its weights count.
        goal: in (0, 1).
        pieces: number of pieces in Newton's matrix.

    Returns:
        The pair; its certified gap, inf where it failed; the number of evaluations of
        the pieces, int32.
    """
    count = problem.live.shape[0]

    def again(carry):
        n, pair, _, looks = carry
        warm = (jnp.sum(jnp.where(problem.live, pair.pull, 0)) > 0) & (n < _ROUNDS - 1)
        attempted = jax.lax.cond(
            warm,
            lambda: _attempt(problem, pair, goal, min(pieces, count), False, _STEPS, looks),
            lambda: _attempt(problem, pair, goal, count, True, _FRESH_STEPS, looks),
        )
        return jnp.where(warm, n + 1, _ROUNDS).astype(jnp.int32), *attempted

    def unsolved(carry):
        return (carry[0] < _ROUNDS) & ~(carry[2] <= goal)

    first = jnp.int32(0), pair, jnp.full_like(goal, jnp.inf), jnp.int32(0)
    return jax.lax.while_loop(unsolved, again, first)[1:]


class _Seen(NamedTuple):
    """The information at one pair, and its certificates."""

    at: Crossed  # of the n pieces in Newton's matrix
    norm: Array  # [P]
    inner: Array  # [] relative gap among the pieces in Newton's matrix
    gap: Array  # [] relative gap


class _Matrix(NamedTuple):
    """The n pieces in Newton's matrix."""

    idx: Any  # [n] their indices
    on: Array  # [n] bool: live

    def here(self, x: Array, other: Any) -> Array:
        """x [n] on live pieces, else `other`."""
        return jnp.where(self.on, x, other)


def _attempt(
    problem: SaddleProblem, pair: Pair, goal: Array, nb: int, fresh: bool, steps: int, taken: Array
) -> tuple[Pair, Array, Array]:
    """Newton steps on w_k z_k = q_p r_p = mu and the other optimality conditions."""
    gaps, live, arms = problem.evidence.gaps, problem.live, pair.w.shape[0]
    bonus = jnp.zeros_like(pair.w) if problem.bonus is None else problem.bonus
    mu = _CENTRED * goal / (nb + arms)
    w = (pair.w + 1 / arms) / 2 if fresh else pair.w
    look = problem.evidence.weighted(w).standard(problem.lanes) if fresh else None
    norm = pair.norm if look is None else look.norm
    level = jnp.where(live, gaps * gaps / (2 * norm), jnp.inf)
    # The pieces of least information.
    idx: Any = jnp.argsort(level)[:nb] if nb < live.shape[0] else np.arange(live.shape[0])
    pieces = _Matrix(idx, live[idx])
    if look is None:
        state, scale = _carried(pieces, pair, gaps, bonus, level, mu)
    else:
        state, scale = _central(pieces, w, gaps, bonus, level, look)
    unit, bonus = gaps / jnp.sqrt(scale), bonus / scale

    def seen(w: Array, q: Array) -> _Seen:
        """The information at weights w [K] and mixture q [n]."""
        look = problem.evidence.weighted(w).standard(problem.lanes)
        level = jnp.where(live, unit * unit / (2 * look.norm), jnp.inf)
        at = look.derivatives(pieces.here(unit[idx], 0), idx)
        high, more = jnp.max(product(at.gradient, q) / jnp.sum(q) + bonus), product(bonus, w)
        inner = high / (jnp.min(level[idx]) + more) - 1
        return _Seen(at, look.norm, inner, high / (jnp.min(level) + more) - 1)

    def body(carry):
        state, last, n = carry
        state = newton(state, last.at, pieces.on, bonus, mu, lanes=problem.lanes, near=True)
        return state, seen(state.w, state.q), n + 1

    def more(carry):
        _, last, n = carry
        inside = (last.gap > goal) & (last.inner > goal / 2) & (last.gap < jnp.inf)
        return (n <= taken + steps) & inside

    first = state, seen(state.w, state.q), taken + 1
    (w, s, r, q, z, nu), last, n = jax.lax.while_loop(more, body, first)
    pull = q / jnp.sum(q) * pieces.here(gaps[idx] / last.norm[idx], 0) ** 2 / 2

    def put(old: float, x: Array) -> Array:
        return jnp.full(live.shape, old, w.dtype).at[idx].set(x)

    slope = product(last.at.cross * last.at.cross, pull)
    new = Pair(w, z, put(0, q), put(1, r), s, nu, last.norm, put(0, pull), slope)
    return new, jnp.where(jnp.isfinite(last.gap), last.gap, jnp.inf), n


def _central(
    pieces: _Matrix, w: Array, gaps: Array, bonus: Array, level: Array, look: Standard
) -> tuple[State, Array]:
    """A start from the centre, and the unit of its levels []: no pair is needed.

    Args:
        pieces: all of them.
        w: [K] weights.
        gaps: [P].
        bonus: [K] c.
        level: [P] H_p at w, inf where not live.
        look: what is seen at w.
    """
    idx, here = pieces.idx, pieces.here
    scale = jnp.min(level) + product(bonus, w)
    h = here(level[idx], 1) / scale
    least = jnp.min(jnp.where(pieces.on, h, jnp.inf))
    q = here(1 / (h - least / 2), 0)
    q = q / jnp.sum(q)
    at = look.derivatives(here(gaps[idx], 0), idx)
    slope = (product(at.gradient, q) + bonus) / scale
    high = jnp.max(slope)
    short = jnp.maximum(high - 1, 1e-9)
    s, nu = least - jnp.minimum(short, least) / 2, high + jnp.minimum(short, high / 10)
    return State(w, s, here(h - s, 1), q, nu - slope, nu), scale


def _carried(
    pieces: _Matrix, pair: Pair, gaps: Array, bonus: Array, level: Array, mu: Array
) -> tuple[State, Array]:
    """A start from the last pair, and the unit of its levels []; level [P] is at its weights."""
    idx, on, here = pieces.idx, pieces.on, pieces.here
    q = here(2 * pair.pull[idx] * (pair.norm[idx] / here(gaps[idx], 1)) ** 2, 0)
    q = q / jnp.sum(q)
    scale = 1 / jnp.sum(q / here(level[idx], 1)) + product(bonus, pair.w)
    h = here(level[idx], 1) / scale
    known = q > 0  # the others were not in Newton's matrix last time
    r = jnp.where(known, pair.r[idx], jnp.maximum(h - pair.s, 0.1 * mu**0.5))
    r = here(r, 1)
    q = jnp.where(known | ~on, q, mu / r)
    return State(pair.w, pair.s, r, q, pair.z, pair.nu), scale
