"""Figures of optimal allocations and of the pulls of runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxelim import checks
from jaxelim.bounds import Complexity
from jaxelim.errors import ArgumentError
from jaxelim.figures.entries import left_out, tau_of
from jaxelim.figures.style import (
    MARKERS,
    STYLES,
    Drawing,
    finished,
    single,
    styled,
)
from jaxelim.simulation.results.result import Result


def pulls_figure(
    pulls: Mapping[str, Any], allocation: Any, most: int = 15, band: float = 0.8
) -> Figure:
    """Draw each rule's shares of the pulls at its stop, and w*.

    Shows the arms of largest weight, and the sum of the others.

    Args:
        pulls: by rule, a `Result` of one instance (its first stopping rule and delta),
            or pulls at the stop [run, K].
        allocation: [K] w*, on the simplex.
        most: number of arms to show.
        band: share of the runs inside the bars, in (0, 1).
    """
    allocation = checks.real_array("allocation", allocation, ndim=1)
    most = checks.integer("most", most, low=1)
    band = checks.real("band", band, low=0, high=1, open=True)
    shares = {}
    for (name, entry), style in styled("pulls", pulls):
        if isinstance(entry, Result):
            tau = tau_of(name, entry)  # refuses batches and results without a run that stopped
            name += left_out(tau)
            entry = entry.pulls[0, 0][entry.stopped[0, 0]]
        counts = checks.real_array("pulls", entry, shape=(None, allocation.size))
        if len(counts) == 0 or (counts < 0).any() or (counts.sum(1) == 0).any():
            raise ArgumentError(
                "pulls",
                entry,
                "at least one run, with non-negative numbers of pulls and at least one each",
            )
        shares[name] = counts / counts.sum(1, keepdims=True), style
    means = [allocation, *(share.mean(0) for share, _ in shares.values())]
    weight: np.ndarray = np.max(means, axis=0)
    chosen = np.argsort(-weight, kind="stable")[:most]
    shown = chosen[np.argsort(-allocation[chosen], kind="stable")]
    rest = allocation.size - shown.size

    def columns(share: np.ndarray) -> np.ndarray:
        kept = share[..., shown]
        return np.concatenate([kept, 1 - kept.sum(-1, keepdims=True)], -1) if rest else kept

    figure, axes = single(width=9)
    x = np.arange(shown.size + (rest > 0))
    axes.bar(x, columns(allocation), width=0.85, color="0.85", edgecolor="0.55", label="w*")
    for place, (name, (share, (colour, _))) in enumerate(shares.items()):
        share = columns(share)
        mean = share.mean(0)
        low, high = np.quantile(share, [(1 - band) / 2, (1 + band) / 2], axis=0)
        shift = 0.7 * ((place + 0.5) / len(shares) - 0.5)
        axes.errorbar(
            x + shift, mean, [np.maximum(mean - low, 0), np.maximum(high - mean, 0)],
            color=colour, linestyle="none", marker=MARKERS[place % len(MARKERS)],
            markersize=4.5, capsize=2, linewidth=1.1, label=name,
        )  # fmt: skip
    axes.set_xticks(x, [str(k) for k in shown] + ([f"other {rest}"] if rest else []))
    axes.set_xlabel("arm, by falling w*")
    axes.set_ylabel(f"share of the pulls (mean, central {100 * band:.0f}% of runs)")
    axes.set_ylim(bottom=0)
    return finished(figure)


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
    left.set_xlabel("arm, by falling weight" + others)
    what = "pulls" if solved.costs is None else "cost"
    left.set_ylabel(f"w*, share of the {what}")
    information = np.sort(solved.information[np.isfinite(solved.information)])
    right.semilogy(
        np.arange(information.size), information, ".", color=STYLES[1][0], label="H_p at w*"
    )
    right.axhline(
        float(solved.value),
        color="0.3",
        linewidth=1,
        linestyle="--",
        label=f"H* = {float(solved.value):.4g}",
    )
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set_xlabel("piece, by rising information")
    right.set_ylabel("H_p (per sample)")
    right.legend(frameon=False)
    where = "" if name is None else f" on {name}"
    title = f"optimal allocation{where}, duality gap {float(solved.gap):.0e}"
    figure.suptitle(title, fontsize=10, parse_math=False)
    return figure
