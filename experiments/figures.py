"""Figures of the experiments alone: the paper's, and those of laws and searches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.figures.active import Curves, drawn_active
from jaxelim.figures.entries import numbers
from jaxelim.figures.style import GREY, MARKERS, STYLES, Drawing, finished, single, styled


def full_selective_figure(curves: Curves, band: float = 0.5) -> Figure:
    """Draw selective and full elimination, at stopping only and at stopping and sampling.

    Each elimination has a colour, and each curve its own dashes. Selective elimination
    has lines, dashed with sampling. Full elimination has dots, dash-dots with sampling.
    (Paper, Figure 1, middle.)

    Args:
        curves: of one sampling rule, by (elimination, place): elimination "selective"
            or "full", place "stopping" or "both". A `Result`, or times [points] in
            samples and counts [points, run]. Any of the four may be missing.
        band: share of the runs inside the band, in (0, 1).
    """
    (selective, _), (full, _), *_ = STYLES
    styles = {
        ("selective", "stopping"): (selective, "-"),
        ("selective", "both"): (selective, (0, (5, 2))),
        ("full", "stopping"): (full, (0, (1, 1))),
        ("full", "both"): (full, (0, (5, 1, 1, 1))),
    }
    words = {"stopping": "at stopping", "both": "at stopping and sampling"}
    drawn = {}
    for (key, curve), _ in styled("curves", curves):
        if key not in styles:
            allowed = "keys (elimination, place): 'selective' or 'full', 'stopping' or 'both'"
            raise ArgumentError("curves", key, allowed)
        drawn[f"{key[0]}, {words[key[1]]}"] = (curve, *styles[key])
    return drawn_active(drawn, band)


def information_regret_figure(regrets: Mapping[str, Any], value: float | None = None) -> Figure:
    """Draw R(t) = t H* - min_p H_p(N_t) over time, and its largest value so far.

    The bounds take the largest value so far as R. Axes are logarithmic: where R is 0 or
    below, nothing is drawn.

    Args:
        regrets: by rule or run, an `InformationRegret`, or a pair of times [n] in
            samples and regrets [n] or [run, n]. Of many runs it draws the mean, the
            central 80%, and the largest over all runs.
        value: H*, to draw t H*, the regret of a run without information.
    """
    figure, axes = single()
    first, last, floor = np.inf, 1.0, np.inf
    for (name, given), (colour, dash) in styled("regrets", regrets):
        pair = (given.times, given.regret) if hasattr(given, "regret") else given
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise ArgumentError(
                "regrets",
                given,
                "an InformationRegret, or a pair of times [n] and regrets [n] or [run, n]",
            )
        times = checks.real_array("times", pair[0], ndim=1)
        regret = np.atleast_2d(checks.real_array("regrets", pair[1], ndim=(1, 2)))
        if (
            times.size == 0
            or regret.shape[1] != times.size
            or len(regret) == 0
            or (times <= 0).any()
        ):
            raise ArgumentError(
                "regrets",
                given,
                f"[n] or [run, n] regrets at the n = {times.size} times, all above 0",
            )
        largest = np.maximum.accumulate(np.maximum(regret.max(0), 0))
        if len(regret) > 1:
            low, high = np.maximum(np.quantile(regret, [0.1, 0.9], axis=0), 1e-300)
            axes.fill_between(times, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(times, regret.mean(0), color=colour, linestyle=dash, linewidth=1.7, label=name)
        axes.step(
            times,
            largest,
            where="pre",
            color=colour,
            linewidth=0.9,
            label=f"_{name}: largest so far",
        )
        floor = min([floor, *largest[largest > 0][:1]])
        first, last = min(first, times.min()), max(last, times.max())
    axes.set_xscale("log")
    axes.set_yscale("log", nonpositive="mask")
    top = axes.get_ylim()[1]
    axes.plot([], [], color=GREY, linewidth=0.9, label="thin: largest so far")
    if value is not None:
        value = checks.real("value", value, low=0, open=True)
        t = np.geomspace(first, last, 200)
        axes.plot(
            t,
            t * value,
            color=GREY,
            linestyle=(0, (1, 2)),
            linewidth=1.2,
            label="t H*: nothing gathered",
        )
    if np.isfinite(floor):
        axes.set_ylim(floor / 3, top)  # values below are 0 up to rounding
    axes.set_xlabel("t (samples)")
    axes.set_ylabel("information regret R(t) (nats)")
    figure = finished(figure)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)  # outside
    return figure


@dataclass(frozen=True, eq=False)
class Panel:
    """One panel of `scaling_figure`, on two logarithmic axes.

    Args:
        title: of the panel.
        xlabel: with its unit.
        ylabel: with its unit.
        x: [n], above 0.
        measured: by name, means [n], or a pair of means [n] and standard errors [n];
            NaN where there is none.
        references: by name, values [n] to compare with: bounds and laws.
    """

    title: str
    xlabel: str
    ylabel: str
    x: Any
    measured: Mapping[str, Any]
    references: Mapping[str, Any] = field(default_factory=dict)


def scaling_figure(panels: Sequence[Panel], columns: int = 3) -> Figure:
    """Draw simulated quantities against a parameter, with bounds and laws, one panel each.

    Args:
        panels: at least one.
        columns: panels in a row.

    Raises:
        ArgumentError: no panel, or numbers that do not fit it.
    """
    columns = checks.integer("columns", columns, low=1)
    if not panels:
        raise ArgumentError("panels", panels, "at least one panel")
    across = min(columns, len(panels))
    rows = -(-len(panels) // across)
    figure = Drawing(figsize=(4.6 * across, 4.4 * rows), layout="constrained")
    for axes, panel in zip(figure.subplots(rows, across, squeeze=False).flat, panels, strict=False):
        _draw_panel(axes, panel)
    for axes in figure.axes[len(panels) :]:
        axes.remove()
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    x = checks.real_array("x", panel.x, ndim=1)
    if x.size == 0 or (x <= 0).any():
        raise ArgumentError("x", panel.x, "numbers above 0")
    for place, ((name, given), (colour, dash)) in enumerate(styled("measured", panel.measured)):
        mean, bar = given if isinstance(given, tuple) else (given, None)
        mean = numbers("measured", mean, (x.size,))
        bar = None if bar is None else numbers("measured", bar, (x.size,))
        axes.errorbar(x, mean, bar, color=colour, linestyle=dash, linewidth=1.5, capsize=2.5,
                      markersize=5, marker=MARKERS[place % len(MARKERS)], label=name)  # fmt: skip
    for place, (name, given) in enumerate(panel.references.items()):
        dash = (":", "--", "-.", (0, (1, 3)))[place % 4]
        values = numbers("references", given, (x.size,))
        axes.plot(x, values, color=GREY, linestyle=dash, linewidth=1.3, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(x, [f"{value:.3g}" for value in x])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel)
    axes.grid(alpha=0.25, linewidth=0.5)
    # Below the panel, as curves may be anywhere inside.
    axes.legend(
        frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2
    )
