"""E-values of the pieces of one run, and confidence sequences, from a family's `log_mixture`.

At the estimates, which lie outside a piece {mu_b >= mu_a + slack}, no mixture exceeds 1. So the
least log e on its boundary (u, u + slack), where it is above 0, is that of the piece, if log e is
convex in the means or in their reciprocals.

A confidence sequence has the means at which a mixture stays below a level:
{u : log mean_j M_j(u) < log_level} holds the true mean at all times together, but for a
probability of at most exp(-log_level). (Ville 1939; Robbins 1970) For K means together at
error delta, log_level = log(K/delta). Arrays are float64, in the units of a run. Bisections end
between two neighbouring floats, and give the outer one.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.mixtures import Grid, Weighed, log_mean_exp, of_features, spread

if TYPE_CHECKING:
    from jaxelim.contracts import Family
    from jaxelim.contracts.views import ArmContext, Statistics

_STEPS = 6  # of Newton; four are enough, but for slack and an arm with few pulls
_APART = 0.02  # standard deviations from the last point to each tangent; it costs half its square
_TOWARD_END = 16.0  # a step leaves at least this fraction of the distance from an end of the range
_CELLS = (8, 16, 40)  # how many each pass of `over_cells` adds
_FAR = 1e150  # the farthest point of a search; its square is finite
_NEAR = 1e-200  # the nearest point of a search to an end of the range at 0
Pair = tuple[Array, Array]
Tree = Any


class Stat(NamedTuple):
    """What the rewards of arms say: arrays of one shape. A family may have more, after these."""

    n: Array  # pulls, or pulls by their precision
    mean: Array  # the estimate


def each(family: "Family", stat: Tree, at: Array, priors: Any) -> Array:
    """log M of every prior, at tested means: [..] -> [.., J]."""
    c, stat, at = spread(priors, stat, at)
    return family.log_mixture(stat, at, c)


def log_e(
    family: "Family", space: "ArmContext", stats: "Statistics", pieces: Any, grid: Grid,
    above: bool = False,
) -> Array:  # fmt: skip
    """log e of every piece, for one run: [Q]; `space.lanes` has the plain form.

    e_p = inf over lambda in p of sum_j w_j prod_k M_{k,j}(lambda_k), j over the priors of
    the grid. The result is at most log e_p, and -inf where that is not above 0 or where
    there is no piece. Never NaN. With `above` it is at least log e_p, the sum at one mean.
    """
    if closed := getattr(family, "log_e", None):
        return closed(space, stats, pieces, grid)
    stat, priors = family.stat_of(stats.counts, stats.means, stats.moments), family.priors(grid)
    if pieces.signs:
        value = jnp.where(pieces.above, *_of_levels(family, stat, pieces, priors))
    else:
        (i, k), last = pieces.places(), stat.mean.shape[0]
        at_i, at_k = (jnp.minimum(j, last - 1) for j in (i, k))  # a reference follows below
        a, b = (jax.tree.map(lambda x, at=at: x[at], stat) for at in (at_i, at_k))
        known = stats.used_up
        still = None if known is None else (known[at_i], known[at_k])
        if above:
            value = _between(family, a, b, pieces.slack, priors, still)
        elif family.convex_in:
            value = of_pairs(family, a, b, pieces.slack, priors[0])
        else:
            value = over_cells(family, a, b, pieces, priors, still)
        if pieces.refers:
            up, down = _of_levels(family, stat, pieces, priors)
            value = jnp.where(i == last, down[at_k], jnp.where(k == last, up[at_i], value))
    outside = pieces.outside(space.lanes, stats.means)
    return jnp.where(pieces.exists & (outside > 0) & (value > 0), value, -jnp.inf)


def _of_levels(family: Any, stat: Tree, pieces: Any, priors: tuple) -> list[Array]:
    """The mixture where pieces of arms above the level begin, and of those below: [K] each."""

    def at(mean: float, prior: Any) -> Array:
        return log_mean_exp(each(family, stat, jnp.full_like(stat.mean, mean), prior))

    up, same = at(pieces.level - pieces.slack, priors[0]), priors[0] is priors[1]
    below = up if same and not pieces.slack else at(pieces.level + pieces.slack, priors[1])
    return [up, below]


def _stacked(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(lambda *x: jnp.stack(x), a, b)


def of_pairs(family: Any, a: Tree, b: Tree, slack: Any, priors: Any) -> Array:
    """A lower bound on F(u) = log mean_j exp(g_a(u) + g_b(u + slack)) over all u: [Q].

    Of arms a and b [Q], where g = log M is convex. Newton's method for a root of V(u) F'(u), then
    the point where two tangents of F meet, one on each side of where it ended. F is convex, so
    that is a lower bound wherever the method ended. Near enough to the least F it is 2e-4 below.

    `slack`: a number of at least 0; or [Q] of any sign, where g is convex in the mean.
    """
    c, stat = spread(priors, _stacked(a, b))
    low, high, reciprocal = family.low, family.high, family.convex_in == "reciprocal"
    share = a.n / (a.n + b.n)
    first, last = low - jnp.minimum(slack, 0), high - jnp.maximum(slack, 0)
    bounded = np.isfinite(low), np.isfinite(high)
    curved = reciprocal and not (isinstance(slack, float) and slack == 0)

    def value(u: Array, v: Array) -> Array:
        both = jnp.stack([u, v])[..., None]
        if bounded[0]:
            both = jnp.maximum(both, np.nextafter(low, np.inf) if low else np.finfo(float).tiny)
        if bounded[1]:
            both = jnp.minimum(both, np.nextafter(high, -np.inf))
        log_m = family.log_mixture(stat, jnp.broadcast_to(both, c.shape), c)
        return log_mean_exp(jnp.sum(log_m, 0))

    def scale(mean: Array) -> Array:
        """A variance of the range, in which F' is nearly linear."""
        up = mean - low if bounded[0] else jnp.ones_like(mean)
        return up * up if reciprocal else up * (high - mean) if bounded[1] else up

    def slope(u: Array) -> tuple[Array, Array]:
        """F and F'."""
        return jax.jvp(lambda u: value(u, u + slack), (u,), (jnp.ones_like(u),))

    def curve(u: Array) -> tuple[Array, Array]:
        """F' and F''."""
        (_, first), (_, second) = jax.jvp(slope, (u,), (jnp.ones_like(u),))
        return first, second

    def inside(u: Array, now: Array, part: float) -> Array:
        """u, with at least a part of the distance of `now` from the ends of the range."""
        if bounded[0]:
            u = jnp.clip(u, first + (now - first) * part, first + (now - first) / part)
        return jnp.minimum(u, last - (last - now) * part) if bounded[1] else u

    def step(done: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        """The next u, and F'' at u; the last call only finds F''."""
        u = carry[0]
        fall, bend = curve(u)
        size, tilt = jax.jvp(lambda u: harmonic(scale(u), scale(u + slack)), (u,), (u * 0 + 1,))
        rise = tilt * fall + size * bend
        new = u - jnp.where(rise > 0, size * fall / jnp.where(rise > 0, rise, 1), fall * jnp.inf)
        new = inside(new, u, 1 / _TOWARD_END)
        return jnp.where(jnp.isfinite(new) & (done < _STEPS), new, u), bend

    of_b, of_a = (jnp.clip(x, first, last) for x in (b.mean - slack, a.mean))
    u = of_b + (of_a - of_b) * share
    near = 1e-3 * jnp.minimum(jnp.abs(a.mean - b.mean + slack) + 1e-9, last - first)
    u = jnp.where(u <= first, first + near, jnp.where(u >= last, last - near, u))
    u, bend = jax.lax.fori_loop(0, _STEPS + 1, step, (u, u))
    off = _APART / jnp.sqrt(jnp.where(bend > 0, bend, jnp.inf))
    at = jnp.stack([inside(u - off, u, 0.5), inside(u + off, u, 0.5)])
    found, fall = jax.vmap(slope)(at)
    x, ends = at, (first, last)
    if reciprocal:  # F falls or rises by 1/u
        x, ends, fall = 1 / at, (1 / last, jnp.inf), -fall * at * at
    bound = _where_they_meet(x, found, fall, *ends)
    if curved:  # the boundary bends: its tangents bound it where F rises with mu_b
        rises = jax.vmap(jax.grad(lambda a, b: jnp.sum(value(a, b)), 1))(at, at + slack) >= 0
        bound = jnp.where(jnp.all(rises, 0), bound, -jnp.inf)
    return jnp.where(jnp.isnan(bound), -jnp.inf, bound)


def harmonic(x: Array, y: Array) -> Array:
    """x y/(x + y)."""
    return x * (y / (x + y))


def _where_they_meet(x: Array, y: Array, slope: Array, low: Any, high: Any) -> Array:
    """The least larger value of two lines through (x, y) [2, Q], over [low, high]: [Q]."""
    apart = slope[1] - slope[0]
    line = y - slope * x
    meet = (line[0] - line[1]) / jnp.where(apart == 0, 1, apart)
    meet = jnp.where(slope[0] * slope[1] < 0, meet, jnp.where(slope[0] < 0, high, low))
    away = jnp.clip(meet, jnp.maximum(low, -1e300), jnp.minimum(high, 1e300)) - x
    return jnp.max(y + jnp.where(slope == 0, 0, slope * away), 0)


def _range(family: Any, a: Tree, b: Tree, slack: Any, known: Any) -> tuple[Array, Array]:
    """The range of u, that a piece has means u and u + slack; one mean where one is `known`."""
    low = jnp.maximum(b.mean - slack, family.low)
    high = jnp.minimum(a.mean, family.high - slack)
    if known is None:
        return low, high
    return jnp.where(known[0], high, low), jnp.where(known[1] & ~known[0], low, high)


def _between(family: Any, a: Tree, b: Tree, slack: Any, priors: tuple, known: Any) -> Array:
    """log e at one mean between the estimates of arms a and b [Q], near the least: [Q]."""
    low, high = _range(family, a, b, slack, known)
    u = low + (high - low) * (a.n / (a.n + b.n))
    of_both = jnp.stack([jnp.asarray(one) for one in priors])[:, None]  # [2, 1, J]
    value = family.together(*each(family, _stacked(a, b), jnp.stack([u, u + slack]), of_both))
    return jnp.where(jnp.isnan(value), jnp.inf, value)


def over_cells(
    family: Any, a: Tree, b: Tree, pieces: Any, priors: tuple, known: Any = None
) -> Array:
    """A lower bound on log e of arms a and b [Q], whose log M fall up to the estimate: [Q]."""
    slack, same = pieces.slack, priors[0] is priors[1]
    of_priors = jnp.stack([jnp.asarray(one) for one in priors])[:, None]  # [2, 1, J]

    def value(piece: tuple) -> Array:
        exists, a, b, known = piece
        of_both = _stacked(a, b)
        low, high = _range(family, a, b, slack, known)
        beyond = low > family.low, high < family.high - slack
        if known is not None:
            beyond = tuple(side & ~known[0] & ~known[1] for side in beyond)

        def components(u: Array) -> Array:
            like = jax.tree.map(lambda x: jnp.broadcast_to(x, (*u.shape, 2)).T, of_both)
            return each(family, like, jnp.stack([u, u + slack]), of_priors)

        def bound() -> Array:
            return _least(components, family.together, low, high, None if same else beyond)

        outside = exists & (a.mean - b.mean + slack > 0)
        return jax.lax.cond(outside, bound, lambda: jnp.full_like(low, -jnp.inf))

    return jax.lax.map(value, (pieces.exists, a, b, known))


def _least(
    components: Callable[[Array], Array], together: Callable[[Array, Array], Array],
    low: Array, high: Array, beyond: tuple[Array, Array] | None,
) -> Array:  # fmt: skip
    """A lower bound on the least of together(g_a(u), g_b(u)) over low <= u <= high: [].

    g_a falls with u and g_b rises, and `together` with both. So over a cell it is at least what it
    is for g_a at the upper end and g_b at the lower. Each pass makes the cells that decide
    smaller. `beyond`: whether there are means below `low`, where g_b may be -inf, and above
    `high`, where g_a may; None: beyond an end neither is less than there.
    """
    u = low + (high - low) * jnp.linspace(0, 1, _CELLS[0] + 1)
    both = components(u)
    for more in _CELLS[1:]:
        a, b = both
        # One call: each call of `together` is compiled.
        value = together(jnp.concatenate([a[1:], a]), jnp.concatenate([b[:-1], b]))
        cell, value = value[: len(u) - 1], value[len(u) - 1 :]
        value = jnp.minimum(value[1:], value[:-1])
        loss, above = jnp.maximum(value - cell, 0), value - jnp.min(value)
        parts = loss / (_even(loss, above, more) + above)
        parts = jnp.where(jnp.isfinite(parts), parts, 0) + 1e-9
        ends = jnp.concatenate([jnp.zeros(1), jnp.cumsum(parts)])
        new = jnp.interp(ends[-1] * np.linspace(0.5, more - 0.5, more) / more, ends, u)
        order = jnp.argsort(jnp.concatenate([u, new]), stable=True)
        u = jnp.concatenate([u, new])[order]
        both = jnp.concatenate([both, components(new)], 1)[:, order]
    a, b = both
    lost = jnp.full_like(a[:1], -jnp.inf)
    value = together(jnp.concatenate([a[1:], a[:1], lost]), jnp.concatenate([b[:-1], lost, b[-1:]]))
    sides = jnp.zeros(2, bool) if beyond is None else jnp.stack(beyond)
    there = jnp.concatenate([jnp.ones(len(u) - 1, bool), sides])
    return jnp.min(value, where=there, initial=jnp.inf)


def _even(loss: Array, above: Array, cells: int) -> Array:
    """The d with sum_i loss_i/(d + above_i) = cells: []. Parts of these losses are about d low."""
    loss = jnp.where(jnp.isfinite(loss), loss, 0)

    def halved(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        d = jnp.sqrt(low * high)
        many = jnp.sum(loss / (d + above)) > cells
        return jnp.where(many, d, low), jnp.where(many, high, d)

    most = jnp.maximum(jnp.sum(loss), 1e-6)
    return jax.lax.fori_loop(0, 12, halved, (1e-6 * jnp.ones_like(most), most))[1]


def interval(
    family: Any, counts: Array, means: Array, grid: Grid, log_level: Array | float,
    moments: Array | None = None,
) -> Pair:  # fmt: skip
    """The ends of the means' confidence sequences, valid at all times: [..] each.

    Counts, above 0, and means are [..]; [K] of a family with settings for each arm. log_level is
    log(P/delta), above 0; moments are as of `Statistics.moments`.
    """
    stat, (up, down) = family.stat_of(counts, means, moments), family.priors(grid)
    priors = np.asarray(up) if up is down else np.concatenate([up, down])

    def value(at: Array) -> Array:
        log_m = _log_mean(each(family, stat, at, priors))
        return jnp.where(jnp.isnan(log_m), jnp.inf, log_m)  # so only at the ends of the range

    low, high = getattr(family, "low", -np.inf), getattr(family, "high", np.inf)
    # The least and the largest mean of the search.
    first = _NEAR if low == 0 else max(float(np.nextafter(low, np.inf)), -_FAR)
    last = min(float(np.nextafter(high, -np.inf)), _FAR)
    inside = jnp.clip(means, first, last)
    lower, upper = crossings(lambda x: value(x) < log_level, inside, first, last)
    return jnp.where(lower <= first, low, lower), jnp.where(upper >= last, high, upper)


def difference(
    family: Any, counts: Array, means: Array, a: Array, b: Array, grid: Grid,
    log_level: Array | float, moments: Array | None = None,
) -> Pair:  # fmt: skip
    """The ends of a confidence sequence of mu_a - mu_b, valid at all times: [P] each.

    All d with inf over mu_a - mu_b = d of log sum_j w_j M_{a,j} M_{b,j} below the level: in
    closed form for Gaussian arms, by a search where `log_mixture` is convex in the mean.
    Elsewhere, from the intervals of both arms at half the error each. Arguments are as in
    `interval`, of arms [K]; a and b are the arms, [P] integers.
    """
    if hasattr(family, "weighed"):
        arms = family.weighed(grid, counts)
        precision = harmonic(arms.precision[a], arms.precision[b])
        own = Weighed(precision, arms.price[a] + arms.price[b])
        return _around(means[a] - means[b], own, log_level)
    if family.convex_in != "mean":
        lower, upper = interval(family, counts, means, grid, log_level + np.log(2), moments)
        return lower[a] - upper[b], upper[a] - lower[b]
    stat = family.stat_of(counts, means, moments)
    own, other = (jax.tree.map(lambda x, at=at: x[at], stat) for at in (a, b))

    def below(d: Array) -> Array:
        return of_pairs(family, own, other, -d, family.priors(grid)[0]) < log_level

    wide = family.high - family.low
    most = wide * (1 - 1e-12) if np.isfinite(wide) else _FAR
    middle = jnp.clip(means[a] - means[b], -most, most)
    lower, upper = crossings(below, middle, -most, most)
    return jnp.where(lower <= -most, -wide, lower), jnp.where(upper >= most, wide, upper)


def directions(
    grid: Grid, centres: Array, y: Array, features: Array, counts: Array, log_level: Array | float
) -> Pair:
    """The ends of sequences of y . theta for linear Gaussian arms, valid for all y together.

    y [Q, d], centres y . theta_hat [Q] without a ridge, features [K, d], counts [K]; log_level is
    log(1/delta), whatever the number of directions.
    """
    return _around(centres, of_features(grid, y, features, counts), log_level)


def _around(centres: Array, own: Weighed, log_level: Array | float) -> Pair:
    """centres -+ the r at which log mean_j exp(precision_j r^2/2 - price_j) is the level: [Q]."""

    def below(r: Array) -> Array:
        return _log_mean((r * r / 2)[..., None] * own.precision - own.price) < log_level

    zero = jnp.zeros_like(own.price[..., 0])
    r = crossing(below, zero, jnp.full_like(zero, _FAR))
    r = jnp.where(r >= _FAR, jnp.inf, r)
    return centres - r, centres + r


def _log_mean(values: Array) -> Array:
    """The logarithm of the mean of exp(values), [.., J] -> [..], without a derivative."""
    # Rounding may leave nothing of the sum where values are above 1e16.
    least = jnp.max(values, -1) - math.log(values.shape[-1])
    return jnp.maximum(log_mean_exp(values), least)


def crossings(below: Callable[[Array], Array], inside: Array, low: float, high: float) -> Pair:
    """The crossings towards both ends; `below` is compiled once for both."""
    # One after the other: to batch the loops inside `below` takes longer than both searches.
    ends = jnp.stack([jnp.full_like(inside, end) for end in (low, high)])
    ends = jax.lax.map(lambda end: crossing(below, inside, end), ends)
    return ends[0], ends[1]


def crossing(below: Callable[[Array], Array], inside: Array, end: Array) -> Array:
    """The first float from `inside` towards `end` at which `below` does not hold; else the end.

    `below`, [..] -> [..] bool, holds at `inside` and up to some point on the way, not beyond.
    """

    def ordered(bits: Array) -> Array:
        """int64 in the order of the floats of these bits; it is its own inverse."""
        return jnp.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)

    def place(x: Array) -> Array:
        return ordered(jax.lax.bitcast_convert_type(x + 0.0, jnp.int64))

    def number(place: Array) -> Array:
        return jax.lax.bitcast_convert_type(ordered(place), jnp.float64)

    def halved(_: int, ends: Pair) -> Pair:
        near, far = ends
        middle = (near & far) + ((near ^ far) >> np.int64(1))
        holds = below(number(middle))
        return jnp.where(holds, middle, near), jnp.where(holds, far, middle)

    return number(jax.lax.fori_loop(0, 64, halved, (place(inside), place(end)))[1])
