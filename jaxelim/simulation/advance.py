"""The host's loop over the chunks of a job: `drive`."""

import dataclasses
import time
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxelim import engine
from jaxelim.engine import Carry, Inputs, Queue, Spec
from jaxelim.engine.progress import Progress
from jaxelim.errors import ArgumentError, RuleError
from jaxelim.simulation.forecast import forecast_of
from jaxelim.simulation.interrupts import Interrupts
from jaxelim.simulation.job import Job

_MOST_CHUNKS = 4096
"""Chunks between two polls, at most."""


def drive(
    job: Job,
    spec: Spec,
    progress: Any,
    inputs: Inputs,
    queue: Queue,
    interrupts: Interrupts | None = None,
) -> tuple[Carry, dict]:
    """Advance by chunks until every run is over; the host polls in between.

    Once `interrupts` has noted Ctrl-C, the runs in the lanes are cut off and no other
    is started.

    Returns:
        The last carry, as NumPy arrays, and the timings of the work.

    Raises:
        ArgumentError: an arm or an answer out of range; see `_failure`.
        KeyboardInterrupt: Ctrl-C while the first program compiled.
    """
    count = int(np.sum(queue.length))
    with Progress(progress, count, count * float(inputs.cap), partial(forecast_of, job)) as bar:
        return _Drive(job, bar, inputs, queue, interrupts or Interrupts()).over(spec)


class _Stage(NamedTuple):
    """A program on its arguments, of which `carry` changes."""

    spec: Spec
    program: engine.Program
    placed: tuple  # the inputs and the queue, on their devices
    carry: Carry


