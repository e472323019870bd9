"""Stopping times against delta, with the lower bound."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import stdtrit

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.figures.given import left_out, numbers
from jaxelim.figures.style import GREY, MARKERS, Drawing, styled
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound import complexity
from jaxelim.lower_bound.bounds import heuristic, kl_samples_at, practical_at, samples_at
from jaxelim.simulation.results.result import Result

_POINTS = 40  # of each bound


def delta_figure(
    results: Mapping[str, Any],
    time: float | None = None,
    threshold: Callable | None = None,
    level: float = 0.95,
    stopping: int = 0,
) -> Figure:
    """Draw mean tau, and mean tau/log(1/delta), against log(1/delta), with the bounds.

    The lower bound is log(1/(2.4 delta)) T* (`sample_bound`); where n answers are right,
    kl((1 - delta)/n, delta) T* (`kl_bound`). The practical bound is the first
    t >= T* beta(t, delta) (`practical_time`). Both panels have both bounds, and the right
    panel T*. Means are of the runs that stopped, with Student's intervals as bands.

    Args:
        results: by rule, a `Result` of one instance. Or a pair of deltas [D] and stopping
            times [D, run] in samples, NaN for truncated runs.
        time: T* in samples, > 0; None: that of the results' instance and problem, if all
            have the same, else there are no bounds.
        threshold: beta of the practical bound, a callable of (t, delta). None: that of the
            results, if all have the same, else log((1 + t)/delta).
        level: the level of the bands, in (0, 1).
        stopping: index of the stopping rule that is drawn.

    Raises:
        ArgumentError: an entry is none of these, no run of it stopped, or another
            argument is out of range.
    """
    level = checks.real("level", level, low=0, high=1, open=True)
    stopping = checks.integer("stopping", stopping, low=0)
    drawn = [
        (name, *_times(name, given, stopping), style)
        for (name, given), style in styled("results", results)
    ]
    every = np.concatenate([deltas for _, deltas, _, _ in drawn])
    time, right = _characteristic(list(results.values()), time)
    threshold = common_threshold(list(results.values())) if threshold is None else threshold
    figure = Drawing(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for place, (name, deltas, tau, (colour, dash)) in enumerate(drawn):
        order = np.argsort(-deltas)
        x, tau = np.log(1 / deltas[order]), tau[order]
        mean, half = _mean_and_half_width(tau, level)
        for axes, unit in zip(panels, (1, x), strict=True):
            low, high = (mean - half) / unit, (mean + half) / unit
            axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(x, mean / unit, color=colour, linestyle=dash, linewidth=1.7, markersize=4.5,
                      marker=MARKERS[place % len(MARKERS)], label=name + left_out(tau))  # fmt: skip
    if time is not None:
        _draw_bounds(panels, every, time, right, threshold)
    for axes in panels:
        axes.set_xlabel("log(1/delta), natural logarithm")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25, linewidth=0.5)
    panels[0].set_ylabel(
        f"mean tau{_observer(results, stopping)} (samples), {100 * level:.3g}% bands"
    )
    panels[1].set_ylabel("mean tau / log(1/delta) (samples)")
    cut = any(np.isnan(tau).any() for _, _, tau, _ in drawn)
    note = "means of the runs that stopped, biased where some were cut off"
    # Above the panels, as curves may be anywhere inside.
    above: dict[str, Any] = dict(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))
    panels[0].legend(ncols=2, title=note if cut else None, title_fontsize=8, **above)
    if time is not None:
        panels[1].legend(*_of_label(panels[1], "T*"), **above)
    return figure


def _times(name: str, given: Any, stopping: int) -> tuple[np.ndarray, np.ndarray]:
    """Deltas [D] and stopping times [D, run] of one entry, NaN for truncated runs."""
    if isinstance(given, Result):
        if given.batched or stopping >= len(given.stopping):
            allowed = f"results of one instance, with a stopping rule of index {stopping}"
            raise ArgumentError("results", given, allowed, f"rule {name!r}")
        deltas = given.deltas
        tau = np.where(given.stopped[stopping], given.samples[stopping], np.nan)
    else:
        if not isinstance(given, tuple | list) or len(given) != 2:
            allowed = "a Result, or a pair of deltas [D] and stopping times [D, run]"
            raise ArgumentError("results", given, allowed, f"rule {name!r}")
        deltas = checks.deltas(given[0])
        tau = numbers("samples", given[1], (deltas.size, None))
        if (tau <= 0).any():
            allowed = "stopping times above 0, NaN for runs that were cut off"
            raise ArgumentError("samples", given[1], allowed)
    if not np.isfinite(tau).any():
        raise ArgumentError("results", given, "at least one run that stopped", f"rule {name!r}")
    return deltas, tau


def _observer(results: Mapping[str, Any], stopping: int) -> str:
    """Name the stopping rule that is drawn, where all entries have the same."""
    given = results.values()
    names = {one.stopping[stopping].name for one in given if isinstance(one, Result)}
    same = len(names) == 1 and all(isinstance(one, Result) for one in given)
    return f" of {names.pop()}" if same else ""


def _mean_and_half_width(tau: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Means [D] over the runs that stopped and half widths of their intervals; NaN: none."""
    kept = np.isfinite(tau)
    n = kept.sum(1)
    mean = np.where(kept, tau, 0).sum(1) / np.where(n > 0, n, np.nan)
    squares = np.where(kept, tau - mean[:, None], 0) ** 2
    error = np.sqrt(squares.sum(1) / np.where(n > 1, n - 1, np.nan) / np.maximum(n, 1))
    return mean, error * stdtrit(np.maximum(n - 1, 1), (1 + level) / 2)


