"""The figure of a study: rules on several instances and problems."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxelim import checks
from jaxelim.errors import ArgumentError, JaxelimError
from jaxelim.figures.deltas import (
    bounds_at,
    characteristic,
    common_threshold,
    draw_bounds,
    draw_means,
    means_of,
)
from jaxelim.figures.entries import BIASED, tau_of_deltas
from jaxelim.figures.style import MARKERS, Drawing, logarithmic, outside, styled
from jaxelim.simulation.results import two_samples
from jaxelim.simulation.results.result import Result

_WIDTH, _HEIGHT = 3.9, 2.9  # inches of a panel
_ROW, _AROUND = 0.26, 0.78  # inches of a rule's line where there is one delta, and around them


def study_figure(
    groups: Mapping[str, Mapping[str, Result]],
    stopping: int | str = 0,
    *,
    log: bool = False,
    level: float = 0.95,
) -> Figure:
    """Draw mean tau, mean tau/log(1/delta) and the share of errors, against log(1/delta).

    A column a group. The first two rows have bounds where all results of a group have one
    instance and problem: the lower bound log(1/(2.4 delta)) T* (`sample_bound`; where n answers
    are right, kl((1 - delta)/n, delta) T*), and the practical bound, the first
    t >= T* beta(t, delta) (`practical_time`). The third row has delta. Means are of the runs
    that stopped, with Student's intervals as bands; errors are of all runs, with Clopper and
    Pearson's intervals as bars. Results of one delta have a line a rule and a row of panels a
    group: mean tau on the left, the share of errors on the right.

    Args:
        groups: by title, results of one instance and problem by rule, as of a `Study`.
        stopping: the name or the index of the stopping rule that is drawn. A result with
            one stopping rule has that.
        log: whether the axes of samples are logarithmic.
        level: of the bands and bars, in (0, 1).

    Raises:
        ArgumentError: there is no result, no run stopped, or a result has no such stopping
            rule.
    """
    level = checks.real("level", level, low=0, high=1, open=True)
    names = list(dict.fromkeys(rule for named in groups.values() for rule in named))
    styles = {name: (place, style) for place, ((name, _), style) in enumerate(
        styled("groups", dict.fromkeys(names)))}  # fmt: skip
    times = {}  # by title and rule: the index of the stopping rule, and its times
    for title, named in groups.items():
        for name, result in named.items():
            at = _place(name, result, stopping)
            times[title, name] = at, tau_of_deltas(result, at)
    cut = sum(int(np.isnan(tau).sum()) for _, tau in times.values())
    if not any(np.isfinite(tau).any() for _, tau in times.values()):
        raise ArgumentError("groups", dict(groups), "at least one run that stopped")
    note = f"{cut} runs cut off: {BIASED}" if cut else None
    deltas = {d for named in groups.values() for result in named.values() for d in result.deltas}
    if len(deltas) == 1:
        figure, panels = _one_delta(groups, times, log, level, styles)
        _legend(figure, panels, [], styles, note)
    else:
        figure, panels = _many_deltas(groups, times, log, level, styles)
        _legend(figure, panels, names, styles, note)
    return figure


def _many_deltas(
    groups: Any, times: Any, log: bool, level: float, styles: Any
) -> tuple[Figure, Any]:
    """Curves against log(1/delta): the figure and its panels [3, group]."""
    figure = Drawing(figsize=(max(_WIDTH * len(groups), 6.5), 3 * _HEIGHT + 0.8),
                     layout="constrained")  # fmt: skip
    panels = figure.subplots(3, len(groups), squeeze=False, sharex="col")
    deltas = [result.deltas for named in groups.values() for result in named.values()]
    width = 0.5 * np.diff(np.log(np.unique(np.concatenate(deltas)))).min()  # of rules side by side
    for column, (title, named) in zip(panels.T, groups.items(), strict=True):
        column[0].set_title(title, fontsize=10)
        for name, result in named.items():
            at, tau = times[title, name]
            draw_means(column[:2], result.deltas, tau, level, *styles[name])
            shift = width * ((styles[name][0] + 0.5) / len(styles) - 0.5)
            _draw_errors(column[2], result, at, level, shift, *styles[name])
        _draw_bounds(column, list(named.values()))
        for axes in column:
            axes.grid(alpha=0.25, linewidth=0.5)
        for axes in column[:2]:
            if log:
                axes.set_yscale("log")
                logarithmic(axes.yaxis, *axes.get_ylim())
            else:
                axes.set_ylim(bottom=0)
        column[2].set_ylim(bottom=0)
        column[2].set_xlabel("log(1/delta), natural logarithm")
    words = ("mean tau (samples)", "mean tau / log(1/delta) (samples)", "share of errors")
    for axes, word in zip(panels[:, 0], words, strict=True):
        axes.set_ylabel(word)
    return figure, panels


def _one_delta(groups: Any, times: Any, log: bool, level: float, styles: Any) -> tuple[Figure, Any]:
    """A line a rule, with samples and errors along it: the figure and its panels [group, 2]."""
    height = len(groups) * (_ROW * max(len(styles), 2) + _AROUND) + 0.4
    figure = Drawing(figsize=(2 * _WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(wspace=0.1)  # type: ignore[union-attr]  # for long tick labels
    panels = figure.subplots(len(groups), 2, squeeze=False, sharey=True)
    for (samples, errors), (title, named) in zip(panels, groups.items(), strict=True):
        samples.set_title(title, fontsize=10, loc="left")
        for name, result in named.items():
            at, tau = times[title, name]
            _draw_rule((samples, errors), result, at, tau, level, *styles[name])
        results = list(named.values())
        deltas, (time, right) = results[0].deltas, _characteristic(results)
        if time is not None:
            for label, bound, dash in bounds_at(deltas, time, right, common_threshold(results)):
                samples.axvline(bound[0], color="black", linestyle=dash, label=label)
        errors.axvline(deltas[0], color="black", linestyle="-.", label="delta")
        if log:
            samples.set_xscale("log")
            logarithmic(samples.xaxis, *samples.get_xlim())
        else:
            samples.set_xlim(left=0)
        errors.set_xlim(left=0)
        errors.xaxis.set_major_locator(MaxNLocator(4))  # small shares have long labels
        samples.set_xlabel("mean tau (samples)")
        errors.set_xlabel(f"share of errors, delta = {deltas[0]:g}")
        for axes in (samples, errors):
            axes.grid(alpha=0.25, linewidth=0.5)
    panels[0, 0].set_yticks(range(len(styles)), list(styles), fontsize=9)
    panels[0, 0].set_ylim(len(styles) - 0.5, -0.5)
    return figure, panels


def _draw_rule(
    column: Any, result: Result, at: int, tau: np.ndarray, level: float, place: int, style: Any
) -> None:
    """Draw mean tau and the share of errors of a rule at one delta, on a line of its own."""
    mean, half = means_of(tau, level)
    wrong = int((result.stopped[at] & ~result.correct[at]).sum())
    value, low, high = two_samples.rate(wrong, result.runs.size, level)
    bars = (mean, half), (value, [[value - low], [high - value]])
    for axes, (x, width) in zip(column, bars, strict=True):
        axes.errorbar(x, place, xerr=width, color=style[0], marker=MARKERS[place % len(MARKERS)],
                      markersize=5, capsize=2, clip_on=False)  # fmt: skip


def _place(name: str, result: Any, stopping: int | str) -> int:
    """The index of the stopping rule that is drawn."""
    if not isinstance(result, Result) or result.batched:
        raise ArgumentError("groups", result, "results of one instance each", f"rule {name!r}")
    known = [rule.name for rule in result.stopping]
    if len(known) == 1:
        return 0
    if isinstance(stopping, str):
        return known.index(checks.choice("stopping", stopping, known))
    return checks.integer("stopping", stopping, low=0, high=len(known) - 1)


def _draw_errors(
    axes: Any, result: Result, at: int, level: float, shift: float, place: int, style: Any
) -> None:
    """Draw the error rates of a rule; rules stand side by side, by a shift."""
    wrong = (result.stopped[at] & ~result.correct[at]).sum(-1)
    rates = [two_samples.rate(int(count), result.runs.size, level) for count in wrong]
    value, low, high = np.array(rates).T
    x, colour = np.log(1 / result.deltas) + shift, style[0]
    axes.errorbar(x, value, [value - low, high - value], color=colour, linestyle="none",
                  marker=MARKERS[place % len(MARKERS)], markersize=4, linewidth=0.9,
                  capsize=1.5, clip_on=False)  # fmt: skip


def _characteristic(results: list[Result]) -> tuple[float | None, int]:
    """T* and the number of right answers; no T* where no bound is known."""
    try:
        return characteristic(results)
    except JaxelimError:
        return None, 1


def _draw_bounds(column: Any, results: list[Result]) -> None:
    """The bounds on tau, where the instance has them, and delta in the panel of errors."""
    deltas = np.unique(np.concatenate([result.deltas for result in results]))
    time, right = _characteristic(results)
    if time is not None:
        draw_bounds(column[:2], deltas, time, right, common_threshold(results))
    x = np.linspace(math.log(1 / deltas[-1]), math.log(1 / deltas[0]), 40)
    column[2].plot(x, np.exp(-x), color="black", linestyle="-.", linewidth=1.2,
                   label="delta")  # fmt: skip


def _legend(
    figure: Figure, panels: Any, names: list[str], styles: Mapping[str, Any], note: str | None
) -> None:
    """One legend below all panels: the rules, and what the black lines are."""
    handles = []
    for name in names:
        place, (colour, dash) = styles[name]
        (line,) = panels[0, 0].plot([], [], color=colour, linestyle=dash, linewidth=1.7,
                                    marker=MARKERS[place % len(MARKERS)], label=name)  # fmt: skip
        handles.append(line)
    drawn: dict[str, Any] = {}
    for axes in panels.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if label not in names:
                drawn.setdefault(label.split(" = ")[0], handle)
    named = dict(zip(names, handles, strict=True)) | drawn
    outside(figure, "lower center", note, named)
