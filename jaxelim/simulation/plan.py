"""A call's program, what it runs on, the host's loop over its chunks, and the arrays of runs."""

import dataclasses
import platform
import time
from typing import Any

import jax
import numpy as np

from jaxelim import engine, returned
from jaxelim.checks import shipped
from jaxelim.engine import LANE_GROUP, Carry, Execution, Inputs, Queue, Spec, watching
from jaxelim.errors import ArgumentError, FamilyError, RuleError, warn
from jaxelim.families import draws
from jaxelim.progress import Progress
from jaxelim.scope import ONE_DEVICE
from jaxelim.simulation.experiment import Engine, Experiment
from jaxelim.simulation.results.descriptions import ARRAYS

CHUNK = 256  # steps
ON_A_CPU, ON_A_GPU = 64, 8192  # lanes by default, where there are runs enough
RUNS_A_LANE = 8  # at least, on a CPU: with fewer, most lanes wait for the longest run
ALONE = 8  # the last runs of a CPU device, at most, that one lane takes sooner than many lanes do
_MOST_CHUNKS = 4096  # between two polls
_PAUSE = 0.25  # seconds between two polls, about


@dataclasses.dataclass(frozen=True)
class Plan:
    """A call, what its program is compiled for, and what that runs on."""

    call: Experiment
    spec: Spec
    inputs: Inputs  # on the host, as the queue
    queue: Queue
    places: np.ndarray  # [3, runs]: see `queue_of`

    @property
    def layout(self) -> dict[str, Any]:
        """How the runs are laid out, for `Result.layout`."""
        spec, execution = self.spec, self.spec.execution
        return {
            **spec.family.plan(),
            "lanes": execution.lanes,
            "chunk": execution.chunk,
            "devices": execution.devices,
            "deltas_per_trajectory": spec.deltas,
            "entrance": "vmap" if spec.by_vmap else "lanes",
            "computed_by": f"JAX {jax.__version__}, NumPy {np.__version__}, "
            f"{platform.machine()}, {jax.default_backend()}",
        }


def planned(call: Experiment, log: int = 0) -> Plan:
    """The plan of a call, checked before a program or large arrays exist; `log` as in `spec_of`."""
    spec = spec_of(call, log=log)
    inputs = inputs_of(call, spec)
    spec = settled(call, spec, inputs)
    engine.outline(spec, inputs)  # a rule that breaks its contract raises here
    return Plan(call, spec, inputs, *queue_of(call, spec))


def used_devices(layout: Engine) -> int:
    """How many of JAX's devices a layout uses, at most."""
    if jax.__version_info__ in ONE_DEVICE:
        if (layout.devices or 1) > 1:
            warn(f"with JAX {jax.__version__} runs take one device: on several its compiler "
                 "ends the process over some programs", UserWarning)  # fmt: skip
        return 1
    return min(layout.devices or len(jax.devices()), len(jax.devices()))


def spec_of(call: Experiment, log: int = 0, backend: str | None = None) -> Spec:
    """The spec of a call's program, of many lanes; `log` is the length of the log of a trace."""
    gpu = (jax.default_backend() if backend is None else backend) != "cpu"
    source, most = call.instance.source, min(call.batch + call.delay, call.cap)  # pending rewards
    family = call.instance.family.settled(
        instance=call.computed, problem=call.problem, ridge=call.ridge,
        max_samples=call.max_samples, sums="rewards" in call.rule.traits.reads, theta=log > 0,
        tuned=not gpu,
    )  # fmt: skip
    return Spec(
        problem=call.problem.scaled(call.instance.family.scale).static_part(),
        family=family,
        source=family if source is None else source.static_part(),
        rule=call.rule.static_part(),
        stopping=call.stopping,
        elimination=call.elimination,
        threshold=call.threshold,
        per_lane_instances=call.instance.batched,
        deltas=call.delta.size if call.shared else 1,
        log=log,
        initial_pulls=call.initial_pulls,
        record=call.record,
        places=max(2, 1 << most.bit_length()) if call.waits else None,
        execution=_execution(call, gpu),
    )


def settled(call: Experiment, spec: Spec, inputs: Inputs) -> Spec:
    """The spec; of a single lane, for a rule with rare work, which many lanes would often have."""
    layout, alone = call.engine, spec.executed(lanes=1)
    free = spec.rule.rare and layout.lanes is None and layout.shrink is not False
    free = free and engine.may_be_alone(spec, inputs) and engine.outline(alone, inputs).rare
    return alone if free else spec


