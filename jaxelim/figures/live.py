"""The figure of a live run."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from jaxelim.figures.style import GREY, STYLES, Drawing


def live_figure(
    pieces: Sequence[str],
    llr: np.ndarray,
    beta: float,
    active: np.ndarray,
    arms: Sequence[str],
    means: np.ndarray,
    counts: np.ndarray,
) -> Figure:
    """The LLRs of P pieces beside beta, and the means and pulls of K arms.

    Args:
        pieces: P labels.
        llr: [P], the LLRs.
        beta: the threshold.
        active: [P] bool; eliminated pieces are grey.
        arms: K labels.
        means: [K], in the units of the rewards.
        counts: [K], pulls.
    """
    rows = max(len(pieces), len(arms))
    figure = Drawing(figsize=(8, 1.4 + 0.3 * min(rows, 40)), layout="constrained")
    left, right = figure.subplots(1, 2)
    blue, orange = STYLES[0][0], STYLES[1][0]
    places = np.arange(len(pieces))
    left.barh(places, llr, color=[blue if one else GREY for one in active])
    left.axvline(beta, color=orange, linestyle="--", label=f"beta = {beta:.3g}")
    left.set_yticks(places, pieces)
    left.set_xlabel("LLR")
    left.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    places = np.arange(len(arms))
    right.plot(means, places, "o", color=blue)
    for k, (mean, count) in enumerate(zip(means, counts, strict=True)):
        right.annotate(f"{int(count)}", (mean, k), (0, 5), textcoords="offset points",
                       ha="center", fontsize=8)  # fmt: skip
    right.set_yticks(places, arms)
    right.margins(y=0.15)
    right.set_xlabel("mean, with the number of pulls")
    for axes in (left, right):
        axes.invert_yaxis()
        axes.grid(alpha=0.25, linewidth=0.5)
    return figure
