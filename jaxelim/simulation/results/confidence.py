"""Confidence sequences of the means of runs, simulated and live ones.

`jaxelim.mixtures.pieces` has the mathematics.
"""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import Array

from jaxelim import checks, scope
from jaxelim.contracts import Family
from jaxelim.contracts.proofs import LAWS
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.instances.arms import Arms
from jaxelim.mixtures import Grid, pieces
from jaxelim.problems import BestArm
from jaxelim.text import Text
from jaxelim.thresholds import Mixture

if TYPE_CHECKING:
    from jaxelim.simulation.results.result import Result

# Runs of one call of a compiled function: powers of two, so that few are compiled.
_FEWEST, _AT_ONCE = 8, 1024


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


def of_runs(
    arms: Arms, family: Family, threshold: Any, counts: np.ndarray, means: np.ndarray,
    moments: np.ndarray | None, level: float, pair: Any = None, pairs: int = 1,
) -> Intervals:  # fmt: skip
    """Intervals of all means of N runs on the same arms, which hold together: [N, K].

    Of a `pair` of arrays of arms, a and b, [P] each: of mean(a) - mean(b), [N, P]; so many as
    `pairs` hold together. Linear arms share one mixture, whatever that is. Counts, means and
    moments, what else a mixture reads, are [N, K, ..] in the unit of a run, the compiled family's.
    """
    phi, values, kind, together, of = arms.arms, means, "interval", arms.most or arms.K, ()
    if pair is not None:
        kind, together, of = "difference", pairs, pair
        values = values[:, pair[0]] - values[:, pair[1]]
    rows = counts, means, moments
    if arms.structure == "linear":
        kind, together, rows = "directions", 1, (counts, values, None)
        of = phi if pair is None else phi[pair[0]] - phi[pair[1]], phi
    grid = threshold.grid if isinstance(threshold, Mixture) else Grid()
    count, size, parts, beta = len(values), _FEWEST, [], math.log(together / (1 - level))
    while size < min(count, _AT_ONCE):
        size *= 2
    with scope.engine():
        for start in range(0, count, size):
            at = np.arange(start, start + size) % count
            part = [x if x is None else x[at] for x in rows]
            parts.append(_over_runs(kind, family, grid, part, beta, *of))
    low, high = (np.concatenate(side)[:count] for side in zip(*parts, strict=True))
    scale = arms.family.scale
    return Intervals(values * scale, low * scale, high * scale, level)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _over_runs(
    kind: str, family: Any, grid: Grid, rows: list, beta: Array, *of: Array
) -> pieces.Pair:
    def ends(counts: Array, values: Array, moments: Any) -> pieces.Pair:
        if kind == "directions":  # linear rewards are Gaussian
            return pieces.directions(grid, values, of[0], of[1], counts, beta)
        if kind == "difference":
            return pieces.difference(family, counts, values, of[0], of[1], grid, beta, moments)
        return pieces.interval(family, counts, values, grid, beta, moments)

    return jax.vmap(ends)(*rows)


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


def pair_of(arms: Arms, a: Any, b: Any, together: bool) -> tuple[Any, int]:
    """Two different arms of the caller, as indices [1] each, and how many pairs hold together."""
    first, second, k = arms.index(a), arms.index(b), arms.most or arms.K
    if first == second:
        raise ArgumentError("b", b, "another arm than a")
    return (np.array([first]), np.array([second])), k * (k - 1) // 2 if together else 1


def of_result(
    result: "Result", name: str, level: float, pair: Any = None, pairs: int = 1
) -> Intervals:
    """Intervals of all runs of a result, as of `of_runs`; `name` is of messages."""
    level = checks.real("level", level, low=0, high=1, open=True)
    instance, call, scale = result.instance, result.experiment, result.instance.family.scale
    if result.means is None:
        raise UnsupportedError(name, result, 'a result of simulate(.., record=("means",))')
    reason = missing(instance, call.ridge)
    if instance.family.has("estimated") and result.variances is None:
        reason = f"a live run: results keep no powers of the rewards of {instance.family!r}"
    if reason:
        raise UnsupportedError(name, instance.family, reason)
    if isinstance(result.threshold, Text):
        allowed = "threshold itself, by load_result(path, threshold=...)"
        raise ArgumentError("threshold", result.threshold, allowed)
    rows = instance.size, -1, instance.K
    counts = (result.pulls if result.entered is None else result.entered).reshape(rows)
    counts, means = counts.astype(float), result.means.reshape(rows) / scale
    moments: Any = [None] * instance.size
    if result.variances is not None:
        moments = (result.variances.reshape(rows) / scale**2 * counts)[..., None]
    parts = []
    for i, alone in enumerate(instance.unbatched):
        family = alone.family.settled(
            instance=alone, problem=BestArm(), ridge=call.ridge, max_samples=call.max_samples,
            sums=False, theta=False, tuned=True,
        )  # fmt: skip
        mine = counts[i], means[i], moments[i]
        parts.append(of_runs(alone, family, result.threshold, *mine, level, pair, pairs))
    shape = (*result.samples.shape, instance.K) if pair is None else result.samples.shape
    values, low, high = (np.concatenate([getattr(part, end) for part in parts]).reshape(shape)
                         for end in ("values", "low", "high"))  # fmt: skip
    return Intervals(values, low, high, level)
