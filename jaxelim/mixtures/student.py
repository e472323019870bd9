"""Mixtures of Gaussian arms of unknown variance.

With a right Haar prior on the standard deviation and a prior N(0, 1/c) on the effect, arm k
at a tested mean u has

    log M_j(u) = log(c/(N + c))/2 + (N/2) log(Q/(Q - N^2 (m - u)^2/(N + c))),

Q = sum (x - u)^2 = N (v + (m - u)^2). It is a function of z = (m - u)^2/v that rises with z:

    (N/2) (log(1 + z) - log(1 + z c/(N + c))) - log(1 + N/c)/2.

M_k is a martingale with respect to its scale-free statistics alone, so products over arms
with adaptive counts are none. The supremum of log M_k over N is at most Exp(1) in law, and
arms are independent: the sum y of two exceeds a number with probability (1 + y) e^-y at most.
So a pair has the e-value e^y/(1 + y), y the least of log M_a(u) + log M_b(u) over u.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.mixtures.grid import Grid
from jaxelim.numerics.logarithm import log1p

CELLS = 8
"""Cells of a round on each of two ranges. A round keeps those that may hold the least point."""
ROUNDS = 24
"""Most rounds. It takes about 8."""
ENOUGH = 1e-11
"""The gap between the bounds at which a search ends, relative to 1 + y."""
_MOST = 1e75
"""Largest distance over the standard deviation; its powers are finite."""


def components(counts: Array, ratios: Array, grid: Grid) -> Array:
    """log M_j where |m - u|/sqrt(v) is `ratios`, at least 0: [..] -> [.., J]."""
    c, n, r = grid.over(counts, jnp.minimum(ratios, _MOST))
    z = r * r
    return (n * (log1p(z) - log1p(z * (c / (n + c)))) - log1p(n / c)) / 2


def log_arm(counts: Array, ratios: Array, grid: Grid) -> Array:
    """log mean_j M_j: [..]; it rises with the ratio."""
    return grid.log_mean_exp(components(counts, ratios, grid))


def converted(y: Array) -> Array:
    """log e of a pair, y - log(1 + y), from the sum y of two arms; y itself below 0."""
    return y - log1p(jnp.maximum(y, 0))


def _concavity(counts: Array, far: Array, grid: Grid) -> Array:
    """An upper bound on minus the second derivative of `log_arm` by x, the ratio being far x.

    log(1 + r^2) has a second derivative of at least -1/4, and log(1 + a r^2) one of at most
    2 a. A logarithm of a sum of exponentials adds to it.
    """
    most = max(grid.strengths)
    return far * far * (counts / 2) * (0.25 + 2 * most / (counts + most))


def pair(grid: Grid, counts: Array, far: Array) -> Array:
    """A lower bound on y, the least of log M_a + log M_b over a common mean: [Q].

    Equal to it up to `ENOUGH` where y is above 0. The common mean is m_b + x (m_a - m_b), x
    in [0, 1]. With C the bound on concavity, f(x) + C (x - s)(x - t)/2 is convex on a cell
    [s, t] and at most f, so where its tangents at s and t meet is a lower bound on f; and so is
    log M_a at t plus log M_b at s. There may be two minima: the search has two ranges.

    Args:
        grid: strengths.
        counts: [2, Q], of arms a and b.
        far: (m_a - m_b)/sqrt(v) of both arms, above 0: [2, Q].
    """
    far = jnp.minimum(far, _MOST)
    bend = jnp.sum(_concavity(counts, far, grid), 0)[..., None, None]

    def parts(x: Array) -> Array:
        """log M_a and log M_b at x [Q, 2, n]: [2, Q, 2, n]."""
        n, r = (
            jnp.broadcast_to(values[..., None, None], (2, *x.shape)) for values in (counts, far)
        )
        return log_arm(n, r * jnp.stack([1 - x, x]), grid)

    def bounds(x: Array) -> tuple[Array, Array]:
        """The lower bounds of cells between nodes x [Q, 2, n + 1], and f at the nodes."""
        both, slopes = jax.jvp(parts, (x,), (jnp.ones_like(x),))
        value, slope = both[0] + both[1], slopes[0] + slopes[1]
        monotone = both[0][..., 1:] + both[1][..., :-1]  # log M_a falls, log M_b rises
        width = x[..., 1:] - x[..., :-1]
        fall = (slope[..., :-1] - bend * width / 2) * width
        rise = (slope[..., 1:] + bend * width / 2) * width
        left, right = value[..., :-1], value[..., 1:]
        total = fall - rise
        share = (right - left - rise) / jnp.where(total < 0, total, -1)
        meet = left + fall * jnp.clip(jnp.where(total < 0, share, 0), 0, 1)
        meet = jnp.minimum(meet, jnp.minimum(left, right))
        return jnp.maximum(meet, monotone), value

    def nodes(low: Array, high: Array) -> Array:
        shares = np.reshape(np.arange(CELLS + 1) / CELLS, (1,) * low.ndim + (-1,))
        return low[..., None] + (high - low)[..., None] * jnp.asarray(shares, far.dtype)

    def body(carry):
        i, low, high, _, _ = carry
        x = nodes(low, high)
        lower, value = bounds(x)
        best = jnp.min(value, (1, 2))
        least = jnp.min(lower, (1, 2))
        kept = lower <= best[..., None, None]
        first, last = jnp.argmax(kept, -1), CELLS - 1 - jnp.argmax(kept[..., ::-1], -1)
        some = jnp.any(kept, -1)
        new_low = _taken(x, jnp.where(some, first, 0))
        new_high = jnp.where(some, _taken(x, last + 1), new_low)
        going = (best - least > ENOUGH * (1 + jnp.abs(best))) & (best > 0)
        keep = going[..., None]
        return i + 1, jnp.where(keep, new_low, low), jnp.where(keep, new_high, high), least, going

    def unfinished(carry):
        return jnp.any(carry[-1]) & (carry[0] < ROUNDS)

    zero = jnp.zeros_like(far[0])[..., None]
    x = nodes(zero, zero + 1)
    split = _between(jnp.sum(parts(x), 0)[:, 0], x[:, 0])
    low = jnp.stack([jnp.zeros_like(split), split], -1)
    high = jnp.stack([split, jnp.ones_like(split)], -1)
    none = jnp.full_like(split, -jnp.inf)
    carry = jnp.int32(0), low, high, none, jnp.ones_like(split, bool)
    return jax.lax.while_loop(unfinished, body, carry)[3]


def _between(value: Array, x: Array) -> Array:
    """The inner node highest above the least nodes on both sides, or the middle: [Q].

    Args:
        value, x: f at the nodes, and the nodes: [Q, n + 1].
    """
    left = jax.lax.cummin(value, axis=1)[:, :-2]
    right = jax.lax.cummin(value, axis=1, reverse=True)[:, 2:]
    height = value[:, 1:-1] - jnp.maximum(left, right)
    at = jnp.where(jnp.max(height, 1) > 0, jnp.argmax(height, 1), height.shape[1] // 2)
    return jnp.take_along_axis(x[:, 1:-1], at[:, None], 1)[:, 0]


def pair_above(grid: Grid, counts: Array, far: Array) -> Array:
    """An upper bound on y of `pair`: the least at three common means; arguments as there."""
    far = jnp.minimum(far, _MOST)
    weight = counts * far * far
    x = weight[0] / (weight[0] + weight[1])
    x = jnp.stack([jnp.zeros_like(x), x, jnp.ones_like(x)])
    n, r = (jnp.broadcast_to(values[:, None], (2, *x.shape)) for values in (counts, far))
    return jnp.min(jnp.sum(log_arm(n, r * jnp.stack([1 - x, x]), grid), 0), 0)


def _taken(x: Array, at: Array) -> Array:
    """x [.., n] at one place of each row, `at` [..]: [..]."""
    return jnp.take_along_axis(x, at[..., None], -1)[..., 0]
