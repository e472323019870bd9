"""Gaussian rewards of a known standard deviation for each arm: `Gaussian(std=[..])`."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts.proofs import GAUSSIAN
from jaxelim.contracts.shapes import Levels, Rows, Shape, SymmetricInterval
from jaxelim.contracts.slack import SlackRows
from jaxelim.contracts.views import ArmContext, Statistics, View
from jaxelim.errors import ArgumentError
from jaxelim.families import draws
from jaxelim.families.gaussian_mixtures import of_arms
from jaxelim.families.one_parameter import OneParameter
from jaxelim.lanes import LaneOps
from jaxelim.mixtures import gaussian
from jaxelim.mixtures.grid import Grid

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms
    from jaxelim.instances.instance import Instance

_RATIO = 1e6
"""Bound on the ratio of two standard deviations; their squares are costs, in float32 too."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, repr=False)
class GaussianByArm(OneParameter):
    """Gaussian rewards, arm k of standard deviation std[k]; independent arms alone.

    Unit Gaussians, d(x, y) = (x - y)^2/2 and V = 1, of costs c_k = std[k]^2. A run computes
    in units of the largest std. The estimates are averages: there is no ridge.

    Args:
        std: [K], positive, in the units of the rewards.

    Raises:
        ArgumentError: std is no list of two or more positive numbers, or two of them
            differ by more than a factor of 1e6.
    """

    std: tuple[float, ...]
    name: ClassVar[str] = "gaussian-by-arm"
    noise: ClassVar[str] = "normal"
    square: ClassVar[bool] = True
    shapes: ClassVar[tuple[type[Shape], ...]] = (Rows, Levels, SlackRows)

    _unit: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        std = checks.real_array("std", list(self.std), ndim=1)
        if len(std) < 2 or std.min() <= 0 or std.max() > _RATIO * std.min():
            allowed = "a number above 0, or one for each arm, at most 1e6 times one another"
            raise ArgumentError("std", self.std, allowed)
        object.__setattr__(self, "std", tuple(std.tolist()))

    def __repr__(self) -> str:
        return f"Gaussian(std={list(self.std)})"

    @property
    def scale(self) -> float:
        return max(self.std)

    def law(self) -> str:
        return GAUSSIAN

    def settled(self, **job: Any) -> "GaussianByArm":
        """The family in units of the largest standard deviation."""
        return _InUnits(tuple(one / self.scale for one in self.std), self.scale)

    def plain(self) -> "GaussianByArm":
        return GaussianByArm((1.0, 1.0))

    def for_arms(self, arms: int) -> "GaussianByArm":
        return GaussianByArm(tuple(np.resize(self.std, arms).tolist()))

    def check_arms(self, arms: "Arms") -> None:
        if arms.K != len(self.std):
            allowed = f"a family with one std for each of the {arms.K} arms"
            raise ArgumentError("family", self, allowed, f"it has {len(self.std)}")

    def nature(self, instance: "Instance") -> dict[str, np.ndarray]:
        """The means and standard deviations: [I, K] each."""
        means = super().nature(instance) / self._unit
        return {"mean": means, "std": np.broadcast_to(np.array(self.std), means.shape)}

    def draw(
        self, lanes: LaneOps, nature: dict[str, Array], arm: Array, pull: Array, noise: Array
    ) -> Array:
        """mu + std z, z the noise."""
        return lanes.take(nature["mean"], arm) + lanes.take(nature["std"], arm) * noise

    def costs(self, means: Array) -> Array:
        """std^2: of the shape of means, [K] or [K, B]."""
        squares = np.square(self.std).reshape(-1, *[1] * (means.ndim - 1))
        return jnp.broadcast_to(jnp.asarray(squares, means.dtype), means.shape)

    def divergence(self, x: Array, y: Array) -> Array:
        """(x - y)^2/2."""
        return (x - y) ** 2 / 2

    def around(self, a: Array, up: Array, b: Array, down: Array) -> tuple[Array, Array, Array]:
        """up^2/2, down^2/2 and 1."""
        return up**2 / 2, down**2 / 2, jnp.ones_like(up)

    def variance(self, y: Array) -> Array:
        """1; that of arm k's rewards is this times its cost."""
        return jnp.ones_like(y)

    def bracket(self, mean: Array, radius: Array) -> tuple[Array, Array]:
        """The bounds, mean -+ sqrt(2 radius)."""
        reach = jnp.sqrt(2 * radius)
        return mean - reach, mean + reach

    def pair(self, n_a: Array, a: Array, n_b: Array, b: Array) -> Array:
        """(a - b)^2/(2 (1/n_a + 1/n_b)) for a > b, else 0."""
        return jnp.maximum(a - b, 0) ** 2 / (2 * (1 / n_a + 1 / n_b))

    def posterior(self, key: Array, counts: Array, means: Array) -> Array:
        """N(m_k, std_k^2/N_k): the prior is flat."""
        return means + draws.normal(key, means) / jnp.sqrt(self.precision(means, counts))

    def slack_middle(
        self, n_a: Array, a: Array, n_b: Array, b: Array, slack: float | Array
    ) -> tuple[Array, Array]:
        """a less a share of a - b + slack, and slack more."""
        x = a - (a - b + slack) * (n_b / (n_a + n_b))
        return x, x + slack

    def slack_pair(self, n_a: Array, a: Array, n_b: Array, b: Array, slack: float) -> Array:
        """(a - b + slack)^2/(2 (1/n_a + 1/n_b)) for a > b - slack, else 0."""
        return jnp.maximum((a - b) + slack, 0) ** 2 / (2 * (1 / n_a + 1 / n_b))

    def check_prior(self, grid: Grid) -> None:
        """Refuse a mean or a standard deviation more than 1e12 times those of the rewards."""
        gaussian.check_prior(grid, min(self.std), max(self.std))

    def weighed(self, grid: Grid, counts: Array, means: Array) -> gaussian.Weighed:
        """What each prior makes of the arms: [K, J]."""
        return gaussian.weighed(grid, counts, means, self.costs(means), self._unit)

    def log_mixture(self, counts: Array, means: Array, at: Array, grid: Grid) -> Array:
        """N^2 (m - at)^2/(2 (N + c) std^2) - log(1 + N/c)/2: [K, J], one row an arm."""
        return self.weighed(grid, counts, means).log_mixture(means, at)

    def log_e(self, space: ArmContext, stats: Statistics, shape: Shape, grid: Grid) -> Array:
        arms = self.weighed(grid, stats.counts, stats.means)
        return of_arms(space, stats, shape, grid, arms)

    def log_e_above(self, space: ArmContext, stats: Statistics, shape: Shape, grid: Grid) -> Array:
        return jnp.full(shape.exists.shape, jnp.inf)

    def interval(self, seen: View, means: Array, beta: Array) -> SymmetricInterval:
        """means -+ std sqrt(2 beta/counts)."""
        return SymmetricInterval.of(means, jnp.sqrt(2 * beta / self.precision(means, seen.counts)))


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, repr=False)
class _InUnits(GaussianByArm):
    """The family of a run: `std` and means in the unit."""

    unit: float = 1.0

    @property
    def _unit(self) -> float:
        return self.unit
