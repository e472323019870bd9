"""Figures of stopping times: how they are spread, means and errors by delta, and ratios."""

import dataclasses
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.figures.drawn import BIASED, Entry, bounds_of, columns_of, entries, mean_with_ends
from jaxelim.figures.style import GREY, MARKERS, STYLES, legend, logarithmic, panels
from jaxelim.simulation.results.confidence import rate
from jaxelim.simulation.results.summaries import OF

_LOG = "log(1/delta), natural logarithm"
_WIDTH, _HEIGHT = 3.9, 2.9  # inches of a panel of a study
_POINTS = 40  # of each bound


def tau_figure(results: Any, *, bounds: bool = True, bins: int = 40) -> Figure:
    """Draw a histogram of the stopping time for each rule, in its own row, with the bounds.

    Args:
        results: a `Result`, results by name, or a `Study`, of one instance and problem. The
            first stopping rule and delta are drawn; `Result.select` gives others.
        bounds: whether to draw the lower bound on the mean, log(1/(2.4 delta)) T*
            (`sample_bound`), and the practical bound, the first t >= T* beta(t, delta)
            (`practical_time`), where all results have one instance, problem and delta.
        bins: number of bins, equal in the logarithm and shared by all rules.

    Raises:
        ArgumentError: other results, or one of which no run stopped.
    """
    drawn, found = _drawn(results, bounds)
    bins = checks.integer("bins", bins, low=2)
    every = np.concatenate([[value for _, value, _ in found], *(tau for _, tau in drawn)])
    edges = np.geomspace(np.nanmin(every) / 1.05, np.nanmax(every) * 1.05, bins + 1)
    cut = any(np.isnan(tau).any() for _, tau in drawn)
    mean = "mean of those that stopped (biased low)" if cut else "mean"
    figure, ((axes,),) = panels((7, max(2.2, 1.2 + 0.75 * len(drawn))), grid="x")
    for row, (one, tau) in enumerate(reversed(drawn)):
        heights, colour = np.histogram(tau[np.isfinite(tau)], edges)[0], one.style["color"]
        axes.stairs(row + 0.85 * heights / heights.max(), edges, baseline=row, fill=True,
                    facecolor=(colour, 0.35), edgecolor=colour, linewidth=1.2)  # fmt: skip
        axes.plot(np.nanmean(tau), row, "D", color=colour, markeredgecolor="black", clip_on=False,
                  zorder=4, label=mean)  # fmt: skip
    for word, value, dash in found:
        axes.axvline(value, color="black", linestyle=dash, linewidth=1.4,
                     label=f"{word} = {value:,.0f}")  # fmt: skip
    axes.set(xscale="log", ylim=(-0.12, len(drawn)), ylabel="runs, by rule",
             xlabel="tau (samples); heights are to scale within a row")  # fmt: skip
    axes.set_yticks(np.arange(len(drawn)), [one.label(tau) for one, tau in reversed(drawn)])
    logarithmic(axes.xaxis)
    return legend(figure, "outside upper center")


def survival_figure(results: Any, *, bounds: bool = True) -> Figure:
    """Draw the share of runs with tau > t; truncated runs never stop.

    Args:
        results: as of `tau_figure`.
        bounds: whether to draw the lower bound on the mean, as `tau_figure` does.

    Raises:
        ArgumentError: as `tau_figure`.
    """
    drawn, found = _drawn(results, bounds)
    figure, ((axes,),) = panels()
    lower = [value for word, value, _ in found if word.startswith("lower")]
    start = 0.8 * min(*lower, *(np.nanmin(tau) for _, tau in drawn), np.inf)
    for value in lower:
        axes.axvline(value, color=GREY, linestyle="--", linewidth=1,
                     label=f"lower bound on the mean = {value:,.0f}")  # fmt: skip
    for one, tau in drawn:
        stopped = np.sort(tau[np.isfinite(tau)])
        going = 1 - np.arange(1, stopped.size + 1) / tau.size
        axes.step(np.append(start, stopped), np.append(1, going), where="post", linewidth=1.8,
                  label=one.label(tau), **{**one.style, "marker": ""})  # fmt: skip
    axes.set(xscale="log", xlabel="t (samples)", ylabel="share of runs with tau > t",
             xlim=(start, None), ylim=(0, 1.02))  # fmt: skip
    logarithmic(axes.xaxis)
    return legend(figure)


