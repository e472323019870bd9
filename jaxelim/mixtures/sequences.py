"""Confidence sequences: the means at which a mixture stays below a level.

{u : log mean_j M_j(u) < log_level} holds the true mean at all times together, but for a
probability of at most exp(-log_level). (Ville 1939; Robbins 1970) For K means together at
error delta, log_level = log(K/delta). Arrays are float64, in the units of a run. Bisections end
between two neighbouring floats, and give the outer one.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.mixtures import Grid, gaussian, log_mean_exp
from jaxelim.mixtures.pieces import each, harmonic, of_pairs

_FAR = 1e150  # the farthest point of a search; its square is finite
_NEAR = 1e-200  # the nearest point of a search to an end of the range at 0
Pair = tuple[Array, Array]


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
        reach = radius(precision, arms.price[a] + arms.price[b], log_level)
        return means[a] - means[b] - reach, means[a] - means[b] + reach
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
    of_y = gaussian.of_features(grid, y, features, counts)
    reach = radius(of_y.precision, of_y.price, log_level)
    return centres - reach, centres + reach


def radius(precision: Array, price: Array, log_level: Array | float) -> Array:
    """The r at which log mean_j exp(precision_j r^2/2 - price_j) is the level: [Q]."""

    def below(r: Array) -> Array:
        return _log_mean((r * r / 2)[..., None] * precision - price) < log_level

    zero = jnp.zeros_like(price[..., 0])
    reach = crossing(below, zero, jnp.full_like(zero, _FAR))
    return jnp.where(reach >= _FAR, jnp.inf, reach)


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
