"""What a call is compiled for, and what it runs on: its spec, inputs and queue."""

import dataclasses
import math
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxelim import engine
from jaxelim.contracts import Family, Problem, looks
from jaxelim.contracts.returned import blamed, described
from jaxelim.contracts.views import Tree
from jaxelim.engine import LANE_GROUP, Inputs, Lane, Outcome, Queue, Spec
from jaxelim.errors import ArgumentError, RuleError
from jaxelim.families import noise, returns
from jaxelim.families.recorded import source_of
from jaxelim.problems.lanewise import in_lanes
from jaxelim.simulation import memory
from jaxelim.simulation.call import CheckedCall, Engine
from jaxelim.simulation.results import p_values

CHUNK = 256
"""Steps of a chunk."""
STARTED = 64
"""Steps of a chunk of lanes that only start runs (see `in_turn`)."""
RUNS_A_LANE = 8
"""Least number of runs a lane on a CPU, where there are too few runs to fill all lanes.

With fewer, most lanes wait for the longest run; and few lanes cost little
more a sample.
"""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A call, what its program is compiled for, and what that runs on.

    Attributes:
        call: the checked arguments.
        spec: of the program.
        inputs, queue: its arguments, on the host.
        places: [3, runs]: see `queue_of`.
    """

    call: CheckedCall
    spec: Spec
    inputs: Inputs
    queue: Queue
    places: np.ndarray

    @property
    def layout(self) -> dict[str, Any]:
        """How the runs are laid out, for `Result.layout`."""
        spec = self.spec
        by_vmap = spec.vmapped or not spec.rule.traits.lanes_last
        return {
            **spec.family.plan(),
            "lanes": spec.lanes,
            "chunk": spec.chunk,
            "devices": spec.devices,
            "deltas_per_trajectory": spec.deltas,
            "entrance": "vmap" if by_vmap else "lanes",
        }


def planned(call: CheckedCall, log: int = 0) -> Plan:
    """The plan of a call, checked before a program or large arrays exist; `log` as in `spec_of`.

    Raises:
        ArgumentError: more than 2^30 runs a device; and as `inputs_of`.
        FamilyError, RuleError: a method of the family or of the rule raises, or breaks its
            contract.
        MemoryLimitError: the call would hold more memory than is free.
    """
    spec = spec_of(call, log=log)
    return Plan(call, spec, checked_inputs_of(call, spec), *queue_of(call, spec))


def used_devices(layout: Engine) -> int:
    """How many of JAX's devices a layout uses, at most."""
    return min(layout.devices or len(jax.devices()), len(jax.devices()))


