"""Figures of arms: active arms over time, pulls, an optimal allocation, a live run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxelim import checks
from jaxelim.bounds import Complexity, complexity
from jaxelim.errors import ArgumentError
from jaxelim.figures.drawn import Entry, entries
from jaxelim.figures.style import GREY, STYLES, legend, logarithmic, panels
from jaxelim.simulation.results.result import Result

_POINTS = 400  # of time
_BLUE, _ORANGE = STYLES[0][0], STYLES[1][0]


def active_arms(result: Result, points: int = _POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Count the active arms of each run of a result over time, at its first delta.

    After its stop a run counts the arms that were left then. Truncated runs
    are left out.

    Args:
        result: of one instance, best arm, best item (items are counted then) or
            thresholding, with an elimination among its stopping rules; the first counts.
        points: number of times, evenly spaced from 0 to the end of the longest run.

    Returns:
        times [points] in samples and counts [points, run].

    Raises:
        ArgumentError: another result, or no run that stopped.
    """
    points = checks.integer("points", points, low=2)
    at, dropped = _elimination(result), result.elimination_times
    if dropped is None or dropped.ndim != 4 or not result.stopping[at].eliminates:
        allowed = "a result of one instance, observed by an elimination that records arms"
        raise ArgumentError("result", result, allowed)
    stopped = result.stopped[at, 0]
    if not stopped.any():
        raise ArgumentError("result", result, "at least one run that stopped")
    dropped = dropped[at, 0][stopped]
    times = np.linspace(0, result.samples[at, 0][stopped].max(), points)
    ends = np.sort(np.where(dropped == 0, np.inf, dropped), 1)
    left = [dropped.shape[1] - np.searchsorted(row, times, side="right") for row in ends]
    return times, np.stack(left, 1)


def _elimination(result: Result) -> int:
    """The index of the first stopping rule that eliminates; 0 where there is none."""
    return next((s for s, rule in enumerate(result.stopping) if rule.eliminates), 0)


def active_arms_figure(results: Any, *, band: float = 0.8, log: bool = False) -> Figure:
    """Draw active arms against time, one curve per rule: the mean over runs and a central band.

    (Paper, Figure 1, left.)

    Args:
        results: as of `tau_figure`; the first elimination is drawn.
        band: share of the runs inside the band, in (0, 1).
        log: whether the axis of samples is logarithmic.

    Raises:
        ArgumentError: as `active_arms`.
    """
    return drawn_active(entries(results), band, log)


def drawn_active(given: Sequence[Entry], band: float, log: bool = False) -> Figure:
    """The figure of active arms of entries, up to where 98% of every rule's runs have ended."""
    shares, (figure, ((axes,),)) = _band(band), panels()
    end = 0.0
    for one in given:
        times, left = active_arms(one.result)
        one.draw(axes, times / 1000, left.mean(1), *np.quantile(left, shares, axis=1), kind="band",
                 label=one.label(one.tau(_elimination(one.result))[0]), marker="")  # fmt: skip
        through = (left == left[-1]).mean(1) >= 0.98  # one long run does not compress the axis
        end = max(end, times[np.argmax(through)] / 1000)
    items = all(one.result.problem.times_axes == ("item",) for one in given)
    what = f"active {'items' if items else 'arms'}"
    axes.set(xlabel="samples (thousands)", ylim=(0, None),
             ylabel=f"{what} (mean, central {100 * band:.0f}% of runs)",
             xlim=(0, 1.05 * end if end > 0 else None))  # fmt: skip
    if log and end > 0:
        axes.set(xscale="log", xlim=(end / _POINTS, None))
        logarithmic(axes.xaxis)
    return legend(figure)


def _band(band: float) -> list[float]:
    """The quantiles at the ends of a central band."""
    band = checks.real("band", band, low=0, high=1, open=True)
    return [(1 - band) / 2, (1 + band) / 2]


