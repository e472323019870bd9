"""The host's loop over the chunks of a call's program, the arrays of its runs in order, errors."""

import time
from typing import Any

import jax
import numpy as np

from jaxelim import engine
from jaxelim.checks import shipped
from jaxelim.engine import Carry, Inputs, Queue, Spec, watching
from jaxelim.errors import ArgumentError, FamilyError, RuleError
from jaxelim.progress import Progress
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.plan import ALONE, Plan
from jaxelim.simulation.results.descriptions import ARRAYS

_MOST_CHUNKS = 4096  # between two polls
_PAUSE = 0.25  # seconds between two polls, about


class HostLoop:
    """The work on one call: `run` says what happens, and each method is one of its events."""

    program: engine.Program
    inputs: Inputs  # on the devices, as are the queue and the carry
    queue: Queue
    carry: Carry
    live: np.ndarray  # runs in the lanes or in the queue, of each device

    def __init__(self, plan: Plan, bar: Progress):
        self.plan, self.bar = plan, bar
        self.began = time.perf_counter()
        self.compiling = self.processor = 0.0  # seconds of compilation
        self.computed = 0  # samples, those of lanes that are done among them

    def run(self) -> tuple[Carry, dict]:
        """Advance until every run is over; then the carry, in NumPy, and what the work has taken.

        One lane of each device may take the last runs, one after the other.
        """
        spec = self.plan.spec
        single = spec.executed(lanes=1)
        self._begin(spec)
        self.bar.running()
        while np.any(self.live):
            if not self._pays(single):
                self.advance()
                continue
            many = jax.device_get(self.carry).lane
            for n in range(int(np.max(self.live))):
                self._begin(single, many, n)
                while np.any(self.live):
                    self.advance()
        carry = jax.tree.map(np.asarray, self.carry)
        return carry, {
            "seconds": time.perf_counter() - self.began - self.compiling,
            "compile_seconds": self.compiling,
            "compile_processor_seconds": self.processor,
            "samples_drawn": int(np.sum(carry.samples)),
            "samples_computed": self.computed,
        }

    def advance(self) -> None:
        """Run some chunks, show the progress, and choose the time of the next poll."""
        began, chunks = time.perf_counter(), np.int32(self.chunks)
        # Copies: the next chunk takes the carry's memory.
        before = np.array(self.carry.iterations)
        carry = self.program.advance(self.inputs, self.queue, self.carry, chunks)
        self.carry, self.live = carry, np.array(carry.live)
        took = time.perf_counter() - began
        if took < _PAUSE:  # polling synchronises devices, so it is rare
            self.chunks = min(2 * self.chunks, _MOST_CHUNKS)
        elif took > 4 * _PAUSE:
            self.chunks = max(1, int(self.chunks * _PAUSE / took))
        steps = int(np.sum(np.asarray(carry.iterations) - before))
        self.computed += steps * self.program.spec.execution.lanes
        finished = int(np.sum(np.asarray(carry.finished)))
        self.bar.update(finished, int(np.sum(np.asarray(carry.samples))))
        if np.any(np.asarray(carry.failed)):
            raise _failure_of(self.plan.call, carry)

    def _pays(self, single: Spec) -> bool:
        """Whether one lane should take the runs that are left: few, with an empty queue.

        Its program is compiled, or the call has worked for as long as that of many compiled.
        """
        spec, shrink = self.plan.spec, self.plan.call.engine.shrink
        if shrink is False or spec == single:
            return False
        waiting = np.asarray(self.plan.queue.length) - np.asarray(self.carry.next)
        if np.any(waiting > 0) or not (shrink or np.max(self.live) <= ALONE):
            return False
        worked = time.perf_counter() - self.began - self.compiling
        worth = shrink or worked > self.program.compile_seconds
        return (worth or engine.compiled(single, self.plan.inputs)) and engine.may_be_alone(
            spec, self.plan.inputs
        )

    def _begin(self, spec: Spec, *alone: Any) -> None:
        """Compile a program for its arguments, of one lane for the n-th of many: `alone`."""
        inputs, queue = self.plan.inputs, self.plan.queue
        if not engine.compiled(spec, inputs):
            self.bar.compiling()
        program = engine.program(spec, inputs)
        held = jax.device_get(self.carry) if alone else None
        carry = program.alone(held, *alone) if alone else program.empty(inputs, queue)
        began, processor = time.perf_counter(), time.process_time()
        known, fresh = program.traces, not program.compiled
        self.inputs, self.queue, self.carry = program.begun(inputs, queue, carry)
        self.program, self.chunks, self.live = program, 1, np.array(self.carry.live)
        if fresh or program.traces > known:
            program.compile_seconds = time.perf_counter() - began
            self.compiling += program.compile_seconds
            self.processor += time.process_time() - processor


