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
O(K) operations. This is traced code for one run and for lanes.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.lanes import PLAIN, LaneOps, index_like

_STEPS = 40  # from one start; most solves take 4 to 12
_ROOT_STEPS = 30  # 2 or 3 are taken from the solution of a sample before, some 6 from any u
_CLOSE = 1e-7  # a step that starts with relative errors below this is the last; it squares them


class ArmWeights(NamedTuple):
    """The optimal allocation of best arm."""

    weights: Array  # [K] w*, on the simplex
    value: Array  # [] min_a H_a(w*) per sample; 0 for a tie, inf if only one arm counts
    log_x: Array  # [K] log x_a, the start of the next solve; 0 at the best arm
    converged: Array  # [] bool: the last step started with relative errors below 1e-7


def best_arm_weights(
    family: Any, means: Array, costs: Array | None, start: Array | None,
    counted: Array, lanes: LaneOps = PLAIN, steps: int | None = None,
) -> ArmWeights:  # fmt: skip
    """The allocation w* that maximises min_{a != i} H_a(w), i the arm of largest mean.

    Newton's method; a start from which it does not converge in 40 steps is replaced by a
    fixed one. Several arms of largest mean share all weight evenly, and the value is 0. If one arm
    counts it has weight 1. A lane's result does not depend on other lanes. Not for derivatives.

    Args:
        family: a `OneParameter`; gives d(x, y) and V(y).
        means: [K], float64 for the accuracy above, inside the family's range, both ends included.
        costs: [K] c_k > 0, the weight of one unit of precision; None: 1.
        start: [K] log x of an earlier solve, of any best arm; None: a fixed start.
        counted: [K] bool, the arms that count; others get weight 0.
        steps: at most this many of Newton's steps, at most 39. None: 80, 40 from each start.
    """
    c = jnp.ones_like(means)
    if costs is not None:
        c = jnp.broadcast_to(costs.reshape(costs.shape + (1,) * (means.ndim - costs.ndim)), c.shape)
    best = lanes.argmax(jnp.where(counted, means, -jnp.inf))
    top, c_best = lanes.take(means, best), lanes.take(c, best)
    other = counted & (means < top)
    gap, ratio = jnp.where(other, top - means, 1), c / c_best
    tied = counted & ~other
    ties, pieces = lanes.sum(tied), lanes.sum(other)
    most = 0.98 * float(np.log(np.finfo(means.dtype).max))  # exp(s) is finite up to here

    def loss(mean, by):
        return family.loss(family.kind(jnp.ones_like(mean), mean), by)

    def losses(best, up, mean, down):
        """d(m_i, u), d(m_a, u) and the slope of the latter in u, of u = m_i - up = m_a + down."""
        d, slope = jax.jvp(lambda by: loss(mean, by), (down,), (jnp.ones_like(down),))
        return loss(best, -up), d, slope

    def terms(s):
        """v_a, dv_a/ds_a, r_a and (dr_a/ds_a)/(dv_a/ds_a) at s; 0, 1, 0, 0 without a piece."""
        x = jnp.exp(s)
        rest = 1 / (1 + x)
        up, down = gap * (x * rest), gap * rest
        # The divergences are the costly part; XLA would compute them again for each of the terms.
        wide = jnp.broadcast_to(top, x.shape)
        d_best, d, slope = lanes.materialize(losses, wide, up, means, down)
        d = jnp.where(other, d, 1)
        v = d_best + x * d
        pull = ratio * (slope * (down / d)) * (v * rest / d) / d
        here = functools.partial(jnp.where, other)
        return here(v, 0), here(x * d, 1), here(ratio * d_best / d, 0), here(pull, 0)

    def body(carry):
        i, s, going = carry
        v, rate, r, pull = terms(s)
        short = 1 - lanes.sum(r)
        y = (short + lanes.sum(pull * v)) / lanes.sum(pull)
        step = jnp.clip((y - v) / rate, -1, 1)
        apart = lanes.max(jnp.where(other, jnp.abs(v - y), 0))
        last = (jnp.abs(short) < close) & (apart < close * y)
        moved = jnp.where(other, jnp.clip(s + step, -most, most), 0)
        moved = jnp.where((i == _STEPS - 1) & ~last, even, moved)
        return i + 1, jnp.where(going, moved, s), going & ~last

    def unfinished(carry):
        return jnp.any(carry[2]) & (carry[0] < (steps or 2 * _STEPS))

    # The solution if the variance were 1 everywhere and all gaps were the least one; other gaps
    # get the x_a that makes their v_a as large.
    least = lanes.min(jnp.where(other, gap, jnp.inf))
    share = jnp.square(least / gap) / (1 + jnp.sqrt(jnp.maximum(pieces, 1).astype(means.dtype)))
    share = jnp.clip(share, np.finfo(share.dtype).tiny, 0.5)
    s = even = jnp.where(other, jnp.log(share) - jnp.log1p(-share), 0)
    if start is not None:
        s = jnp.where(other, jnp.clip(start - lanes.take(start, best), -most, most), 0)
    going = (ties == 1) & (pieces > 0)
    close = max(_CLOSE, 4 * float(np.sqrt(np.finfo(means.dtype).eps)))
    _, s, unsolved = jax.lax.while_loop(unfinished, body, (jnp.int32(0), s, going))

    v = terms(s)[0]
    largest = jnp.maximum(lanes.max(jnp.where(other, s, -jnp.inf)), 0)
    x = jnp.where(other, jnp.exp(s - largest), 0)
    x = jnp.where(index_like(means) == best, jnp.exp(-largest), x)
    total = lanes.sum(c * x)
    several, shared = ties > 1, tied.astype(means.dtype) / ties.astype(means.dtype)
    weights = jnp.where(several, shared, c * x / total)
    value = lanes.min(jnp.where(other, v, jnp.inf)) * (jnp.exp(-largest) / total)
    value = jnp.where(several, 0, value)
    return ArmWeights(weights, value, s, ~unsolved)


