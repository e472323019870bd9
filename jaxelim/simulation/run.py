"""The host's loop over the chunks of a call's program."""

import dataclasses
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxelim import engine
from jaxelim.engine import Carry, Inputs, Queue, Spec
from jaxelim.errors import ArgumentError
from jaxelim.progress import Progress
from jaxelim.simulation.call import CheckedCall
from jaxelim.simulation.failures import Place, failure
from jaxelim.simulation.interrupts import Interrupts
from jaxelim.simulation.plan import CHUNK, Plan

_MOST_CHUNKS = 4096
"""Chunks between two polls, at most."""
_STARTED = 64
"""Steps of a chunk of lanes that only start runs, which one lane then takes in turn."""
_SHARE, _SHARE_IN_TURN = 2, 0.7
"""The time of runs one after the other over that of runs side by side, until both are measured.

The latter is that of a rule with `fast`, whose lanes wait for one another.
"""


class Ended(NamedTuple):
    """The end of a call's work."""

    carry: Carry  # the last, as NumPy arrays
    timings: dict
    cut: bool  # whether runs were cut off


def run(plan: Plan, progress: Any, interrupts: Interrupts | None = None) -> Ended:
    """Advance by chunks until every run is over; the host polls in between.

    Once `interrupts` has noted Ctrl-C, the runs in the lanes are cut off and no other
    is started.

    Raises:
        ArgumentError: an arm or an answer out of range, or a number that is not finite;
            see `_failure`.
        KeyboardInterrupt: Ctrl-C while the first program compiled.
    """
    with Progress(progress, int(np.sum(plan.queue.length))) as bar:
        return HostLoop(plan, bar, interrupts or Interrupts()).run()


class _Stage(NamedTuple):
    """A program on its arguments, of which `carry` changes."""

    program: engine.Program
    inputs: Inputs  # on the devices
    queue: Queue
    carry: Carry

    @property
    def spec(self) -> Spec:
        """What the program is compiled for."""
        return self.program.spec

    def advanced(self, chunks: int) -> "_Stage":
        """After some chunks."""
        advance = self.program.advance
        return self.holding(advance(self.inputs, self.queue, self.carry, np.int32(chunks)))

    def holding(self, carry: Carry) -> "_Stage":
        """With another carry, which is on the devices or may be on the host."""
        return self._replace(carry=carry)

    def on_devices(self) -> "_Stage":
        """With all arguments placed as the program's results are."""
        placed = self.program.place(self.inputs, self.queue, self.carry)
        return _Stage(self.program, *placed)


class _Counts(NamedTuple):
    """Numbers of a carry, of each device."""

    live: np.ndarray  # runs in the lanes or in the queue
    samples: np.ndarray
    steps: np.ndarray

    @staticmethod
    def of(carry: Carry) -> "_Counts":
        """A copy: the next chunk takes the carry's memory."""
        numbers = carry.live, carry.samples, carry.iterations
        return _Counts(*(np.array(x) for x in numbers))


