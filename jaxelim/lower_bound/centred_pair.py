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
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.lanes import PLAIN, LaneOps
from jaxelim.lower_bound.information import product

_CENTRED = 0.3  # the complementarity mu is this share of what the gap allows
_ROUNDS = 4  # starts: the last one is from uniform weights, with all pieces
_STEPS, _FRESH_STEPS = 12, 60  # Newton steps of one start

_cholesky = partial(jax.lax.linalg.cholesky, symmetrize_input=False)


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


class Instance(NamedTuple):
    """One problem, in coordinates with Phi' Phi = identity."""

    phi: Array  # [K, d] features
    y: Array  # [P, d] directions of the pieces
    idle: Array  # [d] 1 on coordinates that no arm reaches, else 0
    gaps: Array  # [P], positive where live
    live: Array  # [P] bool, at least one
    bonus: Array | None  # [K] c; None: 0
    lanes: LaneOps = PLAIN


def start(arms: Array, pieces: Array) -> Pair:
    """No pair yet: uniform weights; arms [K] and pieces [P] give the shapes, in float64."""
    one = jnp.zeros_like(arms[0]) + 1
    zero = jnp.zeros_like(pieces)
    w = jnp.zeros_like(arms) + 1 / arms.shape[0]
    return Pair(w, jnp.ones_like(arms), zero, zero + 1, one, one, zero + 1, zero, one + 0 * arms)


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


def solve(given: Instance, pair: Pair, goal: Array, pieces: int) -> tuple[Pair, Array, Array]:
    """Solve one run's problem to the relative duality gap `goal` [].

    Newton's matrix takes the `pieces` of least information, the certificate all. Where
    others turn out to bind, another round takes those of then. The last round, and the
    first where there is no pair, starts from the centre with all.

    Args:
        given: the problem.
        pair: of the same pieces at other gaps; `pull` all 0: only its weights count.
        goal: in (0, 1).
        pieces: number of pieces in Newton's matrix.

    Returns:
        The pair; its certified gap, inf where it failed; the number of evaluations of
        the pieces, int32.
    """
    count = given.gaps.shape[0]

    def again(carry):
        n, pair, _, looks = carry
        warm = (jnp.sum(jnp.where(given.live, pair.pull, 0)) > 0) & (n < _ROUNDS - 1)
        found = jax.lax.cond(
            warm,
            lambda: _attempt(given, pair, goal, min(pieces, count), False, _STEPS, looks),
            lambda: _attempt(given, pair, goal, count, True, _FRESH_STEPS, looks),
        )
        return jnp.where(warm, n + 1, _ROUNDS).astype(jnp.int32), *found

    unsolved = lambda carry: (carry[0] < _ROUNDS) & ~(carry[2] <= goal)  # noqa: E731
    first = jnp.int32(0), pair, jnp.full_like(given.gaps[0], jnp.inf), jnp.int32(0)
    return jax.lax.while_loop(unsolved, again, first)[1:]


class _Space(NamedTuple):
    """What the information at any weights is computed from."""

    phi: Array  # [K, d] features
    both: Array  # [K + P, d] features, then directions of the pieces
    eye: Array  # [d, d] the identity
    idle: Array  # [d, d] diagonal
    lanes: LaneOps

    def look(self, w: Array) -> tuple[Array, Array, Array]:
        """Arms [K, d] and directions [P, d] where V_w is the identity, and n_p [P]."""
        arms = self.phi.shape[0]
        design = product(self.phi.T * w, self.phi) + self.idle
        inverse = self.lanes.inverse_factor(design, self.eye, _cholesky)
        x = product(self.both, inverse.T)
        norm = jnp.sum(x[arms:] ** 2, 1)
        return x[:arms], x[arms:], jnp.where(norm > 0, norm, 1)


class _State(NamedTuple):
    """A primal-dual pair with the n pieces in Newton's matrix; see `Pair`."""

    w: Array  # [K]
    q: Array  # [n]
    z: Array  # [K]
    r: Array  # [n]
    s: Array  # []
    nu: Array  # []


class _Seen(NamedTuple):
    """The information at one pair, and its certificates."""

    a: Array  # [K, d] arms in the coordinates where V_w is the identity
    cross: Array  # [K, n] phi_k' V_w^-1 y_p, of the pieces in Newton's matrix
    norm: Array  # [P]
    level: Array  # [P] H_p, inf where not live
    grad: Array  # [K, n] dH_p/dw_k
    inner: Array  # [] relative gap among the pieces in Newton's matrix
    gap: Array  # [] relative gap


class _Matrix(NamedTuple):
    """The n pieces in Newton's matrix."""

    idx: Any  # [n] their indices
    on: Array  # [n] bool: live

    def here(self, x: Array, other: Any) -> Array:
        """x [n] on live pieces, else `other`."""
        return jnp.where(self.on, x, other)


