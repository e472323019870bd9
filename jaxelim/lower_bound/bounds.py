"""Bounds on stopping times from H*.

Lower bounds hold for every delta-correct procedure; upper bounds are the paper's
theorem. A threshold beta is a callable of (t, delta). A regret R is a non-decreasing
callable of t, with R(t)/t tending to 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxelim import checks, scope
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound.certified import conditioned
from jaxelim.lower_bound.optimum import Complexity, complexity
from jaxelim.lower_bound.pieces import (
    Pieces,
    refuse_costs,
    refuse_other_families,
    refuse_slack,
)
from jaxelim.lower_bound.region import Region, least_information
from jaxelim.lower_bound.solves import Truth

Threshold = Callable[[Any, Any], Any]
Regret = Callable[[float], float]

# Largest time of a search. A threshold that grows too fast for any time up to here is refused.
_LATEST = 2**60


def heuristic(t, delta):
    """beta(t, delta) = log((1 + t)/delta), the threshold of the paper's experiments."""
    return math.log((1 + t) / delta)


def sample_bound(delta, information):
    """The lower bound log(1/(2.4 delta))/H* on mean samples of delta-correct procedures.

    It holds where one answer is right; for others see `kl_bound`.

    Args:
        delta: error probabilities in (0, 1), any shape.
        information: a `Complexity`; or H* per sample, numbers in (0, 1], which broadcast
            against delta. T* = 1/H* is refused where it is above 1. An instance so easy
            that H* is above 1 has its `Complexity`.

    Returns:
        float64 samples; negative where delta > 1/2.4, where the bound is empty.

    Raises:
        ArgumentError: delta or information is out of range.

    Reference: Tirinzoni & Degenne (2022), section 2.
    """
    return samples_at(delta, value_of(information))


def samples_at(delta, value):
    """`sample_bound` for H* of any size above 0."""
    delta, value = _checked(delta, value)
    return np.log(1 / (2.4 * delta)) / value


def kl_bound(delta, information, answers: int = 1):
    """The lower bound kl(delta, 1 - delta)/H*, the sharper form of `sample_bound`.

    kl is the Kullback-Leibler divergence between Bernoulli distributions. With n right
    answers, as of `BestArm(epsilon=)`, it is kl((1 - delta)/n, delta)/H*: one of them has
    at least that probability. It is 0 where (1 - delta)/n < delta.

    Args:
        delta, information: as there; Returns and Raises too.
        answers: the number n of right answers.
    """
    return kl_samples_at(delta, value_of(information), answers)


def kl_samples_at(delta, value, answers: int = 1):
    """`kl_bound` for H* of any size above 0."""
    delta, value = _checked(delta, value)
    answers = checks.integer("answers", answers, low=1)
    if answers == 1:
        return (1 - 2 * delta) * np.log((1 - delta) / delta) / value
    p = np.maximum((1 - delta) / answers, delta)
    return (p * np.log(p / delta) + (1 - p) * np.log((1 - p) / (1 - delta))) / value


def value_of(information) -> np.ndarray:
    """H* of a `Complexity`, or of numbers that can be H* rather than T*."""
    if isinstance(information, Complexity):
        return information.value
    value = checks.real_array("information", information)
    if (value <= 0).any() or (value > 1).any():
        allowed = "a Complexity, or H* per sample in (0, 1]; not T* = 1/H*"
        raise ArgumentError("information", information, allowed)
    return value


def _checked(delta, value):
    """Check delta in (0, 1) and H* > 0, of any shapes that broadcast."""
    delta = checks.deltas(delta) if np.ndim(delta) else float(checks.deltas(delta)[0])
    value = checks.real_array("value", value)
    if (value <= 0).any():
        raise ArgumentError("value", value, "H* per sample, numbers above 0")
    return delta, value


def practical_time(delta: float, information, threshold: Threshold = heuristic) -> int:
    """The first integer t >= beta(t, delta)/H*.

    LLR stopping ends a run without noise that pulls in proportions w* there. With noise
    the piece of least evidence decides. Where many pieces bind at w*, mean times are
    longer; their ratio to this tends to 1 as delta tends to 0.

    Args:
        delta: error probability in (0, 1).
        information: a `Complexity` of one instance, or H* per sample in (0, 1].
        threshold: beta, a callable of (t, delta).

    Raises:
        ArgumentError: an argument is none of these, or there is no such t up to 2^60.
    """
    value = value_of(information)
    if np.ndim(value):
        allowed = "a Complexity of one instance, or one number"
        raise ArgumentError("information", information, allowed)
    return practical_at(delta, float(value), threshold)


