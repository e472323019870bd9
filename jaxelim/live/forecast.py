"""How many more rewards a live run needs: runs that are simulated on from its state."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxelim import checks, engine, scope
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.instances.instance import Instance
from jaxelim.live.fold import Fold, State
from jaxelim.numerics.jacobi import least_squares
from jaxelim.simulation.experiment import Engine, Experiment
from jaxelim.simulation.plan import inputs_of, queue_of, spec_of

_CHUNKS = 256
"""Chunks of steps in one call, after which Ctrl-C is heard."""
SHARE = 0.8
"""The probability at least with which the range of a forecast covers one more such run."""


class LiveForecast(NamedTuple):
    """What simulated runs needed from the present state on, if the estimates are right.

    Attributes:
        more: [runs] float64, further rewards until the simulated run stopped; infinite
            where it was cut off at `most`.
        answers: [runs, W] bool, the answers as in `Trace`.
        now: [W] bool, the present empirical answer.
        most: rewards after which a run was cut off.
    """

    more: np.ndarray
    answers: np.ndarray
    now: np.ndarray
    most: int

    @property
    def stopped(self) -> np.ndarray:
        """[runs] bool, whether the simulated run stopped."""
        return np.isfinite(self.more)

    @property
    def median(self) -> float:
        """The median number of further rewards; infinite if so many runs were cut off."""
        return float(np.quantile(self.more, 0.5, method="lower"))

    @property
    def range(self) -> tuple[float, float]:
        """A prediction interval: it holds one more such run with probability 80% or more.

        Of n runs it goes from one in their order to another, ceil(0.8 (n + 1)) places above.
        The place below the first is 0. An end is infinite where that run was cut off, and
        where the place is above n.
        """
        n = self.more.size
        width = math.ceil(SHARE * (n + 1))
        first = max((n + 1 - width) // 2, 0)
        places = np.concatenate([[0.0], np.sort(self.more), [np.inf]])
        return float(places[first]), float(places[min(first + width, n + 1)])

    @property
    def same_answer(self) -> float:
        """The share of the runs that stopped with the present answer, of those that stopped."""
        same = (self.answers == self.now).all(-1)[self.stopped]
        return float(same.mean()) if same.size else math.nan

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
    fold: Fold, state: State, now: np.ndarray, runs: Any, most: Any, seed: Any
) -> LiveForecast:
    """The `LiveForecast` of a state with lanes, not over, and its present answer, [W] bool."""
    if fold.arms.source is not None:
        allowed = "a run whose rewards do not end: what is left of a stack is not drawn here"
        raise UnsupportedError("forecast", fold.arms.source, allowed)
    runs = checks.integer("runs", runs, low=1, high=10**4)
    most = checks.integer("most", most, low=1, high=10**9)
    with scope.on_cpu():
        own = dict(instance=_estimated(fold, state), runs=np.arange(runs), seed=checks.seed(seed),
                   engine=Engine(lanes=runs, devices=1))  # fmt: skip
        call, began = Experiment.unchecked(**fold.call.fields | own), int(state.stats.t[0])
        spec = spec_of(call, backend="cpu")
        inputs: Any = dataclasses.replace(inputs_of(call, spec), cap=np.int32(began + most),
                                          prepared=fold.inputs.prepared)  # fmt: skip
        queue, places = queue_of(call, spec)[0], np.arange(spec.execution.lanes, dtype=np.int32)
        over = places >= runs
        lane = dataclasses.replace(state.lane, stats=state.stats, pending=None, log_e=None)
        lane = jax.tree.map(lambda x: x[..., np.zeros_like(places)], lane)
        item: Any = np.where(over, np.int32(spec.execution.queue), places)
        run = dataclasses.replace(lane.run, item=item, index=places, row=places)
        program, begun = engine.program(spec, inputs), np.int32(runs)
        empty, lane = program.empty(inputs, queue), dataclasses.replace(lane, run=run, done=over)
        carry: Any = dataclasses.replace(empty, lane=lane, next=begun, live=begun)
        inputs, queue, carry = program.begun(inputs, queue, carry)
        while int(carry.live) > 0 and not bool(carry.failed):
            carry = program.advance(inputs, queue, carry, np.int32(_CHUNKS))
        out = jax.tree.map(lambda x: np.asarray(x)[: int(carry.finished)], carry.out)
    order, left = np.argsort(out.item), out.record
    samples, stopped, answers = (x[order, 0, 0] for x in (left.samples, left.stopped, left.answer))
    return LiveForecast(np.where(stopped, samples - float(began), np.inf), answers, now, most)


def _estimated(fold: Fold, state: State) -> Instance:
    """The instance whose truth are the estimates, a little inside the family's range."""
    stats, arms = state.stats, fold.arms
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
