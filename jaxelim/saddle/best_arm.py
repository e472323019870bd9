"""The optimal allocation of best arm for independent arms, by Newton's method.

Let i be the best arm. For each other arm a, x_a = n_a/n_i is its share of precision,
n_k = w_k/c_k, and u_a = (m_i + x_a m_a)/(1 + x_a). The piece {mu_i <= mu_a} has
information n_i v_a, with

    v_a(x_a) = d(m_i, u_a) + x_a d(m_a, u_a),   v_a'(x_a) = d(m_a, u_a).

The allocation is optimal where all v_a(x_a) are equal to one y and

    sum_a r_a = 1,   r_a = (c_a/c_i) d(m_i, u_a)/d(m_a, u_a).

Then w_i ~ c_i, w_a ~ c_a x_a and H* = y/(c_i + sum_a c_a x_a). (Garivier & Kaufmann
2016, Theorem 5.)

The unknowns are s_a = log x_a and y. Their system is arrow-shaped, so that a step takes
O(K) operations. This is traced code for one run and for lanes; it does nothing on the
host.
"""

import functools
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.lanes import LaneOps, index_like

if TYPE_CHECKING:
    from jaxelim.families.one_parameter import OneParameter

_STEPS = 40  # from one start; most solves take 4 to 12
_CLOSE = 1e-7  # a step that starts with relative errors below this is the last


class ArmWeights(NamedTuple):
    """The optimal allocation of best arm."""

    weights: Array  # [K] w*, on the simplex
    value: Array  # [] min_a H_a(w*) per sample; 0 for a tie, inf if only one arm counts
    log_x: Array  # [K] log x_a, the start of the next solve; 0 at the best arm
    converged: Array  # [] bool: the last step started with relative errors below 1e-7


class _Terms(NamedTuple):
    """The terms of the conditions at some s, 0 where there is no piece."""

    v: Array  # [K] v_a
    rate: Array  # [K] dv_a/ds_a = x_a d(m_a, u_a); 1 where there is no piece
    r: Array  # [K] r_a
    pull: Array  # [K] (dr_a/ds_a)/(dv_a/ds_a)


class _Arms(NamedTuple):
    """The instance of a solve."""

    means: Array  # [K]
    best: Array  # [] mean of the best arm
    gap: Array  # [K] best - mean; 1 where there is no piece
    ratio: Array  # [K] c_a/c_i
    other: Array  # [K] bool: which arms have a piece


def best_arm_weights(
    family: "OneParameter",
    means: Array,
    costs: Array | None = None,
    start: Array | None = None,
    *,
    counted: Array | None = None,
    lanes: LaneOps | None = None,
    steps: int | None = None,
) -> ArmWeights:
    """The allocation w* that maximises min_{a != i} H_a(w), i the arm of largest mean.

    Newton's method; a start from which it does not converge in 40 steps is replaced by a
    fixed one. A lane's result does not depend on other lanes. Not for derivatives.

    Args:
        family: gives d(x, y) and V(y).
        means: [K], float64 for the accuracy above, inside the family's range, both ends included.
        costs: [K] c_k > 0, the weight of one unit of precision; None: 1.
        start: [K] log x of an earlier solve, of any best arm; None: a fixed start.
        counted: [K] bool, the arms that count; others get weight 0. None: all.
        lanes: the primitives; None: the plain form.
        steps: at most this many of Newton's steps, at most 39. None: 80, 40 from each start.

    Returns:
        An `ArmWeights`. Several arms of largest mean share all weight evenly, and the
        value is 0. If one arm counts it has weight 1.
    """
    lanes = LaneOps() if lanes is None else lanes
    counted = jnp.ones(means.shape, bool) if counted is None else _like(means, counted)
    c = jnp.ones_like(means) if costs is None else _like(means, costs)
    best = lanes.argmax(jnp.where(counted, means, -jnp.inf))
    top, c_best = lanes.take(means, best), lanes.take(c, best)
    other = counted & (means < top)
    arms = _Arms(means, top, jnp.where(other, top - means, 1), c / c_best, other)
    tied = counted & ~other
    ties, pieces = lanes.sum(tied), lanes.sum(other)

    most = _furthest(means.dtype)
    even = _even(lanes, arms, pieces)
    if start is None:
        s = even
    else:
        s = start - lanes.take(start, best)
        s = jnp.where(other, jnp.clip(s, -most, most), 0)
    going = (ties == 1) & (pieces > 0)
    close = max(_CLOSE, 4 * float(np.sqrt(np.finfo(means.dtype).eps)))
    s, unsolved = _newton(family, lanes, arms, s, even, going, close, steps or 2 * _STEPS)

    terms = _terms(family, lanes, arms, s)
    largest = jnp.maximum(lanes.max(jnp.where(other, s, -jnp.inf)), 0)
    x = jnp.where(other, jnp.exp(s - largest), 0)
    x = jnp.where(index_like(means) == best, jnp.exp(-largest), x)
    total = lanes.sum(c * x)
    even = tied.astype(means.dtype) / ties.astype(means.dtype)
    several = ties > 1
    weights = jnp.where(several, even, c * x / total)
    least = lanes.min(jnp.where(other, terms.v, jnp.inf))
    value = jnp.where(several, 0, least * (jnp.exp(-largest) / total))
    return ArmWeights(weights, value, s, ~unsolved)


