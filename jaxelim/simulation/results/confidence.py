"""Confidence sequences of the means of runs, simulated and live ones.

`jaxelim.mixtures.sequences` has the mathematics.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import Array

from jaxelim import checks, scope
from jaxelim.contracts import Family
from jaxelim.contracts.proofs import LAWS
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.instances.arms import Arms
from jaxelim.mixtures import sequences
from jaxelim.mixtures.grid import Grid
from jaxelim.problems import BestArm
from jaxelim.simulation.results.descriptions import Text
from jaxelim.thresholds.mixture import Mixture

if TYPE_CHECKING:
    from jaxelim.simulation.results.result import Result

_FEWEST, _AT_ONCE = 8, 1024
"""Runs that one call of a compiled function takes: a power of two, so that few are compiled."""


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Confidence intervals that hold at every look, so after any stop.

    Of a live run the arrays are [K], one entry an arm. Of a `Result` they are
    [stopping, delta, run, K], with a batch [instance, stopping, delta, run, K]; those of
    a difference have no axis of arms.

    Attributes:
        values: the estimates, in the units of the rewards; NaN for arms without rewards.
        low: the lower ends.
        high: the upper ends.
        level: the probability that all intervals of one run hold at all times.
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeansOfRuns:
    """What N runs on the same arms estimate, at any time.

    Attributes:
        arms: the arms; their family has the unit of a run.
        family: that of the compiled program.
        grid: the priors of the mixture.
        counts, means: [N, K], means in the unit of a run.
        moments: what else the family's mixture reads, [N, K] or [N, K, ..]; None: nothing.
    """

    arms: Arms
    family: Family
    grid: Grid
    counts: np.ndarray
    means: np.ndarray
    moments: np.ndarray | None = None

    def intervals(self, level: float) -> Intervals:
        """Intervals of all means, which hold together with probability `level`: [N, K]."""
        if self._linear:
            return self._along(self.means, self.arms.arms, level)
        log_level = math.log(self.arms.K / (1 - level))
        rows = self.counts, self.means, self.moments

        def ends(*part: Any) -> sequences.Pair:
            return _intervals(self.family, self.grid, *part, log_level)

        return self._in_units(self.means, ends, rows, level)

    def differences(self, a: np.ndarray, b: np.ndarray, level: float, pairs: int) -> Intervals:
        """Intervals of mean(a) - mean(b) of pairs of arms: [N, P].

        Args:
            a, b: indices of arms, [P].
            level: the probability that so many intervals as `pairs` hold together.
            pairs: their number. Linear arms share one mixture, whatever it is.
        """
        values = self.means[:, a] - self.means[:, b]
        if self._linear:
            return self._along(values, self.arms.arms[a] - self.arms.arms[b], level)
        log_level = math.log(pairs / (1 - level))
        rows = self.counts, self.means, self.moments

        def ends(*part: Any) -> sequences.Pair:
            return _differences(self.family, self.grid, *part, a, b, log_level)

        return self._in_units(values, ends, rows, level)

    @property
    def _linear(self) -> bool:
        return self.arms.structure == "linear"

    def _along(self, values: np.ndarray, directions: np.ndarray, level: float) -> Intervals:
        """Intervals of values [N, Q] along directions [Q, d] of linear arms."""
        log_level, features = math.log(1 / (1 - level)), self.arms.arms

        def ends(values: Any, counts: Any) -> sequences.Pair:
            return _directions(self.grid, values, directions, features, counts, log_level)

        return self._in_units(values, ends, (values, self.counts), level)

    def _in_units(self, values: np.ndarray, ends: Callable, rows: tuple, level: float) -> Intervals:
        """Intervals about `values`, with their ends from `rows`, in the units of the rewards."""
        with scope.engine():
            low, high = _over_runs(ends, rows)
        scale = self.arms.family.scale
        return Intervals(values * scale, low * scale, high * scale, level)


def missing(arms: Arms, ridge: float | None) -> str:
    """What runs on these arms would need for intervals; empty where they have them."""
    family = arms.family
    if not family.has("log_mixture"):
        return f"a family with a mixture: {family!r} defines no log_mixture"
    if ridge:
        return "None or 0 as ridge: intervals cover no bias"
    if arms.source is not None and arms.law not in LAWS:
        told = f"A live run that is told them takes them as {family!r}"
        return f"rewards with a proof: {arms.law}. {told}"
    return ""


def priors(threshold: Any) -> Grid:
    """The priors of intervals: those of the threshold if it is a `Mixture`, else the default."""
    return threshold.grid if isinstance(threshold, Mixture) else Grid()


def pair_of(arms: Arms, a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two different arms, as the caller names them, as indices [1].

    Raises:
        ArgumentError: there are no such arms.
    """
    first, second = arms.index(a), arms.index(b)
    if first == second:
        raise ArgumentError("b", b, "another arm than a")
    return np.array([first]), np.array([second])


