"""Active arms over time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.figures.entries import left_out, of_result, stopping_times
from jaxelim.figures.style import finished, logarithmic, single, styled
from jaxelim.simulation.results.result import Result

_POINTS = 400  # of time
Curves = Mapping[Any, Result | tuple[Any, Any]]
"""Active arms by name: a `Result`, or times [points] in samples and counts [points, run]."""


def active_counts(
    elimination_times: Any, samples: Any, points: int = _POINTS
) -> tuple[np.ndarray, np.ndarray]:
    """Count the active arms of each run over time, from stored arrays.

    After its stop a run counts the arms that were left then.

    Args:
        elimination_times: [run, K], samples when each arm was eliminated, 0 for never.
        samples: [run], stopping times; runs with NaN are left out.
        points: number of times, evenly spaced from 0 to the end of the longest run.

    Returns:
        times [points] in samples and counts [points, run].

    Raises:
        ArgumentError: the shapes do not match, or no run stopped.
    """
    dropped = checks.real_array("elimination_times", elimination_times, ndim=2)
    tau = stopping_times("samples", samples, (None,))
    points = checks.integer("points", points, low=2)
    if tau.shape != dropped.shape[:1]:
        raise ArgumentError(
            "samples", tau.shape, f"one stopping time for each of the {len(dropped)} runs"
        )
    stopped = np.isfinite(tau)
    if not stopped.any():
        raise ArgumentError("samples", samples, "at least one run that stopped")
    dropped = dropped[stopped]
    times = np.linspace(0, tau[stopped].max(), points)
    fallen = np.sort(np.where(dropped == 0, np.inf, dropped), 1)
    left = np.stack(
        [dropped.shape[1] - np.searchsorted(row, times, side="right") for row in fallen], 1
    )
    return times, left


def active_arms(
    result: Result, stopping: int = 0, delta: int = 0, points: int = _POINTS
) -> tuple[np.ndarray, np.ndarray]:
    """Count the active arms of each run of a result over time.

    After its stop a run counts the arms that were left then. Truncated runs
    are left out.

    Args:
        result: of one instance, best arm, best item (items are counted then) or
            thresholding, with an elimination among its stopping rules.
        stopping: index of that elimination.
        delta: index of the delta.
        points: number of times, evenly spaced from 0 to the end of the longest run.

    Returns:
        times [points] in samples and counts [points, run].

    Raises:
        ArgumentError: another result, or no run that stopped.
    """
    if (
        result.elimination_times is None
        or not result.stopping[stopping].eliminates
        or result.batched
    ):
        raise ArgumentError(
            "result",
            result,
            "a result of one instance, observed by an elimination that records arms",
        )
    dropped = result.elimination_times[stopping, delta]
    if not result.stopped[stopping, delta].any() or dropped.ndim != 2:
        raise ArgumentError(
            "result", result, "at least one run that stopped, and elimination times per arm"
        )
    return active_counts(dropped, of_result(result, stopping, delta), points)


def active_arms_figure(curves: Curves, band: float = 0.8, *, log: bool = False) -> Figure:
    """Draw active arms against time, one curve per rule: the mean over runs and a central band.

    (Paper, Figure 1, left.)

    Args:
        curves: by rule, a `Result`, whose first elimination is drawn. Or times [points]
            in samples and counts [points, run], as from `active_counts`.
        band: share of the runs inside the band, in (0, 1).
        log: whether the axis of samples is logarithmic.
    """
    return drawn_active(
        {name: (curve, *style) for (name, curve), style in styled("curves", curves)}, band, log
    )


def drawn_active(
    drawn: Mapping[str, tuple[Any, Any, Any]], band: float, log: bool = False
) -> Figure:
    """Draw curves of active arms by label: (curve, colour, dash).

    The time axis ends where 98% of every rule's runs have ended, so that one long run
    does not compress it.
    """
    band = checks.real("band", band, low=0, high=1, open=True)
    figure, axes = single()
    end, items = (
        0.0,
        [isinstance(curve, Result) and _of_items(curve) for curve, *_ in drawn.values()],
    )
    for name, (curve, colour, dash) in drawn.items():
        if isinstance(curve, Result):
            places = [s for s, rule in enumerate(curve.stopping) if rule.eliminates]
            place = places[0] if places else 0
            name += left_out(of_result(curve, place)) if not curve.batched else ""
            curve = active_arms(curve, place)
        if not isinstance(curve, Sequence) or len(curve) != 2:
            raise ArgumentError(
                "curves", curve, "a Result, or a pair of times [points] and counts [points, run]"
            )
        times = checks.real_array("times", curve[0], ndim=1)
        left = checks.real_array("counts", curve[1], shape=(times.size, None))
        if left.size == 0:
            raise ArgumentError("counts", curve[1], "at least one time and one run")
        low, high = np.quantile(left, [(1 - band) / 2, (1 + band) / 2], axis=1)
        axes.fill_between(times / 1000, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            times / 1000, left.mean(1), color=colour, linestyle=dash, linewidth=1.8, label=name
        )
        through = (left == left[-1]).mean(1) >= 0.98
        end = max(end, times[np.argmax(through)])
    axes.set_xlabel("samples (thousands)")
    counted = "items" if all(items) else "arms"
    axes.set_ylabel(f"active {counted} (mean, central {100 * band:.0f}% of runs)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, 1.05 * end / 1000 if end > 0 else None)
    if log and end > 0:
        axes.set_xscale("log")
        axes.set_xlim(left=end / 1000 / _POINTS)
        logarithmic(axes.xaxis, *axes.get_xlim())
    return finished(figure)


def _of_items(curve: Any) -> bool:
    """Whether this is a result whose elimination times are those of items."""
    return isinstance(curve, Result) and curve.problem.times_axes == ("item",)
