"""E-values of pieces for families with one parameter an arm, from `log_mixture` alone."""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import Family
from jaxelim.contracts.shapes import Levels, Rows, Shape
from jaxelim.contracts.views import ArmContext, Statistics
from jaxelim.errors import undefined
from jaxelim.lanes import LaneOps
from jaxelim.mixtures import common_mean
from jaxelim.mixtures.common_mean import Boundary
from jaxelim.mixtures.grid import Grid

_NEAR = 1e-3
"""Where a search begins near an end of the range, relative to the separation."""


def both_sides(shape: Rows, lanes: LaneOps, x: Array) -> tuple[Array, Array]:
    """x_i and x_k of every piece of one run: x [K, ..] -> [Q, ..] each."""
    if not shape.several:
        own = lanes.row(x, shape.first) if x.ndim > 1 else lanes.take(x, shape.first)
        return jnp.broadcast_to(own[None], x.shape), x
    own = x[shape.first][:, None]
    whole = (own.shape[0], *x.shape)
    a, b = jnp.broadcast_to(own, whole), jnp.broadcast_to(x[None], whole)
    return a.reshape((-1, *x.shape[1:])), b.reshape((-1, *x.shape[1:]))


def _own(family: Family, method: str) -> bool:
    """Whether a class below `MeanMixtures` defines the method."""
    return getattr(type(family), method) is not getattr(MeanMixtures, method)


class MeanMixtures(Family):
    """Mixtures of a family that defines `log_mixture`, convex in the mean or in 1/mean."""

    low: ClassVar[float]  # the range of means
    high: ClassVar[float]
    convex_in: ClassVar[str] = "mean"  # or "reciprocal": where `log_mixture` is convex

    def variance(self, y: Array) -> Array:
        """V(y), the variance at mean y."""
        raise undefined(self, "variance(y)")

    def log_mixture(self, counts: Array, means: Array, at: Array, grid: Grid) -> Array:
        """log M_j(at) = log of the integral of p(rewards | theta)/p(rewards | at) over prior j.

        Args:
            counts: the number N of an arm's rewards, above 0: [..].
            means: their mean S/N: [..].
            at: the tested mean, inside the range: [..].
            grid: the priors.

        Returns:
            [.., J], convex in the tested mean or in its reciprocal, as `convex_in` says.
        """
        strengths, n, m, y = grid.spread(counts, means, at)
        return self.log_mixture_at(n, m, y, strengths)

    def log_mixture_at(self, n: Array, m: Array, y: Array, c: Array) -> Array:
        """`log_mixture` for one strength an entry: counts n, means m, tested means y, strengths c.

        All are of one shape. A family of one's own may define `log_mixture` in its place, which
        is slower.
        """
        raise undefined(self, "log_mixture(counts, means, at, grid)")

    def has(self, method: str) -> bool:
        if method in ("log_e", "log_e_above", "log_mixture"):
            return super().has(method) and (_own(self, "log_mixture") or self._elementwise)
        return super().has(method)

    @property
    def _elementwise(self) -> bool:
        return _own(self, "log_mixture_at") and not _own(self, "log_mixture")

    def log_e(self, space: ArmContext, stats: Statistics, shape: Shape, grid: Grid) -> Array:
        if isinstance(shape, Levels):
            return self._of_levels(stats, shape, grid)
        boundary, (n, m), start, reach, needed = self._pairs(space, stats, Rows.of(shape))
        components = self.components(n, m, grid)
        return common_mean.infimum(boundary, components, start, reach, needed, grid.size)

    def log_e_above(self, space: ArmContext, stats: Statistics, shape: Shape, grid: Grid) -> Array:
        """log sum_j w_j prod_k M_{k,j} near the piece's closest point in likelihood."""
        if isinstance(shape, Levels):
            level = jnp.full_like(stats.means, shape.level)
            value = grid.log_mean_exp(self.log_mixture(stats.counts, stats.means, level, grid))
            return jnp.where(self._beyond(stats, shape), value, -jnp.inf)
        boundary, (n, m), start, _, needed = self._pairs(space, stats, Rows.of(shape))
        at = grid.spread(boundary.both(start))[1]
        values = common_mean.once(self.components(n, m, grid), at)
        return jnp.where(needed, grid.log_mean_exp(values[0] + values[1]), -jnp.inf)

    def components(self, counts: Array, means: Array, grid: Grid) -> common_mean.Component:
        """log M_j of arms [..] at means repeated to [.., J], entry by entry."""
        if not self._elementwise:
            return lambda at: self.log_mixture(counts, means, at[..., 0], grid)
        c, n, m = grid.spread(counts, means)
        return lambda at: self.log_mixture_at(n, m, at, c)

    def _pairs(self, space: ArmContext, stats: Statistics, shape: Rows) -> tuple:
        """The boundary; counts and means [2, Q]; the middle, the separation, where it is > 0."""
        boundary = Boundary(
            self.low, self.high, shape.slack, self.convex_in == "reciprocal", self.variance
        )
        n, m = (jnp.stack(both_sides(shape, space.lanes, x)) for x in (stats.counts, stats.means))
        separation = m[0] - m[1] + shape.slack
        needed = (separation > 0) & shape.exists
        reach = jnp.where(needed, separation, 1)
        # Between the estimates; near an end of the range where both are at it or beyond.
        least = jnp.maximum(m[1] - shape.slack, self.low)
        most = jnp.minimum(m[0], self.high - shape.slack)
        start = least + (most - least) * (n[0] / (n[0] + n[1]))
        near = _NEAR * jnp.minimum(reach, self.high - shape.slack - self.low)
        start = jnp.where(most > least, start, most - near)
        start = jnp.where(needed & (start > self.low), start, least + near)
        return boundary, (n, m), boundary.inside(start), reach, needed

    def _beyond(self, stats: Statistics, shape: Levels) -> Array:
        off = stats.means - shape.level
        return jnp.where(shape.above, off > 0, off < 0) & shape.exists

    def _of_levels(self, stats: Statistics, shape: Levels, grid: Grid) -> Array:
        """The mixture at the level, where it falls from there towards the estimate."""
        level = jnp.full_like(stats.means, shape.level)
        value, slope = common_mean.sloped(
            lambda at: self.log_mixture(stats.counts, stats.means, at, grid), level
        )
        binds = jnp.where(shape.above, slope <= 0, slope >= 0)
        binds = binds & self._beyond(stats, shape) & ~jnp.isnan(value)
        return jnp.where(binds, value, -jnp.inf)
