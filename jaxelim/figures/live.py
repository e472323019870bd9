"""The figure of a live run."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from jaxelim.figures.style import GREY, STYLES, panels


def live_figure(
    pieces: Sequence[str],
    values: np.ndarray,
    level: float,
    active: np.ndarray,
    arms: Sequence[str],
    means: np.ndarray,
    counts: np.ndarray,
    words: str = "LLR",
    ends: tuple[np.ndarray, np.ndarray, float] | None = None,
    title: str = "",
) -> Figure:
    """The evidence against P pieces beside its level, and intervals and pulls of K arms.

    Args:
        pieces, values, active: [P] labels, LLRs or log e (`words`), and whether a piece is
            left; eliminated ones are grey.
        level: what the values are compared with.
        arms, means, counts: [K] labels, means in the units of the rewards, pulls.
        ends: the ends of the arms' intervals, [K] each, and their level; None: there are
            none.
        title: the state of the run.
    """
    rows = max(len(pieces), len(arms))
    figure, ((left, right),) = panels((8, 1.4 + 0.3 * min(rows, 40)), 2)
    figure.suptitle(title, fontsize="medium")
    blue, orange = STYLES[0][0], STYLES[1][0]
    places = np.arange(len(pieces))
    lengths = np.where(np.isfinite(values), values, 0)
    left.barh(places, lengths, color=np.where(active, blue, GREY).tolist())
    left.axvline(level, color=orange, linestyle="--", label=f"needed: {level:.3g}")
    left.set_yticks(places, pieces)
    left.set_xlabel(f"evidence ({words}) for each comparison")
    left.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    places, label = np.arange(len(arms)), "mean; the number of pulls on the right"
    right.plot(means, places, "o", color=blue)
    if ends is not None:
        low, high, share = ends
        known = np.isfinite(low) & np.isfinite(high)
        right.hlines(places[known], low[known], high[known], color=blue, linewidth=1.5)
        label = f"mean, interval at {share:.4g}; pulls on the right"
    for k, count in enumerate(counts):
        right.annotate(f"{int(count)}", (1.02, k), xycoords=("axes fraction", "data"),
                       va="center", fontsize=8)  # fmt: skip
    right.set_yticks(places, arms)
    right.margins(y=0.15)
    right.set_xlabel(label)
    for axes in (left, right):
        axes.invert_yaxis()
    return figure
