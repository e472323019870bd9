"""Intervals and exact tests for two samples: means, their ratio, signs and error rates.

All are SciPy's but the intervals of ratios, Fieller's (1954), which invert the tests of
mean(a) = rho mean(b). A ratio's interval then holds 1 if and only if the difference's
holds 0. All intervals are two-sided.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are imported on first use

_STEPS = 100  # of the fixed point of Welch's degrees of freedom; it takes about 5


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