class _Scaled(NamedTuple):
    """A problem in the unit where the optimum is about 1, with the pieces of one start."""

    space: _Space
    pieces: _Matrix
    mu: Array  # [] the complementarity to reach
    g: Array  # [P] gaps
    live: Array  # [P] bool
    c: Array | None  # [K] bonus

    def seen(self, w: Array, q: Array) -> _Seen:
        """The information at weights w [K] and mixture q [n]."""
        g, c, (idx, _) = self.g, self.c, self.pieces
        a, b, norm = self.space.look(w)
        level = jnp.where(self.live, g * g / (2 * norm), jnp.inf)
        cross = product(a, b[idx].T)
        grad = self.pieces.here(g[idx] / norm[idx], 0) ** 2 * cross * cross / 2
        slope, more = product(grad, q) / jnp.sum(q), 0.0
        if c is not None:
            slope, more = slope + c, product(c, w)
        high = jnp.max(slope)
        inner = high / (jnp.min(level[idx]) + more) - 1
        return _Seen(a, cross, norm, level, grad, inner, high / (jnp.min(level) + more) - 1)


def _attempt(
    given: Instance, pair: Pair, goal: Array, nb: int, fresh: bool, steps: int, taken: Array
) -> tuple[Pair, Array, Array]:
    """Newton steps on w_k z_k = q_p r_p = mu and the other optimality conditions."""
    gaps, live, bonus = given.gaps, given.live, given.bonus
    arms, count = given.phi.shape[0], given.y.shape[0]
    both = jnp.concatenate([given.phi, given.y])
    eye = jnp.eye(given.phi.shape[1], dtype=given.phi.dtype)
    space = _Space(given.phi, both, eye, jnp.diag(given.idle), given.lanes)
    mu = _CENTRED * goal / (nb + arms)
    w = (pair.w + 1 / arms) / 2 if fresh else pair.w
    seen = space.look(w) if fresh else None
    norm = pair.norm if seen is None else seen[2]
    level = jnp.where(live, gaps * gaps / (2 * norm), jnp.inf)
    # The pieces of least information.
    idx: Any = jnp.argsort(level)[:nb] if nb < count else np.arange(count)
    pieces = _Matrix(idx, live[idx])
    if seen is None:
        state, scale = _carried(given, pair, pieces, level, mu)
    else:
        state, scale = _central(given, pieces, w, level, *seen)
    unit = gaps / jnp.sqrt(scale), live, None if bonus is None else bonus / scale
    scaled = _Scaled(space, pieces, mu, *unit)

    def body(carry):
        state, at, n = carry
        state = _stepped(scaled, state, at)
        return state, scaled.seen(state.w, state.q), n + 1

    def more(carry):
        _, at, n = carry
        inside = (at.gap > goal) & (at.inner > goal / 2) & (at.gap < jnp.inf)
        return (n <= taken + steps) & inside

    first = state, scaled.seen(state.w, state.q), taken + 1
    (w, q, z, r, s, nu), at, n = jax.lax.while_loop(more, body, first)
    pull = q / jnp.sum(q) * pieces.here(gaps[idx] / at.norm[idx], 0) ** 2 / 2
    put = lambda old, x: jnp.full(count, old, w.dtype).at[idx].set(x)  # noqa: E731
    slope = product(at.cross * at.cross, pull)
    new = Pair(w, z, put(0, q), put(1, r), s, nu, at.norm, put(0, pull), slope)
    return new, jnp.where(jnp.isfinite(at.gap), at.gap, jnp.inf), n


def _dot_bonus(given: Instance, w: Array, scale: Any) -> Any:
    """c . w/scale."""
    return 0.0 if given.bonus is None else product(given.bonus, w) / scale


def _central(
    given: Instance, pieces: _Matrix, w: Array, level: Array, a: Array, b: Array, norm: Array
) -> tuple[_State, Array]:
    """A start from the centre, and the unit of its levels []: no pair is needed.

    Args:
        given: the problem.
        pieces: all of them.
        w: [K] weights.
        level: [P] H_p at w, inf where not live.
        a, b, norm: the result of `_Space.look` at w.
    """
    idx, here = pieces.idx, pieces.here
    scale = jnp.min(level) + _dot_bonus(given, w, 1)
    h = here(level[idx], 1) / scale
    least = jnp.min(jnp.where(pieces.on, h, jnp.inf))
    q = here(1 / (h - least / 2), 0)
    q = q / jnp.sum(q)
    slope = product(
        here(given.gaps[idx] / norm[idx], 0) ** 2 * product(a, b[idx].T) ** 2 / 2, q
    ) / scale  # fmt: skip
    if given.bonus is not None:
        slope = slope + given.bonus / scale
    high = jnp.max(slope)
    short = jnp.maximum(high - 1, 1e-9)
    s, nu = least - jnp.minimum(short, least) / 2, high + jnp.minimum(short, high / 10)
    return _State(w, q, nu - slope, here(h - s, 1), s, nu), scale


