"""Checks of what figures draw: numbers with NaN where missing, and stopping times."""

from typing import Any

import numpy as np

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.simulation.results.result import Result


def of_result(result: Result, stopping: int = 0, delta: int = 0) -> np.ndarray:
    """Stopping times [run] of a result of one instance, NaN for truncated runs."""
    return np.where(result.stopped[stopping, delta], result.samples[stopping, delta], np.nan)


def tau_of(name: str, given: Any) -> np.ndarray:
    """Stopping times [run] of one entry, NaN for truncated runs; at least one is finite."""
    if isinstance(given, Result):
        if given.batched:
            raise ArgumentError(
                "samples", given, "a result of one instance, or an array [run]", f"rule {name!r}"
            )
        given = of_result(given)
    tau = stopping_times("samples", given)
    if not np.isfinite(tau).any():
        raise ArgumentError("samples", given, "at least one run that stopped", f"rule {name!r}")
    return tau


def stopping_times(name: str, given: Any) -> np.ndarray:
    """Check stopping times [run]: all above 0, NaN for truncated runs."""
    tau = numbers(name, given, (None,))
    if (tau <= 0).any():
        raise ArgumentError(name, given, "stopping times above 0, NaN for runs that were cut off")
    return tau


def numbers(name: str, given: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Check real numbers of a shape; returns float64. NaN is allowed, infinity is not."""
    array = checks.real_array(name, given, shape=shape, finite=False)
    if np.isinf(array).any():
        raise ArgumentError(name, given, "finite numbers, or NaN where there is none")
    return array


def left_out(array: np.ndarray) -> str:
    """The number of truncated runs, in words for a label."""
    missing = int(np.isnan(array).any(tuple(range(array.ndim - 1))).sum())
    return f" ({missing} cut off)" if missing else ""