def _characteristic(given: list, time: float | None) -> tuple[float | None, int]:
    """T*, or None, and the number of right answers."""
    if time is not None:
        return checks.real("time", time, low=0, open=True), 1
    first, *others = given
    if not isinstance(first, Result):
        return None, 1
    same = lambda one: (  # noqa: E731
        isinstance(one, Result) and one.instance == first.instance and one.problem == first.problem
    )
    if not isinstance(first.instance, Instance) or not all(map(same, others)):
        return None, 1
    problem, found = first.problem, complexity(first.instance, first.problem)
    return float(found.time), len(problem.right(first.instance.means)) if problem.epsilon else 1


def common_threshold(given: list) -> Callable:
    """The threshold of all results, or log((1 + t)/delta) where there is no such."""
    found = [getattr(one, "threshold", None) for one in given]
    return found[0] if callable(found[0]) and all(x == found[0] for x in found) else heuristic


def _draw_bounds(
    panels: Any, deltas: np.ndarray, time: float, right: int, threshold: Callable
) -> None:
    x = np.linspace(np.log(1 / deltas.max()), np.log(1 / deltas.min()), _POINTS)
    values = np.exp(-x)
    if right == 1:
        word, lower = "log(1/(2.4 delta)) T*", samples_at(values, 1 / time)
    else:
        word, lower = f"kl((1 - delta)/{right}, delta) T*", kl_samples_at(values, 1 / time, right)
    practical = np.array([practical_at(float(d), 1 / time, threshold) for d in values])
    bounds = ((f"lower bound {word}", np.where(lower > 0, lower, np.nan), "--"),
              ("practical bound T* beta", practical, ":"))  # fmt: skip
    for axes, unit in zip(panels, (1, x), strict=True):
        for label, bound, dash in bounds:
            axes.plot(x, bound / unit, color="black", linestyle=dash, linewidth=1.3, label=label)
    panels[1].axhline(time, color=GREY, linewidth=0.8, label=f"T* = {time:,.4g}")


def _of_label(axes: Any, start: str) -> tuple[list, list]:
    """The handles and labels of a legend whose labels begin with `start`."""
    found = [(h, t) for h, t in zip(*axes.get_legend_handles_labels(), strict=True)
             if t.startswith(start)]  # fmt: skip
    return [h for h, _ in found], [t for _, t in found]