def _execution(call: Experiment, gpu: bool) -> Execution:
    """How the steps of a call run in many lanes, by powers of two, so that few are compiled."""
    layout, items = call.engine, call.trajectories * call.runs.size
    devices = min(used_devices(layout), items)
    of_device = -(-items // devices)
    share = RUNS_A_LANE if not gpu and layout.lanes is None else 1
    most, queue = LANE_GROUP, 1024
    while most * share < of_device:
        most *= 2
    if call.instance.K * len(call.stopping) * call.delta.size > 4096:
        queue = 64
    while queue < of_device:
        queue *= 2
    wanted = layout.lanes or (ON_A_GPU if gpu else ON_A_CPU)
    return Execution(
        lanes=min(-(-wanted // LANE_GROUP) * LANE_GROUP, most), chunk=layout.chunk or CHUNK,
        queue=queue, devices=devices, gpu=gpu,
    )  # fmt: skip


def queue_of(call: Experiment, spec: Spec) -> tuple[Queue, np.ndarray]:
    """The queue of runs, and the place of each run in the result.

    Places are [3, runs]: index of delta, -1 where deltas share a trajectory, instance and row.
    Several devices, a leading axis, get runs in turn; the longest runs, of small deltas, first.
    """
    execution = spec.execution
    order = np.array([-1]) if call.shared else np.argsort(call.delta, kind="stable")
    which, instance, row = (
        x.ravel() for x in np.meshgrid(order, np.arange(call.instance.size),
                                       np.arange(call.runs.size), indexing="ij")
    )  # fmt: skip
    size = which.size
    shared = np.broadcast_to(call.delta[:, None], (call.delta.size, size))
    tables = {
        "run": call.runs[row].astype(np.int32),
        "row": row.astype(np.int32),
        "instance": instance.astype(np.int32),
        "delta": (shared if call.shared else call.delta[which][None]).astype(spec.dtype),
    }
    dealt = []
    for device in range(execution.devices):
        mine = np.arange(device, size, execution.devices)
        part = {
            name: np.take(x, np.resize(mine, execution.queue), -1) for name, x in tables.items()
        }
        dealt.append(Queue(**part, length=np.int32(mine.size)))  # type: ignore[arg-type]
    queue = jax.tree.map(lambda *x: np.stack(x), *dealt) if execution.devices > 1 else dealt[0]
    return queue, np.stack([which, instance, row])


def inputs_of(call: Experiment, spec: Spec) -> Inputs:
    """What all runs share, as host arrays; with the checks that remain, it raises as `planned`."""
    if spec.execution.queue + spec.execution.lanes >= 2**31:  # places in the queue are int32
        allowed = "at most 2^30 runs a device, those of all instances and deltas taken together"
        raise ArgumentError("runs", call.runs.size, allowed)
    instance, source = call.computed, call.computed.source
    constants = call.problem.scaled(instance.family.scale).constants()
    returned.check(spec.family, spec.problem, constants, instance, spec.dtype)
    returned.check_draws(spec.source, instance, spec.dtype)
    known: Any = instance.truth if source is None else instance  # of a live run, its stacks

    def real(x):
        x = np.asarray(x)
        return x.astype(spec.dtype) if x.dtype.kind == "f" else x

    size = instance.size if instance.batched else None
    prepared = returned.numbers(call.rule, "prepare", size, instance, call.problem, call.ridge)
    if not instance.batched:
        prepared = jax.tree.map(lambda x: np.asarray(x)[None], prepared)
    trees = dict(
        nature=() if known is None else (source or spec.family).nature(known),
        tables=spec.family.tables(instance), prepared=prepared, constants=constants,
        features=instance.arms.reshape(-1, instance.K, instance.d),
        prices=None if instance.costs is None else instance.costs / np.mean(instance.costs),
    )  # fmt: skip
    fields: Any = jax.tree.map(real, trees)
    fields |= dict(flag=np.int32(1), cap=np.int32(call.cap), noise=call.noise)
    timing = (np.int32(call.batch), np.int32(call.delay)) if call.waits else None
    return Inputs(**fields, key=draws.key(call.seed), timing=timing)


class HostLoop:
    """The work on one call: `run` says what happens, and each method is one of its events."""

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
        self.inputs, self.queue, self.carry = program.begun(inputs, queue, carry)  # on the devices
        # Runs in the lanes or in the queue, of each device.
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
