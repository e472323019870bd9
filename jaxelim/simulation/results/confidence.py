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
from jaxelim.text import Text
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
        arms = self.arms
        if arms.structure == "linear":
            return self._along(self.means, arms.arms, level)
        shared = (math.log((arms.most or arms.K) / (1 - level)),)
        rows = self.counts, self.means, self.moments
        return self._ends(self.means, _interval, rows, shared, level)

    def differences(self, a: np.ndarray, b: np.ndarray, level: float, pairs: int) -> Intervals:
        """Intervals of mean(a) - mean(b) of pairs of arms: [N, P].

        Args:
            a, b: indices of arms, [P].
            level: the probability that so many intervals as `pairs` hold together.
            pairs: their number. Linear arms share one mixture, whatever it is.
        """
        values, phi = self.means[:, a] - self.means[:, b], self.arms.arms
        if self.arms.structure == "linear":
            return self._along(values, phi[a] - phi[b], level)
        shared = math.log(pairs / (1 - level)), a, b
        rows = self.counts, self.means, self.moments
        return self._ends(values, _difference, rows, shared, level)

    def _along(self, values: np.ndarray, directions: np.ndarray, level: float) -> Intervals:
        """Intervals of values [N, Q] along directions [Q, d] of linear arms."""
        shared = math.log(1 / (1 - level)), directions, self.arms.arms
        return self._ends(values, _along, (values, self.counts), shared, level)

    def _ends(
        self, values: np.ndarray, of_run: Callable, rows: tuple, shared: tuple, level: float
    ) -> Intervals:
        """Intervals about `values`, in the units of the rewards.

        Their ends are those of `of_run`, of rows [N, ..] and what the runs share. A compiled
        function takes so many runs at a time.
        """
        count, size, parts = len(values), _FEWEST, []
        while size < min(count, _AT_ONCE):
            size *= 2
        with scope.engine():
            for start in range(0, count, size):
                at = np.arange(start, start + size) % count
                part = [x if x is None else x[at] for x in rows]
                parts.append(_over_runs(of_run, self.family, self.grid, part, shared))
        low, high = (np.concatenate(side)[:count] for side in zip(*parts, strict=True))
        scale = self.arms.family.scale
        return Intervals(values * scale, low * scale, high * scale, level)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _over_runs(of_run: Callable, family: Any, grid: Grid, rows: list, shared: tuple) -> Any:
    return jax.vmap(lambda *row: of_run(family, grid, *row, *shared))(*rows)


def _interval(
    family: Any, grid: Grid, counts: Array, means: Array, moments: Any, level: Array
) -> sequences.Pair:
    return sequences.interval(family, counts, means, grid, level, moments)


def _difference(
    family: Any, grid: Grid, counts: Array, means: Array, moments: Any, level: Array,
    a: Array, b: Array,
) -> sequences.Pair:  # fmt: skip
    return sequences.difference(family, counts, means, a, b, grid, level, moments)


def _along(
    family: Any, grid: Grid, values: Array, counts: Array, level: Array, y: Array, features: Array
) -> sequences.Pair:
    del family  # linear rewards are Gaussian
    return sequences.directions(grid, values, y, features, counts, level)


def missing(arms: Arms, ridge: float | None) -> str:
    """What runs on these arms would need for intervals; empty where they have them."""
    family = arms.family
    if not family.has("log_mixture"):
        return f"a family with a mixture: {family!r} defines no log_mixture"
    if ridge:
        return "None or 0 as ridge: intervals cover no bias"
    if arms.source is not None and arms.law not in LAWS:
        told = f". A live run that is told them takes them as {family!r}" if arms.truth else ""
        return f"rewards with a proof: {arms.law}{told}"
    return ""


def priors(threshold: Any) -> Grid:
    """The priors of intervals: those of the threshold if it is a `Mixture`, else the default."""
    return threshold.grid if isinstance(threshold, Mixture) else Grid()


def pair_of(arms: Arms, a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two different arms, as the caller names them, as indices [1]."""
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

    `compute` gives those [N, ..] of runs on the same arms; `name` is of messages.
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
        moments = list((result.variances.reshape(rows) / scale**2 * counts)[..., None])
    for i, alone in enumerate(instance.unbatched):
        family = alone.family.settled(
            instance=alone, problem=BestArm(), ridge=result.experiment.ridge,
            max_samples=result.experiment.max_samples, sums=False, theta=False, tuned=True,
        )  # fmt: skip
        grid = priors(result.threshold)
        yield MeansOfRuns(arms=alone, family=family, grid=grid, counts=counts[i], means=means[i],
                          moments=moments[i])  # fmt: skip
