"""Figures of results of one instance and problem: stopping times, active arms, pulls."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxelim import checks
from jaxelim.bounds import complexity
from jaxelim.errors import ArgumentError
from jaxelim.figures.drawn import Entry, bounds_of, entries, mean_and_sd, note_on
from jaxelim.figures.style import GREY, finished, logarithmic, single
from jaxelim.simulation.results.result import Result

_POINTS = 400  # of time


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
    taus = [tau[np.isfinite(tau)] for _, tau in drawn]
    marks = [value for _, value, _ in found]
    low, high = (pick([*marks, *map(pick, taus)]) for pick in (np.min, np.max))
    edges = np.geomspace(low / 1.05, high * 1.05, bins + 1)
    cut = note_on(tau for _, tau in drawn) is not None
    mean = "mean of those that stopped (biased low)" if cut else "mean"
    figure, axes = single(height=max(2.4, 1.4 + 0.75 * len(drawn)), grid="x")
    for row, ((one, _), tau) in enumerate(zip(drawn[::-1], taus[::-1], strict=True)):
        heights = np.histogram(tau, edges)[0]
        own: Any = dict(baseline=row, color=one.colour)
        tops = row + 0.85 * heights / heights.max()
        axes.stairs(tops, edges, fill=True, alpha=0.35, **own)
        axes.stairs(tops, edges, linewidth=1.2, **own)
        axes.plot(tau.mean(), row, marker="D", color=one.colour, markeredgecolor="black",
                  markersize=6, linestyle="none", clip_on=False, zorder=4,
                  label=mean if row == 0 else None)  # fmt: skip
    for word, value, dash in found:
        axes.axvline(value, color="black", linestyle=dash, linewidth=1.4,
                     label=f"{word} = {value:,.0f}")  # fmt: skip
    axes.set(xscale="log", ylim=(-0.12, len(drawn)), ylabel="runs, by rule",
             xlabel="tau (samples); heights are to scale within a row")  # fmt: skip
    axes.set_yticks(np.arange(len(drawn)), [one.label(tau) for one, tau in reversed(drawn)])
    logarithmic(axes.xaxis, *axes.get_xlim())
    # Above the rows; in two columns where three would be wider than the page.
    letters = sum(map(len, axes.get_legend_handles_labels()[1]))
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8,
                ncols=3 if letters <= 80 else 2)  # fmt: skip
    return figure


def survival_figure(results: Any, *, bounds: bool = True) -> Figure:
    """Draw the share of runs with tau > t; truncated runs never stop.

    Args:
        results: as of `tau_figure`.
        bounds: whether to draw the lower bound on the mean, as `tau_figure` does.

    Raises:
        ArgumentError: as `tau_figure`.
    """
    drawn, found = _drawn(results, bounds)
    figure, axes = single()
    start = min(np.nanmin(tau) for _, tau in drawn)
    for word, lower, dash in found:
        if word.startswith("lower"):
            start = min(start, lower)
            axes.axvline(lower, color=GREY, linestyle=dash, linewidth=1,
                         label=f"lower bound on the mean = {lower:,.0f}")  # fmt: skip
    for one, tau in drawn:
        stopped = np.sort(tau[np.isfinite(tau)])
        going = 1 - np.arange(1, stopped.size + 1) / tau.size
        axes.step(np.append(0.8 * start, stopped), np.append(1, going), where="post",
                  linewidth=1.8, label=one.label(tau), **one.line)  # fmt: skip
    axes.set(xscale="log", xlabel="t (samples)", ylabel="share of runs with tau > t",
             xlim=(0.8 * start, None), ylim=(0, 1.02))  # fmt: skip
    logarithmic(axes.xaxis, *axes.get_xlim())
    return finished(figure)


def _drawn(results: Any, bounds: bool) -> tuple[list, list]:
    """Entries and their stopping times [run]; and the bounds where all have one delta."""
    given = entries(results)
    deltas, found = np.unique([one.result.deltas[0] for one in given]), []
    if bounds and deltas.size == 1:
        _, known = bounds_of([one.result for one in given], deltas)
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
    given, drawn = entries(results), []
    for one in given:
        rules = list(enumerate(one.result.stopping))
        plain = [s for s, rule in rules if rule.name == "llr"]
        dropping = [s for s, rule in rules if rule.eliminates]
        if not plain or not dropping:
            raise one.refused("results observed by LLR() and by an elimination")
        ratio = one.tau(plain[0]) / one.tau(dropping[0])
        if not np.isfinite(ratio).any(1).all():
            raise one.refused("at least one finite ratio for every delta")
        drawn.append((one, np.log(1 / one.result.deltas), ratio))
    # shifts the rules, so that bars do not overlap
    spread = 0.006 * np.ptp(np.concatenate([x for _, x, _ in drawn]))
    figure, axes = single()
    for one, x, ratio in drawn:
        order = np.argsort(x)
        mean, sd, n = mean_and_sd(ratio)
        bar = np.nan_to_num(sd / np.sqrt(n) if error == "se" else sd)  # none for one run
        shift = spread * (one.place - (len(drawn) - 1) / 2)
        axes.errorbar((x + shift)[order], mean[order], bar[order], linewidth=1.6, capsize=2.5,
                      marker=one.marker, markersize=4.5, label=one.label(ratio),
                      **one.line)  # fmt: skip
    axes.axhline(1, color=GREY, linewidth=0.8)
    what = "standard error" if error == "se" else "sd over runs"
    axes.set(xlabel="log(1/delta), natural logarithm",
             ylabel=f"tau_LLR / tau_elimination (mean ± {what})")  # fmt: skip
    return finished(figure, note_on(ratio for *_, ratio in drawn))


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
    """The figure of active arms of entries.

    The time axis ends where 98% of every rule's runs have ended, so that one long run
    does not compress it.
    """
    shares = _band(band)
    figure, axes = single()
    end = 0.0
    for one in given:
        times, left = active_arms(one.result)
        label = one.label(one.tau(_elimination(one.result))[0])
        low, high = np.quantile(left, shares, axis=1)
        axes.fill_between(times / 1000, low, high, color=one.colour, alpha=0.15, linewidth=0)
        axes.plot(times / 1000, left.mean(1), linewidth=1.8, label=label, **one.line)
        through = (left == left[-1]).mean(1) >= 0.98
        end = max(end, times[np.argmax(through)])
    items = all(one.result.problem.times_axes == ("item",) for one in given)
    what = f"active {'items' if items else 'arms'}"
    axes.set(xlabel="samples (thousands)", ylim=(0, None),
             ylabel=f"{what} (mean, central {100 * band:.0f}% of runs)",
             xlim=(0, 1.05 * end / 1000 if end > 0 else None))  # fmt: skip
    if log and end > 0:
        axes.set(xscale="log", xlim=(end / 1000 / _POINTS, None))
        logarithmic(axes.xaxis, *axes.get_xlim())
    return finished(figure)


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
    quantiles, shares, first = _band(band), [], given[0].result
    if any((one.result.instance, one.result.problem) != (first.instance, first.problem)
           for one in given):  # fmt: skip
        raise ArgumentError("results", results, "results of one instance and problem")
    for one in given:
        counts = one.result.pulls[0, 0][np.isfinite(one.some_tau())]
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
        low, high = np.quantile(share, quantiles, axis=0)
        shift = 0.7 * ((one.place + 0.5) / len(shares) - 0.5)
        axes.errorbar(
            x + shift, mean, [np.maximum(mean - low, 0), np.maximum(high - mean, 0)],
            color=one.colour, linestyle="none", marker=one.marker,
            markersize=4.5, capsize=2, linewidth=1.1, label=one.label(one.tau()[0]),
        )  # fmt: skip
    axes.set_xticks(x, [str(k) for k in shown] + ([f"other {rest}"] if rest else []))
    axes.set(xlabel="arm, by falling w*", ylim=(0, None),
             ylabel=f"share of the pulls (mean, central {100 * band:.0f}% of runs)")  # fmt: skip
    return finished(figure)