def _drawn(results: Any, bounds: bool) -> tuple[list, list]:
    """Entries and their stopping times [run]; and the bounds where all have one delta."""
    given = entries(results)
    deltas, found = np.unique([one.result.deltas[0] for one in given]), []
    if bounds and deltas.size == 1:
        known = bounds_of(given, deltas)[1:]
        found = [(word, x[0], dash) for word, x, dash in known if np.isfinite(x[0])]
    return [(one, one.some_tau()) for one in given], found


def ratio_figure(results: Any, *, error: str = "se") -> Figure:
    """Draw the mean ratio of LLR and elimination stopping times of the same runs.

    The horizontal axis is log(1/delta). (Paper, Figure 1, right. Its caption says
    standard deviations, but its program drew standard errors.)

    Args:
        results: as of `tau_figure`, observed by `LLR` and by an elimination, whose first is
            taken; of all deltas.
        error: of the bars: "se", the standard error of the mean, or "sd", the standard
            deviation over runs.

    Raises:
        ArgumentError: other results, or a delta without a run that both stopped.
    """
    error = checks.choice("error", error, ("se", "sd"))
    given, ratios = [], []
    for one in entries(results):
        rules = list(enumerate(one.result.stopping))
        plain = [s for s, rule in rules if rule.name == "llr"]
        dropping = [s for s, rule in rules if rule.eliminates]
        if not plain or not dropping:
            raise one.refused("results observed by LLR() and by an elimination")
        ratio = one.tau(plain[0]) / one.tau(dropping[0])
        if not np.isfinite(ratio).any(1).all():
            raise one.refused("at least one finite ratio for every delta")
        given.append(dataclasses.replace(one, name=one.label(ratio)))
        ratios.append(ratio)
    figure, ((axes,),) = panels()
    _by_delta(axes, given, [mean_with_ends(ratio, error) for ratio in ratios], "bars", 0.15)
    axes.axhline(1, color=GREY, linewidth=0.8)
    what = "standard error" if error == "se" else "sd over runs"
    axes.set(xlabel=_LOG, ylabel=f"tau_LLR / tau_elimination (mean ± {what})")
    cut = any(np.isnan(ratio).any() for ratio in ratios)
    return legend(figure, note=BIASED if cut else None)


def _by_delta(
    axes: Any, given: list[Entry], values: list, kind: str, share: float = 0, single: bool = False
) -> None:
    """Draw each entry's values with the ends of their intervals, [3, D], against log(1/delta).

    Entries are apart by a share of the least distance; of a `single` delta they are side by side.
    """
    logs = np.unique(np.log(1 / np.concatenate([one.result.deltas for one in given])))
    gap = share * min(np.diff(logs), default=1.0)
    for one, found in zip(given, values, strict=True):
        if single:
            one.draw(axes, [one.place], *found, kind="points")
            continue
        order = np.argsort(-one.result.deltas)
        x = np.log(1 / one.result.deltas[order]) + gap * one.apart(given)
        one.draw(axes, x, *found[:, order], kind=kind, label=one.name)


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
    words = ["mean tau (samples)", "mean tau / log(1/delta) (samples)", "share of errors"]
    logs = at = np.linspace(np.log(1 / deltas[-1]), np.log(1 / deltas[0]), _POINTS)
    single = deltas.size == 1
    if single:
        words.pop(1)
        logs, at = logs[:2], np.array([-0.6, len(names) - 0.4])
    size = max(_WIDTH * len(columns), 6.5), len(words) * _HEIGHT + 0.4
    figure, drawn = panels(size, len(columns), len(words), sharex="col")
    line: Any = dict(color="black", linewidth=1.3)
    for (*means, errors), (title, given) in zip(drawn.T, columns.items(), strict=True):
        bounds = bounds_of(given, np.exp(-logs))
        for power, axes in enumerate(means):  # of log(1/delta), by which tau is divided
            taus = [one.tau() / np.log(1 / one.result.deltas[:, None]) ** power for one in given]
            ends = [mean_with_ends(tau, level) for tau in taus]
            _by_delta(axes, given, ends, "band", single=single)
            for label, bound, dash in bounds[1 - power :]:
                axes.plot(at, bound / logs**power, linestyle=dash, label=label, **line)
            if log:
                axes.set_yscale("log")
                logarithmic(axes.yaxis)
            else:
                axes.set_ylim(bottom=0)
        wrong = [(one.result.stopped[0] & ~one.result.correct[0]).sum(-1) for one in given]
        rates = [np.array([rate(int(n), one.result.runs.size, level) for n in count]).T
                 for one, count in zip(given, wrong, strict=True)]  # fmt: skip
        _by_delta(errors, given, rates, "points", 0.5, single)
        errors.plot(at, np.exp(-logs), linestyle="-.", label="delta", **line)
        # a larger delta would leave no room for them
        errors.set(ylim=(0, 1.05 * max(map(np.max, rates))), xlabel=_LOG)
        if single:
            errors.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
            errors.set(xlim=at, xlabel=f"rule, at delta = {deltas[0]:g}")
        means[0].set_title(title, fontsize=10)
    for axes, word in zip(drawn[:, 0], words, strict=True):
        axes.set_ylabel(word)
    return legend(figure, note=f"{cut} runs cut off: {BIASED}" if cut else None)