def _like(means: Array, x: Array) -> Array:
    """x [K] or [K, B] in the shape of the means."""
    return jnp.broadcast_to(x.reshape(x.shape + (1,) * (means.ndim - x.ndim)), means.shape)


def _furthest(dtype) -> float:
    """A bound on |s| for which exp(s) stays finite."""
    return 0.98 * float(np.log(np.finfo(dtype).max))


def _even(lanes: LaneOps, arms: _Arms, pieces: Array) -> Array:
    """The solution if the variance were 1 everywhere and all gaps were the least one: s [K].

    Other gaps get the x_a that makes their v_a as large.
    """
    least = lanes.min(jnp.where(arms.other, arms.gap, jnp.inf))
    count = jnp.maximum(pieces, 1).astype(arms.means.dtype)
    share = jnp.square(least / arms.gap) / (1 + jnp.sqrt(count))
    share = jnp.clip(share, np.finfo(share.dtype).tiny, 0.5)
    return jnp.where(arms.other, jnp.log(share) - jnp.log1p(-share), 0)


def _terms(family: "OneParameter", lanes: LaneOps, arms: _Arms, s: Array) -> _Terms:
    x = jnp.exp(s)
    rest = 1 / (1 + x)
    best = jnp.broadcast_to(arms.best, x.shape)
    up, down = arms.gap * (x * rest), arms.gap * rest
    # The divergences are the costly part; XLA would compute them again for each of the terms.
    d_best, d, slope = lanes.materialize(_losses(family), best, up, arms.means, down)
    d = jnp.where(arms.other, d, 1)
    v = d_best + x * d
    pull = arms.ratio * (slope * (down / d)) * (v * rest / d) / d
    here = functools.partial(jnp.where, arms.other)
    return _Terms(here(v, 0), here(x * d, 1), here(arms.ratio * d_best / d, 0), here(pull, 0))


def _losses(family):
    """d(m_i, u), d(m_a, u) and the slope of the latter in u, of u = m_i - up = m_a + down."""

    def of(best: Array, up: Array, mean: Array, down: Array) -> tuple[Array, Array, Array]:
        def loss(mean: Array, by: Array) -> Array:
            return family.loss(family.kind(jnp.ones_like(mean), mean), by)

        d, slope = jax.jvp(lambda by: loss(mean, by), (down,), (jnp.ones_like(down),))
        return loss(best, -up), d, slope

    return of


def _newton(
    family: "OneParameter",
    lanes: LaneOps,
    arms: _Arms,
    s: Array,
    again: Array,
    going: Array,
    close: float,
    steps: int,
) -> tuple[Array, Array]:
    """Take Newton's steps from s, and from `again` if they fail; returns s and what is unsolved."""

    most = _furthest(s.dtype)

    def body(carry):
        i, s, going = carry
        terms = _terms(family, lanes, arms, s)
        short = 1 - lanes.sum(terms.r)
        y = (short + lanes.sum(terms.pull * terms.v)) / lanes.sum(terms.pull)
        step = jnp.clip((y - terms.v) / terms.rate, -1, 1)
        apart = lanes.max(jnp.where(arms.other, jnp.abs(terms.v - y), 0))
        last = (jnp.abs(short) < close) & (apart < close * y)
        moved = jnp.where(arms.other, jnp.clip(s + step, -most, most), 0)
        moved = jnp.where((i == _STEPS - 1) & ~last, again, moved)
        return i + 1, jnp.where(going, moved, s), going & ~last

    def unfinished(carry):
        return jnp.any(carry[2]) & (carry[0] < steps)

    _, s, going = jax.lax.while_loop(unfinished, body, (jnp.int32(0), s, going))
    return s, going
