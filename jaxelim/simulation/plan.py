"""What a call is compiled for, and what it runs on: its spec, inputs and queue."""

import dataclasses
import platform
from typing import Any

import jax
import numpy as np

from jaxelim import engine, returned
from jaxelim.engine import LANE_GROUP, Execution, Inputs, Queue, Spec
from jaxelim.errors import ArgumentError, warn
from jaxelim.families import draws
from jaxelim.scope import ONE_DEVICE
from jaxelim.simulation.experiment import Engine, Experiment

CHUNK = 256  # steps
ON_A_CPU, ON_A_GPU = 64, 8192  # lanes by default, where there are runs enough
RUNS_A_LANE = 8  # at least, on a CPU: with fewer, most lanes wait for the longest run
ALONE = 8  # the last runs of a CPU device, at most, that one lane takes sooner than many lanes do


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

    prepared = returned.prepared(call.rule, instance, call.problem, call.ridge)
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