def _carried(
    given: Instance, pair: Pair, pieces: _Matrix, level: Array, mu: Array
) -> tuple[_State, Array]:
    """A start from the last pair, and the unit of its levels []; level [P] is at its weights."""
    idx, on, here = pieces.idx, pieces.on, pieces.here
    q = here(2 * pair.pull[idx] * (pair.norm[idx] / here(given.gaps[idx], 1)) ** 2, 0)
    q = q / jnp.sum(q)
    scale = 1 / jnp.sum(q / here(level[idx], 1)) + _dot_bonus(given, pair.w, 1)
    h = here(level[idx], 1) / scale
    known = q > 0  # the others were not in Newton's matrix last time
    r = jnp.where(known, pair.r[idx], jnp.maximum(h - pair.s, 0.1 * mu**0.5))
    r = here(r, 1)
    q = jnp.where(known | ~on, q, mu / r)
    return _State(pair.w, q, pair.z, r, pair.s, pair.nu), scale


class _Newton(NamedTuple):
    """Newton's equations at one state, solved for four right sides."""

    pull: Array  # [n] q/r
    pulled: Array  # [K] sum_p pull_p dH_p/dw_k
    primal: Array  # [n] H_p - s - r_p
    solved: Any  # [4, K] the solves


def _newton(scaled: _Scaled, state: _State, at: _Seen) -> _Newton:
    """Factorise Newton's matrix, of which q, r, s and nu have been eliminated: [K, K]."""
    (w, q, z, r, s, nu), idx, here = state, scaled.pieces.idx, scaled.pieces.here
    a, cross, norm, grad = at.a, at.cross, at.norm, at.grad
    h = here(at.level[idx], 1)
    pull = here(q / r, 0)
    matrix = product(cross * (q * (scaled.g[idx] / norm[idx]) ** 2), cross.T) * product(a, a.T)
    matrix = matrix + product(grad * (pull - 2 * q / h), grad.T)
    size = jax.lax.rsqrt(jnp.diagonal(matrix) + z / w)
    matrix = matrix * size[:, None] * size[None] + jnp.diag(z / w * size * size + 2e-15)
    solver = scaled.space.lanes.solver(matrix, _cholesky)
    pulled = product(grad, pull)
    dual, primal = product(grad, q) + z - nu, here(h - s - r, 0)
    if scaled.c is not None:
        dual = dual + scaled.c
    # The right side for a target t of complementarity is zero + t per_mu.
    zero = dual - z - product(grad, q + pull * primal)
    per_mu = product(grad, here(1 / r, 0)) + 1 / w
    columns = jnp.stack([zero, per_mu, pulled, jnp.ones_like(w)], 1)
    solved = (size[:, None] * solver(size[:, None] * columns)).T
    return _Newton(pull, pulled, primal, solved)


def _stepped(scaled: _Scaled, state: _State, at: _Seen) -> _State:
    """One step; towards a larger mu where the step to `mu` is cut short."""
    (w, q, z, r, s, nu), here = state, scaled.pieces.here
    pull, pulled, primal, solved = _newton(scaled, state, at)
    i0, i1, i2, i3 = solved

    def direction(t):
        base, push = i0 + t * i1, here(t / r - q, 0)
        a11, a12, c1 = jnp.sum(i2), -jnp.sum(i3), 1 - jnp.sum(w) - jnp.sum(base)
        a21, a22 = jnp.sum(pull) - product(pulled, i2), product(pulled, i3)
        c2 = 1 - jnp.sum(q) - jnp.sum(push) + product(pull, primal) + product(pulled, base)
        det = a11 * a22 - a12 * a21
        ds, dnu = (c1 * a22 - a12 * c2) / det, (a11 * c2 - a21 * c1) / det
        dw = base + i2 * ds - i3 * dnu
        dr = here(product(at.grad.T, dw) - ds + primal, 0)
        return dw, push - pull * dr, t / w - z - z / w * dw, dr, ds, dnu

    def reach(x):
        """The largest step that keeps w, q, z and r non-negative."""
        v, dv = jnp.concatenate([w, q, z, r]), jnp.concatenate(x[:4])
        return jnp.min(jnp.where(dv < 0, -v / jnp.where(dv < 0, dv, 1), jnp.inf))

    def centred():
        """Mehrotra's predictor says how far down mu can go."""
        far, terms = direction(0.0), (jnp.sum(scaled.pieces.on) + w.shape[0]).astype(w.dtype)
        length = jnp.minimum(1, reach(far))
        m0 = (product(q, here(r, 0)) + product(w, z)) / terms
        ends = [x + length * dx for x, dx in zip((w, q, z, r), far[:4], strict=True)]
        m1 = (product(ends[1], here(ends[3], 0)) + product(ends[0], ends[2])) / terms
        return direction(jnp.maximum(m0 * jnp.clip((m1 / m0) ** 3, 1e-2, 1), scaled.mu))

    step = direction(scaled.mu)
    step = jax.lax.cond(reach(step) < 0.9, centred, lambda: step)
    length = jnp.minimum(1, 0.995 * reach(step))
    w, q, z, r, s, nu = (x + length * dx for x, dx in zip((w, q, z, r, s, nu), step, strict=True))
    return _State(w / jnp.sum(w), q, z, r, s, nu)
