"""A job on the engine: what is compiled for it, what its runs share, who runs where, and the host's loop over chunks."""

import dataclasses
import math
import time
from typing import Any

import jax
import numpy as np

from jaxelim import engine
from jaxelim.contracts import Problem
from jaxelim.engine import LANE_GROUP, Carry, Inputs, Lane, Outcome, Queue, Spec
from jaxelim.engine.progress import Progress
from jaxelim.errors import ArgumentError, RuleError
from jaxelim.families import noise as random
from jaxelim.problems.lanewise import in_lanes
from jaxelim.simulation import memory
from jaxelim.simulation.job import Job

RUNS_A_LANE = 8
"""How many runs a CPU's lane gets where there are too few to fill all: with few, most lanes wait for the longest run, and
sixteen take little longer a sample than sixty-four."""


def spec_of(job: Job, log: int = 0) -> Spec:
    """What is compiled for a job; `log`: length of the log of a traced run, 0 for none."""
    backend = jax.default_backend()
    layout = job.layout
    items = job.instance.size * job.runs.size * (1 if job.shared else job.deltas.size)
    devices = min(layout.devices or len(jax.devices()), len(jax.devices()), items)
    each = -(-items // devices)
    family = job.instance.family.settled(
        instance=job.instance,
        problem=job.problem,
        ridge=job.ridge,
        max_samples=job.max_samples,
        form=layout.form,
        sums=job.rule.traits.uses_rewards,
        theta=log > 0,
        tuned=backend == "cpu",
    )
    if layout.lanes is not None:
        wanted = layout.lanes
    elif backend == "cpu":
        wanted = 64 if layout.precision == "float64" else 128
    else:
        wanted = 8192
    share = RUNS_A_LANE if backend == "cpu" and layout.lanes is None else 1
    most = LANE_GROUP  # no more lanes than runs; by powers of two, so that few sizes are ever compiled
    while most * share < each:
        most *= 2
    lanes = min(-(-wanted // LANE_GROUP) * LANE_GROUP, most)
    chunk = -(-(layout.chunk or 256) // engine.BURST) * engine.BURST
    # By powers of two, and room for a thousand in any case, unless that is much: then 100 runs and 1000 share a program.
    queue = 1024 if job.instance.K * len(job.stopping) * job.deltas.size <= 4096 else 64
    while queue < each:
        queue *= 2
    return Spec(
        problem=in_lanes(_scaled_problem(job).static_part()),
        family=family,
        rule=job.rule.static_part(),
        stopping=job.stopping,
        elimination=job.elimination,
        threshold=job.threshold,
        per_lane_instances=job.instance.batched,
        deltas=job.deltas.size if job.shared else 1,
        lanes=lanes,
        chunk=chunk,
        queue=queue,
        given_noise=job.noise is not None,
        precision=layout.precision,
        tuned=backend == "cpu",
        vmapped=layout.vmapped,
        pair_times="pair_times" in job.record,
        log=log,
        devices=devices,
    )


def _scaled_problem(job: Job) -> Problem:
    return job.problem.scaled(job.instance.family.scale)


def queue_of(job: Job, spec: Spec) -> tuple[Queue, np.ndarray]:
    """The runs to do, dealt out to the devices in turn (leading axis: device), and the place of each in the result.

    The smallest delta first: the longest runs are not left for the end."""
    deltas = np.argsort(job.deltas, kind="stable")
    order = [None] if job.shared else deltas
    instance, row = np.meshgrid(np.arange(job.instance.size), np.arange(job.runs.size), indexing="ij")
    n = instance.size
    which = np.concatenate([np.full(n, -1 if d is None else d) for d in order])
    instance, row = np.tile(instance.ravel(), len(order)), np.tile(row.ravel(), len(order))
    size = which.size
    levels = np.broadcast_to(job.deltas[:, None], (job.deltas.size, size)) if job.shared else job.deltas[which][None]
    tables = {
        "run": job.runs[row].astype(np.int32),
        "row": row.astype(np.int32),
        "instance": instance.astype(np.int32),
        "delta": levels.astype(spec.dtype),
    }
    dealt = []
    for device in range(spec.devices):
        mine = np.arange(device, size, spec.devices)
        part = {name: np.take(x, np.resize(mine, spec.queue), -1) for name, x in tables.items()}
        dealt.append(Queue(**part, length=np.int32(mine.size)))  # type: ignore[arg-type]
    queue = jax.tree.map(lambda *x: np.stack(x), *dealt) if spec.devices > 1 else dealt[0]
    return queue, np.stack([which, instance, row])


def inputs_of(job: Job, spec: Spec) -> Inputs:
    """What all runs share, as host arrays.

    Raises:
        ArgumentError: something that the rule needs cannot be made, as its `prepare` says.
    """
    instance, rule = job.instance, job.rule

    def real(x):
        x = np.asarray(x)
        return x.astype(spec.dtype) if x.dtype.kind == "f" else x

    prepared = rule.prepare(instance, job.problem, job.ridge)
    if not instance.batched:
        prepared = jax.tree.map(lambda x: np.asarray(x)[None], prepared)
    cap = job.max_samples if job.noise is None else min(job.max_samples, job.noise.shape[1])
    features = instance.arms.reshape(-1, instance.K, instance.d)
    tables, constants = spec.family.tables(instance), _scaled_problem(job).constants()
    return Inputs(
        flag=np.int32(1),  # type: ignore[arg-type]
        cap=np.int32(cap),  # type: ignore[arg-type]
        features=np.asarray(features, spec.dtype),  # type: ignore[arg-type]
        nature=jax.tree.map(real, spec.family.nature(instance)),
        tables=jax.tree.map(real, tables),
        prepared=jax.tree.map(real, prepared),
        constants=jax.tree.map(real, constants),
        key=random.key(job.seed),
        noise=job.noise,  # type: ignore[arg-type]
    )


def checked_inputs_of(job: Job, spec: Spec) -> Inputs:
    """`inputs_of`, with all that may still refuse an argument: before there is a program, and anything large.

    Raises:
        RuleError: a method of the rule raises, or returns something else than it has to.
        MemoryLimitError: the call would hold more memory than there is.
    """
    if spec.queue + spec.lanes >= 2**31:  # places in the queue are counted in int32
        allowed = "at most 2^30 runs a device, those of all instances and deltas taken together"
        raise ArgumentError("runs", job.runs.size, allowed)
    devices = jax.devices()[: spec.devices]
    memory.check(_needs(job, spec), devices)
    inputs = inputs_of(job, spec)
    memory.check(_needs(job, spec, inputs, *engine.outline(spec, inputs)), devices)
    return inputs


NOISE_COPIES = 5
"""The noise of a chunk, and what XLA holds while it is drawn: so many arrays of its size."""


def _needs(
    job: Job, spec: Spec, inputs: Inputs | None = None, lane: Lane | None = None,
    outcome: Outcome | None = None,
) -> list[memory.Part]:
    """What a call will hold, from below; without the outline of its program more roughly."""
    k, layout = job.instance.K, job.layout
    items = job.instance.size * job.runs.size * (1 if job.shared else job.deltas.size)
    rows, real = spec.devices * (spec.queue + spec.lanes), spec.dtype.itemsize
    row = memory.of_a_run(k, job.problem.width(k), spec.observers)
    if outcome is not None:
        row = _bytes(outcome) // spec.lanes
    entry = 12 + real * spec.deltas
    tables = items * (64 + entry) + spec.devices * spec.queue * entry  # of `queue_of`; the latter on the devices too
    parts = [
        memory.Part("runs", job.runs.size, "its runs and their results", tables + 2 * items * row,
                    rows * row + spec.devices * spec.queue * entry),
    ]  # fmt: skip
    lanes = spec.devices * (4 * k * real * spec.lanes if lane is None else _bytes(lane))
    of_lanes = ("instance", job.instance) if layout.lanes is None else ("lanes", layout.lanes)
    parts.append(memory.Part(*of_lanes, "the state of its lanes", 0, lanes))
    noise = spec.devices * (k + spec.chunk) * spec.lanes * real * NOISE_COPIES
    by_chunk = layout.chunk is not None and layout.chunk > 4 * (layout.lanes or 0)
    of_noise = ("chunk", layout.chunk) if by_chunk else of_lanes
    parts.append(memory.Part(*of_noise, "the noise of a chunk", 0, noise))
    if spec.log:
        parts.append(memory.Part("max_samples", job.max_samples, "the log of the run", 8 * spec.log, (8 + real) * spec.log))
    if inputs is not None:
        table = 0 if job.noise is None else spec.devices * job.noise.nbytes
        parts.append(memory.Part("noise", job.noise, "the noise that is given", 0, table))
        of_instances = inputs.features, inputs.nature, inputs.tables
        shared = spec.devices * _bytes(of_instances)
        parts.append(memory.Part("instance", job.instance, "what all runs share", 0, shared))
    return parts


def _bytes(tree: Any) -> int:
    """Of arrays, or of their outlines."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))


def drive(
    job: Job, spec: Spec, progress: Any, inputs: Inputs, queue: Queue
) -> tuple[Carry, dict]:
    """Chunks until every run has stopped; the host looks in between.

    Returns: the last state, NumPy arrays, and what the work was.
    """
    host = inputs, queue  # placed anew for every program
    began, processor = time.perf_counter(), time.process_time()
    program = engine.program(spec, inputs)
    *placed, carry = program.begun(*host, program.empty(*host))
    compiling, processor = time.perf_counter() - began, time.process_time() - processor
    program.cost = max(program.cost, compiling)
    bar = Progress(progress, int(np.sum(queue.length)))
    chunks, computed, iterations = 1, 0, 0
    while True:
        last = time.perf_counter()
        carry = program.advance(*placed, carry, np.int32(chunks))
        live, finished, samples = map(np.asarray, (carry.live, carry.finished, carry.samples))
        took = time.perf_counter() - last
        if np.any(carry.failed):
            bar.close()
            raise _failure(job, carry)
        # Seldom, since the devices wait for it and for each other; but in time to see that a program for the last runs may take
        # over: that is so many runs away, at the pace so far.
        pause = 0.5
        if _fewer_lanes(job, spec, 0) is not None:
            away = int(np.max(live)) - min(engine.FEW_LANES[-1], spec.lanes // 2)
            each = (last + took - began - compiling) * spec.devices / max(int(np.sum(finished)), 1)
            pause = min(max(0.5 * away * each, 0.05), 0.5)
        if took < pause:
            chunks = min(2 * chunks, 4096)
        elif took > 4 * pause:
            chunks = max(1, int(chunks * pause / took))
        bar.update(int(np.sum(finished)), int(np.sum(samples)))
        total = int(np.sum(carry.iterations))
        computed, iterations = computed + (total - iterations) * spec.lanes, total
        if np.sum(live) == 0:
            break
        fewer = _fewer_lanes(job, spec, int(np.max(live)))
        if fewer is None:
            continue
        # Nobody knows how long the last runs will be, nor how many such jobs will come. To compile once as much has been spent
        # on waiting for them, in all jobs so far, as compiling costs is never worse than twice the best that can be done.
        program.waited += took
        if job.layout.shrink or engine.compiled(fewer, inputs) or program.waited > program.cost:
            before = time.perf_counter(), time.process_time()
            smaller = engine.program(fewer, inputs)
            *placed, carry = smaller.begun(*host, smaller.taken_over(*host, carry, spec))
            program, spec, chunks = smaller, fewer, 1
            took = time.perf_counter() - before[0]
            smaller.cost = max(smaller.cost, took)
            compiling += took
            processor += time.process_time() - before[1]
    bar.close()
    carry = jax.tree.map(np.asarray, carry)
    work = {
        "seconds": time.perf_counter() - began - compiling,
        "compile_seconds": compiling,
        "compile_processor_seconds": processor,
        "samples_drawn": int(np.sum(carry.samples)),
        "samples_computed": computed,
        "choose_rounds": int(np.sum(carry.chooses)),
    }
    return carry, work


def _failure(job: Job, carry: Carry) -> ArgumentError:
    """What a rule or an answer map gave out of range: of the runs in the earliest such chunk the one of lowest index."""
    lane = carry.lane
    found: dict[str, Any] = {"arm": lane.bad_arm, "run": lane.run, "instance": lane.instance, "t": lane.stats.t}
    bad = lane.bad_answer
    found["answer"] = np.zeros_like(lane.bad_arm) if bad is None else bad
    found["steps"] = np.broadcast_to(np.asarray(carry.iterations)[..., None], lane.run.shape)
    found = {name: np.ravel(x) for name, x in found.items()}
    failed = np.flatnonzero((found["arm"] != 0) | (found["answer"] != 0))
    order = np.lexsort([found[name][failed] for name in ("instance", "run", "steps")])
    arm, answer, t, run, instance = (int(found[name][failed[order[0]]]) for name in ("arm", "answer", "t", "run", "instance"))
    where = f"run {run}" + (f" of instance {instance}" if job.instance.batched else "")
    if arm == 0:
        argument, allowed = job.problem.in_range(job.instance.K)
        note = f"it gave {answer} after {t} samples of {where}"
        return ArgumentError(argument, job.problem, allowed, note)
    allowed = f"a rule that chooses arms from 0 to {job.instance.K - 1}"
    note = f"it chose arm {arm} at t = {t} of {where}"
    return RuleError(job.rule, allowed, note, arm, t, run, instance if job.instance.batched else None)


def _fewer_lanes(job: Job, spec: Spec, live: int) -> Spec | None:
    """The program to go on with when a device has so many lanes' work left at most; None: this one."""
    if job.layout.shrink is False or spec.log:
        return None
    sizes = [lanes for lanes in engine.FEW_LANES if live <= lanes and 2 * lanes <= spec.lanes]
    return dataclasses.replace(spec, lanes=sizes[0]) if sizes else None

