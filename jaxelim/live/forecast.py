"""How many more rewards a live run needs: runs that are simulated on from its state."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from jaxelim import engine, scope
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.instances.instance import Instance
from jaxelim.live.moment import LiveJob, Moment
from jaxelim.numerics.jacobi import least_squares
from jaxelim.simulation.experiment import Engine, Experiment
from jaxelim.simulation.plan import inputs_of, queue_of, spec_of

RUNS, MOST = 32, 10**6
"""Simulated runs of a forecast, and rewards after which one is cut off."""
MOST_RUNS, LONGEST = 10**4, 10**9
_CHUNKS = 256
"""Chunks of steps in one call, after which Ctrl-C is heard."""
SHARE = 0.8
"""The probability at least with which the range of a forecast covers one more such run."""


@dataclasses.dataclass(frozen=True)
class LiveForecast:
    """What simulated runs needed from the present state on, if the estimates are right.

    Attributes:
        more: [runs] int64, further rewards until the simulated run was over.
        stopped: [runs] bool, whether it stopped; else it was cut off at `most`.
        answers: [runs, W] bool, the answers as in `Trace`.
        now: [W] bool, the present empirical answer.
        most: rewards after which a run was cut off.
    """

    more: np.ndarray
    stopped: np.ndarray
    answers: np.ndarray
    now: np.ndarray
    most: int

    @property
    def median(self) -> float:
        """The median number of further rewards; infinite if so many runs were cut off."""
        return float(np.quantile(self._ends, 0.5, method="lower"))

    @property
    def range(self) -> tuple[float, float]:
        """A prediction interval: it holds one more such run with probability 80% or more.

        Of n runs it goes from one in their order to another, ceil(0.8 (n + 1)) places above.
        The place below the first is 0. An end is infinite where that run was cut off, and
        where the place is above n.
        """
        width = math.ceil(SHARE * (self.more.size + 1))
        first = max((self.more.size + 1 - width) // 2, 0)
        places = np.concatenate([[0.0], self._ends, [np.inf]])
        return float(places[first]), float(places[min(first + width, places.size - 1)])

    @property
    def same_answer(self) -> float:
        """The share of the runs that stopped with the present answer, of those that stopped."""
        if not self.stopped.any():
            return float("nan")
        return float((self.answers == self.now).all(-1)[self.stopped].mean())

    @property
    def _ends(self) -> np.ndarray:
        return np.sort(np.where(self.stopped, self.more, np.inf))

    def __str__(self) -> str:
        median, low, high = (
            f"{count:,.0f}" if np.isfinite(count) else f"over {self.most:,}"
            for count in (self.median, *self.range)
        )
        words = (
            f"Forecast, by simulating the run on with the estimates as the truth: {median} more "
            f"rewards until it stops, the median; {low} to {high} with probability {SHARE:.0%}, by "
            f"{self.more.size} runs."
        )
        if self.stopped.any():
            words += f" {self.stopped.sum()} of them stopped, {self.same_answer:.0%} of these with "
            words += "the present answer."
        return words


def simulated(
    job: LiveJob, moment: Moment, now: np.ndarray, runs: int, most: int, seed: int
) -> LiveForecast:
    """Simulate runs on from a moment, with the estimates as the truth.

    Args:
        job: of the live run.
        moment: with lanes, not over.
        now: the present answer, [W] bool.
        runs: number of simulated runs.
        most: rewards after which a run is cut off.
        seed: of the rewards.
    """
    assert moment.lane is not None
    with scope.engine():
        own = dict(instance=_estimated(job, moment), runs=np.arange(runs), seed=seed,
                   engine=Engine(lanes=runs, devices=1))  # fmt: skip
        call, began = Experiment.unchecked(**job.call.fields | own), int(moment.stats.t[0])
        spec = spec_of(call)
        cap: Any = np.int32(began + most)
        inputs = dataclasses.replace(inputs_of(call, spec), cap=cap)
        queue, _ = queue_of(call, spec)
        places, length = np.arange(spec.execution.lanes, dtype=np.int32), np.int32(runs)
        over, none = places >= runs, np.zeros_like(places)
        now_known: Any = dict(stats=moment.stats, pending=None, log_e=None, prepared=())
        lane = jax.tree.map(lambda x: x[..., none], dataclasses.replace(moment.lane, **now_known))
        item = np.where(over, np.int32(spec.execution.queue), places)
        of_lanes: Any = dict(item=item, row=places, run=places, done=over,
                             prepared=moment.lane.run.prepared)  # fmt: skip
        program = engine.program(spec, inputs)
        carry: Any = dataclasses.replace(
            program.empty(inputs, queue), lane=dataclasses.replace(lane, **of_lanes), next=length,
            live=length,
        )  # fmt: skip
        inputs, queue, carry = program.begun(inputs, queue, carry)
        while int(carry.live) > 0 and not bool(carry.failed):
            carry = program.advance(inputs, queue, carry, np.int32(_CHUNKS))
        out = jax.tree.map(lambda x: np.asarray(x)[: int(carry.finished)], carry.out)
    order = np.argsort(out.item)
    more = out.samples[order, 0, 0].astype(np.int64) - began
    return LiveForecast(more, out.stopped[order, 0, 0], out.answer[order, 0, 0], now, most)


def _estimated(job: LiveJob, moment: Moment) -> Instance:
    """The instance whose truth are the estimates, a little inside the family's range."""
    stats, arms = moment.stats, job.arms
    family: Any = arms.family
    counts, means = np.asarray(stats.counts)[:, 0], np.asarray(stats.means)[:, 0] * family.scale
    moments = None if stats.moments is None else np.asarray(stats.moments)[:, 0]
    low, high = getattr(family, "low", -np.inf), getattr(family, "high", np.inf)
    inside = min(1.0, high - low) * 0.5 / (counts + 1)
    means = np.clip(means, low + inside, high - inside)
    source = family.estimated(counts, means, moments)
    if source is not None and source.means is not None:
        means = source.means
    theta = least_squares(arms.arms, family.link(means))
    try:
        return Instance(arms.arms, theta, family=family, source=source, costs=arms.costs)
    except ArgumentError as error:
        allowed = "a run whose estimates rewards can be drawn from"
        raise UnsupportedError("forecast", means, allowed, str(error)) from error