def practical_at(delta: float, value: float, threshold: Threshold = heuristic) -> int:
    """`practical_time` for H* of any size above 0."""
    delta = checks.real("delta", delta, low=0, high=1, open=True)
    value = checks.real("value", value, low=0, open=True)
    if not callable(threshold):
        raise ArgumentError("threshold", threshold, "a callable of (t, delta)")
    return first_time(lambda t: _beta(threshold, t, delta) / value, start=1)


def first_time(needed: Callable[[int], float], start: int = 2) -> int:
    """The first integer t >= start with t >= needed(t), for `needed` concave in t.

    Raises:
        ArgumentError: there is none up to 2^60.
    """
    if start >= needed(start):
        return start
    low, high = start, 2 * start
    while high < needed(high):
        low, high = high, 2 * high
        if high > _LATEST:
            raise ArgumentError(
                "threshold", needed, "one that grows slower than t H*", f"no time up to {_LATEST}"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle >= needed(middle) else (middle, high)
    return high


def _beta(threshold: Threshold, t: float, delta: float) -> float:
    # Floats, in float64: in 32 bits jax.numpy would wrap large integers and lose digits.
    with scope.float64():
        value = float(threshold(float(t), float(delta)))
    if not (math.isfinite(value) and value >= 0):
        raise ArgumentError(
            "threshold", threshold, "finite values >= 0", f"{value} at t = {t}, delta = {delta}"
        )
    return value


def _sum_of_roots(threshold: Threshold, t: int, delta: float) -> float:
    """(sqrt(beta(t, delta)) + sqrt(beta(t, 1/t^2)))^2."""
    return (math.sqrt(_beta(threshold, t, delta)) + math.sqrt(_beta(threshold, t, 1 / t**2))) ** 2


@dataclass(frozen=True, eq=False)
class EliminationBounds:
    """Bounds on mean elimination times, in samples, for rules of information regret R.

    Pieces are in the order of the problem's `half_spaces`. (Paper, theorem on
    elimination times.)
    """

    llr: int  # bound on E[tau] under LLR stopping, t-bar + 2
    full: np.ndarray  # [P] int64, bounds on E[tau_p] under full elimination
    selective: np.ndarray  # [P] int64, bounds on E[tau_p] under selective elimination
    difference: float  # f(theta, delta): E[tau_llr] <= E[tau_elim] + f
    lower: np.ndarray  # [P] certified lower bound on H_p over Omega_{R/t}, at the time of `full`
    value: float  # H*


def elimination_bounds(
    instance: Instance, problem: Any, delta: float = 0.01, threshold: Threshold = heuristic,
    regret: Regret | None = None, *, resolution: float = 1.25, gap: float = 1e-10,
) -> EliminationBounds:  # fmt: skip
    """Bound the mean time of LLR stopping, and the mean time at which each piece is eliminated.

    E[tau_llr] <= t-bar + 2 and E[tau_p] <= min(t-bar_p, t-bar) + 2, with

    ::

        t-bar: the first t >= (B(t) + R(t))/H*,
        t-bar_p: the first t >= max(B(t)/m_p(t), G(t)),
        B(t) = (sqrt(beta(t, delta)) + sqrt(beta(t, 1/t^2)))^2.

    m_p(t) is the least H_p over the R(t)/t-optimal allocations. G is 0 for full
    elimination and (4 beta(t, 1/t^2) + R(t))/H* for selective elimination. The
    certified lower value replaces m_p, so the bounds remain valid.

    Args:
        instance: one instance.
        problem: what to identify; see `complexity`.
        delta: error probability in (0, 1).
        threshold: beta, a callable of (t, delta), concave in t.
        regret: R, a callable of t, non-decreasing and concave; None: 0.
            `information_regret` computes one from a run.
        resolution: ratio > 1 of successive times at which m_p is computed where R is
            not 0; nearer 1 is tighter.
        gap: relative duality gap for H*.

    Raises:
        UnsupportedError: a batch of instances, or rewards that are not Gaussian of known
            variances: the theorem rests on the triangle inequality of the norm in which
            their divergence is a square.
        ArgumentError: values of threshold or regret that are no finite numbers >= 0;
            and as `complexity`.

    Reference: Tirinzoni & Degenne (2022), theorem on elimination times, and the theorem
        that compares LLR and elimination stopping; proofs in its appendix.
    """
    delta = checks.real("delta", delta, low=0, high=1, open=True)
    resolution = checks.real("resolution", resolution, low=1, open=True)
    region = region_of(instance, problem, gap)
    H = region.value

    def R(t: float) -> float:
        regret_t = 0.0 if regret is None else float(regret(t))
        if not (math.isfinite(regret_t) and regret_t >= 0):
            raise ArgumentError("regret", regret, "finite values >= 0", f"{regret_t} at t = {t}")
        return regret_t

    def roots(t: int) -> float:
        return _sum_of_roots(threshold, t, delta)

    def G(t: int) -> float:
        return (4 * _beta(threshold, t, 1 / t**2) + R(t)) / H

    t_bar = first_time(lambda t: (roots(t) + R(t)) / H)
    P = len(region.pieces.offsets)
    full, selective, lower = np.full(P, t_bar), np.full(P, t_bar), np.full(P, H)
    done = np.zeros((2, P), bool)
    # The most information that any allocation gives on a piece bounds its time from below.
    earliest = first_time(lambda t: roots(t) / np.max(_most_information(region)))
    t = min(earliest, t_bar)
    while t < t_bar and not done.all():
        end = t_bar if regret is None else min(max(int(t * resolution), t + 1), t_bar)
        # R does not decrease, so on [t, end) R/t is at most this.
        least, _ = least_information(region, R(end - 1) / t, starts=1, rounds=0)
        for p in range(P):
            for row, (bounds, extra) in enumerate(((full, lambda t: 0.0), (selective, G))):
                if done[row, p]:
                    continue

                def needed(t, p=p, extra=extra, least=least):
                    return max(roots(t) / least[p], extra(t)) if least[p] > 0 else math.inf

                if end - 1 >= needed(end - 1):
                    bounds[p] = min(first_time(needed, start=t), t_bar)
                    done[row, p] = True
                    if row == 0:
                        lower[p] = least[p]
        t = end
    return EliminationBounds(
        llr=t_bar + 2, full=full + 2, selective=selective + 2, lower=lower, value=H,
        difference=stopping_difference(delta, H, threshold, R, t_bar),
    )  # fmt: skip


def stopping_difference(
    delta: float, value: float, threshold: Threshold, regret: Regret, t_bar: int
) -> float:
    """f(theta, delta) of the theorem that compares LLR and elimination stopping, in samples.

    f = 3 + (beta - log(1/delta) + 2 sqrt(beta beta') + beta' + R(t) + log 2.4)/H*,
    where t = t-bar, beta = beta(t, delta) and beta' = beta(t, 1/t^2). f/log(1/delta)
    tends to 0 with delta.

    Args:
        delta: error probability.
        value: H*.
        threshold: beta.
        regret: R.
        t_bar: the bound for LLR stopping, less 2.
    """
    beta, other = _beta(threshold, t_bar, delta), _beta(threshold, t_bar, 1 / t_bar**2)
    low_order = (
        beta
        - math.log(1 / delta)
        + 2 * math.sqrt(beta * other)
        + other
        + regret(t_bar)
        + math.log(2.4)
    )
    return 3 + low_order / value


def region_of(instance: Instance, problem: Any, gap: float = 1e-10) -> Region:
    """The region of near-optimal allocations of one instance, for `least_information`.

    Raises:
        UnsupportedError: a batch of instances, or rewards that are not Gaussian of known
            variances; and as `complexity`.
    """
    by_arm = isinstance(instance, Instance) and not instance.family.has("design")
    if not (by_arm and instance.family.square):
        refuse_other_families(instance, "bounds on elimination times are not defined")
    refuse_slack(problem)
    refuse_costs(instance, "bounds on elimination times")
    if isinstance(instance, Instance) and instance.batched:
        raise UnsupportedError("instance", instance, "one instance, not a batch")
    optimum = complexity(instance, problem, gap)
    if by_arm:
        # Arms e_k/std_k with noise of standard deviation 1 give the same information.
        costs = Truth.of(instance, optimum.pieces).scales[0]
        arms, theta, unit = np.diag(1 / np.sqrt(costs))[None], instance.means[None], optimum.pieces
    else:
        arms, theta, unit = conditioned(instance, problem, optimum.pieces)
    return Region(
        arms[0], theta[0], Pieces(*(x[0] for x in unit)), float(optimum.value), optimum.allocation
    )


def _most_information(region: Region) -> np.ndarray:
    """An upper bound [P] on H_p over the whole simplex: all arms pulled with weight 1."""
    return region.information(np.ones(len(region.allocation)))