def pulls_figure(results: Any, *, most: int = 15, band: float = 0.8) -> Figure:
    """Draw each rule's shares of the pulls at its stop, and the optimal ones, of w*.

    Shows the arms of largest share, and the sum of the others.

    Args:
        results: as of `tau_figure`.
        most: number of arms to show.
        band: share of the runs inside the bars, in (0, 1).

    Raises:
        ArgumentError: other results, one of which no run stopped, or as `complexity`.
    """
    given, most = entries(results), checks.integer("most", most, low=1)
    quantiles, first = _band(band), given[0].result
    if any((one.result.instance, one.result.problem) != (first.instance, first.problem)
           for one in given):  # fmt: skip
        raise ArgumentError("results", results, "results of one instance and problem")
    counts = [one.result.pulls[0, 0][np.isfinite(one.some_tau())] for one in given]
    shares = [count / count.sum(1, keepdims=True) for count in counts]
    allocation = complexity(first.instance, first.problem).pulls
    weight: np.ndarray = np.max([allocation, *(share.mean(0) for share in shares)], axis=0)
    chosen = np.argsort(-weight, kind="stable")[:most]
    shown = chosen[np.argsort(-allocation[chosen], kind="stable")]
    rest = allocation.size - shown.size

    def columns(share: np.ndarray) -> np.ndarray:
        kept = share[..., shown]
        return np.concatenate([kept, 1 - kept.sum(-1, keepdims=True)], -1) if rest else kept

    figure, ((axes,),) = panels((9, 4.2))
    x = np.arange(shown.size + (rest > 0))
    axes.bar(x, columns(allocation), width=0.85, color="0.85", edgecolor="0.55", label="w*")
    for one, share in zip(given, map(columns, shares), strict=True):
        one.draw(axes, x + 0.7 * one.apart(given), share.mean(0),
                 *np.quantile(share, quantiles, axis=0), kind="points",
                 label=one.label(one.tau()[0]))  # fmt: skip
    axes.set_xticks(x, [*map(str, shown), *([f"other {rest}"] if rest else [])])
    axes.set(xlabel="arm, by falling w*", ylim=(0, None),
             ylabel=f"share of the pulls (mean, central {100 * band:.0f}% of runs)")  # fmt: skip
    return legend(figure)


def allocation_figure(solved: Complexity, name: str | None = None) -> Figure:
    """Draw w* by arm and H_p at w* by piece, both sorted; pieces on the line H* are critical.

    Args:
        solved: of one instance, the result of `complexity`.
        name: of the instance, for the title; None: left out.
    """
    figure, ((left, right),) = panels((9, 3.7), 2)
    order = np.argsort(-solved.allocation, kind="stable")[:20]
    shares, rest = solved.allocation[order], solved.allocation.size - order.size
    left.bar(np.arange(order.size), shares, color=_BLUE)
    left.set_xticks(np.arange(order.size), [str(k) for k in order], fontsize=7)
    others = f" ({rest} more share {1 - shares.sum():.1%})" if rest else ""
    what = "pulls" if solved.costs is None else "cost"
    left.set(xlabel="arm, by falling weight" + others, ylabel=f"w*, share of the {what}")
    information = np.sort(solved.information[np.isfinite(solved.information)])
    right.semilogy(information, ".", color=_ORANGE, label="H_p at w*")
    best = float(solved.value)
    right.axhline(best, color=GREY, linewidth=1, linestyle="--", label=f"H* = {best:.4g}")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set(xlabel="piece, by rising information", ylabel="H_p (per sample)")
    where = "" if name is None else f" on {name}"
    title = f"optimal allocation{where}, duality gap {float(solved.gap):.0e}"
    figure.suptitle(title, fontsize=10, parse_math=False)
    return legend(figure)


def live_figure(run: Any) -> Figure:
    """The evidence of a `LiveRun` beside its level, and intervals and pulls of its arms."""
    evidence, arms, known = run.evidence, list(map(str, run.names)), run.known_intervals
    pieces, level = evidence["piece"].tolist(), float(evidence["needed"].max())
    name, words = ("log_e", "log e") if "log_e" in evidence else ("llr", "LLR")
    title = ", ".join(map(str, run.answer_arms)) or "no arm"
    title = f"stopped: {title}" if run.stopped else f"open: {title} in the lead"
    rows = max(len(pieces), len(arms))
    figure, ((left, right),) = panels((8, 1.4 + 0.3 * min(rows, 40)), 2)
    figure.suptitle("ended by hand" if run.ended_by_hand else title, fontsize="medium")
    lengths = evidence[name].where(np.isfinite(evidence[name]), 0)
    left.barh(range(len(pieces)), lengths, color=np.where(evidence["active"], _BLUE, GREY).tolist())
    left.axvline(level, color=_ORANGE, linestyle="--", label=f"needed: {level:.3g}")
    left.set_yticks(range(len(pieces)), pieces)
    left.set_xlabel(f"evidence ({words}) for each comparison")
    places, label = np.arange(len(arms)), "mean; the number of pulls on the right"
    right.plot(run.means, places, "o", color=_BLUE)
    if known is not None:
        finite = np.isfinite(known.low) & np.isfinite(known.high)
        right.hlines(places[finite], known.low[finite], known.high[finite], color=_BLUE)
        label = f"mean, interval at {known.level:.4g}; pulls on the right"
    for k, count in enumerate(run.counts):
        right.annotate(f"{int(count)}", (1.02, k), xycoords=("axes fraction", "data"),
                       va="center", fontsize=8)  # fmt: skip
    right.set_yticks(places, arms)
    right.margins(y=0.15)
    right.set_xlabel(label)
    for axes in (left, right):
        axes.invert_yaxis()
    return legend(figure)
