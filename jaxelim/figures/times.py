"""Figures of stopping times: distributions, survival, savings by elimination."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxelim import checks
from jaxelim.figures.drawn import bounds_of, entries, mean_and_sd, note_on
from jaxelim.figures.style import GREY, finished, logarithmic, single


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
    marks = [(f"{word} = {value:,.0f}", value, dash) for word, value, dash in found]
    everything = np.concatenate([tau[np.isfinite(tau)] for _, tau in drawn])
    low = min([everything.min(), *(value for _, value, _ in marks)])
    high = max([everything.max(), *(value for _, value, _ in marks)])
    edges = np.geomspace(low / 1.05, high * 1.05, bins + 1)
    cut = note_on(tau for _, tau in drawn) is not None
    mean = "mean of those that stopped (biased low)" if cut else "mean"
    figure, axes = single(height=max(2.4, 1.4 + 0.75 * len(drawn)), grid="x")
    for row, (one, tau) in enumerate(reversed(drawn)):
        tau = tau[np.isfinite(tau)]
        heights = np.histogram(tau, edges)[0]
        own: Any = dict(baseline=row, color=one.colour)
        tops = row + 0.85 * heights / heights.max()
        axes.stairs(tops, edges, fill=True, alpha=0.35, **own)
        axes.stairs(tops, edges, linewidth=1.2, **own)
        axes.plot(tau.mean(), row, marker="D", color=one.colour, markeredgecolor="black",
                  markersize=6, linestyle="none", clip_on=False, zorder=4,
                  label=mean if row == 0 else None)  # fmt: skip
    for word, value, dash in marks:
        axes.axvline(value, color="black", linestyle=dash, linewidth=1.4, label=word)
    axes.set_xscale("log")
    axes.set_yticks(np.arange(len(drawn)), [one.label(tau) for one, tau in reversed(drawn)])
    axes.set_ylim(-0.12, len(drawn))
    logarithmic(axes.xaxis, *axes.get_xlim())
    axes.set_xlabel("tau (samples); heights are to scale within a row")
    axes.set_ylabel("runs, by rule")
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
                  color=one.colour, linestyle=one.dash, linewidth=1.8,
                  label=one.label(tau))  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel("t (samples)")
    axes.set_ylabel("share of runs with tau > t")
    axes.set_xlim(left=0.8 * start)
    logarithmic(axes.xaxis, *axes.get_xlim())
    axes.set_ylim(0, 1.02)
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
    places = np.concatenate([x for _, x, _ in drawn])
    spread = 0.006 * np.ptp(places)  # shifts the rules, so that bars do not overlap
    figure, axes = single()
    for one, x, ratio in drawn:
        order = np.argsort(x)
        mean, sd, n = mean_and_sd(ratio)
        bar = np.nan_to_num(sd / np.sqrt(n) if error == "se" else sd)  # none for one run
        shift = spread * (one.place - (len(drawn) - 1) / 2)
        axes.errorbar(
            (x + shift)[order], mean[order], bar[order], color=one.colour, linestyle=one.dash,
            linewidth=1.6, capsize=2.5, marker=one.marker, markersize=4.5,
            label=one.label(ratio),
        )  # fmt: skip
    axes.axhline(1, color=GREY, linewidth=0.8)
    axes.set_xlabel("log(1/delta), natural logarithm")
    what = "standard error" if error == "se" else "sd over runs"
    axes.set_ylabel(f"tau_LLR / tau_elimination (mean ± {what})")
    return finished(figure, note_on(ratio for *_, ratio in drawn))