class _Drive:
    """The work on one job.

    Args:
        job: the job.
        bar: shows the progress.
        inputs, queue: on the host; they are placed again for every program.
        interrupts: notes Ctrl-C.
    """

    def __init__(
        self, job: Job, bar: Progress, inputs: Inputs, queue: Queue, interrupts: Interrupts
    ):
        self.job, self.bar, self.inputs, self.queue = job, bar, inputs, queue
        self.interrupts = interrupts
        self.began = time.perf_counter()
        self.compiling = self.processor = 0.0  # seconds of compilation
        self.computed = 0  # samples, those of lanes that wait or are done among them
        self.chunks = 1  # until the next poll
        self.wide: _Stage | None = None  # before one lane took over
        self.failing = False  # a run has failed in one lane

    def over(self, spec: Spec) -> tuple[Carry, dict]:
        """Advance until every run is over."""
        self.bar.compiling()
        with self.interrupts.compiling():
            program = engine.program(spec, self.inputs)
            stage = self._begun(spec, program, self.queue, program.empty(self.inputs, self.queue))
        if self.interrupts.asked:
            raise KeyboardInterrupt
        self.bar.running()
        while True:
            before = np.sum(stage.carry.iterations)
            last = time.perf_counter()
            stage = stage._replace(
                carry=stage.program.advance(*stage.placed, stage.carry, np.int32(self.chunks))
            )
            carry = stage.carry
            live, samples = np.asarray(carry.live), np.asarray(carry.samples)
            took = time.perf_counter() - last
            steps = int(np.sum(carry.iterations) - before)
            self.computed += steps * stage.spec.lanes
            if np.any(carry.failed):
                stage = self._failed(stage)
                continue
            stage.program.pace = min(stage.program.pace, took * stage.spec.devices / max(steps, 1))
            self._paced(took, self._pause(stage, live))
            with self.interrupts.noted():
                self.bar.update(int(np.sum(carry.finished)), int(np.sum(samples)))
            if np.sum(live) == 0:
                break
            if not self.interrupts.asked:
                stage = self._moved(stage, live, took)
            if self.interrupts.asked:
                stage, self.interrupts.cut = stage._replace(carry=_cut_off(stage)), True
                break
        if np.any(stage.carry.failed):
            raise _failure(self.job, stage.carry)
        return self._result(stage)

    def _begun(self, spec: Spec, program: engine.Program, queue: Queue, carry: Carry) -> _Stage:
        """Place the arguments of a program and compile it."""
        began, processor = time.perf_counter(), time.process_time()
        *placed, carry = program.begun(self.inputs, queue, carry)
        took = time.perf_counter() - began
        program.cost = max(program.cost, took)
        self.compiling += took
        self.processor += time.process_time() - processor
        return _Stage(spec, program, tuple(placed), carry)

    def _pause(self, stage: _Stage, live: np.ndarray) -> float:
        """Seconds until the next poll.

        Polling synchronises devices, so it is rare; but in time for a smaller program to
        take over the last runs. `away` runs remain until then, at the mean time a run so
        far.
        """
        if self._smaller(stage.spec, 0) is None:
            return 0.5
        finished = max(int(np.sum(stage.carry.finished)), 1)
        worked = time.perf_counter() - self.began - self.compiling
        lanes = stage.spec.lanes
        least = lanes if self._alone(stage.spec) else min(engine.FEW_LANES[-1], lanes // 2)
        away = int(np.max(live)) - least
        return min(max(0.5 * away * worked * stage.spec.devices / finished, 0.05), 0.5)

    def _paced(self, took: float, pause: float) -> None:
        """Choose the number of chunks until the next poll, `pause` seconds from now."""
        if took < pause:
            self.chunks = min(2 * self.chunks, _MOST_CHUNKS)
        elif took > 4 * pause:
            self.chunks = max(1, int(self.chunks * pause / took))

    def _alone(self, spec: Spec) -> bool:
        """Whether a single lane may take over from a program of this spec."""
        exact = spec.precision == "float64" and spec.rule.traits.one_lane
        return exact and spec.tuned and not spec.vmapped and not spec.log

    def _smaller(self, spec: Spec, live: int) -> Spec | None:
        """The spec of a smaller program for at most `live` runs a device; None: keep this one."""
        if self.job.layout.shrink is False or spec.log or spec.lanes == 1 or self.failing:
            return None
        if self._alone(spec):
            return dataclasses.replace(spec, lanes=1) if live <= spec.lanes else None
        sizes = [n for n in engine.FEW_LANES if live <= n and 2 * n <= spec.lanes]
        return dataclasses.replace(spec, lanes=sizes[0]) if sizes else None

    def _moved(self, stage: _Stage, live: np.ndarray, took: float) -> _Stage:
        """The stage of a smaller program, for the last runs of the queue, where that pays.

        One lane pays where the live runs, one after the other, take less time a step of
        each than a step of all lanes. Compilation is a ski rental: it is done once the
        time that would have been saved, over all jobs of this process, exceeds its cost.
        That never costs more than twice the best choice with known run lengths.
        """
        program, spec, most = stage.program, stage.spec, int(np.max(live))
        smaller = self._smaller(spec, most)
        if smaller is None or np.any(stage.carry.next < self.queue.length):
            return stage
        compiled = engine.compiled(smaller, self.inputs)
        if not self.job.layout.shrink:
            share = 0.0  # of the time of a wide step
            if smaller.lanes == 1:
                pace = engine.program(smaller, self.inputs).pace if compiled else np.inf
                share = most * (pace / program.pace if pace < np.inf else 2 / spec.lanes)
            if share >= 1:
                return stage
            program.waited += took * (1 - share)
            if not compiled and program.waited <= program.cost:
                return stage
        self.bar.compiling()
        with self.interrupts.noted(), self.interrupts.compiling():
            new = engine.program(smaller, self.inputs)
            given = new.taken_over(self.inputs, self.queue, stage.carry, spec)
            after = self._begun(smaller, new, *given)
        if self.interrupts.asked:
            return stage
        self.chunks = 1
        if smaller.lanes == 1:
            self.wide = stage
        return after

    def _failed(self, stage: _Stage) -> _Stage:
        """The stage of many lanes again, which says what run fails first.

        One lane after the other may meet another run before it.

        Raises:
            ArgumentError: this stage has many lanes; see `_failure`.
        """
        if stage.spec.lanes > 1 or self.wide is None:
            raise _failure(self.job, stage.carry)
        self.failing = True
        return self.wide

    def _result(self, stage: _Stage) -> tuple[Carry, dict]:
        carry = jax.tree.map(np.asarray, stage.carry)
        work = {
            "seconds": time.perf_counter() - self.began - self.compiling,
            "compile_seconds": self.compiling,
            "compile_processor_seconds": self.processor,
            "samples_drawn": int(np.sum(carry.samples)),
            "samples_computed": self.computed,
            "choose_rounds": int(np.sum(carry.chooses)),
        }
        return carry, work


def _cut_off(stage: _Stage) -> Carry:
    """The carry after the runs in the lanes have ended at their samples, and no other began.

    A cap of 0 ends them at their next check, before they draw a sample. A rule that waits
    for `choose` gets its turn first. The queue ends where it is. Runs that are parked for
    one lane have begun, and end too.
    """
    inputs, queue = stage.placed
    if queue.parked is None:
        queue = dataclasses.replace(queue, length=np.array(stage.carry.next))
    given = dataclasses.replace(inputs, cap=np.int32(0)), queue
    return stage.program.advance(*stage.program.place(*given, stage.carry), np.int32(_MOST_CHUNKS))


def _failure(job: Job, carry: Carry) -> ArgumentError:
    """The error for an arm or an answer out of range.

    Among the runs that failed in the earliest chunk it names the one of lowest index.
    """
    lane = carry.lane
    found: dict[str, Any] = {
        "arm": lane.bad_arm,
        "run": lane.run,
        "instance": lane.instance,
        "t": lane.stats.t,
    }
    bad = lane.bad_answer
    found["answer"] = np.zeros_like(lane.bad_arm) if bad is None else bad
    found["steps"] = np.broadcast_to(np.asarray(carry.iterations)[..., None], lane.run.shape)
    found = {name: np.ravel(x) for name, x in found.items()}
    failed = np.flatnonzero((found["arm"] != 0) | (found["answer"] != 0))
    order = np.lexsort([found[name][failed] for name in ("instance", "run", "steps")])
    arm, answer, t, run, instance = (
        int(found[name][failed[order[0]]]) for name in ("arm", "answer", "t", "run", "instance")
    )
    where = f"run {run}" + (f" of instance {instance}" if job.instance.batched else "")
    if arm == 0:
        argument, allowed = job.problem.in_range(job.instance.K)
        note = f"it gave {answer} after {t} samples of {where}"
        return ArgumentError(argument, job.problem, allowed, note)
    allowed = f"a rule that chooses arms from 0 to {job.instance.K - 1}"
    note = f"it chose arm {arm} at t = {t} of {where}"
    return RuleError(
        job.rule, allowed, note, arm, t, run, instance if job.instance.batched else None
    )
