"""The figure of a study: rules on several instances and problems."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import stdtrit

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.figures.drawn import BIASED, Entry, bounds_of, columns_of, mean_and_sd
from jaxelim.figures.style import GREY, logarithmic, outside, panels
from jaxelim.simulation.results import two_samples

_WIDTH, _HEIGHT = 3.9, 2.9  # inches of a panel
_POINTS = 40  # of each bound


def study_figure(results: Any, *, log: bool = False, level: float = 0.95) -> Figure:
    """Draw mean tau, mean tau/log(1/delta) and the share of errors, against log(1/delta).

    A column for each instance and problem. The first two rows have bounds: the lower bound
    log(1/(2.4 delta)) T* (`sample_bound`; where n answers are right, kl((1 - delta)/n, delta)
    T*), and the practical bound, the first t >= T* beta(t, delta) (`practical_time`). The third
    row has delta. Means are of the runs that stopped, with Student's intervals; errors are of
    all runs, with Clopper and Pearson's intervals. Results of one delta stand side by side,
    without the second row.

    Args:
        results: a `Study`; or a `Result`, or results by name, of one instance and problem. The
            first stopping rule is drawn; `Result.select` and `Study.select` give others.
        log: whether the axes of samples are logarithmic.
        level: of the intervals, in (0, 1).

    Raises:
        ArgumentError: other results, or no run stopped.
    """
    level = checks.real("level", level, low=0, high=1, open=True)
    columns = columns_of(results)
    everyone = [one for given in columns.values() for one in given]
    names = list(dict.fromkeys(one.name for one in everyone))
    cut = sum(int(np.isnan(one.tau()).any(0).sum()) for one in everyone)
    if not any(np.isfinite(one.tau()).any() for one in everyone):
        raise ArgumentError("results", results, "at least one run that stopped")
    deltas = np.unique(np.concatenate([one.result.deltas for one in everyone]))
    single, words = deltas.size == 1, ["mean tau (samples)", "share of errors"]
    if not single:
        words.insert(1, "mean tau / log(1/delta) (samples)")
    x = np.linspace(np.log(1 / deltas[-1]), np.log(1 / deltas[0]), 1 if single else _POINTS)
    size = max(_WIDTH * len(columns), 6.5), len(words) * _HEIGHT + 0.8
    figure, drawn = panels(size, len(columns), len(words), sharex="col")
    for column, (title, given) in zip(drawn.T, columns.items(), strict=True):
        column[0].set_title(title, fontsize=10)
        for one in given:
            _draw_means(column[:-1], one, level, single)
        _draw_bounds(column[:-1], given, x)
        _draw_errors(column[-1], given, level, deltas)
        _draw_line(column[-1], x, deltas if single else np.exp(-x), "delta", "-.", 1.2)
        for axes in column[:-1]:
            if log:
                axes.set_yscale("log")
                logarithmic(axes.yaxis, *axes.get_ylim())
            else:
                axes.set_ylim(bottom=0)
        column[-1].set_xlabel("log(1/delta), natural logarithm")
        if single:
            column[-1].set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
            column[-1].set(xlim=(-0.6, len(names) - 0.4), xlabel=f"rule, at delta = {deltas[0]:g}")
    for axes, word in zip(drawn[:, 0], words, strict=True):
        axes.set_ylabel(word)
    outside(figure, "lower center", f"{cut} runs cut off: {BIASED}" if cut else None)
    return figure


def _draw_means(rows: Any, one: Entry, level: float, single: bool) -> None:
    """Mean tau, and mean tau/log(1/delta), with intervals; of one delta a point each."""
    order = np.argsort(-one.result.deltas)
    x, (mean, sd, n) = np.log(1 / one.result.deltas[order]), mean_and_sd(one.tau()[order])
    half = sd / np.sqrt(np.maximum(n, 1)) * stdtrit(np.maximum(n - 1, 1), (1 + level) / 2)
    own: Any = dict(color=one.colour, marker=one.marker)
    for axes, unit in zip(rows, (1, x), strict=False):
        if single:
            axes.errorbar(one.place, mean, half, markersize=5, capsize=2, linestyle="none", **own)
            continue
        low, high = (mean - half) / unit, (mean + half) / unit
        axes.fill_between(x, low, high, color=one.colour, alpha=0.2, linewidth=0)
        axes.plot(x, mean / unit, linestyle=one.dash, linewidth=1.7, markersize=4.5,
                  label=one.name, **own)  # fmt: skip


def _draw_line(axes: Any, x: Any, y: Any, label: str, dash: Any, width: float) -> None:
    """A black line through (x, y); across the panel where it has one point."""
    style: Any = dict(color="black", linestyle=dash, linewidth=width, label=label)
    if x.size == 1:
        axes.axhline(y[0], **style)
    else:
        axes.plot(x, y, **style)


def _draw_bounds(rows: Any, given: list[Entry], x: np.ndarray) -> None:
    """The bounds on tau at log(1/delta) = x, where the instance has them, and T*."""
    time, bounds = bounds_of([one.result for one in given], np.exp(-x))
    for axes, unit in zip(rows, (1, x), strict=False):
        for label, bound, dash in bounds:
            _draw_line(axes, x, bound / unit, label, dash, 1.3)
    if time is not None and len(rows) > 1:
        rows[1].axhline(time, color=GREY, linewidth=0.8, label="T*")


def _draw_errors(axes: Any, given: list[Entry], level: float, deltas: np.ndarray) -> None:
    """Error rates, rules side by side. A larger delta would leave no room for them."""
    gap = 0.0 if deltas.size == 1 else 0.5 * np.diff(np.log(deltas)).min()
    most = 0.0
    for one in given:
        wrong = (one.result.stopped[0] & ~one.result.correct[0]).sum(-1)
        rates = [two_samples.rate(int(count), one.result.runs.size, level) for count in wrong]
        value, low, high = np.array(rates).T
        most = max(most, high.max())
        x = np.log(1 / one.result.deltas) + gap * ((one.place + 0.5) / len(given) - 0.5)
        axes.errorbar(one.place if deltas.size == 1 else x, value, [value - low, high - value],
                      color=one.colour, linestyle="none", marker=one.marker, markersize=4,
                      linewidth=0.9, capsize=1.5, clip_on=False)  # fmt: skip
    axes.set_ylim(0, 1.05 * most)