class HostLoop:
    """The work on one call: `run` says what happens, and each method is one of its events.

    Many lanes start the runs. One lane takes over where that pays, and many lanes resume
    where it has left runs in the queue.

    Args:
        plan: of the call; its arguments are placed again for every program.
        bar: shows the progress.
        interrupts: notes Ctrl-C.
    """

    stage: _Stage
    now: _Counts  # at the last poll
    took: float  # seconds between the last two polls
    pace: float  # seconds a sample of a live lane meanwhile
    drawn: int  # samples meanwhile

    def __init__(self, plan: Plan, bar: Progress, interrupts: Interrupts):
        self.plan, self.bar, self.interrupts = plan, bar, interrupts
        self.began = time.perf_counter()
        self.compiling = self.processor = 0.0  # seconds of compilation
        self.computed = 0  # samples, those of lanes that wait or are done among them
        self.chunks = 1  # until the next poll
        self.waits = plan.spec.rule.fast is not None and plan.call.engine.lanes is None
        self.many: _Stage | None = None  # many lanes, before one lane took over
        self.resumed = False  # one lane has left runs to many lanes
        self.failing = False  # a run has failed in one lane
        self.cut = False  # runs were cut off

    def run(self) -> Ended:
        """Advance until every run is over, or those in the lanes are cut off."""
        self.start()
        while True:
            self.advance()
            if self.failed:
                self.return_to_many_lanes()
                continue
            self.show()
            over = np.sum(self.now.live) == 0
            if over and not self.left_in_queue:
                break
            if not self.interrupts.asked:
                self.resume() if over else self.move_to_one_lane()
            if self.interrupts.asked:
                self.cut_off()
                break
        if self.failed:
            raise _failure(self.plan.call, self.stage.carry)
        return self.ended()

    @property
    def failed(self) -> bool:
        """Whether a run has failed. Arrays are copied first: JAX would compile a program."""
        return bool(np.any(np.asarray(self.stage.carry.failed)))

    def start(self) -> None:
        """Compile the program of many lanes, which are empty.

        Raises:
            KeyboardInterrupt: Ctrl-C meanwhile.
        """
        inputs, queue = self.plan.inputs, self.plan.queue
        self.bar.compiling()
        with self.interrupts.compiling():
            program = engine.program(self.plan.spec, inputs)
            self.stage = self._begun(program, inputs, queue, program.empty(inputs, queue))
            self._choose_steps()
        if self.interrupts.asked:
            raise KeyboardInterrupt
        self.bar.running()

    def advance(self) -> None:
        """Run some chunks, and measure them."""
        before, last = _Counts.of(self.stage.carry), time.perf_counter()
        self.stage = self.stage.advanced(self.chunks)
        self.now, lanes = _Counts.of(self.stage.carry), self.stage.spec.execution.lanes
        self.took = time.perf_counter() - last
        self.computed += int(np.sum(self.now.steps - before.steps)) * lanes
        self.drawn = int(np.sum(self.now.samples - before.samples))
        self.pace = _pace(self.took, lanes, before, self.now)

    def show(self) -> None:
        """Tell the progress, and choose the time of the next poll."""
        costs, full = self.stage.program.costs, np.any(self._waiting() > 0)
        costs.paced(self.pace)
        if self.stage.spec.execution.single or full:
            costs.worked(self.took, self.drawn)
        self._choose_chunks()
        with self.interrupts.noted():
            finished = int(np.sum(np.asarray(self.stage.carry.finished)))
            self.bar.update(finished, int(np.sum(self.now.samples)))

    def _choose_chunks(self) -> None:
        """Choose the number of chunks until the next poll.

        Polling synchronises devices, so it is rare; but in time for one lane to take
        over the last runs. `away` runs remain until then, at the mean time a run so
        far.
        """
        carry, execution, pause = self.stage.carry, self.stage.spec.execution, 0.5
        if self._single() is not None:
            finished = max(int(np.sum(np.asarray(carry.finished))), 1)
            away = int(np.max(self.now.live)) - execution.lanes
            pause = min(max(0.5 * away * self._worked() * execution.devices / finished, 0.05), 0.5)
        if self.took < pause:
            self.chunks = min(2 * self.chunks, _MOST_CHUNKS)
        elif self.took > 4 * pause:
            self.chunks = max(1, int(self.chunks * pause / self.took))

    def _single(self) -> Spec | None:
        """The spec of the program of one lane that may take over; None: keep this one."""
        spec, layout = self.stage.spec, self.plan.call.engine
        if layout.shrink is False or self.failing or spec.execution.single:
            return None
        if not spec.may_be_single:
            return None
        return spec.executed(lanes=1, chunk=spec.execution.chunk if layout.chunk else CHUNK)

    def _choose_steps(self) -> None:
        """Let lanes that only start runs take fewer steps a chunk."""
        stage, layout = self.stage, self.plan.call.engine
        if not self.waits or layout.chunk or self._single() is None:
            return
        if layout.shrink or stage.program.costs.in_turn:
            inputs = dataclasses.replace(stage.inputs, steps=np.int32(_STARTED))
            self.stage = stage._replace(inputs=inputs).on_devices()

    def _waiting(self) -> np.ndarray:
        """Runs in the queue, of each device."""
        return np.asarray(self.plan.queue.length) - np.asarray(self.stage.carry.next)

    def move_to_one_lane(self) -> None:
        """Let one lane take over the live runs, one after the other, where that pays.

        They are the last runs of the queue, or all runs of a rule with `fast`, whose lanes wait
        for one another: many lanes then start them, a chunk long.
        """
        single, many, inputs = self._single(), self.stage, self.plan.inputs
        if single is None or not self._pays(single):
            return
        if not engine.compiled(single, inputs):
            self.bar.compiling()
        with self.interrupts.noted(), self.interrupts.compiling():
            program = engine.program(single, inputs)
            taken = program.taken_over(
                inputs, self.plan.queue, many.carry, many.spec.execution.lanes
            )
            single_lane = self._begun(program, many.inputs, *taken)
        if not self.interrupts.asked:
            self.stage, self.many, self.chunks = single_lane, many, 1

    def _pays(self, single: Spec) -> bool:
        """Whether one lane should take over now.

        It pays where the live runs, one after the other, take less time a sample of each
        than all lanes did at the last poll. Compilation is a ski rental: it is done once
        the time that would have been saved, over all calls of this process, exceeds its
        cost. That never costs more than twice the best choice with known run lengths.
        Runs are taken from the queue for a try, and again if it took less time.
        """
        lanes, inputs = self.stage.spec.execution.lanes, self.plan.inputs
        waiting, costs = self._waiting(), self.stage.program.costs
        running = int(np.max(self.now.live - waiting))
        if queued := bool(np.any(waiting > 0)):
            if not self.waits or 2 * running < lanes or costs.in_turn is False:
                return False
        if self.plan.call.engine.shrink:
            return True
        compiled = engine.compiled(single, inputs)
        known = engine.program(single, inputs).costs.pace if compiled else np.inf
        ratio = (_SHARE_IN_TURN if self.waits else _SHARE) / lanes
        if not queued and max(known, self.pace) < np.inf:
            ratio = known / self.pace
        share = running * ratio  # of the time of all lanes
        return share < 1 and (costs.save(self.took * (1 - share)) or compiled)

    @property
    def left_in_queue(self) -> bool:
        """Whether one lane has left runs in the queue."""
        if self.many is None or not self.stage.spec.execution.single:
            return False
        return bool(np.any(np.asarray(self.many.carry.next) < self.plan.queue.length))

    def resume(self) -> None:
        """Let many lanes start the next runs of the queue."""
        assert self.many is not None
        if self.plan.call.engine.shrink is None:
            self.many.program.costs.judge(self.stage.program.costs)
        carry = self.many.program.taken_back(self.stage.carry, self.many.carry)
        self.stage, self.many, self.chunks, self.resumed = self.many.holding(carry), None, 1, True
        if self.stage.spec.execution.devices > 1:
            self.stage = self.stage.on_devices()
        self._choose_steps()

    def return_to_many_lanes(self) -> None:
        """Repeat a failed run in many lanes, which say what run fails first.

        One lane after the other may meet another run before it. Where many lanes have
        been refilled all at once, they begin again.

        Raises:
            ArgumentError: the call is in many lanes from its beginning; see `_failure`.
        """
        single = self.stage.spec.execution.single
        many = self.many if single else self.stage
        if many is None or (not single and not self.resumed):
            raise _failure(self.plan.call, self.stage.carry)
        self.failing = True
        if self.resumed:
            self.resumed, self.chunks = False, 1
            many = many.holding(many.program.empty(self.plan.inputs, self.plan.queue))
            if many.spec.execution.devices > 1:
                many = many.on_devices()
        self.stage = many

    def cut_off(self) -> None:
        """End the runs in the lanes at their samples, and start no other.

        A cap of 0 ends them at their next check, before they draw a sample. A rule that waits
        for `choose` gets its turn first. The queue ends where it is. Runs that are parked for
        one lane have begun, and end too.
        """
        stage = self.stage
        queue, inputs = stage.queue, dataclasses.replace(stage.inputs, cap=np.int32(0))
        if queue.parked is None:
            queue = dataclasses.replace(queue, length=np.array(stage.carry.next))
        stage = stage._replace(inputs=inputs, queue=queue).on_devices()
        self.stage, self.cut = stage.advanced(_MOST_CHUNKS), True

    def ended(self) -> Ended:
        """The last carry and what the work has taken."""
        carry = jax.tree.map(np.asarray, self.stage.carry)
        timings = {
            "seconds": self._worked(),
            "compile_seconds": self.compiling,
            "compile_processor_seconds": self.processor,
            "samples_drawn": int(np.sum(carry.samples)),
            "samples_computed": self.computed,
            "choose_rounds": int(np.sum(carry.chooses)),
        }
        return Ended(carry, timings, self.cut)

    def _worked(self) -> float:
        """Seconds since the beginning without compilation."""
        return time.perf_counter() - self.began - self.compiling

    def _begun(self, program: engine.Program, inputs: Inputs, queue: Queue, carry: Carry) -> _Stage:
        """Place the arguments of a program and compile it."""
        began, processor = time.perf_counter(), time.process_time()
        known, fresh = program.traces, not program.compiled
        stage = _Stage(program, *program.begun(inputs, queue, carry))
        if fresh or program.traces > known:
            took = time.perf_counter() - began
            program.costs.compiled(took)
            self.compiling += took
            self.processor += time.process_time() - processor
        return stage