def comparison_figure(comparison: Any) -> Figure:
    """Draw ratios of means and error rates, each with its interval, one line a row.

    Left: mean tau of the first over that of the second, on a logarithmic axis; left of 1
    the first stops sooner, or is cheaper. Right: the error rates of both, and delta.

    Args:
        comparison: the result of `je.compare`, or some rows of it.

    Raises:
        ArgumentError: it is none, or no ratio in it has an interval.
    """
    if "ratio_low" not in getattr(comparison, "columns", ()):
        raise ArgumentError("comparison", comparison, "a data frame that je.compare gives")
    rows = comparison.to_dict("records")
    ends = comparison[["ratio_low", "ratio_high"]].to_numpy()
    seen = ends[np.isfinite(ends) & (ends > 0)]
    if not seen.size:
        raise ArgumentError("comparison", comparison, "two or more runs of each result")
    of = OF[rows[0]["by"]]
    low, high = min(seen.min(), 1.0) / 1.05, max(seen.max(), 1.0) * 1.05
    size = 10, 1.3 + 0.42 * len(rows)
    figure, ((left, right),) = panels(size, 2, grid="x", sharey=True, width_ratios=(3, 2))
    y = np.arange(len(rows))[::-1]
    for axes, n, up, name, label in (
        (left, 0, 0, "ratio", f"mean {of.tau}, first over second"),
        (right, 0, 0.15, "errors_first", "errors of the first"),
        (right, 1, -0.15, "errors_second", "errors of the second"),
    ):
        ends = comparison[[f"{name}_low", f"{name}_high"]].to_numpy().T
        if axes is left:
            ends = np.clip(ends, low / 2, high * 2)  # of a ratio it may be infinite
        axes.hlines(y + up, *ends, color=STYLES[n][0], linewidth=1.5)
        axes.plot(comparison[name], y + up, MARKERS[n], color=STYLES[n][0], markersize=4.5,
                  label=label, clip_on=axes is left)  # fmt: skip
    most = 1.05 * comparison[["errors_first_high", "errors_second_high"]].to_numpy().max()
    delta = comparison["delta"].to_numpy()
    inside = delta <= most
    if inside.any():
        right.vlines(delta[inside], y[inside] - 0.35, y[inside] + 0.35, color="black",
                     linestyle=":", linewidth=1.3, label="delta")  # fmt: skip
    if not inside.all():
        right.plot(np.ones((~inside).sum()), y[~inside], ">", markersize=4, color="black",
                   transform=right.get_yaxis_transform(), clip_on=False, label="larger delta")
    left.axvline(1, color=GREY, linewidth=0.8)
    what = f"min({of.tau}, L)" if comparison["restricted"].notna().any() else of.tau
    left.set(xscale="log", xlim=(low, high), ylabel="first / second", xlabel=f"mean {what} of the "
             f"first / that of the second (ratio of {rows[0]['by']})")  # fmt: skip
    logarithmic(left.xaxis)
    left.set_yticks(y, [
        f"{row['first']} / {row['second']}\n{row['stopping']}, delta {row['delta']:g}"
        + (f", instance {row['instance']}" if "instance" in row else "")
        + ("" if row["paired"] else ", not paired")
        for row in rows
    ], fontsize=8)  # fmt: skip
    # a larger delta would leave no room for the rates
    right.set(xlim=(0, most), ylim=(-0.6, len(rows) - 0.4), ylabel="the same rows",
              xlabel="share of runs with a wrong answer")  # fmt: skip
    return legend(figure, "outside upper left")
