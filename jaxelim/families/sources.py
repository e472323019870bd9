"""Sources of rewards: given points, Beta distributions, normal noise."""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np
import scipy  # its parts are imported on first use
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Source
from jaxelim.contracts.proofs import UNKNOWN_VARIANCE
from jaxelim.errors import ArgumentError
from jaxelim.lanes import LaneOps, index_like

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

MOST_POINTS = 1000  # the largest number of points of an arm: a draw compares with every one
_SUM = 1e-9  # how far probabilities may sum from 1
CELLS = 4096  # cells of equal probability that a Beta distribution is drawn from
BETAS = (0.01, 1e6)  # the range of the numbers of a Beta distribution
_STDS = (1e-100, 1e100)  # squares of rewards are finite and positive
_LARGEST_RATIO = 1e12  # largest |mean|/std. Beyond it rewards round to few distinct numbers


def set_interval(of: Any) -> None:
    """Check the ends `low` and `high` of a family or source, and set them as floats."""
    low, high = (checks.real(name, getattr(of, name)) for name in ("low", "high"))
    if not low < high or not np.isfinite(high - low):
        raise ArgumentError("high", of.high, f"a finite number above low = {low:g}")
    object.__setattr__(of, "low", low)
    object.__setattr__(of, "high", high)


class Numbers(Source):
    """A source whose numbers are in `nature`, so that one program serves all."""

    static: ClassVar[tuple[str, ...]] = ()  # the settings that `draw` reads

    def static_part(self) -> Any:
        bare, fields = object.__new__(type(self)), dataclasses.fields(self)  # type: ignore[arg-type]
        for name in (field.name for field in fields):
            bare._set(**{name: getattr(self, name) if name in self.static else None})
        return bare

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _refuse_others(self, instance: "Instance", rewards: Any, where: str) -> None:
        """Refuse rewards that the family of the instance cannot have."""
        try:
            instance.family.check_rewards(np.asarray(rewards))
        except ArgumentError as error:
            note = f"{error.note}, {where}"
            raise ArgumentError("source", self, error.allowed, note) from None


@dataclasses.dataclass(frozen=True)
class Points(Numbers):
    """Rewards of a few values, each with a probability.

    Args:
        support: the points that rewards may be: [S] for all arms, or [K, S].
        probabilities: [K, S], of each arm's points.

    Raises:
        ArgumentError: shapes that do not fit, or probabilities that do not sum to 1.

    Example:
        >>> Points([1, 3, 5], [[0, 0.5, 0.5], [0.5, 0.5, 0]]).means
        array([4., 2.])
    """

    support: Any
    probabilities: Any
    name: ClassVar[str] = "points"

    def __post_init__(self) -> None:
        allowed = "[K, S] numbers of at least 0 that sum to 1 for each arm"
        table = checks.real_array("probabilities", self.probabilities, ndim=2)
        if not len(table) or table.min(initial=0) < 0:
            raise ArgumentError("probabilities", self.probabilities, allowed)
        off = np.abs(table.sum(1) - 1)
        if not off.max() <= _SUM:
            note = f"those of arm {int(off.argmax())} sum to {table.sum(1)[off.argmax()]:.12g}"
            raise ArgumentError("probabilities", self.probabilities, allowed, note)
        places = checks.real_array("support", self.support, ndim=(1, 2))
        if places.shape not in (table.shape, table.shape[1:]) or table.shape[1] > MOST_POINTS:
            allowed = f"[S] or [K, S] numbers, S as of probabilities, at most {MOST_POINTS}"
            raise ArgumentError("support", self.support, allowed)
        table = table / table.sum(1, keepdims=True)
        places = np.broadcast_to(places, table.shape)
        self._set(support=_rows(places), probabilities=_rows(table))

    @property
    def means(self) -> np.ndarray:
        """The means of the arms, [K]."""
        return np.sum(np.asarray(self.support) * np.asarray(self.probabilities), 1)

    def check(self, instance: "Instance") -> None:
        self._refuse_others(instance, self.support, "in the support")

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.support), np.asarray(self.probabilities)

    def nature(self, instance: "Instance") -> dict[str, np.ndarray]:
        """Points in units of the family, and distribution functions: [1, K, S] each."""
        support, probabilities = self.points()
        below = np.minimum(np.cumsum(probabilities, -1), 1.0)
        below[:, -1] = 1.0
        return {"support": support[None] / instance.family.scale, "below": below[None]}

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        """The quantile of the noise."""
        support, below = (lanes.row(nature[name], arm) for name in ("support", "below"))
        reached = jnp.concatenate([jnp.ones_like(below[:1], bool), noise >= below[:-1]])
        place = jnp.sum(reached, 0, dtype=jnp.int32) - 1
        return jnp.sum(jnp.where(index_like(support) == place, support, 0), 0)


