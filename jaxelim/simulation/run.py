"""The host's loop over the chunks of a call's program."""

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
from jaxelim.simulation.plan import ALONE, Plan

_MOST_CHUNKS = 4096
"""Chunks between two polls, at most."""
_PAUSE = 0.25
"""Seconds between two polls, about."""


class Ended(NamedTuple):
    """The end of a call's work."""

    carry: Carry  # the last, as NumPy arrays
    timings: dict


def run(plan: Plan, bar: Progress) -> Ended:
    """Advance by chunks until every run is over; the host polls in between."""
    return HostLoop(plan, bar).run()


class _Stage(NamedTuple):
    """A program on its arguments, of which `carry` changes."""

    program: engine.Program
    inputs: Inputs  # on the devices
    queue: Queue
    carry: Carry


class HostLoop:
    """The work on one call: `run` says what happens, and each method is one of its events.

    Args:
        plan: of the call; its arguments are placed again for every program.
        bar: shows the progress.
    """

    stage: _Stage
    live: np.ndarray  # runs in the lanes or in the queue, of each device

    def __init__(self, plan: Plan, bar: Progress):
        self.plan, self.bar = plan, bar
        self.began = time.perf_counter()
        self.compiling = self.processor = 0.0  # seconds of compilation
        self.computed = 0  # samples, those of lanes that are done among them
        self.chunks = 1  # until the next poll

    def run(self) -> Ended:
        """Advance until every run is over; one lane may take the last ones."""
        self.start()
        single = self.plan.spec.executed(lanes=1)
        while np.any(self.live):
            if self._pays(single):
                self.take_alone(single)
            else:
                self.advance()
        return self.ended()

    def start(self) -> None:
        """Compile the program, and let it take the first chunk."""
        inputs, queue = self.plan.inputs, self.plan.queue
        program = self._program(self.plan.spec)
        self.stage = self._begun(program, inputs, queue, program.empty(inputs, queue))
        self.bar.running()
        self.advance()

    def advance(self) -> None:
        """Run some chunks, show the progress, and choose the time of the next poll."""
        (program, inputs, queue, carry), began = self.stage, time.perf_counter()
        # Copies: the next chunk takes the carry's memory.
        before = np.array(carry.iterations)
        carry = program.advance(inputs, queue, carry, np.int32(self.chunks))
        self.stage, self.live = self.stage._replace(carry=carry), np.array(carry.live)
        took = time.perf_counter() - began
        if took < _PAUSE:  # polling synchronises devices, so it is rare
            self.chunks = min(2 * self.chunks, _MOST_CHUNKS)
        elif took > 4 * _PAUSE:
            self.chunks = max(1, int(self.chunks * _PAUSE / took))
        steps = int(np.sum(np.asarray(carry.iterations) - before))
        self.computed += steps * program.spec.execution.lanes
        finished = int(np.sum(np.asarray(carry.finished)))
        self.bar.update(finished, int(np.sum(np.asarray(carry.samples))))
        if np.any(np.asarray(carry.failed)):
            raise _failure(self.plan.call, carry)

    def _pays(self, single: Spec) -> bool:
        """Whether one lane should take the runs that are left.

        With an empty queue few are. Its program is compiled, or worth it: the call has worked
        for as long as that of many lanes has compiled.
        """
        spec, shrink = self.plan.spec, self.plan.call.engine.shrink
        if shrink is False or spec == single or not spec.may_be_alone:
            return False
        waiting = np.asarray(self.plan.queue.length) - np.asarray(self.stage.carry.next)
        if np.any(waiting > 0) or not (shrink or np.max(self.live) <= ALONE):
            return False
        worth = self._worked() > self.stage.program.compile_seconds
        if not (shrink or worth or engine.compiled(single, self.plan.inputs)):
            return False
        return engine.may_be_alone(spec, self.plan.inputs)

    def take_alone(self, single: Spec) -> None:
        """Let one lane of each device take its live runs, one after the other."""
        carry, inputs, queue = jax.device_get(self.stage.carry), self.plan.inputs, self.plan.queue
        program, many = self._program(single), carry.lane
        for n in range(int(np.max(self.live))):
            alone = program.alone(jax.device_get(carry), many, n)
            self.chunks = 1
            self.stage = self._begun(program, inputs, queue, alone)
            self.advance()
            while np.any(self.live):
                self.advance()
            carry = self.stage.carry

    def ended(self) -> Ended:
        """The last carry and what the work has taken."""
        carry = jax.tree.map(np.asarray, self.stage.carry)
        timings = {
            "seconds": self._worked(),
            "compile_seconds": self.compiling,
            "compile_processor_seconds": self.processor,
            "samples_drawn": int(np.sum(carry.samples)),
            "samples_computed": self.computed,
        }
        return Ended(carry, timings)

    def _worked(self) -> float:
        """Seconds since the beginning without compilation."""
        return time.perf_counter() - self.began - self.compiling

    def _program(self, spec: Spec) -> engine.Program:
        """The program of a spec, shown as compiling where it is not compiled."""
        if not engine.compiled(spec, self.plan.inputs):
            self.bar.compiling()
        return engine.program(spec, self.plan.inputs)

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
        "arm": lane.fault.arm,
        "run": lane.run.index,
        "instance": lane.run.instance,
        "t": lane.stats.t,
        "fault": lane.fault.number,
    }
    bad = lane.fault.answer
    rows["answer"] = np.zeros_like(lane.fault.arm) if bad is None else bad
    rows["steps"] = np.broadcast_to(np.asarray(carry.iterations)[..., None], lane.run.index.shape)
    rows = {name: np.ravel(x) for name, x in rows.items()}
    failed = np.flatnonzero(rows["arm"] | rows["answer"] | rows["fault"])
    order = np.lexsort([rows[name][failed] for name in ("instance", "run", "steps")])
    arm, answer, fault, t, run, instance = (
        int(rows[name][failed[order[0]]])
        for name in ("arm", "answer", "fault", "t", "run", "instance")
    )
    of = instance if call.instance.batched else None
    return failure(call, arm, answer, fault, Place(t, run, of))
