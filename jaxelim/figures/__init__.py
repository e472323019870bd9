"""Figures of results: pure functions of a `Result`, results by name, or a `Study`.

They return a matplotlib Figure and need no display; a notebook shows the figure that ends a
cell. Truncated runs are in no mean, and are counted in the legend. Colours suit colour-blind
readers; dashes and markers suit grey prints. `save` writes PNG and PDF.
"""

from collections.abc import Callable
from typing import Any

from jaxelim.figures.arms import active_arms, active_arms_figure, allocation_figure, pulls_figure
from jaxelim.figures.style import MARKERS, STYLES, figure_file, save
from jaxelim.figures.times import (
    comparison_figure,
    ratio_figure,
    study_figure,
    survival_figure,
    tau_figure,
)
from jaxelim.simulation.results.summaries import compare

__all__ = [
    "MARKERS", "STYLES", "active_arms", "active_arms_figure", "allocation_figure",
    "comparison_figure", "figure_file", "pulls_figure", "ratio_figure", "save", "study_figure",
    "survival_figure", "tau_figure",
]  # fmt: skip

BY_NAME: dict[str, Callable[..., Any]] = {
    "tau": tau_figure, "survival": survival_figure, "delta": study_figure, "ratio": ratio_figure,
    "active": active_arms_figure, "pulls": pulls_figure,
    "comparison": lambda results: comparison_figure(
        results.compare() if hasattr(results, "compare") else compare(results)),
}  # fmt: skip
"""The figures of results by name, each a function of results by name or a `Study`."""
