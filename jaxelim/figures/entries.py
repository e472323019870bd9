"""What the entries of a figure hold: numbers with NaN where missing, and stopping times."""

from typing import Any

import numpy as np

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.simulation.results.result import Result

BIASED = "means of the runs that stopped, biased where some were cut off"
"""The note on a figure of means."""


def of_result(result: Result, stopping: int = 0, delta: int = 0) -> np.ndarray:
    """Stopping times [run] of a result of one instance, NaN for truncated runs."""
    return tau_of_deltas(result, stopping)[delta]


def tau_of_deltas(result: Result, stopping: int) -> np.ndarray:
    """Stopping times [delta, run] of a result of one instance, NaN for truncated runs."""
    return np.where(result.stopped[stopping], result.samples[stopping], np.nan)


def tau_of(name: str, entry: Any) -> np.ndarray:
    """Stopping times [run] of one entry, NaN for truncated runs; at least one is finite."""
    if isinstance(entry, Result):
        if entry.batched:
            allowed = "a result of one instance, or an array [run]"
            raise ArgumentError("samples", entry, allowed, f"rule {name!r}")
        entry = of_result(entry)
    return some_stopped("samples", name, stopping_times("samples", entry, (None,)))


def some_stopped(argument: str, name: str, tau: np.ndarray) -> np.ndarray:
    """Refuse stopping times of which none is finite."""
    if not np.isfinite(tau).any():
        raise ArgumentError(argument, tau, "at least one run that stopped", f"rule {name!r}")
    return tau


def stopping_times(argument: str, values: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Check stopping times of a shape: all above 0, NaN for truncated runs."""
    tau = numbers(argument, values, shape)
    if (tau <= 0).any():
        allowed = "stopping times above 0, NaN for runs that were cut off"
        raise ArgumentError(argument, values, allowed)
    return tau


def numbers(argument: str, values: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Check real numbers of a shape; returns float64. NaN is allowed, infinity is not."""
    array = checks.real_array(argument, values, shape=shape, finite=False)
    if np.isinf(array).any():
        raise ArgumentError(argument, values, "finite numbers, or NaN where there is none")
    return array


def left_out(array: np.ndarray) -> str:
    """The number of truncated runs, in words for a label."""
    missing = int(np.isnan(array).any(tuple(range(array.ndim - 1))).sum())
    return f" ({missing} cut off)" if missing else ""


def note_on(arrays: list[np.ndarray]) -> str | None:
    """The note on means of arrays; None where no run was truncated."""
    return BIASED if any(np.isnan(array).any() for array in arrays) else None


def mean_and_sd(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviation and number of the finite entries of each row: [D] each.

    NaN where there are too few.
    """
    finite: Any = np.ma.masked_invalid(values)
    mean, sd = (np.ma.filled(x, np.nan) for x in (finite.mean(1), finite.std(1, ddof=1)))
    return mean, sd, finite.count(1)
