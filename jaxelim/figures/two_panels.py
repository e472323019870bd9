"""Figures of two panels: a comparison of results, an optimal allocation, a live run."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxelim.bounds import Complexity
from jaxelim.errors import ArgumentError
from jaxelim.figures.style import GREY, MARKERS, STYLES, Drawing, logarithmic, outside, panels
from jaxelim.simulation.results.summaries import OF


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
    size = 10, 1.7 + 0.42 * len(rows)
    figure, ((left, right),) = panels(size, 2, grid="x", sharey=True, width_ratios=(3, 2))
    y = np.arange(len(rows))[::-1]
    most = 1.05 * comparison[["errors_first_high", "errors_second_high"]].to_numpy().max()
    for at, row, between in zip(y, rows, np.clip(ends, low / 2, high * 2), strict=True):
        left.plot(between, [at, at], color=STYLES[0][0], linewidth=1.6)
        left.plot(row["ratio"], at, MARKERS[0], color=STYLES[0][0], markersize=5,
                  label=f"mean {of.tau}, first over second")  # fmt: skip
        for place, name in enumerate(("first", "second")):
            height, (colour, _) = at + 0.15 - 0.3 * place, STYLES[place]
            rates = [row[f"errors_{name}_low"], row[f"errors_{name}_high"]]
            right.plot(rates, [height, height], color=colour, linewidth=1.4)
            right.plot(row[f"errors_{name}"], height, MARKERS[place], color=colour,
                       markersize=4.5, clip_on=False, label=f"errors of the {name}")  # fmt: skip
        if row["delta"] <= most:
            right.plot([row["delta"]] * 2, [at - 0.35, at + 0.35], color="black", linestyle=":",
                       linewidth=1.3, label="delta")  # fmt: skip
        else:
            right.plot(1, at, ">", color="black", markersize=4, clip_on=False, label="larger delta",
                       transform=right.get_yaxis_transform())  # fmt: skip
    left.axvline(1, color=GREY, linewidth=0.8)
    what = f"min({of.tau}, L)" if comparison["restricted"].notna().any() else of.tau
    left.set(xscale="log", xlim=(low, high), ylabel="first / second", xlabel=f"mean {what} of the "
             f"first / that of the second (ratio of {rows[0]['by']})")  # fmt: skip
    logarithmic(left.xaxis, low, high)
    left.set_yticks(y, [
        f"{row['first']} / {row['second']}\n{row['stopping']}, delta {row['delta']:g}"
        + (f", instance {row['instance']}" if "instance" in row else "")
        + ("" if row["paired"] else ", not paired")
        for row in rows
    ], fontsize=8)  # fmt: skip
    # a larger delta would leave no room for the rates
    right.set(xlim=(0, most), ylim=(-0.6, len(rows) - 0.4), ylabel="the same rows",
              xlabel="share of runs with a wrong answer")  # fmt: skip
    outside(figure, "upper left")
    return figure


def allocation_figure(solved: Complexity, name: str | None = None) -> Figure:
    """Draw w* by arm and H_p at w* by piece, both sorted; pieces on the line H* are critical.

    Args:
        solved: of one instance, the result of `complexity`.
        name: of the instance, for the title; None: left out.
    """
    figure = Drawing(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    order = np.argsort(-solved.allocation, kind="stable")[:20]
    left.bar(np.arange(order.size), solved.allocation[order], color=STYLES[0][0])
    left.set_xticks(np.arange(order.size), [str(k) for k in order], fontsize=7)
    rest = solved.allocation.size - order.size
    others = f" ({rest} more share {1 - solved.allocation[order].sum():.1%})" if rest else ""
    what = "pulls" if solved.costs is None else "cost"
    left.set(xlabel="arm, by falling weight" + others, ylabel=f"w*, share of the {what}")
    information = np.sort(solved.information[np.isfinite(solved.information)])
    best, n = float(solved.value), np.arange(information.size)
    right.semilogy(n, information, ".", color=STYLES[1][0], label="H_p at w*")
    right.axhline(best, color="0.3", linewidth=1, linestyle="--", label=f"H* = {best:.4g}")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set(xlabel="piece, by rising information", ylabel="H_p (per sample)")
    right.legend(frameon=False)
    where = "" if name is None else f" on {name}"
    title = f"optimal allocation{where}, duality gap {float(solved.gap):.0e}"
    figure.suptitle(title, fontsize=10, parse_math=False)
    return figure


def live_figure(run: Any) -> Figure:
    """The evidence of a `LiveRun` beside its level, and intervals and pulls of its arms."""
    evidence, arms, known = run.evidence, list(map(str, run.names)), run.known_intervals
    pieces, level = evidence["piece"].tolist(), float(evidence["needed"].max())
    values, words = evidence["llr"].to_numpy(), "LLR"
    if "log_e" in evidence:
        values, words = evidence["log_e"].to_numpy(), "log e"
    title = ", ".join(map(str, run.answer_arms)) or "no arm"
    title = f"stopped: {title}" if run.stopped else f"open: {title} in the lead"
    rows = max(len(pieces), len(arms))
    figure, ((left, right),) = panels((8, 1.4 + 0.3 * min(rows, 40)), 2)
    figure.suptitle("ended by hand" if run.ended_by_hand else title, fontsize="medium")
    blue, orange = STYLES[0][0], STYLES[1][0]
    places = np.arange(len(pieces))
    lengths = np.where(np.isfinite(values), values, 0)
    left.barh(places, lengths, color=np.where(evidence["active"], blue, GREY).tolist())
    left.axvline(level, color=orange, linestyle="--", label=f"needed: {level:.3g}")
    left.set_yticks(places, pieces)
    left.set_xlabel(f"evidence ({words}) for each comparison")
    left.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    places, label = np.arange(len(arms)), "mean; the number of pulls on the right"
    right.plot(run.means, places, "o", color=blue)
    if known is not None:
        low, high = known.low, known.high
        finite = np.isfinite(low) & np.isfinite(high)
        right.hlines(places[finite], low[finite], high[finite], color=blue, linewidth=1.5)
        label = f"mean, interval at {known.level:.4g}; pulls on the right"
    for k, count in enumerate(run.counts):
        right.annotate(f"{int(count)}", (1.02, k), xycoords=("axes fraction", "data"),
                       va="center", fontsize=8)  # fmt: skip
    right.set_yticks(places, arms)
    right.margins(y=0.15)
    right.set_xlabel(label)
    for axes in (left, right):
        axes.invert_yaxis()
    return figure
