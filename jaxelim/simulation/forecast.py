"""What a call will cost, from T* beta(t, delta) and the rate so far."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxelim import checks
from jaxelim.engine.progress import in_words
from jaxelim.lower_bound import complexity
from jaxelim.lower_bound.bounds import practical_time

LARGEST = 2**14
"""Most numbers in the arms of a call for which T* is computed: a solve then takes little."""


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Predicted samples of a call's runs, without noise.

    Attributes:
        samples: float64 [instances, deltas], samples of a run, without the cap.
        deltas: [deltas] error probabilities; 0-th axis of nothing else.
        runs: number of runs.
        cap: most samples of a run.
        shared: whether all deltas are observed on one trajectory.
    """

    samples: np.ndarray
    deltas: np.ndarray
    runs: int
    cap: int
    shared: bool

    @property
    def total(self) -> float:
        """Samples of all runs together, each at most the cap."""
        capped = np.minimum(self.samples, self.cap)
        of_run = capped.max(1) if self.shared else capped.sum(1)
        return float(self.runs * of_run.sum())

    def lines(self, rate: float) -> list[str]:
        """The prediction in words, at `rate` samples per second.

        The last line says whether runs will be cut off.
        """
        low, high = self.samples.min(), self.samples.max()
        of_run = f"{low:,.0f}" if round(low) == round(high) else f"{low:,.0f} to {high:,.0f}"
        said = [
            f"predicted by T* beta(t, delta), as without noise: {of_run} samples a run, "
            f"{self.total:,.0f} in all, {in_words(self.total / rate)} at this rate"
        ]
        if high > self.cap:
            delta = self.deltas[np.argmax(self.samples.max(0) > self.cap)]
            said.append(
                f"runs will be cut off at {self.cap:,} samples: at delta = {delta:g} more are "
                "predicted"
            )
        return said


def forecast(
    times: Any, deltas: Any, threshold: Callable, runs: int, cap: int, shared: bool
) -> Forecast:
    """Predict samples: of a run the first t >= T* beta(t, delta).

    A run without noise that pulls in proportions w* stops there with LLR stopping. With
    noise the piece of least evidence decides. Where many pieces bind at w* the mean time
    is longer, even for these proportions; as delta tends to 0 the ratio tends to 1.

    Args:
        times: [instances] T*, in samples.
        deltas: [deltas] error probabilities.
        threshold: beta, a callable of (t, delta).
        runs: number of runs.
        cap: most samples of a run.
        shared: whether all deltas are observed on one trajectory.

    Raises:
        ArgumentError: as `jaxelim.practical_time`.
    """
    deltas = checks.deltas(deltas)
    needed = [[practical_time(d, 1 / time, threshold) for d in deltas] for time in times]
    return Forecast(np.array(needed, float), deltas, runs, cap, shared)


def forecast_of(call: Any) -> Forecast | None:
    """The forecast of a call; None where T* is not cheap or does not exist. It never raises."""
    try:
        if call.instance.arms.size > LARGEST:
            return None
        solved = complexity(call.instance, call.problem, gap=0.01)
        times = np.atleast_1d(solved.time)
        if solved.costs is not None:  # in samples, at the mean cost of a pull
            times = times / np.atleast_1d(np.sum(solved.pulls * solved.costs, -1))
        runs, cap = call.runs.size, call.cap
        return forecast(times, call.deltas, call.threshold, runs, cap, call.shared)
    except Exception:  # problems of one's own may raise anything
        return None