def _pace(took: float, lanes: int, before: _Counts, now: _Counts) -> float:
    """Seconds a sample of a live lane, over one call; infinite without a sample.

    Steps would not do: a lane takes none at steps where it waits for others.
    """
    # Before the first chunk `live` does not count the queue.
    first = np.maximum(before.live, now.live)
    live = (np.minimum(first, lanes) + np.minimum(now.live, lanes)) / 2
    if lanes == 1:  # it has a run almost until the end
        live = np.ones_like(now.live)
    drawn = np.sum(now.samples - before.samples)
    return took * float(np.sum(live)) / float(drawn) if drawn > 0 else np.inf


def _failure(call: CheckedCall, carry: Carry) -> ArgumentError:
    """The error for an arm or an answer out of range, or a number that is not finite.

    Among the runs that failed in the earliest chunk it names the one of lowest index.
    """
    lane = carry.lane
    rows: dict[str, Any] = {
        "arm": lane.bad_arm,
        "run": lane.run,
        "instance": lane.instance,
        "t": lane.stats.t,
        "fault": lane.fault,
    }
    bad = lane.bad_answer
    rows["answer"] = np.zeros_like(lane.bad_arm) if bad is None else bad
    rows["steps"] = np.broadcast_to(np.asarray(carry.iterations)[..., None], lane.run.shape)
    rows = {name: np.ravel(x) for name, x in rows.items()}
    failed = np.flatnonzero(rows["arm"] | rows["answer"] | rows["fault"])
    order = np.lexsort([rows[name][failed] for name in ("instance", "run", "steps")])
    arm, answer, fault, t, run, instance = (
        int(rows[name][failed[order[0]]])
        for name in ("arm", "answer", "fault", "t", "run", "instance")
    )
    of = instance if call.instance.batched else None
    return failure(call, arm, answer, fault, Place(t, run, of))
