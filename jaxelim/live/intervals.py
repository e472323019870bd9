"""Confidence intervals of a live run, from the confidence sequences of its arms."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import scope
from jaxelim.engine import Lane
from jaxelim.errors import UnsupportedError
from jaxelim.live.job import LiveJob
from jaxelim.mixtures import sequences
from jaxelim.mixtures.grid import Grid
from jaxelim.thresholds.mixture import Mixture


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Confidence intervals of the means of all arms, valid together and at every look.

    Attributes:
        values: [K], the estimates.
        low, high: [K], the ends, in the units of the rewards.
        level: the probability that all of them hold at all times.
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float


def missing(job: LiveJob) -> str:
    """Why a live run has no intervals; empty where it has."""
    family = job.spec.family
    if not family.has("log_mixture"):
        return f"a family with a mixture: {job.call.instance.family!r} defines no log_mixture"
    return "None or 0 as ridge: intervals cover no bias" if family.ridge else ""


def of_arms(job: LiveJob, lane: Lane, level: float) -> Intervals:
    """The intervals of all arms together, at level (0, 1).

    Raises:
        UnsupportedError: there are none for these rewards.
    """
    grid = _grid(job, "intervals")
    k = job.arms.K
    counts, means, variances = _statistics(lane)
    with scope.engine():
        if _linear(job):
            given = grid, means, job.arms.arms, job.arms.arms, counts
            ends = _directions(*given, math.log(1 / (1 - level)))
        else:
            given = job.spec.family, grid, counts, means, variances
            ends = _of_arms(*given, math.log(k / (1 - level)))
        low, high = (np.asarray(one) for one in ends)
    scale = job.call.instance.family.scale
    return Intervals(means * scale, low * scale, high * scale, level)


def of_pairs(
    job: LiveJob, lane: Lane, a: np.ndarray, b: np.ndarray, level: float, pairs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Differences of the means of arms a and b, [P] each: the values and both ends, [P].

    Args:
        job, lane: of the run.
        a, b: indices of arms.
        level: the probability in (0, 1) that so many intervals as `pairs` hold together.
        pairs: their number. Linear arms share one mixture, whatever it is.

    Raises:
        UnsupportedError: there are none for these rewards.
    """
    grid = _grid(job, "difference")
    counts, means, variances = _statistics(lane)
    values = means[a] - means[b]
    with scope.engine():
        if _linear(job):
            features = job.arms.arms
            given = grid, values, features[a] - features[b], features, counts
            ends = _directions(*given, math.log(1 / (1 - level)))
        else:
            given = job.spec.family, grid, counts, means, variances, a, b
            ends = _of_pairs(*given, math.log(pairs / (1 - level)))
        low, high = (np.asarray(one) for one in ends)
    scale = job.call.instance.family.scale
    return values * scale, low * scale, high * scale


def _grid(job: LiveJob, name: str) -> Grid:
    """The priors of a run: those of its mixture, else the default ones."""
    reason = missing(job)
    if reason:
        raise UnsupportedError(name, job.call.instance.family, reason)
    threshold = job.call.threshold
    return threshold.grid if isinstance(threshold, Mixture) else Grid()


def _linear(job: LiveJob) -> bool:
    return job.call.instance.structure == "linear"


def _statistics(lane: Lane) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Counts, means and variances of the run: [K] each, in its units."""
    stats: Any = lane.stats
    variances = getattr(stats, "variances", None)
    alone = lambda x: np.asarray(x)[..., 0]  # noqa: E731
    return alone(stats.counts), alone(stats.means), None if variances is None else alone(variances)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _of_arms(
    family: Any, grid: Grid, counts: Array, means: Array, variances: Array | None, log_level: Array
) -> sequences.Pair:
    return sequences.interval(family, counts, means, grid, log_level, variances)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _of_pairs(
    family: Any, grid: Grid, counts: Array, means: Array, variances: Array | None,
    a: Array, b: Array, log_level: Array,
) -> sequences.Pair:  # fmt: skip
    return sequences.difference(family, counts, means, a, b, grid, log_level, variances)


@functools.partial(jax.jit, static_argnums=0)
def _directions(
    grid: Grid, centres: Array, y: Array, features: Array, counts: Array, log_level: Array
) -> sequences.Pair:
    return sequences.directions(grid, centres, y, jnp.asarray(features), counts, log_level)
