"""The figure of a comparison of results."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxelim.errors import ArgumentError
from jaxelim.figures.style import GREY, MARKERS, STYLES, logarithmic, outside, panels
from jaxelim.simulation.results.comparison import OF


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
    left.set_xscale("log")
    left.set_xlim(low, high)
    logarithmic(left.xaxis, low, high)
    what = f"min({of.tau}, L)" if comparison["restricted"].notna().any() else of.tau
    left.set_xlabel(f"mean {what} of the first / that of the second (ratio of {rows[0]['by']})")
    right.set_xlabel("share of runs with a wrong answer")
    right.set_xlim(0, most)  # a larger delta would leave no room for the rates
    left.set_yticks(y, [_label(row) for row in rows], fontsize=8)
    left.set_ylim(-0.6, len(rows) - 0.4)
    left.set_ylabel("first / second")
    right.set_ylabel("the same rows")
    outside(figure, "upper left")
    return figure


def _label(row: dict) -> str:
    where = f"{row['stopping']}, delta {row['delta']:g}"
    where += f", instance {row['instance']}" if "instance" in row else ""
    unpaired = "" if row["paired"] else ", not paired"
    return f"{row['first']} / {row['second']}\n{where}{unpaired}"