def ordered(plan: Plan, carry: Carry) -> dict[str, np.ndarray]:
    """The arrays of the runs in the order of the call, without those that were not recorded.

    They are [stopping, delta, run, ..], with a batch [instance, stopping, delta, run, ..].
    """
    call, devices, finished = plan.call, plan.spec.execution.devices, np.atleast_1d(carry.finished)
    raw = carry.out if devices > 1 else jax.tree.map(lambda x: x[None], carry.out)
    rows = jax.tree.map(
        lambda x: np.concatenate([x[d, : finished[d]] for d in range(devices)]), raw
    )
    dealt = np.repeat(np.arange(devices), finished)
    which, instance, row = plan.places[:, rows.item * devices + dealt]
    _refuse_degenerate(call, rows.degenerate, row, instance)

    def placed(x: np.ndarray) -> np.ndarray:
        """[R, S, D, ..] -> [instance, S, delta, run, ..]."""
        shape = call.instance.size, x.shape[1], call.delta.size, call.runs.size, *x.shape[3:]
        full = np.zeros(shape, x.dtype)
        if call.shared:
            full[instance, :, :, row] = x
        else:
            full[instance, :, which, row] = x[:, :, 0]
        return full if call.instance.batched else full[0]

    left, scale = rows.record, call.instance.family.scale
    recorded: dict[str, Any] = {**vars(left), **dict(left.estimates)}
    recorded |= zip(("tests_sampling", "solves"), left.work, strict=False)
    recorded = {name: recorded.get(name) for name in ARRAYS}
    known = [x for x in rows.times if x is not None]
    if known:
        times = [np.zeros_like(known[0]) if x is None else x for x in rows.times]
        recorded["elimination_times"] = np.stack(times, 1)
    arrays = {name: placed(x) for name, x in recorded.items() if x is not None}
    for name, unit in (("means", scale), ("variances", scale**2)):
        if name in arrays:
            arrays[name] = arrays[name].astype(np.float64) * unit
    if "entered" in arrays:
        arrays["entered"] = arrays["entered"].astype(np.int32)
    return arrays


_WRONG = {
    watching.REWARD: ("a reward", "a draw(lanes, nature, arm, pull, noise) of finite rewards"),
    watching.MEANS: ("an estimate", "rewards and statistics whose means are finite"),
    watching.EVIDENCE: ("an LLR", "evidence whose values() are finite"),
    watching.INTERVAL: ("an interval", "an interval(seen, means, beta) without NaN"),
    watching.POSTERIOR: ("a posterior draw", "a posterior(key, counts, means) of finite means"),
}
"""What was not finite, and what is allowed, in words."""


def _failure_of(call: Experiment, carry: Carry) -> ArgumentError:
    """The error of a carry with failed runs: of the lowest index in the earliest chunk."""
    lane, run = carry.lane, carry.lane.run
    steps = np.broadcast_to(np.asarray(carry.iterations)[..., None], run.index.shape)
    numbers = lane.fault, lane.stats.t, run.instance, run.index, steps
    rows = np.stack([np.ravel(x) for x in numbers])
    failed = rows[:, rows[0] != 0]
    fault, t, instance, index, _ = map(int, failed[:, np.lexsort(failed[2:])[0]])
    return failure(call, fault, t, index, instance if call.instance.batched else None)


def failure(
    call: Experiment, fault: int, t: int, run: int, instance: int | None = None, live: bool = False
) -> ArgumentError:
    """The error of a run that has failed after t samples, in a live run t rewards: `Lane.fault`."""
    value, code = divmod(fault, 8)
    where, family = (t, run, instance), call.instance.family
    of = f"of run {run}" + ("" if instance is None else f" of instance {instance}")
    at = after = f"after {t} rewards"
    if not live:
        at, after = f"at t = {t} {of}", f"after {t} samples {of}"
    if code in _WRONG:  # a number that is not finite: of the family, or of a user's problem
        what, allowed = _WRONG[code]
        if code == watching.MEANS and shipped(family):  # seen at the chunk's end
            after = f"within the first {t} samples {of}"
        first = t <= call.initial_pulls * call.instance.K
        note = f"{what} was not finite {at if code == watching.REWARD and not first else after}"
        if code == watching.EVIDENCE and shipped(family) and not shipped(call.problem):
            allowed = "a shape(seen, answer) whose pieces have finite LLRs"
            return ArgumentError("problem", call.problem, allowed, note)
        return FamilyError("family", family, allowed, note, *where)
    if code == watching.ARM and value == int(watching.NO_NUMBER):
        note = f"it chose among scores that are NaN {at}"
        return RuleError("rule", call.rule, "a rule whose scores are numbers", note, *where)
    if code == watching.ARM:
        allowed = f"a rule that chooses arms from 0 to {call.instance.K - 1}"
        return RuleError("rule", call.rule, allowed, f"it chose arm {value} {at}", *where, value)
    argument, allowed = call.problem.in_range(call.instance.K)
    return ArgumentError(argument, call.problem, allowed, f"it gave {value} {after}")


def _refuse_degenerate(call: Experiment, arms: Any, row: np.ndarray, instance: np.ndarray) -> None:
    """Refuse runs [R] that had an arm with equal rewards: `arms` is 1 + that arm, 0 for none."""
    if arms is None or not arms.any():
        return
    bad = np.flatnonzero(arms)
    at = bad[np.lexsort([instance[bad], row[bad]])[0]]
    where = f"run {call.runs[row[at]]}" + (f" of instance {instance[at]}" * call.instance.batched)
    argument = "instance" if call.noise is None else "noise"
    note = f"the rewards of arm {int(arms[at]) - 1} in {where} are all equal"
    allowed = f"rewards that {call.instance.family!r} can draw"
    raise ArgumentError(argument, call.fields[argument], allowed, note)
