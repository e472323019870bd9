"""Intervals and exact tests for two samples: means, their ratio, signs and error rates.

Means: Student's intervals of the differences of pairs, Welch's for two samples apart.
Ratios: Fieller's (1954), which inverts the same tests of mean(a) = rho mean(b). A ratio's
interval then holds 1 if and only if the difference's holds 0. Rates: Clopper and Pearson
(1934). All intervals are two-sided.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are imported on first use

_STEPS = 100
"""Steps of the fixed point of Welch's degrees of freedom; it takes about 5."""


class Estimated(NamedTuple):
    """A number with its interval; the ends are NaN where there is none."""

    value: float
    low: float
    high: float


class Moments(NamedTuple):
    """Means of two samples, and the variances and covariance of these means."""

    a: float
    b: float
    of_a: float
    of_b: float
    both: float
    freedom: Callable[[float], float]  # degrees of freedom of mean(a) - rho mean(b)


def moments(a: np.ndarray, b: np.ndarray, paired: bool) -> Moments:
    """The moments of samples [n] and [m], each of two or more; paired: n = m."""
    n, m = a.size, b.size
    of_a, of_b = float(a.var(ddof=1)) / n, float(b.var(ddof=1)) / m
    if paired:
        both = float(np.mean((a - a.mean()) * (b - b.mean()))) / (n - 1)
        return Moments(float(a.mean()), float(b.mean()), of_a, of_b, both, lambda rho: n - 1)

    def welch(rho: float) -> float:
        first, second = of_a, rho * rho * of_b
        below = first**2 / (n - 1) + second**2 / (m - 1)
        return (first + second) ** 2 / below if below > 0 else n + m - 2

    return Moments(float(a.mean()), float(b.mean()), of_a, of_b, 0.0, welch)


def difference(a: np.ndarray, b: np.ndarray, paired: bool, level: float = 0.95) -> Estimated:
    """mean(a) - mean(b), with Student's interval of the pairs, or Welch's.

    Args:
        a, b: samples [n] and [m]; n = m where they are pairs.
        paired: whether a[i] and b[i] are a pair.
        level: of the interval, in (0, 1).
    """
    value = float(a.mean() - b.mean())
    if min(a.size, b.size) < 2:
        return Estimated(value, math.nan, math.nan)
    if not _spread(a, b, paired):
        return Estimated(value, value, value)
    ends = _test(a, b, paired).confidence_interval(level)
    return Estimated(value, float(ends.low), float(ends.high))


def means_test(a: np.ndarray, b: np.ndarray, paired: bool) -> float:
    """The two-sided p-value of equal means, of Student's test of the pairs or Welch's.

    It is at most 1 - level where the interval of `difference` does not hold 0. NaN for
    samples of one; of samples without spread 1 where the means are equal, else 0.
    """
    if min(a.size, b.size) < 2:
        return math.nan
    if not _spread(a, b, paired):
        return float(a.mean() == b.mean())
    return float(_test(a, b, paired).pvalue)


def _test(a: np.ndarray, b: np.ndarray, paired: bool) -> Any:
    from scipy import stats  # slow to import

    return stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)


def _spread(a: np.ndarray, b: np.ndarray, paired: bool) -> bool:
    """Whether the difference of means has a standard error above 0."""
    return bool(np.ptp(a - b) > 0 if paired else np.ptp(a) > 0 or np.ptp(b) > 0)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values with Holm's (1979) correction for their number; NaN stays, and does not count."""
    p = np.asarray(p_values, float)
    order = [i for i in np.argsort(p, kind="stable") if not math.isnan(p[i])]
    corrected, largest = p.copy(), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min((len(order) - place) * p[i], 1.0))
        corrected[i] = largest
    return corrected.tolist()


def ratio(a: np.ndarray, b: np.ndarray, paired: bool, level: float = 0.95) -> Estimated:
    """mean(a)/mean(b) for positive samples, with Fieller's interval.

    It holds every rho >= 0 for which a t-test at this level accepts mean(a) = rho mean(b).
    Where it accepts mean(b) = 0 as well, there is no upper end: inf.

    Args:
        a, b, paired, level: as in `difference`; all entries are above 0.
    """
    value = float(a.mean() / b.mean())
    if min(a.size, b.size) < 2:
        return Estimated(value, math.nan, math.nan)
    of = moments(a, b, paired)
    ends = []
    for side in (0, 1):
        end = value
        for _ in range(_STEPS):
            quantile = scipy.special.stdtrit(of.freedom(end), (1 + level) / 2)
            bound = _fieller(of, float(quantile))[side]
            if not math.isfinite(bound) or abs(bound - end) <= 1e-14 * abs(end):
                end = bound
                break
            end = bound
        ends.append(end)
    return Estimated(value, *ends)


def _fieller(of: Moments, quantile: float) -> tuple[float, float]:
    """The rho with (a - rho b)^2 <= quantile^2 (variance of a - rho b), cut at 0."""
    square = quantile**2
    lead = of.b**2 - square * of.of_b
    if lead <= 0:
        return 0.0, math.inf
    middle, last = of.a * of.b - square * of.both, of.a**2 - square * of.of_a
    root = math.sqrt(max(middle**2 - lead * last, 0.0))
    return max((middle - root) / lead, 0.0), (middle + root) / lead


def rate(count: int, n: int, level: float = 0.95) -> Estimated:
    """count/n, with the interval of Clopper and Pearson; its level is at least `level`."""
    from scipy import stats

    ends = stats.binomtest(count, n).proportion_ci(level)
    return Estimated(count / n, float(ends.low), float(ends.high))


def sign_test(wins: int, losses: int) -> float:
    """The two-sided p-value of equal chances of both, from their binomial distribution."""
    from scipy import stats  # slow to import

    return float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def rates_test(a: np.ndarray, b: np.ndarray, paired: bool) -> float:
    """The two-sided p-value of equal rates of bool [n] and [m], by an exact test.

    Pairs: McNemar's, the sign test of the pairs that differ. Else Fisher's.
    """
    from scipy import stats

    if paired:
        return sign_test(int((a & ~b).sum()), int((b & ~a).sum()))
    table = [[int(x.sum()), int((~x).sum())] for x in (a, b)]
    fisher: Any = stats.fisher_exact(table)
    return float(fisher.pvalue)
