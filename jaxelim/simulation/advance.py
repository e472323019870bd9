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
from jaxelim.errors import ArgumentError
from jaxelim.simulation.drive import alone, in_turn
from jaxelim.simulation.failures import Place, failure
from jaxelim.simulation.forecast import forecast_of
from jaxelim.simulation.interrupts import Interrupts
from jaxelim.simulation.job import Job

_MOST_CHUNKS = 4096
"""Chunks between two polls, at most."""
_SHARE_IN_TURN = 0.7
"""The time of runs one after the other over that of runs side by side, until both are measured.

Of a rule that says so by `in_turn`; else it is twice as long a live lane.
"""


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
        ArgumentError: an arm or an answer out of range, or a number that is not finite;
            see `_failure`.
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


class _Counts(NamedTuple):
    """Numbers of a carry, of each device."""

    live: np.ndarray  # runs in the lanes or in the queue
    samples: np.ndarray
    steps: np.ndarray


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
        self.in_turn, self.resumed = in_turn(job), False
        self.failing = False  # a run has failed in one lane

    def over(self, spec: Spec) -> tuple[Carry, dict]:
        """Advance until every run is over."""
        self.bar.compiling()
        with self.interrupts.compiling():
            program = engine.program(spec, self.inputs)
            given = self.inputs, self.queue, program.empty(self.inputs, self.queue)
            stage = self._begun(spec, program, *given)
        if self.interrupts.asked:
            raise KeyboardInterrupt
        self.bar.running()
        while True:
            before = jax.tree.map(np.array, _counts(stage.carry))
            last = time.perf_counter()
            stage = stage._replace(
                carry=stage.program.advance(*stage.placed, stage.carry, np.int32(self.chunks))
            )
            carry = stage.carry
            now = jax.tree.map(np.asarray, _counts(carry))
            live, samples = now.live, now.samples
            took = time.perf_counter() - last
            self.computed += int(np.sum(now.steps - before.steps)) * stage.spec.lanes
            if np.any(carry.failed):
                stage = self._failed(stage)
                continue
            pace = _pace(took, stage.spec.lanes, before, now)
            stage.program.pace = min(stage.program.pace, pace)
            self._paced(took, self._pause(stage, live))
            with self.interrupts.noted():
                self.bar.update(int(np.sum(carry.finished)), int(np.sum(samples)))
            over = np.sum(live) == 0
            if over and not self._to_resume(stage):
                break
            if not self.interrupts.asked:
                stage = self._resumed(stage) if over else self._moved(stage, live, took, pace)
            if self.interrupts.asked:
                stage, self.interrupts.cut = stage._replace(carry=_cut_off(stage)), True
                break
        if np.any(stage.carry.failed):
            raise _failure(self.job, stage.carry)
        return self._result(stage)

    def _begun(
        self, spec: Spec, program: engine.Program, inputs: Inputs, queue: Queue, carry: Carry
    ) -> _Stage:
        """Place the arguments of a program and compile it."""
        began, processor = time.perf_counter(), time.process_time()
        known, fresh = program.traces, not program.compiled
        *placed, carry = program.begun(inputs, queue, carry)
        if fresh or program.traces > known:
            took = time.perf_counter() - began
            program.cost = max(program.cost, took)
            self.compiling += took
            self.processor += time.process_time() - processor
        return _Stage(spec, program, tuple(placed), carry)

    def _pause(self, stage: _Stage, live: np.ndarray) -> float:
        """Seconds until the next poll.

        Polling synchronises devices, so it is rare; but in time for one lane to take
        over the last runs. `away` runs remain until then, at the mean time a run so
        far.
        """
        if self._alone(stage.spec) is None:
            return 0.5
        finished = max(int(np.sum(stage.carry.finished)), 1)
        worked = time.perf_counter() - self.began - self.compiling
        away = int(np.max(live)) - stage.spec.lanes
        return min(max(0.5 * away * worked * stage.spec.devices / finished, 0.05), 0.5)

    def _paced(self, took: float, pause: float) -> None:
        """Choose the number of chunks until the next poll, `pause` seconds from now."""
        if took < pause:
            self.chunks = min(2 * self.chunks, _MOST_CHUNKS)
        elif took > 4 * pause:
            self.chunks = max(1, int(self.chunks * pause / took))

    def _alone(self, spec: Spec) -> Spec | None:
        """The spec of the program of one lane that may take over; None: keep this one."""
        exact = spec.precision == "float64" and spec.rule.traits.one_lane
        if not exact or not spec.tuned or spec.vmapped or spec.log or spec.lanes == 1:
            return None
        if self.job.layout.shrink is False or self.failing:
            return None
        return alone(self.job, spec)

    def _to_resume(self, stage: _Stage) -> bool:
        """Whether one lane has left runs in the queue."""
        if self.wide is None or stage.spec.lanes > 1:
            return False
        return bool(np.any(self.wide.carry.next < self.queue.length))

    def _resumed(self, stage: _Stage) -> _Stage:
        """The stage of many lanes, which starts the next runs of the queue."""
        assert self.wide is not None
        wide, self.wide, self.chunks, self.resumed = self.wide, None, 1, True
        return self._with(wide, wide.program.taken_back(stage.carry, wide.carry))

    def _with(self, stage: _Stage, carry: Carry) -> _Stage:
        """The stage with a carry from the host."""
        if stage.spec.devices > 1:
            inputs, queue = stage.placed
            carry = stage.program.place(inputs, queue, carry)[-1]
        return stage._replace(carry=carry)

    def _moved(self, stage: _Stage, live: np.ndarray, took: float, pace: float) -> _Stage:
        """The stage of one lane, for the last runs of the queue, where that pays.

        All runs of a rule that says so by `in_turn`: many lanes start them, a chunk long.

        It pays where the live runs, one after the other, take less time a sample of each
        than all lanes did at the last poll: `took` seconds, `pace` seconds a sample of a
        live lane. Compilation is a ski rental: it is done once the time that
        would have been saved, over all jobs of this process, exceeds its cost. That
        never costs more than twice the best choice with known run lengths.
        """
        program, spec = stage.program, stage.spec
        single = self._alone(spec)
        waiting = self.queue.length - np.asarray(stage.carry.next)
        running = int(np.max(live - waiting))
        if single is None:
            return stage
        if np.any(waiting > 0) and not (self.in_turn and 2 * running >= spec.lanes):
            return stage
        compiled = engine.compiled(single, self.inputs)
        if not self.job.layout.shrink:
            known = engine.program(single, self.inputs).pace if compiled else np.inf
            guess = (_SHARE_IN_TURN if self.in_turn else 2) / spec.lanes
            one = known / pace if max(known, pace) < np.inf else guess
            share = running * one  # of the time of all lanes
            if share >= 1:
                return stage
            program.waited += took * (1 - share)
            if not compiled and program.waited <= program.cost:
                return stage
        if not compiled:
            self.bar.compiling()
        with self.interrupts.noted(), self.interrupts.compiling():
            new = engine.program(single, self.inputs)
            given = new.taken_over(self.inputs, self.queue, stage.carry, spec)
            after = self._begun(single, new, stage.placed[0], *given)
        if self.interrupts.asked:
            return stage
        self.chunks, self.wide = 1, stage
        return after

    def _failed(self, stage: _Stage) -> _Stage:
        """The stage of many lanes again, which says what run fails first.

        One lane after the other may meet another run before it. Where many lanes have
        been refilled all at once, they begin again.

        Raises:
            ArgumentError: the job is in many lanes from its beginning; see `_failure`.
        """
        wide = self.wide if stage.spec.lanes == 1 else stage
        if wide is None or (stage.spec.lanes > 1 and not self.resumed):
            raise _failure(self.job, stage.carry)
        self.failing = True
        if not self.resumed:
            return wide
        self.resumed, self.chunks = False, 1
        return self._with(wide, wide.program.empty(self.inputs, self.queue))

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


def _counts(carry: Carry) -> _Counts:
    return _Counts(carry.live, carry.samples, carry.iterations)  # type: ignore[arg-type]


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
    """The error for an arm or an answer out of range, or a number that is not finite.

    Among the runs that failed in the earliest chunk it names the one of lowest index.
    """
    lane = carry.lane
    found: dict[str, Any] = {
        "arm": lane.bad_arm,
        "run": lane.run,
        "instance": lane.instance,
        "t": lane.stats.t,
        "fault": lane.fault,
    }
    bad = lane.bad_answer
    found["answer"] = np.zeros_like(lane.bad_arm) if bad is None else bad
    found["steps"] = np.broadcast_to(np.asarray(carry.iterations)[..., None], lane.run.shape)
    found = {name: np.ravel(x) for name, x in found.items()}
    failed = np.flatnonzero(found["arm"] | found["answer"] | found["fault"])
    order = np.lexsort([found[name][failed] for name in ("instance", "run", "steps")])
    arm, answer, fault, t, run, instance = (
        int(found[name][failed[order[0]]])
        for name in ("arm", "answer", "fault", "t", "run", "instance")
    )
    of = instance if job.instance.batched else None
    return failure(job, arm, answer, fault, Place(t, run, of))
