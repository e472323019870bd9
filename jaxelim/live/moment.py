"""What a live run knows at one time, and how rewards change it. Nothing here writes."""

import dataclasses
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jaxelim import checks, scope
from jaxelim.contracts import SamplingRule, StoppingRule
from jaxelim.engine import LANE_GROUP, Inputs, Lane, Queue, Schedule, Spec
from jaxelim.errors import ArgumentError
from jaxelim.instances.arms import Arms
from jaxelim.live import program
from jaxelim.live.given import Pooled
from jaxelim.problems.lanewise import traced_shape
from jaxelim.simulation.experiment import LONGEST, Engine, Experiment
from jaxelim.simulation.failures import Place, failure
from jaxelim.simulation.plan import checked_inputs_of, queue_of, spec_of
from jaxelim.stopping.llr import LLR
from jaxelim.thresholds.mixture import Mixture

MOST_WITH_P_VALUES = 64
"""Most arms of a run that keeps p-values; the work of a look grows with their square."""


@dataclasses.dataclass(frozen=True)
class Moment:
    """The state of a live run after some events.

    Attributes:
        lane: the engine's lanes; None until every arm has its first rewards.
        before: the rewards (arm, reward) that came while there is no lane.
        waiting: arms that were asked for and not told, in order.
        told: number of rewards.
        ended: number of rewards when the run ended; 0 while it is open.
    """

    lane: Lane | None = None
    before: tuple[tuple[int, float], ...] = ()
    waiting: tuple[int, ...] = ()
    told: int = 0
    ended: int = 0

    @property
    def stopped(self) -> bool:
        """Whether the run has ended by its stopping rule."""
        return bool(self.ended and self.lane and np.asarray(self.lane.record.stopped)[0, 0, 0])

    @property
    def stats(self) -> Any:
        """The statistics of the rewards that have entered."""
        assert self.lane is not None and self.lane.pending is not None
        return self.lane.pending.entered


