"""The figure of a study: rules on several instances and problems."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxelim import checks
from jaxelim.errors import ArgumentError, JaxelimError
from jaxelim.figures.deltas import characteristic, common_threshold, draw_bounds, draw_means
from jaxelim.figures.entries import BIASED, tau_of_deltas
from jaxelim.figures.style import MARKERS, Drawing, logarithmic, styled
from jaxelim.simulation.results import two_samples
from jaxelim.simulation.results.result import Result

_WIDTH, _HEIGHT = 3.9, 2.9  # inches of a panel
_IN_A_ROW = 4  # names of the legend


def study_figure(
    groups: Mapping[str, Mapping[str, Result]],
    stopping: int | str = 0,
    *,
    log: bool = False,
    level: float = 0.95,
) -> Figure:
    """Draw mean tau, mean tau/log(1/delta) and the share of errors, against log(1/delta).

    A column a group. The first two rows have the bounds of `delta_figure`; the third has
    delta. Means are of the runs that stopped, with Student's intervals as bands; errors
    are of all runs, with Clopper and Pearson's intervals as bars.

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
    figure = Drawing(figsize=(max(_WIDTH * len(groups), 6.5), 3 * _HEIGHT + 0.8),
                     layout="constrained")  # fmt: skip
    panels = figure.subplots(3, len(groups), squeeze=False, sharex="col")
    cut = stopped = 0
    for column, (title, named) in zip(panels.T, groups.items(), strict=True):
        column[0].set_title(title, fontsize=10)
        for name, result in named.items():
            at = _place(name, result, stopping)
            tau = tau_of_deltas(result, at)
            cut, stopped = cut + np.isnan(tau).sum(), stopped + np.isfinite(tau).sum()
            draw_means(column[:2], result.deltas, tau, level, *styles[name])
            _draw_errors(column[2], result, at, level, len(names), *styles[name])
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
    if not stopped:
        raise ArgumentError("groups", dict(groups), "at least one run that stopped")
    words = ("mean tau (samples)", "mean tau / log(1/delta) (samples)", "share of errors")
    for axes, word in zip(panels[:, 0], words, strict=True):
        axes.set_ylabel(word)
    _legend(figure, panels, names, styles, f"{cut} runs cut off: {BIASED}" if cut else None)
    return figure


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
    axes: Any, result: Result, at: int, level: float, rules: int, place: int, style: Any
) -> None:
    """Draw the error rates of a rule; the rules stand side by side."""
    wrong = (result.stopped[at] & ~result.correct[at]).sum(-1)
    rates = [two_samples.rate(int(count), result.runs.size, level) for count in wrong]
    value, low, high = np.array(rates).T
    x, colour = np.log(1 / result.deltas), style[0]
    gap = np.diff(np.sort(x)).min() if x.size > 1 else 1.0
    x = x + 0.5 * gap * ((place + 0.5) / rules - 0.5)
    axes.errorbar(x, value, [value - low, high - value], color=colour, linestyle="none",
                  marker=MARKERS[place % len(MARKERS)], markersize=4, linewidth=0.9,
                  capsize=1.5, clip_on=False)  # fmt: skip


def _draw_bounds(column: Any, results: list[Result]) -> None:
    """The bounds on tau, where the instance has them, and delta in the panel of errors."""
    deltas = np.unique(np.concatenate([result.deltas for result in results]))
    try:
        time, right = characteristic(results)
    except JaxelimError:  # no bound is known for them
        time = None
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
    figure.legend([*handles, *drawn.values()], [*names, *drawn], frameon=False, fontsize=8,
                  loc="outside lower center", ncols=_IN_A_ROW, title=note,
                  title_fontsize=8)  # fmt: skip
