"""Figures of stopping times: savings by elimination, distributions, survival."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.figures.entries import (
    left_out,
    mean_and_sd,
    note_on,
    numbers,
    tau_of,
    tau_of_deltas,
)  # fmt: skip
from jaxelim.figures.style import GREY, MARKERS, finished, logarithmic, single, styled
from jaxelim.simulation.results.result import Result

Times = Mapping[str, Any]
"""Stopping times by name: a `Result` (its first stopping rule and delta), or samples [run].

NaN means truncated.
"""


def ratio_figure(ratios: Any, deltas: Any = None, error: str = "se") -> Figure:
    """Draw the mean ratio of LLR and elimination stopping times of the same runs.

    The horizontal axis is log(1/delta). (Paper, Figure 1, right. Its caption says
    standard deviations, but its program drew standard errors.)

    Args:
        ratios: by rule, a `Result` of one instance that was observed by `LLR` and by an
            elimination, whose first is taken. Or tau_LLR/tau_elimination [D, run],
            NaN where a run was truncated.
        deltas: [D] error probabilities of ratios that are arrays. A `Result` has its own.
        error: of the bars: "se", the standard error of the mean, or "sd", the standard
            deviation over runs.

    Raises:
        ArgumentError: a shape that does not fit, a delta without a finite ratio, or a result
            without both stopping rules.
    """
    error = checks.choice("error", error, ("se", "sd"))
    drawn = [
        (name, *_ratios(name, entry, deltas), style)
        for (name, entry), style in styled("ratios", ratios)
    ]
    places = [np.log(1 / of) for _, of, _, _ in drawn]
    width = max(x.max() for x in places) - min(x.min() for x in places)
    figure, axes = single()
    spread = 0.006 * width  # shifts the rules, so that bars do not overlap
    for place, (x, (name, _, ratio, (colour, dash))) in enumerate(zip(places, drawn, strict=True)):
        order = np.argsort(x)
        mean, sd, n = mean_and_sd(ratio)
        bar = np.nan_to_num(sd / np.sqrt(n) if error == "se" else sd)  # none for one run
        shift = spread * (place - (len(drawn) - 1) / 2)
        axes.errorbar(
            (x + shift)[order], mean[order], bar[order], color=colour, linestyle=dash,
            linewidth=1.6, capsize=2.5, marker=MARKERS[place % len(MARKERS)], markersize=4.5,
            label=name + left_out(ratio),
        )  # fmt: skip
    axes.axhline(1, color=GREY, linewidth=0.8)
    axes.set_xlabel("log(1/delta), natural logarithm")
    axes.set_ylabel(
        "tau_LLR / tau_elimination "
        f"(mean ± {'standard error' if error == 'se' else 'sd over runs'})"
    )
    return finished(figure, note_on([ratio for _, _, ratio, _ in drawn]))


def _ratios(name: str, entry: Any, deltas: Any) -> tuple[np.ndarray, np.ndarray]:
    """Deltas [D] and tau_LLR/tau_elimination [D, run] of one entry, NaN where truncated."""
    if isinstance(entry, Result):
        plain = [s for s, rule in enumerate(entry.stopping) if rule.name == "llr"]
        dropping = [s for s, rule in enumerate(entry.stopping) if rule.eliminates]
        if entry.batched or not plain or not dropping:
            allowed = "results of one instance, observed by LLR() and by an elimination"
            raise ArgumentError("ratios", entry, allowed, f"rule {name!r}")
        deltas = entry.deltas
        ratio = tau_of_deltas(entry, plain[0]) / tau_of_deltas(entry, dropping[0])
    else:
        if deltas is None:
            raise ArgumentError("deltas", None, "error probabilities [D] of ratios in arrays")
        deltas = checks.deltas(deltas)
        ratio = numbers("ratios", entry, (deltas.size, None))
    if not np.isfinite(ratio).any(1).all():
        allowed = "at least one finite ratio for every delta"
        raise ArgumentError("ratios", entry, allowed, f"rule {name!r}")
    return deltas, ratio


def tau_figure(
    samples: Times, lower: float | None = None, practical: float | None = None, bins: int = 40
) -> Figure:
    """Draw a histogram of the stopping time for each rule, in its own row, with the bounds.

    Args:
        samples: by rule, a `Result` of one instance or stopping times [run], NaN for
            truncated runs.
        lower: the lower bound on the mean, log(1/(2.4 delta))/H*
            (`sample_bound`), in samples.
        practical: the practical bound, the first t >= T* beta(t, delta)
            (`practical_time`), in samples.
        bins: number of bins, equal in the logarithm and shared by all rules.
    """
    drawn = [
        (name, tau_of(name, entry), style) for (name, entry), style in styled("samples", samples)
    ]
    bins = checks.integer("bins", bins, low=2)
    marks = [
        ("lower bound log(1/(2.4 delta)) T*", lower, "--"),
        ("practical bound T* beta", practical, ":"),
    ]
    marks = [
        (word, checks.real("bound", value, low=0, open=True), dash)
        for word, value, dash in marks
        if value is not None
    ]
    everything = np.concatenate([tau[np.isfinite(tau)] for _, tau, _ in drawn])
    low = min([everything.min(), *(value for _, value, _ in marks)])
    high = max([everything.max(), *(value for _, value, _ in marks)])
    edges = np.geomspace(low / 1.05, high * 1.05, bins + 1)
    cut = any(np.isnan(tau).any() for _, tau, _ in drawn)
    of = "mean of those that stopped (biased low)" if cut else "mean"
    figure, axes = single(height=max(2.4, 1.4 + 0.75 * len(drawn)))
    for row, (_, tau, (colour, _)) in enumerate(reversed(drawn)):
        tau = tau[np.isfinite(tau)]
        heights = np.histogram(tau, edges)[0]
        tops = row + 0.85 * heights / heights.max()
        axes.stairs(tops, edges, baseline=row, color=colour, fill=True, alpha=0.35)
        axes.stairs(tops, edges, baseline=row, color=colour, linewidth=1.2)
        axes.plot(tau.mean(), row, marker="D", color=colour, markeredgecolor="black", markersize=6,
                  linestyle="none", clip_on=False, zorder=4,
                  label=of if row == 0 else None)  # fmt: skip
    for word, value, dash in marks:
        axes.axvline(
            value, color="black", linestyle=dash, linewidth=1.4, label=f"{word} = {value:,.0f}"
        )
    axes.set_xscale("log")
    axes.set_yticks(
        np.arange(len(drawn)), [name + left_out(tau) for name, tau, _ in reversed(drawn)]
    )
    axes.set_ylim(-0.12, len(drawn))
    logarithmic(axes.xaxis, *axes.get_xlim())
    axes.set_xlabel("tau (samples); heights are to scale within a row")
    axes.set_ylabel("runs, by rule")
    figure = finished(figure)
    axes.grid(False, axis="y")
    # Above the rows; in two columns where three would be wider than the page.
    letters = sum(map(len, axes.get_legend_handles_labels()[1]))
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8,
                ncols=3 if letters <= 80 else 2)  # fmt: skip
    return figure


def survival_figure(samples: Times, lower: float | None = None) -> Figure:
    """Draw the share of runs with tau > t; truncated runs never stop.

    Args:
        samples: by rule, a `Result` of one instance or stopping times [run], NaN for
            truncated runs.
        lower: a bound to mark, in samples.
    """
    figure, axes = single()
    drawn = [
        (name, tau_of(name, entry), style) for (name, entry), style in styled("samples", samples)
    ]
    start = 0.8 * min(np.nanmin(tau) for _, tau, _ in drawn)
    if lower is not None:
        lower = checks.real("lower", lower, low=0, open=True)
        start = min(start, 0.8 * lower)
    for name, tau, (colour, dash) in drawn:
        stopped = np.sort(tau[np.isfinite(tau)])
        going = 1 - np.arange(1, stopped.size + 1) / tau.size
        axes.step(np.append(start, stopped), np.append(1, going), where="post", color=colour,
                  linestyle=dash, linewidth=1.8, label=name + left_out(tau))  # fmt: skip
    if lower is not None:
        axes.axvline(
            lower,
            color=GREY,
            linestyle="--",
            linewidth=1,
            label=f"lower bound on the mean = {lower:,.0f}",
        )
    axes.set_xscale("log")
    axes.set_xlabel("t (samples)")
    axes.set_ylabel("share of runs with tau > t")
    axes.set_xlim(left=start)
    logarithmic(axes.xaxis, *axes.get_xlim())
    axes.set_ylim(0, 1.02)
    return finished(figure)
