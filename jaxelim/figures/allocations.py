"""Figures of optimal allocations and of the pulls of runs."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxelim import checks
from jaxelim.bounds import Complexity, complexity
from jaxelim.errors import ArgumentError
from jaxelim.figures.drawn import entries
from jaxelim.figures.style import STYLES, Drawing, finished, single


def pulls_figure(results: Any, *, most: int = 15, band: float = 0.8) -> Figure:
    """Draw each rule's shares of the pulls at its stop, and the optimal ones, of w*.

    Shows the arms of largest share, and the sum of the others.

    Args:
        results: a `Result`, results by name, or a `Study`, of one instance and problem. The
            first stopping rule and delta are drawn; `Result.select` gives others.
        most: number of arms to show.
        band: share of the runs inside the bars, in (0, 1).

    Raises:
        ArgumentError: other results, one of which no run stopped, or as `complexity`.
    """
    given, most = entries(results), checks.integer("most", most, low=1)
    band = checks.real("band", band, low=0, high=1, open=True)
    first = given[0].result
    if any((one.result.instance, one.result.problem) != (first.instance, first.problem)
           for one in given):  # fmt: skip
        raise ArgumentError("results", results, "results of one instance and problem")
    shares = []
    for one in given:
        stopped = np.isfinite(one.some_tau())
        counts = one.result.pulls[0, 0][stopped]
        shares.append(counts / counts.sum(1, keepdims=True))
    allocation = complexity(first.instance, first.problem).pulls
    weight: np.ndarray = np.max([allocation, *(share.mean(0) for share in shares)], axis=0)
    chosen = np.argsort(-weight, kind="stable")[:most]
    shown = chosen[np.argsort(-allocation[chosen], kind="stable")]
    rest = allocation.size - shown.size

    def columns(share: np.ndarray) -> np.ndarray:
        kept = share[..., shown]
        return np.concatenate([kept, 1 - kept.sum(-1, keepdims=True)], -1) if rest else kept

    figure, axes = single(width=9)
    x = np.arange(shown.size + (rest > 0))
    axes.bar(x, columns(allocation), width=0.85, color="0.85", edgecolor="0.55", label="w*")
    for one, share in zip(given, map(columns, shares), strict=True):
        mean = share.mean(0)
        low, high = np.quantile(share, [(1 - band) / 2, (1 + band) / 2], axis=0)
        shift = 0.7 * ((one.place + 0.5) / len(shares) - 0.5)
        axes.errorbar(
            x + shift, mean, [np.maximum(mean - low, 0), np.maximum(high - mean, 0)],
            color=one.colour, linestyle="none", marker=one.marker,
            markersize=4.5, capsize=2, linewidth=1.1, label=one.label(one.tau()[0]),
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
    best, n = float(solved.value), np.arange(information.size)
    right.semilogy(n, information, ".", color=STYLES[1][0], label="H_p at w*")
    right.axhline(best, color="0.3", linewidth=1, linestyle="--", label=f"H* = {best:.4g}")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set_xlabel("piece, by rising information")
    right.set_ylabel("H_p (per sample)")
    right.legend(frameon=False)
    where = "" if name is None else f" on {name}"
    title = f"optimal allocation{where}, duality gap {float(solved.gap):.0e}"
    figure.suptitle(title, fontsize=10, parse_math=False)
    return figure
