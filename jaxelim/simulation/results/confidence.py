"""Confidence sequences of the means of runs, simulated and live ones.

`jaxelim.mixtures.pieces` has the mathematics.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import scipy  # its parts are imported on first use
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
_STEPS = 100  # of the fixed point of Welch's degrees of freedom; it takes about 5


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


class Estimated(NamedTuple):
    """A number with its interval; the ends are NaN where there is none."""

    value: float
    low: float
    high: float


def difference(
    a: np.ndarray, b: np.ndarray, paired: bool, level: float = 0.95
) -> tuple[Estimated, float]:
    """mean(a) - mean(b), with Student's interval of the pairs, or Welch's, and its p-value.

    Of samples [n] and [m]; n = m where they are pairs. The p-value, of equal means, is NaN for
    samples of one; of samples without spread 1 where the means are equal, else 0.
    """
    value = float(a.mean() - b.mean())
    if min(a.size, b.size) < 2:
        return Estimated(value, math.nan, math.nan), math.nan
    if np.ptp(a - b) == 0 if paired else np.ptp(a) == 0 == np.ptp(b):
        return Estimated(value, value, value), float(value == 0)
    stats: Any = scipy.stats
    test = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
    ends = test.confidence_interval(level)
    return Estimated(value, float(ends.low), float(ends.high)), float(test.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values with Holm's (1979) correction for their number; NaN stays, and does not count."""
    p = np.array(p_values, float)
    order = np.argsort(p)[: np.sum(~np.isnan(p))]  # NaN comes last
    p[order] = np.maximum.accumulate(np.minimum(np.arange(order.size, 0, -1) * p[order], 1))
    return p.tolist()


def ratio(a: np.ndarray, b: np.ndarray, paired: bool, level: float = 0.95) -> Estimated:
    """mean(a)/mean(b) for positive samples, with Fieller's interval.

    It holds every rho >= 0 for which a t-test at this level accepts mean(a) = rho mean(b).
    Where it accepts mean(b) = 0 as well, there is no upper end: inf.
    """
    value, n, m = float(a.mean() / b.mean()), a.size, b.size
    if min(n, m) < 2:
        return Estimated(value, math.nan, math.nan)
    of_a, of_b = float(a.var(ddof=1)) / n, float(b.var(ddof=1)) / m  # variances of the means
    both = float(np.mean((a - a.mean()) * (b - b.mean()))) / (n - 1) if paired else 0.0

    def freedom(rho: float) -> float:
        """Degrees of freedom of mean(a) - rho mean(b)."""
        if paired:
            return n - 1
        first, second = of_a, rho * rho * of_b
        below = first**2 / (n - 1) + second**2 / (m - 1)
        return (first + second) ** 2 / below if below > 0 else n + m - 2

    def bounds(rho: float) -> tuple[float, float]:
        """The rho' with (a - rho' b)^2 <= q^2 (variance of a - rho' b), cut at 0."""
        square = float(scipy.special.stdtrit(freedom(rho), (1 + level) / 2)) ** 2
        lead = b.mean() ** 2 - square * of_b
        if lead <= 0:
            return 0.0, math.inf
        middle, last = a.mean() * b.mean() - square * both, a.mean() ** 2 - square * of_a
        root = math.sqrt(max(middle**2 - lead * last, 0.0))
        return max((middle - root) / lead, 0.0), (middle + root) / lead

    ends = [value, value]
    for side in (0, 1):
        for _ in range(_STEPS):
            before, ends[side] = ends[side], float(bounds(ends[side])[side])
            near = abs(ends[side] - before) <= 1e-14 * abs(before)
            if near or not math.isfinite(ends[side]):
                break
    return Estimated(value, *ends)


def rate(count: int, n: int, level: float = 0.95) -> Estimated:
    """count/n, with the interval of Clopper and Pearson; its level is at least `level`."""
    ends = scipy.stats.binomtest(count, n).proportion_ci(level)
    return Estimated(count / n, float(ends.low), float(ends.high))


def sign_test(wins: int, losses: int) -> float:
    """The two-sided p-value of equal chances of both, from their binomial distribution."""
    return float(scipy.stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def rates_test(a: np.ndarray, b: np.ndarray, paired: bool) -> float:
    """The two-sided p-value of equal rates of bool [n] and [m], by an exact test.

    Pairs: McNemar's, the sign test of the pairs that differ. Else Fisher's.
    """
    if paired:
        return sign_test(int((a & ~b).sum()), int((b & ~a).sum()))
    test: Any = scipy.stats.fisher_exact([[int(x.sum()), int((~x).sum())] for x in (a, b)])
    return float(test.pvalue)