@dataclasses.dataclass(frozen=True)
class LiveJob:
    """The checked arguments of a live run, and its transitions from moment to moment."""

    call: Experiment
    spec: Spec
    inputs: Inputs
    queue: Queue

    @staticmethod
    def checked(
        arms: Arms, *, rule: Any, run: Any, delta: Any = 0.01, stopping: Any = LLR(),  # noqa: B008
        **others: Any,
    ) -> "LiveJob":  # fmt: skip
        """Check the arguments of a `LiveRun` as `simulate` does, but for the truth.

        Raises:
            ArgumentError, UnsupportedError, FamilyError, RuleError: as `simulate`.
        """
        if isinstance(rule, SamplingRule) and "truth" in rule.traits.reads:
            allowed = "a rule that needs no theta, such as an oracle with weights of its own"
            raise ArgumentError("rule", rule, allowed, "nobody knows theta in a live run")
        if not isinstance(stopping, StoppingRule):
            raise ArgumentError("stopping", stopping, "one stopping rule")
        delta = checks.real("delta", delta, low=0, high=1, open=True)
        run = checks.integer("run", run, low=0, high=checks.MAX_RUNS - 1)
        call = Experiment(
            arms, rule=rule, delta=delta, stopping=stopping, runs=np.array([run]),
            max_samples=LONGEST, record=("pair_times",),
            engine=Engine(lanes=LANE_GROUP, devices=1), **others,
        )  # fmt: skip
        layout: Any = dict(lanes=LANE_GROUP, queue=LANE_GROUP, devices=1)
        spec = dataclasses.replace(
            spec_of(call).executed(**layout), evidence=_kept(call), schedule=Schedule(places=0)
        )
        with scope.engine():
            inputs = checked_inputs_of(call, spec)
            return LiveJob(call, spec, *jax.device_put((inputs, queue_of(call, spec)[0])))

    @property
    def arms(self) -> Arms:
        """The arms."""
        return self.call.instance

    @property
    def first(self) -> int:
        """The number of initial pulls."""
        return self.call.initial_pulls * self.arms.K

    @cached_property
    def program(self) -> program.LiveProgram:
        """The compiled functions, which all runs of one shape share."""
        return program.program(self.spec, self.inputs)

    def compute(self, name: str, *arguments: Any) -> Any:
        """Call a function of the program."""
        with scope.engine():
            return getattr(self.program, name)(self.inputs, *arguments)

    def due(self, moment: Moment) -> list[int]:
        """The initial pulls without a reward, in rounds of all arms."""
        if moment.lane is not None:
            return []
        told, rounds = Counter(k for k, _ in moment.before), range(self.call.initial_pulls)
        return [k for n in rounds for k in range(self.arms.K) if told[k] <= n]

    # Transitions.

    def told(self, moment: Moment, arms: Sequence[int], rewards: Sequence[float]) -> Moment:
        """The moment after rewards of these arms, which enter together, with one test."""
        told = moment.told + len(arms)
        if moment.lane is None:
            new = tuple(zip(map(int, arms), rewards, strict=True))
            moment = dataclasses.replace(moment, before=moment.before + new, told=told)
            if self.due(moment):
                return moment
            lane, early = self._begun(moment)
            return self._tested(moment, lane, early)
        order, waiting = _answered(moment.waiting, arms)
        rows = [(arms[place], rewards[place]) for place in order]
        return self._tested(moment, moment.lane, rows, waiting=waiting, told=told)

    def pooled(self, moment: Moment, given: Pooled) -> Moment:
        """The moment after rewards of which counts and sums are known, with one test.

        Before the start they complete the first rewards of all arms.
        """
        left, early, told = given.pulls.copy(), [], moment.told + int(given.pulls.sum())
        if moment.lane is None:
            due = self.due(moment)  # rewards equal to their mean have the same sums
            first = tuple((k, float(given.means[k])) for k in due)
            left -= np.bincount(due, minlength=left.size)
            lane, early = self._begun(dataclasses.replace(moment, before=moment.before + first))
        else:
            lane = moment.lane
        scale, most = self.arms.family.scale, len(moment.waiting)
        units = given.means / scale, given.squares / scale**2
        waiting = _answered(moment.waiting, np.repeat(np.arange(left.size), left.clip(0, most)))[1]
        lane = self.compute("pool", lane, left.astype(float), *units)
        return self._tested(moment, lane, early, waiting=waiting, told=told)

    def check_counts(self, moment: Moment, given: Pooled, counts: Any) -> None:
        """Refuse counts that no moment follows: none, too many, or without first rewards."""
        number, least = int(given.pulls.sum()), self.call.initial_pulls
        if not 0 < number <= LONGEST - moment.told:
            allowed = f"1 to {LONGEST - moment.told} further rewards"
            raise ArgumentError("counts", counts, allowed, f"{number} of them")
        lacking = np.bincount(self.due(moment), minlength=self.arms.K) - given.pulls
        if (lacking > 0).any():
            k = int(np.argmax(lacking > 0))
            allowed = f"at least {least} rewards of each arm before the first check"
            note = f"{self.arms.label(k)} has {least - lacking[k]}"
            raise ArgumentError("counts", counts, allowed, note)

    def chosen(self, moment: Moment, count: int) -> Moment:
        """The moment at which `count` arms are asked for and not told.

        Raises:
            ArgumentError, RuleError: the rule failed.
        """
        lane, waiting = moment.lane, moment.waiting
        while len(waiting) < count:
            more = min(count - len(waiting), program.BLOCK)
            lane, arms = self.compute("chosen", lane, np.int32(more))
            self.refuse_failed(lane, moment.told)
            waiting += tuple(np.asarray(arms)[:more].tolist())
        return dataclasses.replace(moment, lane=lane, waiting=waiting)

    def ended(self, moment: Moment) -> Moment:
        """The moment at which a person ends the run: nothing is tested from here on."""
        assert moment.lane is not None
        with scope.engine():
            lane = dataclasses.replace(moment.lane, done=jax.numpy.ones_like(moment.lane.done))
        return dataclasses.replace(moment, lane=lane, ended=moment.told, waiting=())

    def refuse_failed(self, lane: Lane | None, told: int) -> None:
        """Raise the error of a run that its rule, its problem or its family has ended."""
        assert lane is not None
        parts = lane.fault.arm, lane.fault.answer, lane.fault.number
        arm, answer, fault = (0 if x is None else int(np.asarray(x)[0]) for x in parts)
        if arm or answer or fault:
            place = Place(told, int(self.call.runs[0]), live=True)
            raise failure(self.call, arm, answer, fault, place)

    def look(self, moment: Moment) -> dict[str, np.ndarray]:
        """Evidence, beta and answer of the present statistics; see `look` of the program."""
        return jax.tree.map(np.asarray, self.compute("look", moment.lane))

    def _begun(self, moment: Moment) -> tuple[Lane, list[tuple[int, float]]]:
        """The lanes in which the first rewards of all arms have entered, and the other rewards."""
        number, rounds, early = Counter(), {}, []
        for arm, reward in moment.before:
            if number[arm] < self.call.initial_pulls:
                rounds[number[arm], arm] = reward
            else:
                early.append((arm, reward))
            number[arm] += 1
        first = np.array([rounds[key] for key in sorted(rounds)]) / self.arms.family.scale
        return self.compute("start", self.queue, first), early

    def _tested(
        self, moment: Moment, lane: Lane, rows: Sequence[tuple[int, float]], **changes: Any
    ) -> Moment:
        """The moment after rewards (arm, reward) have entered and were tested; with changes."""
        now = dataclasses.replace(moment, before=(), **changes)
        arms = np.array([arm for arm, _ in rows], np.int32)
        rewards = np.array([x for _, x in rows], float) / self.arms.family.scale
        last = max(len(rows) - 1, 0) // program.BLOCK * program.BLOCK
        for start in range(0, last, program.BLOCK):
            part = slice(start, start + program.BLOCK)
            lane = self.compute("enter", lane, program.Arms.of(arms[part], rewards[part]))
        given = program.Arms.of(arms[last:], rewards[last:]), program.Arms.of(now.waiting)
        lane = self.compute("told", lane, *given)
        over = now.told if bool(np.asarray(lane.done)[0]) else 0
        return dataclasses.replace(now, lane=lane, ended=now.ended or over)

    def kept(self, moment: Moment) -> tuple[dict, list[np.ndarray]] | None:
        """A moment as JSON and arrays; None where only its events give it."""
        arrays = jax.tree.leaves(moment.lane)
        if moment.lane is None or any(x.dtype.kind not in "biuf" for x in arrays):
            return None
        body = {"waiting": moment.waiting, "told": moment.told, "ended": moment.ended}
        return body, list(map(np.asarray, arrays))

    def restored(self, body: dict, arrays: list[np.ndarray]) -> Moment | None:
        """The moment of `kept`; None if its arrays are of other shapes."""
        with scope.engine():
            given = self.inputs, self.queue, np.zeros(self.first)
            known, structure = jax.tree.flatten(program.shapes(self.spec, given))
            if [(x.shape, x.dtype) for x in arrays] != [(x.shape, x.dtype) for x in known]:
                return None
            lane = jax.tree.unflatten(structure, jax.device_put(arrays))
        return Moment(lane, (), tuple(body["waiting"]), body["told"], body["ended"])


def _answered(
    waiting: Iterable[int], arms: Sequence[int] | np.ndarray
) -> tuple[list[int], tuple[int, ...]]:
    """The order in which rewards of arms enter, and the arms that wait after them.

    Those that answer a waiting arm come first, in the order of its pulls.
    """
    places: dict[int, deque[int]] = {}
    for place, arm in enumerate(arms):
        places.setdefault(int(arm), deque()).append(place)
    order, left = [], []
    for arm in waiting:
        if places.get(arm):
            order.append(places[arm].popleft())
        else:
            left.append(arm)
    return order + sorted(place for own in places.values() for place in own), tuple(left)


def _kept(call: Experiment) -> Mixture | None:
    """The mixture whose largest log e of each piece is kept, for p-values; None: nothing is.

    It is that of the threshold, for pieces that have an index of their own.
    """
    shape = traced_shape(call.problem, call.instance.K, call.instance.d)
    if shape.candidates is None or shape.candidates > MOST_WITH_P_VALUES:
        return None
    return call.threshold if isinstance(call.threshold, Mixture) else None
