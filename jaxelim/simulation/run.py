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
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.failures import Place, failure
from jaxelim.simulation.plan import CHUNK, Plan

_MOST_CHUNKS = 4096
"""Chunks between two polls, at most."""
_STARTED = 64
"""Steps of a chunk of lanes that only start runs, which one lane then takes in turn."""
_TAIL = 1 / 8
"""The share of lanes with a run, at most, where one lane takes over the last runs."""


class Ended(NamedTuple):
    """The end of a call's work."""

    carry: Carry  # the last, as NumPy arrays
    timings: dict


def run(plan: Plan, bar: Progress) -> Ended:
    """Advance by chunks until every run is over; the host polls in between.

    Raises:
        ArgumentError: an arm or an answer out of range, or a number that is not finite;
            see `_failure`.
    """
    return HostLoop(plan, bar).run()


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

    def on_devices(self) -> "_Stage":
        """With all arguments placed as the program's results are."""
        return _Stage(self.program, *self.program.place(self.inputs, self.queue, self.carry))


class HostLoop:
    """The work on one call: `run` says what happens, and each method is one of its events.

    Many lanes start the runs. One lane takes the last of them, or all of them in turn, and
    many lanes resume where it has left runs in the queue.

    Args:
        plan: of the call; its arguments are placed again for every program.
        bar: shows the progress.
    """

    stage: _Stage
    live: np.ndarray  # runs in the lanes or in the queue, of each device
    took: float  # seconds between the last two polls

    def __init__(self, plan: Plan, bar: Progress):
        self.plan, self.bar = plan, bar
        self.began = time.perf_counter()
        self.compiling = self.processor = 0.0  # seconds of compilation
        self.computed = 0  # samples, those of lanes that wait or are done among them
        self.chunks = 1  # until the next poll
        self.many: _Stage | None = None  # many lanes, before one lane took over

    def run(self) -> Ended:
        """Advance until every run is over."""
        self.start()
        while True:
            self.advance()
            if np.any(np.asarray(self.stage.carry.failed)):
                raise _failure(self.plan.call, self.stage.carry)
            if np.sum(self.live) == 0:
                if not self.left_in_queue:
                    return self.ended()
                self.resume()
            elif (single := self._single()) is not None and self._pays(single):
                self.move_to_one_lane(single)

    def start(self) -> None:
        """Compile the program of many lanes, which are empty."""
        inputs, queue = self.plan.inputs, self.plan.queue
        if not engine.compiled(self.plan.spec, inputs):
            self.bar.compiling()
        program = engine.program(self.plan.spec, inputs)
        self.stage = self._begun(program, inputs, queue, program.empty(inputs, queue))
        self._choose_steps()
        self.bar.running()

    def advance(self) -> None:
        """Run some chunks, show the progress, and choose the time of the next poll."""
        (program, inputs, queue, carry), began = self.stage, time.perf_counter()
        # Copies: the next chunk takes the carry's memory.
        before = np.array(carry.iterations)
        carry = program.advance(inputs, queue, carry, np.int32(self.chunks))
        self.stage, self.live = self.stage._replace(carry=carry), np.array(carry.live)
        self.took = time.perf_counter() - began
        steps = int(np.sum(np.asarray(carry.iterations) - before))
        self.computed += steps * program.spec.execution.lanes
        finished = int(np.sum(np.asarray(carry.finished)))
        self._choose_chunks(finished)
        self.bar.update(finished, int(np.sum(np.asarray(carry.samples))))

    def _choose_chunks(self, finished: int) -> None:
        """Choose the number of chunks until the next poll, of so many finished runs.

        Polling synchronises devices, so it is rare; but in time for one lane to take
        over the last runs. `away` runs remain until then, at the mean time a run so
        far.
        """
        execution, pause = self.stage.spec.execution, 0.5
        if self._single() is not None:
            away = int(np.max(self.live)) - execution.lanes
            of_a_run = self._worked() * execution.devices / max(finished, 1)
            pause = min(max(0.5 * away * of_a_run, 0.05), 0.5)
        if self.took < pause:
            self.chunks = min(2 * self.chunks, _MOST_CHUNKS)
        elif self.took > 4 * pause:
            self.chunks = max(1, int(self.chunks * pause / self.took))

    def _single(self) -> Spec | None:
        """The spec of the program of one lane that may take over; None: keep this one."""
        spec, layout = self.stage.spec, self.plan.call.engine
        if layout.shrink is False or spec.execution.single or not spec.may_be_single:
            return None
        return spec.executed(lanes=1, chunk=spec.execution.chunk if layout.chunk else CHUNK)

    def _choose_steps(self) -> None:
        """Let lanes that only start runs take fewer steps a chunk."""
        layout, single = self.plan.call.engine, self._single()
        if not self.plan.in_turn or layout.chunk or single is None or not self._ready(single):
            return
        inputs = dataclasses.replace(self.stage.inputs, steps=np.int32(_STARTED))
        self.stage = self.stage._replace(inputs=inputs).on_devices()

    def _pays(self, single: Spec) -> bool:
        """Whether one lane should take over now.

        It takes the last runs of the queue once few lanes have one. Where lanes wait for one
        another it takes all runs in turn, but not the few that outlast a chunk.
        """
        lanes = self.stage.spec.execution.lanes
        waiting = np.asarray(self.plan.queue.length) - np.asarray(self.stage.carry.next)
        running = int(np.max(self.live - waiting))
        if np.any(waiting > 0):
            return self.plan.in_turn and 2 * running >= lanes and self._ready(single)
        most = lanes if self.plan.call.engine.shrink or self.plan.in_turn else lanes * _TAIL
        return running <= most and self._ready(single)

    def _ready(self, single: Spec) -> bool:
        """Whether the program of one lane is compiled, or now worth it.

        It is once the call has worked for as long as the program of many lanes compiled.
        """
        worth = self._worked() > self.stage.program.compile_seconds
        return bool(self.plan.call.engine.shrink or worth) or engine.compiled(
            single, self.plan.inputs
        )

    def move_to_one_lane(self, single: Spec) -> None:
        """Let one lane take over the live runs, one after the other."""
        many, inputs = self.stage, self.plan.inputs
        if not engine.compiled(single, inputs):
            self.bar.compiling()
        program = engine.program(single, inputs)
        lanes = many.spec.execution.lanes
        taken = program.taken_over(inputs, self.plan.queue, many.carry, lanes)
        self.stage = self._begun(program, many.inputs, *taken)
        self.many, self.chunks = many, 1

    @property
    def left_in_queue(self) -> bool:
        """Whether one lane has left runs in the queue."""
        if self.many is None or not self.stage.spec.execution.single:
            return False
        return bool(np.any(np.asarray(self.many.carry.next) < self.plan.queue.length))

    def resume(self) -> None:
        """Let many lanes start the next runs of the queue."""
        assert self.many is not None
        carry = self.many.program.taken_back(self.stage.carry, self.many.carry)
        self.stage, self.many, self.chunks = self.many._replace(carry=carry), None, 1
        if self.stage.spec.execution.devices > 1:
            self.stage = self.stage.on_devices()
        self._choose_steps()

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
        return Ended(carry, timings)

    def _worked(self) -> float:
        """Seconds since the beginning without compilation."""
        return time.perf_counter() - self.began - self.compiling

    def _begun(self, program: engine.Program, inputs: Inputs, queue: Queue, carry: Carry) -> _Stage:
        """Place the arguments of a program and compile it."""
        began, processor = time.perf_counter(), time.process_time()
        known, fresh = program.traces, not program.compiled
        stage = _Stage(program, *program.begun(inputs, queue, carry))
        if fresh or program.traces > known:
            program.compile_seconds = time.perf_counter() - began
            self.compiling += program.compile_seconds
            self.processor += time.process_time() - processor
        return stage


def _failure(call: Experiment, carry: Carry) -> ArgumentError:
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