def gaussian_weights(
    lanes: LaneOps, means: Array, best: Array, counted: Array, costs: Array | None, start: Array
) -> tuple[Array, Array]:
    """The same for independent Gaussian arms: one scalar root.

    With a = ((m_i - m_a)/least gap)^2 the ratios

        z_a = n_a/n_i = 1/(a u - 1)

    make all H_a equal. The allocation is optimal where S(u) = sum_a (c_a/c_i) z_a^2 = 1.
    S^(-1/2) is increasing and concave in u > 1, as in secular equations. So Newton's method
    for it lands left of the root from any u, and climbs to it from there.

    The relative duality gap is below 1e-12. A lane's result does not depend on other lanes.

    `best` [] int32 is a counted arm of largest mean, `start` [] u of an earlier solve, or 0: from
    the least u. Returns w* [K], and u. Ties and an arm alone are as there.
    """
    ratio = None if costs is None else costs / lanes.take(costs, best)
    gap = lanes.take(means, best) - means
    here = index_like(means) == best
    other = counted & ~here
    square = jnp.where(other, gap * gap, jnp.inf)
    low = lanes.min(square)
    tied, alone = low == 0, low == jnp.inf
    going = ~(tied | alone)
    scaled = lanes.materialize(lambda square, low: square / low, square, jnp.where(going, low, 1))
    # At the least gaps z_a = 1/(u - 1), and one term of S is at most 1.
    least = jnp.asarray(2.0, means.dtype)
    if ratio is not None:
        least = 1 + jnp.sqrt(lanes.max(jnp.where(square <= low, ratio, 0)))

    def per_cost(x):
        return x if ratio is None else x * ratio

    def body(carry):
        i, u, going = carry
        z = 1 / (scaled * u - 1)
        squares = z * z
        s, c = lanes.sum(per_cost(squares)), lanes.sum(per_cost(squares * z))
        last = jnp.abs(s - 1) < _CLOSE
        moved = jnp.maximum(u + u * (s * jnp.sqrt(s) - s) / (s + c), least)
        return i + 1, jnp.where(going, moved, u), going & ~last

    def more(carry):
        return (carry[0] < _ROOT_STEPS) & jnp.any(carry[2])

    _, u, _ = jax.lax.while_loop(more, body, (jnp.int32(0), jnp.maximum(start, least), going))
    z = per_cost(1 / (scaled * u - 1))
    equal = (counted & (gap * gap == 0)).astype(means.dtype)
    share = jnp.where(tied, equal, jnp.where(here, 1, z))
    return share / lanes.sum(share), u
