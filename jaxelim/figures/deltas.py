"""Means of stopping times against delta, and their bounds: parts of a study's figure."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import stdtrit

from jaxelim.bounds import complexity
from jaxelim.bounds.bounds import heuristic, kl_bound, practical_time, sample_bound
from jaxelim.figures.entries import mean_and_sd
from jaxelim.figures.style import GREY, MARKERS
from jaxelim.instances.instance import Instance
from jaxelim.simulation.results.result import Result

_POINTS = 40  # of each bound


def draw_means(
    panels: Any,
    deltas: np.ndarray,
    tau: np.ndarray,
    level: float,
    place: int,
    style: tuple[Any, Any],
) -> None:
    """Draw mean tau, and mean tau/log(1/delta), of stopping times [D, run], with bands."""
    order, (colour, dash) = np.argsort(-deltas), style
    x, tau = np.log(1 / deltas[order]), tau[order]
    mean, half = means_of(tau, level)
    for axes, unit in zip(panels, (1, x), strict=True):
        low, high = (mean - half) / unit, (mean + half) / unit
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(x, mean / unit, color=colour, linestyle=dash, linewidth=1.7, markersize=4.5,
                  marker=MARKERS[place % len(MARKERS)])  # fmt: skip


def means_of(tau: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Means of stopping times [D, run], and half the widths of Student's intervals: [D] each."""
    mean, sd, n = mean_and_sd(tau)
    return mean, sd / np.sqrt(np.maximum(n, 1)) * stdtrit(np.maximum(n - 1, 1), (1 + level) / 2)


def characteristic(results: list[Result]) -> tuple[float | None, int]:
    """T*, None where results differ in instance or problem, and the number of right answers."""
    asked = common_question(results)
    if asked is None:
        return None, 1
    instance, problem = asked
    right = len(problem.right(instance.means)) if problem.epsilon else 1
    return float(complexity(instance.without_costs(), problem).time), right  # tau is in samples


def common_question(results: list[Result]) -> tuple[Instance, Any] | None:
    """The instance and the problem that all results have; None where they differ."""
    asked = [(one.instance, one.problem) for one in results]
    return None if any(pair != asked[0] for pair in asked) else asked[0]


def common_threshold(results: list[Result]) -> Callable:
    """The threshold of all results, or log((1 + t)/delta) where there is no such."""
    kept = [one.threshold for one in results]
    return kept[0] if callable(kept[0]) and all(x == kept[0] for x in kept) else heuristic


def draw_bounds(
    panels: Any, deltas: np.ndarray, time: float, right: int, threshold: Callable
) -> None:
    """Draw the bounds on tau and on tau/log(1/delta), and T*."""
    x = np.linspace(np.log(1 / deltas.max()), np.log(1 / deltas.min()), _POINTS)
    for axes, unit in zip(panels, (1, x), strict=True):
        for label, bound, dash in bounds_at(np.exp(-x), time, right, threshold):
            axes.plot(x, bound / unit, color="black", linestyle=dash, linewidth=1.3, label=label)
    panels[1].axhline(time, color=GREY, linewidth=0.8, label=f"T* = {time:,.4g}")


def bounds_at(
    values: np.ndarray, time: float, right: int, threshold: Callable
) -> tuple[tuple[str, np.ndarray, str], ...]:
    """The label of each bound, its samples at deltas [D], and how its line is drawn."""
    if right == 1:
        word, lower = "log(1/(2.4 delta)) T*", sample_bound(values, 1 / time)
    else:
        word, lower = f"kl((1 - delta)/{right}, delta) T*", kl_bound(values, 1 / time, right)
    practical = np.array([practical_time(float(d), 1 / time, threshold) for d in values])
    return ((f"lower bound {word}", np.where(lower > 0, lower, np.nan), "--"),
            ("practical bound T* beta", practical, ":"))  # fmt: skip
