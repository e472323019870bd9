"""The figure of a live run."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxelim.figures.style import GREY, STYLES, panels


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
