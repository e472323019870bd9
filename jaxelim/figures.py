"""Figures of results: for looking at, not for numbers. All return a matplotlib Figure and draw on no display."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from jaxelim.complexity import Complexity
from jaxelim.errors import ArgumentError
from jaxelim.result import Result

STYLES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", (0, (5, 1))),
    ("#56B4E9", (0, (3, 1, 1, 1))),
)
"""Colours that colour-blind readers tell apart (Okabe & Ito), each with a dash pattern of its own for grey prints."""


def active_arms(result: Result, stopping: int = 0, delta: int = 0, points: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """How many arms are active in each run over time: times [points] and counts [points, run].

    Runs that have stopped are counted at what was left when they did. Truncated runs are left out.

    Args:
        result: of one instance, best arm or signs, with an elimination among its stopping rules.
        stopping: place of that elimination among them.
        delta: place of the delta.
        points: how many times, evenly spaced from 0 to the longest run's end.
    """
    if result.elimination_times is None or not result.stopping[stopping].eliminates or result.instance.batched:
        raise ArgumentError("result", result, "a result of one instance, observed by an elimination that records arms")
    stopped = result.stopped[stopping, delta]
    dropped = result.elimination_times[stopping, delta][stopped]
    if not stopped.any() or dropped.ndim != 2:
        raise ArgumentError("result", result, "at least one run that stopped, and elimination times per arm")
    times = np.linspace(0, result.samples[stopping, delta][stopped].max(), points)
    fallen = np.sort(np.where(dropped == 0, np.iinfo(np.int32).max, dropped), 1)
    left = np.stack([dropped.shape[1] - np.searchsorted(row, times, side="right") for row in fallen], 1)
    return times, left


def active_arms_figure(results: Mapping[str, Result], band: float = 0.8) -> Figure:
    """Active arms against time, one curve per rule: the mean over runs and the band of the central `band` of them.

    (Paper, Figure 1, left.)
    """
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for (name, result), (colour, dash) in zip(results.items(), STYLES * len(results), strict=False):
        place = next(s for s, rule in enumerate(result.stopping) if rule.eliminates)
        times, left = active_arms(result, place)
        low, high = np.quantile(left, [(1 - band) / 2, (1 + band) / 2], axis=1)
        axes.fill_between(times / 1000, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(times / 1000, left.mean(1), color=colour, linestyle=dash, linewidth=1.8, label=name)
    axes.set_xlabel("samples (thousands)")
    axes.set_ylabel(f"active arms (mean, central {100 * band:.0f}% of runs)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False)
    return figure


def allocation_figure(found: Complexity, name: str) -> Figure:
    """w* by arm, and H_p at w* by piece, both sorted: the pieces on the line H* are the ones that decide."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    order = np.argsort(found.allocation)[::-1]
    left.bar(np.arange(order.size), found.allocation[order], color=STYLES[0][0])
    left.set_xticks(np.arange(order.size), [str(k) for k in order], fontsize=6, rotation=90)
    left.set_xlabel("arm, by falling weight")
    left.set_ylabel("w*, share of the pulls")
    information = np.sort(found.information[np.isfinite(found.information)])
    right.semilogy(np.arange(information.size), information, ".", color=STYLES[1][0], label="H_p at w*")
    right.axhline(float(found.value), color="0.3", linewidth=1, linestyle="--", label=f"H* = {float(found.value):.4g}")
    right.set_xlabel("piece, by rising information")
    right.set_ylabel("H_p (per sample)")
    right.legend(frameon=False)
    figure.suptitle(f"optimal allocation on {name}, duality gap {float(found.gap):.0e}", fontsize=10)
    return figure