def _rows(table: np.ndarray) -> tuple:
    return tuple(map(tuple, table.tolist()))


@dataclasses.dataclass(frozen=True)
class Betas(Numbers):
    """Rewards of a Beta distribution an arm, uniform in cells between 4097 quantiles.

    Args:
        table: [K, 2] the numbers (a, b) of each arm, from 0.01 to 1e6.
        low: end of the interval of the rewards.
        high: its other end.

    Raises:
        ArgumentError: numbers out of range.
    """

    table: Any
    low: float = 0.0
    high: float = 1.0
    name: ClassVar[str] = "betas"

    def __post_init__(self) -> None:
        set_interval(self)
        (least, most), table = BETAS, checks.real_array("table", self.table, ndim=2)
        if not len(table) or table.shape[1] != 2 or table.min() < least or table.max() > most:
            allowed = f"two numbers from {least:g} to {most:g} for each arm"
            raise ArgumentError("table", self.table, allowed)
        self._set(table=_rows(table))

    def _quantiles(self) -> np.ndarray:
        """Quantiles at 0, 1/CELLS, .., 1 on [0, 1]: [K, CELLS + 1]."""
        table, places = np.asarray(self.table), np.arange(CELLS + 1) / CELLS
        return scipy.special.betaincinv(table[:, :1], table[:, 1:], places[None])

    @functools.cached_property
    def means(self) -> np.ndarray:
        """The means of what is drawn, [K]."""
        edges = self._quantiles()
        return self.low + (self.high - self.low) * ((edges[:, 1:] + edges[:, :-1]) / 2).mean(1)

    def check(self, instance: "Instance") -> None:
        self._refuse_others(instance, [self.low, self.high], "an end of the interval")

    def nature(self, instance: "Instance") -> np.ndarray:
        """Quantiles in units of the family: [1, K, CELLS + 1]."""
        edges = self.low + (self.high - self.low) * self._quantiles()
        return edges[None] / instance.family.scale

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        """The quantile of the noise."""
        along = noise * CELLS
        place = jnp.minimum(jnp.floor(along), CELLS - 1)
        cell = place.astype(jnp.int32)
        lower, upper = nature[arm, cell], nature[arm, cell + 1]
        return lower + (upper - lower) * (along - place)


@dataclasses.dataclass(frozen=True)
class Normal(Numbers):
    """Normal rewards at the means of the arms.

    Args:
        std: the standard deviation, in the units of the rewards: a number, or [K] numbers.

    Raises:
        ArgumentError: it is neither, or out of range.
    """

    std: float | tuple[float, ...] = 1.0
    name: ClassVar[str] = "normal"
    noise: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        (low, high), stds = _STDS, checks.real_array("std", self.std, ndim=(0, 1))
        bad = stds[(stds < low) | (stds > high)]
        if bad.size:
            allowed = f"a number, or K numbers, from {low:g} to {high:g}"
            raise ArgumentError("std", self.std, allowed, f"{bad.flat[0]:g} is not")
        self._set(std=tuple(stds.tolist()) if stds.ndim else float(stds))

    def law(self, family: Family) -> str:
        known = family.stated_law()
        return known if known == UNKNOWN_VARIANCE else super().law(family)

    def check(self, instance: "Instance") -> None:
        """Refuse a std of another length than K, and means whose rewards would all be equal."""
        std = np.asarray(self.std)
        if std.ndim and std.size != instance.K:
            allowed = f"a number, or K = {instance.K} numbers"
            raise ArgumentError("std", self.std, allowed, f"it has {std.size}")
        if (np.abs(instance.means) > _LARGEST_RATIO * std).any():
            allowed = f"means of at most {_LARGEST_RATIO:g} std, as rewards are rounded"
            raise ArgumentError("theta", instance.means, allowed)

    def nature(self, instance: "Instance") -> dict[str, np.ndarray]:
        """Means and standard deviations in units of the family: [I, K] each."""
        scale, means = instance.family.scale, instance.means.reshape(-1, instance.K)
        return {"mean": means / scale, "std": np.broadcast_to(self.std, means.shape) / scale}

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        """mean + std noise, with standard normal noise."""
        return lanes.take(nature["mean"], arm) + lanes.take(nature["std"], arm) * noise
