"""How many more rewards a live run needs: runs that are simulated on from its state."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from jaxelim import engine, scope
from jaxelim.engine import LANE_GROUP, Carry, Queue, Spec
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.families import noise
from jaxelim.instances.instance import Instance
from jaxelim.live.moment import LiveJob, Moment
from jaxelim.numerics.jacobi import least_squares

RUNS = 32
"""Simulated runs of a forecast."""
MOST = 10**6
"""Rewards after which a simulated run is cut off."""
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
        return self.quantile(0.5)

    @property
    def range(self) -> tuple[float, float]:
        """A prediction interval: it holds one more such run with probability 80% or more.

        Of n runs it goes from one in their order to another, ceil(0.8 (n + 1)) places above.
        The place below the first is 0. An end is infinite where that run was cut off, and
        where the place is above n.
        """
        runs = np.sort(np.where(self.stopped, self.more, np.inf))
        width = math.ceil(SHARE * (runs.size + 1))
        first = max((runs.size + 1 - width) // 2, 0)
        places = np.concatenate([[0.0], runs, [np.inf]])
        return float(places[first]), float(places[min(first + width, runs.size + 1)])

    @property
    def same_answer(self) -> float:
        """The share of the runs that stopped with the present answer, of those that stopped."""
        if not self.stopped.any():
            return float("nan")
        return float((self.answers == self.now).all(-1)[self.stopped].mean())

    def quantile(self, share: float) -> float:
        """The quantile of the further rewards, one of their values; inf for a run cut off."""
        return float(np.quantile(np.where(self.stopped, self.more, np.inf), share, method="lower"))

    def __str__(self) -> str:
        low, high = map(self._words, self.range)
        words = (
            f"Forecast, by simulating the run on with the estimates as the truth: "
            f"{self._words(self.median)} more rewards until it stops, the median; {low} to {high} "
            f"with probability {SHARE:.0%}, by {self.more.size} runs."
        )
        if self.stopped.any():
            words += f" {self.stopped.sum()} of them stopped, {self.same_answer:.0%} of these with "
            words += "the present answer."
        return words

    def _words(self, count: float) -> str:
        return f"{count:,.0f}" if np.isfinite(count) else f"over {self.most:,}"


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
    lanes = -(-runs // LANE_GROUP) * LANE_GROUP
    with scope.engine():
        truth, family = _estimated(job, moment), job.spec.family
        source = truth.source
        drawn = family if source is None else source.static_part()
        spec = dataclasses.replace(job.spec, evidence=None, source=drawn, schedule=None)
        spec = spec.executed(lanes=lanes, queue=lanes)
        began = int(moment.stats.t[0])
        nature = jax.tree.map(
            lambda x: np.asarray(x, spec.dtype) if np.asarray(x).dtype.kind == "f" else x,
            (source or family).nature(truth),
        )
        changed: Any = dict(nature=nature, cap=np.int32(began + most), key=noise.key(seed))
        inputs, queue = dataclasses.replace(job.inputs, **changed), _queue(job, spec, runs)
        program = engine.program(spec, inputs)
        carry = _begun(job, spec, moment, program.empty(inputs, queue), queue)
        inputs, queue, carry = program.begun(inputs, queue, carry)
        while int(carry.live) > 0 and not bool(carry.failed):
            carry = program.advance(inputs, queue, carry, np.int32(_CHUNKS))
        out = jax.tree.map(lambda x: np.asarray(x)[: int(carry.finished)], carry.out)
    order = np.argsort(out.item)
    more = out.samples[order, 0, 0].astype(np.int64) - began
    return LiveForecast(more, out.stopped[order, 0, 0], out.answer[order, 0, 0], now, most)


def _estimated(job: LiveJob, moment: Moment) -> Instance:
    """The instance whose truth are the estimates, a little inside the family's range."""
    assert moment.lane is not None
    stats: Any = moment.stats
    family, features = job.call.instance.family, job.arms.arms
    counts, means = np.asarray(stats.counts)[:, 0], np.asarray(stats.means)[:, 0] * family.scale
    moments = None if stats.moments is None else np.asarray(stats.moments)[:, 0]
    low, high = (getattr(family, name, end) for name, end in (("low", -np.inf), ("high", np.inf)))
    inside = min(1.0, high - low) * 0.5 / (counts + 1)
    means = np.clip(means, low + inside, high - inside)
    source = family.estimated(counts, means, moments)
    own = None if source is None else source.means
    means = means if own is None else own
    theta = least_squares(features, family.link(means))
    try:
        return Instance(features, theta, family=family, source=source, costs=job.arms.costs)
    except ArgumentError as error:
        allowed = "a run whose estimates rewards can be drawn from"
        raise UnsupportedError("forecast", means, allowed, str(error)) from error


def _queue(job: LiveJob, spec: Spec, runs: int) -> Queue:
    """As many runs as there are; each has begun."""
    places = spec.execution.queue
    none, delta = np.zeros(places, np.int32), np.asarray(job.queue.delta)[:, :1]
    arrays: Any = dict(
        run=np.arange(places, dtype=np.int32), row=none, instance=none,
        delta=np.repeat(delta, places, 1), length=np.int32(runs),
    )  # fmt: skip
    return Queue(**arrays)


def _begun(job: LiveJob, spec: Spec, moment: Moment, empty: Carry, queue: Queue) -> Carry:
    """The carry whose lanes all have the state of the live run."""
    assert moment.lane is not None
    lanes = np.arange(spec.execution.lanes, dtype=np.int32)
    own: Any = dict(stats=moment.stats, pending=None, log_e=None, prepared=())
    bare = dataclasses.replace(moment.lane, **own)
    lane = jax.tree.map(lambda x: x[..., np.zeros(spec.execution.lanes, np.int32)], bare)
    of_lanes: Any = dict(
        item=np.where(lanes < queue.length, lanes, spec.execution.queue).astype(np.int32),
        run=lanes, row=np.zeros_like(lanes), done=lanes >= queue.length,
        prepared=jax.tree.map(lambda x: x[0], job.inputs.prepared),
    )  # fmt: skip
    lane = dataclasses.replace(lane, **of_lanes)
    return dataclasses.replace(
        empty, lane=lane, next=np.int32(queue.length), live=np.int32(queue.length)
    )