def spec_of(call: CheckedCall, log: int = 0, backend: str | None = None) -> Spec:
    """The spec of a call's program.

    Args:
        call: the call.
        log: length of the log of a traced run, 0 for none.
        backend: JAX's name of the platform that it is for; None: the default one.
    """
    backend = jax.default_backend() if backend is None else backend
    layout = call.engine
    items = call.trajectories * call.runs.size
    devices = min(used_devices(layout), items)
    of_device = -(-items // devices)
    family = call.instance.family.settled(
        instance=call.computed,
        problem=call.problem,
        ridge=call.ridge,
        max_samples=call.max_samples,
        form=layout.form if call.computed.structure == call.instance.structure else None,
        sums=call.rule.traits.uses_rewards,
        theta=log > 0,
        tuned=backend == "cpu",
    )
    one_kernel = backend == "cpu" and not log and _in_one_kernel(call, family)
    if layout.lanes is not None:
        wanted = layout.lanes
    elif one_kernel:
        wanted = 32
    elif backend == "cpu":
        wanted = 64 if layout.precision == "float64" else 128
    else:
        wanted = 8192
    share = RUNS_A_LANE if backend == "cpu" and layout.lanes is None else 1
    # No more lanes than runs; by powers of two, so that few sizes are compiled.
    most = LANE_GROUP
    while most * share < of_device:
        most *= 2
    lanes = min(-(-wanted // LANE_GROUP) * LANE_GROUP, most)
    chunk = layout.chunk or (STARTED if backend == "cpu" and not log and in_turn(call) else CHUNK)
    chunk = -(-chunk // engine.BURST) * engine.BURST
    # By powers of two, from 1024 on unless rows are large: 100 and 1000 runs share a program.
    queue = 1024 if call.instance.K * len(call.stopping) * call.deltas.size <= 4096 else 64
    while queue < of_device:
        queue *= 2
    return Spec(
        problem=in_lanes(_scaled_problem(call).static_part()),
        family=family,
        source=source_of(call.instance.family, family),
        rule=call.rule.static_part(),
        stopping=call.stopping,
        elimination=call.elimination,
        threshold=call.threshold,
        per_lane_instances=call.instance.batched,
        deltas=call.deltas.size if call.shared else 1,
        lanes=lanes,
        chunk=chunk,
        queue=queue,
        given_noise=call.noise is not None,
        precision=layout.precision,
        tuned=backend == "cpu",
        vmapped=layout.vmapped,
        pair_times="pair_times" in call.record,
        log=log,
        devices=devices,
        initial_pulls=call.initial_pulls,
        evidence=call.evidence,
        estimates="means" in call.record,
        one_kernel=one_kernel,
    )


def in_turn(call: CheckedCall) -> bool:
    """Whether one lane takes all runs of a call on a CPU, not only the last ones of the queue."""
    layout = call.engine
    plain = layout.precision == "float64" and not layout.vmapped and layout.lanes is None
    allowed = call.rule.traits.one_lane and layout.shrink is not False
    if not plain or not allowed:
        return False
    said = call.rule.in_turn(call.computed, call.problem)
    if not isinstance(said, bool | np.bool_):
        told = f"what in_turn returned is {described(said)}"
        raise RuleError(call.rule, "an in_turn(instance, problem) that returns True or False", told)
    return bool(said)


def in_one_lane(call: CheckedCall, spec: Spec) -> Spec:
    """The spec of the program of one lane beside that of many."""
    return dataclasses.replace(spec, lanes=1, chunk=spec.chunk if call.engine.chunk else CHUNK)


def _in_one_kernel(call: CheckedCall, family: Family) -> bool:
    """Whether the steps of all lanes are compiled into one kernel.

    Float32 and batches of instances stay in many: how one kernel rounds them is not tested.
    """
    allowed = call.computed.structure in call.rule.traits.one_kernel and call.rule.fast is None
    plain = call.engine.precision == "float64" and not call.engine.vmapped
    suits = family.one_kernel(call.computed, call.problem)
    return allowed and plain and not call.instance.batched and suits


def _scaled_problem(call: CheckedCall) -> Problem:
    return call.problem.scaled(call.instance.family.scale)


def queue_of(call: CheckedCall, spec: Spec) -> tuple[Queue, np.ndarray]:
    """The queue of runs, and the place of each run in the result.

    The devices get runs in turn; with several the queue has a leading axis of devices.
    Small deltas come first, so that the longest runs do not start last.

    Returns:
        The queue, and places [3, runs]: index of delta (-1 where deltas share a
        trajectory), instance and row.
    """
    deltas = np.argsort(call.deltas, kind="stable")
    order = [None] if call.shared else deltas
    instance, row = np.meshgrid(
        np.arange(call.instance.size), np.arange(call.runs.size), indexing="ij"
    )
    n = instance.size
    which = np.concatenate([np.full(n, -1 if d is None else d) for d in order])
    instance, row = np.tile(instance.ravel(), len(order)), np.tile(row.ravel(), len(order))
    size = which.size
    levels = (
        np.broadcast_to(call.deltas[:, None], (call.deltas.size, size))
        if call.shared
        else call.deltas[which][None]
    )
    tables = {
        "run": call.runs[row].astype(np.int32),
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


def inputs_of(call: CheckedCall, spec: Spec) -> Inputs:
    """What all runs share, as host arrays.

    Raises:
        ArgumentError: the rule's `prepare` refuses the instance or the problem.
        RuleError: as `prepared_for`.
    """
    instance, truth = call.computed, call.computed.truth

    def real(x):
        x = np.asarray(x)
        return x.astype(spec.dtype) if x.dtype.kind == "f" else x

    prepared = prepared_for(call)
    if not instance.batched:
        prepared = jax.tree.map(lambda x: np.asarray(x)[None], prepared)
    features = instance.arms.reshape(-1, instance.K, instance.d)
    tables, constants = spec.family.tables(instance), _scaled_problem(call).constants()
    return Inputs(
        flag=np.int32(1),  # type: ignore[arg-type]
        cap=np.int32(call.cap),  # type: ignore[arg-type]
        features=np.asarray(features, spec.dtype),  # type: ignore[arg-type]
        nature=jax.tree.map(real, spec.source.nature(truth) if truth is not None else ()),
        tables=jax.tree.map(real, tables),
        prepared=jax.tree.map(real, prepared),
        constants=jax.tree.map(real, constants),
        key=noise.key(call.seed),
        noise=call.noise,  # type: ignore[arg-type]
    )


def prepared_for(call: CheckedCall) -> Tree:
    """The arrays of the rule's `prepare`.

    Raises:
        RuleError: it raises, or returns what is no array of numbers.
    """
    rule, instance = call.rule, call.computed
    allowed = "a prepare(instance, problem, ridge) that returns numbers in NumPy arrays"
    allowed += ", [instance, ..] for a batch" if instance.batched else ""
    with blamed("prepare", partial(RuleError, rule, allowed)):
        prepared = rule.prepare(instance, call.problem, call.ridge)
        arrays = [np.asarray(x) for x in jax.tree.leaves(prepared)]
    for x in arrays:
        short = instance.batched and x.shape[:1] != (instance.size,)
        if x.dtype.kind not in "biuf" or short:
            raise RuleError(rule, allowed, f"a leaf of what prepare returned is {described(x)}")
    return prepared


def checked_inputs_of(call: CheckedCall, spec: Spec) -> Inputs:
    """`inputs_of`, with the checks that remain; raises as `planned`."""
    if spec.queue + spec.lanes >= 2**31:  # places in the queue are int32
        allowed = "at most 2^30 runs a device, those of all instances and deltas taken together"
        raise ArgumentError("runs", call.runs.size, allowed)
    devices = jax.devices()[: spec.devices]
    memory.check(_needs(call, spec), devices)
    constants = _scaled_problem(call).constants()
    returns.check(spec.family, spec.problem, constants, call.computed, spec.dtype)
    inputs = inputs_of(call, spec)
    if call.computed.truth is not None:  # else no program draws rewards, and a run is small
        memory.check(_needs(call, spec, inputs, *engine.outline(spec, inputs)), devices)
    return inputs


NOISE_COPIES = 5
"""Arrays of the size of a chunk's noise that exist while XLA draws it."""


def _needs(
    call: CheckedCall,
    spec: Spec,
    inputs: Inputs | None = None,
    lane: Lane | None = None,
    outcome: Outcome | None = None,
) -> list[memory.Part]:
    """A lower bound on what a call will hold; rougher without the outline of its program."""
    k, layout = call.instance.K, call.engine
    items = call.trajectories * call.runs.size
    rows, real = spec.devices * (spec.queue + spec.lanes), spec.dtype.itemsize
    row = memory.of_a_run(k, call.problem.width(k), spec.observers)
    row += spec.observers * k * real * spec.estimates
    if outcome is not None:
        row = _bytes(dataclasses.replace(outcome, log_e=None)) // spec.lanes
    entry = 12 + real * spec.deltas
    # The tables of `queue_of`; the last term is on the devices too.
    tables = items * (64 + entry) + spec.devices * spec.queue * entry
    parts = [
        memory.Part("runs", call.runs.size, "its runs and their results", tables + 2 * items * row,
                    rows * row + spec.devices * spec.queue * entry),
    ]  # fmt: skip
    if call.evidence is not None:
        parts.append(_evidence(call, spec, items, rows))
    lanes = spec.devices * 4 * k * real * spec.lanes
    if lane is not None:
        lanes = spec.devices * _bytes(dataclasses.replace(lane, log_e=None, log_e_at=None))
    of_lanes = ("instance", call.instance) if layout.lanes is None else ("lanes", layout.lanes)
    parts.append(memory.Part(*of_lanes, "the state of its lanes", 0, lanes))
    drawn = spec.initial_pulls * k + spec.chunk
    of_chunk = spec.devices * drawn * spec.lanes * real * NOISE_COPIES
    by_chunk = layout.chunk is not None and layout.chunk > 4 * (layout.lanes or 0)
    of_noise = ("chunk", layout.chunk) if by_chunk else of_lanes
    parts.append(memory.Part(*of_noise, "the noise of a chunk", 0, of_chunk))
    if spec.log:
        parts.append(
            memory.Part(
                "max_samples",
                call.max_samples,
                "the log of the run",
                8 * spec.log,
                (8 + real) * spec.log,
            )
        )
    if inputs is not None:
        table = 0 if call.noise is None else spec.devices * call.noise.nbytes
        parts.append(memory.Part("noise", call.noise, "the noise that is given", 0, table))
        of_instances = inputs.features, inputs.nature, inputs.tables
        shared = spec.devices * _bytes(of_instances)
        parts.append(memory.Part("instance", call.instance, "what all runs share", 0, shared))
    return parts


def _evidence(call: CheckedCall, spec: Spec, items: int, rows: int) -> memory.Part:
    """The evidence for p-values: of all runs, of the lanes, and of the lanes that look.

    Args:
        call, spec: what is asked, and its program.
        items: its runs.
        rows: places for results on all devices.
    """
    assert call.evidence is not None
    each = p_values.entries(call) * spec.dtype.itemsize
    kept = rows * spec.observers + spec.devices * spec.lanes * (1 + spec.observers)
    looking = spec.devices * max(1, spec.lanes // looks.GROUP) * call.evidence.grid.size
    purpose = "the evidence of every pair of arms"
    host = 2 * items * spec.observers * each
    return memory.Part("record", call.record, purpose, host, (kept + looking) * each)


def _bytes(tree: Any) -> int:
    """Bytes of a tree of arrays, or of their shapes."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))
