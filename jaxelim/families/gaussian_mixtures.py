"""E-values of pieces for Gaussian rewards of known variance, independent or linear arms."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import Family
from jaxelim.contracts.shapes import Levels, Rows, Shape
from jaxelim.contracts.views import Statistics
from jaxelim.evidence.designs import DiagonalDesign
from jaxelim.families.mean_mixtures import both_sides
from jaxelim.mixtures import gaussian, linear
from jaxelim.mixtures.grid import Grid


def of_arms(
    space: Any, stats: Statistics, shape: Shape, grid: Grid, arms: gaussian.Weighed
) -> Array:  # fmt: skip
    """log e of pieces of independent arms of one run: [Q]."""
    means, theta_hat = stats.means, stats.estimated_theta
    if isinstance(shape, Rows):
        sides = both_sides(shape, space.lanes, means)
        precision, price = (both_sides(shape, space.lanes, x) for x in (arms.precision, arms.price))
        a, b = (gaussian.Weighed(precision[end], price[end]) for end in (0, 1))
        value = gaussian.pair(grid, sides[0] - sides[1] + shape.slack, a, b)
    elif isinstance(shape, Levels):
        off = jnp.where(shape.above, means - shape.level, shape.level - means)
        value = gaussian.apart(grid, off, arms.precision, arms.price)
    else:
        margin = shape.margin(space, means, theta_hat)
        value = gaussian.half_space(grid, margin, shape.directions(space), arms)
    return jnp.where(shape.exists, value, -jnp.inf)


class GaussianMixtures(Family):
    """Mixtures of Gaussian rewards of one known variance; a run computes in its units."""

    std: float

    def check_prior(self, grid: Grid) -> None:
        """Refuse a mean or a standard deviation more than 1e12 times that of the rewards."""
        gaussian.check_prior(grid, self.std, self.std)

    def weighed(self, grid: Grid, counts: Array, means: Array) -> gaussian.Weighed:
        """What each prior makes of arms; means in units of std: [..]."""
        return gaussian.weighed(grid, counts, means, 1.0, self.std)

    def log_mixture(self, counts: Array, means: Array, at: Array, grid: Grid) -> Array:
        """N^2 (m - at)^2/(2 (N + c)) - log(1 + N/c)/2, means in units of std: [.., J]."""
        return self.weighed(grid, counts, means).log_mixture(means, at)

    def log_e(self, space: Any, stats: Any, shape: Shape, grid: Grid) -> Array:
        """Closed forms; the design has no ridge. Linear arms: see `jaxelim.mixtures.linear`."""
        if isinstance(stats.design, DiagonalDesign):
            arms = self.weighed(grid, stats.counts, stats.means)
            return of_arms(space, stats, shape, grid, arms)
        margin = shape.margin(space, stats.means, stats.theta_hat)
        given = grid, margin, shape.directions(space), space.features, stats.counts
        return jnp.where(shape.exists, linear.half_spaces(*given), -jnp.inf)
