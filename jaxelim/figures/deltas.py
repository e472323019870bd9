"""Stopping times against delta, with the lower bound."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import stdtrit

from jaxelim import checks
from jaxelim.bounds import complexity
from jaxelim.bounds.bounds import heuristic, kl_bound, practical_time, sample_bound
from jaxelim.errors import ArgumentError
from jaxelim.figures.entries import (
    left_out,
    mean_and_sd,
    note_on,
    some_stopped,
    stopping_times,
    tau_of_deltas,
)  # fmt: skip
from jaxelim.figures.style import GREY, MARKERS, Drawing, logarithmic, outside, styled
from jaxelim.instances.instance import Instance
from jaxelim.simulation.results.result import Result

_POINTS = 40  # of each bound


def delta_figure(
    results: Mapping[str, Any],
    information: Any = None,
    threshold: Callable | None = None,
    level: float = 0.95,
    stopping: int = 0,
    *,
    log: bool = False,
) -> Figure:
    """Draw mean tau, and mean tau/log(1/delta), against log(1/delta), with the bounds.

    The lower bound is log(1/(2.4 delta)) T* (`sample_bound`); where n answers are right,
    kl((1 - delta)/n, delta) T* (`kl_bound`). The practical bound is the first
    t >= T* beta(t, delta) (`practical_time`). Both panels have both bounds, and the right
    panel T*. Means are of the runs that stopped, with Student's intervals as bands.

    Args:
        results: by rule, a `Result` of one instance. Or a pair of deltas [D] and stopping
            times [D, run] in samples, NaN for truncated runs.
        information: H*, as of `sample_bound`: a `Complexity`, or H* per sample. None: that
            of the results' instance and problem, if all have the same, else there are no
            bounds.
        threshold: beta of the practical bound, a callable of (t, delta). None: that of the
            results, if all have the same, else log((1 + t)/delta).
        level: the level of the bands, in (0, 1).
        stopping: index of the stopping rule that is drawn.
        log: whether the axes of samples are logarithmic.

    Raises:
        ArgumentError: an entry is none of these, no run of it stopped, or another
            argument is out of range.
    """
    level = checks.real("level", level, low=0, high=1, open=True)
    stopping = checks.integer("stopping", stopping, low=0)
    drawn = [
        (name, *_times(name, entry, stopping), style)
        for (name, entry), style in styled("results", results)
    ]
    every = np.concatenate([deltas for _, deltas, _, _ in drawn])
    time, right = characteristic(list(results.values()), information)
    threshold = common_threshold(list(results.values())) if threshold is None else threshold
    figure = Drawing(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for place, (name, deltas, tau, (colour, dash)) in enumerate(drawn):
        draw_means(panels, deltas, tau, level, place, (colour, dash), name + left_out(tau))
    if time is not None:
        draw_bounds(panels, every, time, right, threshold)
    for axes in panels:
        axes.set_xlabel("log(1/delta), natural logarithm")
        if log:
            axes.set_yscale("log")
            logarithmic(axes.yaxis, *axes.get_ylim())
        else:
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25, linewidth=0.5)
    panels[0].set_ylabel(
        f"mean tau{_observer(results, stopping)} (samples), {100 * level:.3g}% bands"
    )
    panels[1].set_ylabel("mean tau / log(1/delta) (samples)")
    note = note_on([tau for _, _, tau, _ in drawn])
    # Above the panels, as curves may be anywhere inside.
    outside(figure, "upper left", note)
    return figure


def draw_means(
    panels: Any,
    deltas: np.ndarray,
    tau: np.ndarray,
    level: float,
    place: int,
    style: tuple[Any, Any],
    label: str | None = None,
) -> None:
    """Draw mean tau, and mean tau/log(1/delta), of stopping times [D, run], with bands."""
    order, (colour, dash) = np.argsort(-deltas), style
    x, tau = np.log(1 / deltas[order]), tau[order]
    mean, half = means_of(tau, level)
    for axes, unit in zip(panels, (1, x), strict=True):
        low, high = (mean - half) / unit, (mean + half) / unit
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(x, mean / unit, color=colour, linestyle=dash, linewidth=1.7, markersize=4.5,
                  marker=MARKERS[place % len(MARKERS)], label=label)  # fmt: skip


def means_of(tau: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Means of stopping times [D, run], and half the widths of Student's intervals: [D] each."""
    mean, sd, n = mean_and_sd(tau)
    return mean, sd / np.sqrt(np.maximum(n, 1)) * stdtrit(np.maximum(n - 1, 1), (1 + level) / 2)


def _times(name: str, entry: Any, stopping: int) -> tuple[np.ndarray, np.ndarray]:
    """Deltas [D] and stopping times [D, run] of one entry, NaN for truncated runs."""
    if isinstance(entry, Result):
        if entry.batched or stopping >= len(entry.stopping):
            allowed = f"results of one instance, with a stopping rule of index {stopping}"
            raise ArgumentError("results", entry, allowed, f"rule {name!r}")
        deltas, tau = entry.deltas, tau_of_deltas(entry, stopping)
    else:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            allowed = "a Result, or a pair of deltas [D] and stopping times [D, run]"
            raise ArgumentError("results", entry, allowed, f"rule {name!r}")
        deltas = checks.deltas(entry[0])
        tau = stopping_times("samples", entry[1], (deltas.size, None))
    return deltas, some_stopped("results", name, tau)


def _observer(results: Mapping[str, Any], stopping: int) -> str:
    """Name the stopping rule that is drawn, where all entries have the same."""
    rules = [getattr(entry, "stopping", None) for entry in results.values()]
    names = {rule and rule[stopping].name for rule in rules}
    return f" of {names.pop()}" if len(names) == 1 and all(rules) else ""


def characteristic(entries: list, information: Any = None) -> tuple[float | None, int]:
    """T*, or None, and the number of right answers."""
    if information is not None:
        value = getattr(information, "value", information)
        if np.size(value) != 1:
            allowed = "a Complexity of one instance, or one number"
            raise ArgumentError("information", information, allowed)
        return 1 / float(np.squeeze(value)), 1
    asked = common_question(entries)
    if asked is None:
        return None, 1
    instance, problem = asked
    right = len(problem.right(instance.means)) if problem.epsilon else 1
    return float(complexity(instance.without_costs(), problem).time), right  # tau is in samples


def common_question(entries: list) -> tuple[Instance, Any] | None:
    """The instance and the problem that all results have; None where they differ."""
    asked = [(getattr(entry, "instance", None), getattr(entry, "problem", None))
             for entry in entries]  # fmt: skip
    instance, problem = asked[0]
    if not isinstance(instance, Instance) or any(pair != asked[0] for pair in asked):
        return None
    return instance, problem


def common_threshold(entries: list) -> Callable:
    """The threshold of all results, or log((1 + t)/delta) where there is no such."""
    kept = [getattr(entry, "threshold", None) for entry in entries]
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