def level_of(level: Any) -> float:
    """The level of intervals, checked: in (0, 1)."""
    return checks.real("level", level, low=0, high=1, open=True)


def of_result(
    result: "Result", compute: Callable[[MeansOfRuns], Intervals], name: str
) -> Intervals:
    """Intervals of all runs of a result.

    Args:
        result: with recorded means.
        compute: the intervals [N, ..] of runs on the same arms.
        name: what is asked for, for messages.

    Raises:
        ArgumentError, UnsupportedError: as `Result.intervals`.
    """
    instance = result.instance
    if result.means is None:
        raise UnsupportedError(name, result, 'a result of simulate(.., record=("means",))')
    if instance.family.has("estimated") and result.variances is None:
        allowed = f"a live run: results keep no powers of the rewards of {instance.family!r}"
        raise UnsupportedError(name, instance.family, allowed)
    reason = missing(instance, result.experiment.ridge)
    if reason:
        raise UnsupportedError(name, instance.family, reason)
    if isinstance(result.threshold, Text):
        allowed = "threshold itself, by load_result(path, threshold=...)"
        raise ArgumentError("threshold", result.threshold, allowed)
    parts = [compute(means) for means in _of_instances(result)]
    values, low, high = (
        np.concatenate([getattr(part, end) for part in parts]).reshape(*result.samples.shape, -1)
        for end in ("values", "low", "high")
    )
    return Intervals(values, low, high, parts[0].level)


def _of_instances(result: "Result") -> Iterator[MeansOfRuns]:
    """The last means of all runs, instance by instance."""
    assert result.means is not None
    instance, scale = result.instance, result.instance.family.scale
    rows = instance.size, -1, instance.K
    pulls = result.pulls if result.entered is None else result.entered
    counts = pulls.reshape(rows).astype(float)
    means = result.means.reshape(rows) / scale
    moments = [None] * instance.size
    if result.variances is not None:
        moments = list(result.variances.reshape(rows) / scale**2)
    for i, alone in enumerate(instance.unbatched):
        family = alone.family.settled(
            instance=alone, problem=BestArm(), ridge=result.experiment.ridge,
            max_samples=result.experiment.max_samples, sums=False, theta=False, tuned=True,
        )  # fmt: skip
        grid = priors(result.threshold)
        yield MeansOfRuns(arms=alone, family=family, grid=grid, counts=counts[i], means=means[i],
                          moments=moments[i])  # fmt: skip


def _over_runs(ends: Callable, rows: tuple) -> tuple[np.ndarray, np.ndarray]:
    """The ends that a compiled function gives for rows [N, ..], so many at a time."""
    count, size, parts = len(rows[0]), _FEWEST, []
    while size < min(count, _AT_ONCE):
        size *= 2
    for start in range(0, count, size):
        at = np.arange(start, start + size) % count
        parts.append(ends(*(x if x is None else x[at] for x in rows)))
    low, high = (
        np.concatenate([np.asarray(x) for x in side])[:count] for side in zip(*parts, strict=True)
    )
    return low, high


@functools.partial(jax.jit, static_argnums=(0, 1))
def _intervals(
    family: Any, grid: Grid, counts: Array, means: Array, moments: Array | None, log_level: Array
) -> sequences.Pair:
    def of_run(counts: Array, means: Array, moments: Array | None) -> sequences.Pair:
        return sequences.interval(family, counts, means, grid, log_level, moments)

    return jax.vmap(of_run)(counts, means, moments)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _differences(
    family: Any, grid: Grid, counts: Array, means: Array, moments: Array | None,
    a: Array, b: Array, log_level: Array,
) -> sequences.Pair:  # fmt: skip
    def of_run(counts: Array, means: Array, moments: Array | None) -> sequences.Pair:
        return sequences.difference(family, counts, means, a, b, grid, log_level, moments)

    return jax.vmap(of_run)(counts, means, moments)


@functools.partial(jax.jit, static_argnums=0)
def _directions(
    grid: Grid, centres: Array, y: Array, features: Array, counts: Array, log_level: Array
) -> sequences.Pair:
    def of_run(centres: Array, counts: Array) -> sequences.Pair:
        return sequences.directions(grid, centres, y, features, counts, log_level)

    return jax.vmap(of_run)(centres, counts)
