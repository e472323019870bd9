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
from jaxelim.figures import style
from jaxelim.figures.drawn import Entry
from jaxelim.figures.results import drawn_active
from jaxelim.figures.style import GREY, MARKERS, STYLES, style_of
from jaxelim.simulation.results.result import Result


def full_selective_figure(results: Mapping[tuple[str, str], Result], band: float = 0.5) -> Figure:
    """Draw selective and full elimination, at stopping only and at stopping and sampling.

    Each elimination has a colour, and each curve its own dashes. Selective elimination
    has lines, dashed with sampling. Full elimination has dots, dash-dots with sampling.
    (Paper, Figure 1, middle.)

    Args:
        results: of one sampling rule, by (elimination, place): elimination "selective"
            or "full", place "stopping" or "both". Any of the four may be missing.
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
    drawn = []
    for (elimination, place), one in results.items():
        if (elimination, place) not in styles:
            allowed = "keys (elimination, place): 'selective' or 'full', 'stopping' or 'both'"
            raise ArgumentError("results", (elimination, place), allowed)
        own = styles[elimination, place]
        drawn.append(Entry(f"{elimination}, {words[place]}", one, len(drawn), *own, MARKERS[0]))
    return drawn_active(drawn, band)


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
    figure, places = style.panels((4.6 * across, 4.4 * rows), across, rows)
    for axes, panel in zip(places.flat, panels, strict=False):
        _draw_panel(axes, panel)
    for axes in figure.axes[len(panels) :]:
        axes.remove()
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    x = checks.real_array("x", panel.x, ndim=1)
    if x.size == 0 or (x <= 0).any():
        raise ArgumentError("x", panel.x, "numbers above 0")
    for place, (name, given) in enumerate(panel.measured.items()):
        mean, bar = given if isinstance(given, tuple) else (given, None)
        colour, dash, marker = style_of(place)
        mean = _numbers("measured", mean, x.size)
        bar = None if bar is None else _numbers("measured", bar, x.size)
        axes.errorbar(x, mean, bar, color=colour, linestyle=dash, linewidth=1.5, capsize=2.5,
                      markersize=5, marker=marker, label=name)  # fmt: skip
    for place, (name, given) in enumerate(panel.references.items()):
        dash = (":", "--", "-.", (0, (1, 3)))[place % 4]
        values = _numbers("references", given, x.size)
        axes.plot(x, values, color=GREY, linestyle=dash, linewidth=1.3, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(x, [f"{value:.3g}" for value in x])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel)
    # Below the panel, as curves may be anywhere inside.
    axes.legend(
        frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2
    )


def _numbers(name: str, values: Any, size: int) -> Any:
    """Numbers [size]; NaN where there is none."""
    numbers = np.asarray(values, float)
    if numbers.shape != (size,):
        raise ArgumentError(name, values, f"{size} numbers", f"its shape is {numbers.shape}")
    return numbers
