"""Active arms over time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.figures.drawn import Entry, entries
from jaxelim.figures.style import finished, logarithmic, single
from jaxelim.simulation.results.result import Result

_POINTS = 400  # of time


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
    return [*(s for s, rule in enumerate(result.stopping) if rule.eliminates), 0][0]


def active_arms_figure(results: Any, *, band: float = 0.8, log: bool = False) -> Figure:
    """Draw active arms against time, one curve per rule: the mean over runs and a central band.

    (Paper, Figure 1, left.)

    Args:
        results: a `Result`, results by name, or a `Study`, of one instance and problem. The
            first elimination and delta are drawn; `Result.select` gives others.
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
    band = checks.real("band", band, low=0, high=1, open=True)
    figure, axes = single()
    end = 0.0
    for one in given:
        times, left = active_arms(one.result)
        label = one.label(one.tau(_elimination(one.result))[0])
        low, high = np.quantile(left, [(1 - band) / 2, (1 + band) / 2], axis=1)
        axes.fill_between(times / 1000, low, high, color=one.colour, alpha=0.15, linewidth=0)
        axes.plot(times / 1000, left.mean(1), color=one.colour, linestyle=one.dash,
                  linewidth=1.8, label=label)  # fmt: skip
        through = (left == left[-1]).mean(1) >= 0.98
        end = max(end, times[np.argmax(through)])
    axes.set_xlabel("samples (thousands)")
    items = all(one.result.problem.times_axes == ("item",) for one in given)
    axes.set_ylabel(f"active {'items' if items else 'arms'} (mean, central {100 * band:.0f}% of "
                    "runs)")  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, 1.05 * end / 1000 if end > 0 else None)
    if log and end > 0:
        axes.set_xscale("log")
        axes.set_xlim(left=end / 1000 / _POINTS)
        logarithmic(axes.xaxis, *axes.get_xlim())
    return finished(figure)
