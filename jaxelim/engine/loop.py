"""One compiled loop over chunks of steps, for many runs of one rule.

A queue of runs refills a fixed number of lanes. A chunk is `chunk` steps of all
lanes, on noise drawn at its start. At its end the outcomes of finished runs are
collected; at the start of the next their lanes are refilled. Noise is a function of
(seed, run, t), and no lane reads another. So a run depends on (instance, rule,
settings, seed, run) alone.

`jaxelim.engine.step` defines a step.
"""

import dataclasses
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxelim.cache import KEPT, Cache, Jitted
from jaxelim.contracts.views import Snapshot
from jaxelim.engine import one_lane, watching
from jaxelim.engine.one_lane import Traced, as_one_kernel, at_run_time
from jaxelim.engine.state import Carry, Inputs, Lane, Log, Queue, Spec
from jaxelim.engine.step import Step, outline
from jaxelim.lanes import where


class Program:
    """The compiled function `advance` of one spec for inputs of one layout, freed with this."""

    def __init__(self, spec: Spec, inputs: Inputs):
        self.spec, self.loop = spec, Loop(spec)
        self.lock = threading.Lock()  # held while compiling, so that threads do not compile twice
        self.compiled, self.compile_seconds = False, 0.0
        whole: Callable = self.loop.advance
        advance = whole
        self._own = self._everyone = None
        if spec.execution.devices > 1:
            mesh = Mesh(np.array(jax.devices()[: spec.execution.devices]), ("device",))
            own, everyone = PartitionSpec("device"), PartitionSpec()

            def of_device(inputs, queue, carry, chunks):  # a leading axis of 1
                queue, carry = jax.tree.map(lambda x: x[0], (queue, carry))
                return jax.tree.map(lambda x: x[None], whole(inputs, queue, carry, chunks))

            advance = jax.shard_map(
                of_device, mesh=mesh, in_specs=(everyone, own, own, everyone), out_specs=own,
                check_vma=False,
            )  # fmt: skip
            self._own, self._everyone = NamedSharding(mesh, own), NamedSharding(mesh, everyone)
        loops = outline(spec, inputs).inner_loops
        options = spec.execution.compiler_options(spec.family.optimization, loops)
        self.advance = Jitted(advance, compiler_options=options, donate_argnums=(2,))

    @property
    def traces(self) -> int:
        """Number of traces of `advance`."""
        return self.loop.traces

    def empty(self, inputs: Inputs, queue: Queue) -> Carry:
        """The carry before the first chunk, on the host, with all lanes empty."""
        spec, execution = self.spec, self.spec.execution
        outlined, places = outline(spec, inputs), execution.queue + execution.lanes
        log = None
        if spec.log:
            log = Log(
                arm=_full(-1, np.int32, spec.log),
                reward=_full(0, spec.dtype, spec.log),
                remaining=_full(-1, np.int32, spec.log),
                first_rewards=_full(0, spec.dtype, spec.initial_samples(inputs)),
                theta_hat_0=_full(0, spec.dtype, _first_estimate(outlined.lane).shape[0]),
            )
        lane = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), outlined.lane)
        run = dataclasses.replace(lane.run, item=np.full_like(lane.run.item, execution.queue))
        carry = Carry(
            lane=dataclasses.replace(lane, run=run, done=np.ones_like(lane.done)),
            out=jax.tree.map(lambda s: np.zeros((places, *s.shape[1:]), s.dtype), outlined.outcome),
            log=log,
            next=_full(0, np.int32), finished=_full(0, np.int32), iterations=_full(0, np.int64),
            samples=_full(0, np.int64), live=_full(1, np.int32), failed=_full(False, np.bool_),
        )  # fmt: skip
        if execution.devices == 1:
            return carry
        return jax.tree.map(lambda x: np.broadcast_to(x, (execution.devices, *np.shape(x))), carry)

    def alone(self, carry: Carry, many: Lane, n: int) -> Carry:
        """The carry of these lanes, or of one that is done, with the n-th live one of `many` alone.

        On the host. A device with fewer live lanes gets one that is done.
        """
        execution = self.spec.execution
        axis = int(execution.devices > 1)  # several have a leading axis
        at = np.argsort(many.done, -1, kind="stable")[..., n : n + 1]

        def own(x: np.ndarray) -> np.ndarray:
            return np.take_along_axis(x, np.expand_dims(at, tuple(range(axis, x.ndim - 1))), -1)

        out = jax.tree.map(lambda x: np.take(x, np.arange(execution.queue + 1), axis), carry.out)
        lane = jax.tree.map(own, many)
        return dataclasses.replace(carry, lane=lane, out=out, live=np.ones_like(carry.live))

    def place(self, inputs: Inputs, queue: Queue, carry: Carry) -> tuple[Inputs, Queue, Carry]:
        """Put the arguments of `advance` where its result is, so that it compiles once."""
        everyone, own = self._everyone, self._own
        return jax.device_put((inputs, queue, carry), (everyone, own, own))

    def begun(self, inputs: Inputs, queue: Queue, carry: Carry) -> tuple[Inputs, Queue, Carry]:
        """Put the arguments of `advance` on their devices and compile the program for them."""
        inputs, queue, carry = self.place(inputs, queue, carry)
        with self.lock:
            carry = jax.block_until_ready(self.advance(inputs, queue, carry, np.int32(0)))
            self.compiled = True
        return inputs, queue, carry


class Varying(NamedTuple):
    """What the steps of a chunk change."""

    lane: Lane  # without the arrays that are fixed over a run
    pulled: Array | None  # [T, B] the arms, where observers stop at different times
    log: Log | None


class Loop:
    """The pure functions of a program, traced once for each layout of the inputs."""

    def __init__(self, spec: Spec):
        self.spec, self.step = spec, Step(spec)
        self.traces = 0  # number of traces of `advance`

    def advance(self, inputs: Inputs, queue: Queue, carry: Carry, chunks: Array) -> Carry:
        """Run up to `chunks` chunks; stop when no run is live or a run has failed."""
        self.traces += 1

        def body(c):
            n, carry = c
            return n + 1, self._chunk(inputs, queue, carry)

        def more(c):
            return (c[0] < chunks) & (c[1].live > 0) & ~c[1].failed

        return jax.lax.while_loop(more, body, (jnp.zeros((), jnp.int32), carry))[1]

    def _chunk(self, inputs: Inputs, queue: Queue, carry: Carry) -> Carry:
        """Refill finished lanes, take `chunk` steps, collect the outcomes of finished runs."""
        carry, noise = self._refilled(inputs, queue, carry)
        start, opened = carry.lane.stats.t, carry.lane.record.samples == 0
        taken, steps = self._stepped(inputs, carry, noise)
        lane = steps.lane.with_fixed(carry.lane)
        lost = jnp.any(~jnp.isfinite(lane.stats.means), 0)
        lost = lost & (lane.run.item < self.spec.execution.queue)
        lane = watching.ended(lane, lost, watching.MEANS)
        # An empty lane's t stands still, so its state could run away, to a NaN at last.
        state = where(carry.lane.done, carry.lane.rule_state, lane.rule_state)
        lane = dataclasses.replace(lane, rule_state=state)
        if steps.pulled is not None:
            lane = _pulls_at_stop(lane, steps.pulled, start, opened)
        samples = carry.samples + jnp.sum((lane.stats.t - start).astype(jnp.int64))
        carry = dataclasses.replace(
            self._collected(queue, dataclasses.replace(carry, lane=lane)),
            log=steps.log,
            iterations=carry.iterations + jnp.asarray(taken, carry.iterations.dtype),
            samples=samples,
        )
        lane = carry.lane
        live = jnp.sum(~lane.done, dtype=jnp.int32) + (queue.length - carry.next)
        return dataclasses.replace(carry, live=live, failed=jnp.any(lane.fault != 0))

    def one_step(
        self, inputs: Inputs, first: Lane, noise: Array, n: Array, c: Varying, light: bool = False
    ) -> tuple[Varying, Array]:
        """Step n of the chunk that begins with `first`, noise [T, B]; a `light` one as of `pull`.

        With it comes where the step lacks rare work.
        """
        spec, lane = self.spec, c.lane.with_fixed(first)
        if spec.places is not None:
            at = jnp.minimum(lane.stats.t - first.stats.t, spec.execution.chunk - 1)
            noise = spec.execution.lane_ops(inputs.flag).take(noise, at)
        else:
            noise = jax.lax.dynamic_index_in_dim(noise, n, keepdims=False)
        now = self.step.pull(inputs, lane, noise, light)
        lane, pulled, log = now.lane, c.pulled, c.log
        if pulled is not None:
            row = now.arm.astype(pulled.dtype)
            pulled = jax.lax.dynamic_update_index_in_dim(pulled, row, n, 0)
        if log is not None:
            log = _logged(spec, lane, now.arm, now.reward, now.seen, log)
        return Varying(lane.varying, pulled, log), now.asks

    def _stepped(self, inputs: Inputs, carry: Carry, noise: Array) -> tuple[Array | int, Varying]:
        """Take all steps of the chunk: their number, and the state after them."""
        execution, flag, pulled = self.spec.execution, inputs.flag, None
        length, k = execution.chunk, inputs.features.shape[1]
        if self.spec.observers > 1:
            narrow = jnp.int16 if k <= jnp.iinfo(jnp.int16).max else jnp.int32
            pulled = jnp.full((length, execution.lanes), -1, narrow)
            pulled = at_run_time(pulled, flag) if execution.single else pulled
        if execution.single and not self.spec.per_lane_instances:
            # Made here, since XLA would read the features by columns in every step.
            lanes = execution.lane_ops(flag)
            transposed = lanes.materialize(jnp.transpose, inputs.features[0])
            inputs = dataclasses.replace(inputs, transposed=transposed)
        step = partial(self.one_step, inputs, carry.lane, noise)
        c = Varying(carry.lane.varying, pulled, carry.log)
        if execution.single:
            return self._alone(step, flag, c)
        return length, jax.lax.fori_loop(0, length, lambda n, c: step(n, c)[0], c)

    def _alone(self, one_step: Callable, flag: Array, c: Varying) -> tuple[Array, Varying]:
        """Take the steps of a single lane, fewer where its run ends.

        They are one kernel if that may hold them. Else light steps are one, which follow each
        other until the lane lacks rare work.
        """
        start = at_run_time(jnp.int32(0), flag), c
        step = Traced(lambda c: (c[0] + 1, one_step(*c)[0]), start)

        def more(c: tuple) -> Array:
            return (c[0] < self.spec.execution.chunk) & ~c[1].lane.done[0]

        if not self.spec.rule.rare or step.allowed:
            return as_one_kernel(lambda c: jax.lax.while_loop(more, step, c), flag, start)

        def light(c: tuple) -> tuple:
            after, asks = one_step(*c[0], light=True)
            return (c[0][0] + (~asks[0]).astype(jnp.int32), after), asks[0]

        def burst(c: tuple) -> tuple:
            return jax.lax.while_loop(lambda c: more(c[0]) & ~c[1], light, c)

        def both(c: tuple) -> tuple:
            after, asks = as_one_kernel(burst, flag, (c, at_run_time(False, flag)))
            return jax.lax.cond(asks, step, lambda c: c, after)

        return jax.lax.while_loop(more, both, start)

    def _refilled(self, inputs: Inputs, queue: Queue, carry: Carry) -> tuple[Carry, Array]:
        """Refill finished lanes from the queue, and draw the noise of the chunk.

        One call draws the noise of the initial pulls and of the chunk. The code that
        draws it is a large part of a small program, and so is compiled once.
        """
        spec, old, k = self.spec, carry.lane, self.spec.initial_samples(inputs)
        vacant, before = old.done, old.run
        item = jnp.where(vacant, carry.next + jnp.cumsum(vacant.astype(jnp.int32)) - 1, before.item)
        item = jnp.where(item < queue.length, item, spec.execution.queue)
        at = jnp.minimum(item, spec.execution.queue - 1)
        run = jnp.where(vacant, queue.run[at], before.index)
        row = jnp.where(vacant, queue.row[at], before.row)
        first = jnp.where(vacant, 0, old.stats.t - k)
        drawn = self.step.noise(inputs, run, row, first, k + spec.execution.chunk)

        def refill(carry):
            fresh = self.step.start(inputs, queue, item, run, row, drawn[:k])
            log = carry.log
            if log is not None:
                rewards = self.step.first_rewards(inputs, fresh.run.nature, drawn[:k])
                estimate = _first_estimate(fresh)[:, 0]
                log = dataclasses.replace(log, first_rewards=rewards[:, 0], theta_hat_0=estimate)
            taken = jnp.sum(carry.lane.done, dtype=jnp.int32)
            upcoming = jnp.minimum(carry.next + taken, queue.length)
            lane = where(carry.lane.done, fresh, carry.lane)
            return dataclasses.replace(carry, lane=lane, next=upcoming, log=log)

        wanted = jnp.any(vacant) & (carry.next < queue.length)
        # The outcomes stay outside the branch, which would copy them.
        out, bare = carry.out, dataclasses.replace(carry, out=())
        carry = jax.lax.cond(wanted, refill, lambda c: c, bare)
        return dataclasses.replace(carry, out=out), drawn[k:]

    def _collected(self, queue: Queue, carry: Carry) -> Carry:
        """Append the outcomes of finished runs and empty their lanes."""
        over = carry.lane.done & (carry.lane.run.item < queue.length)
        count = jnp.sum(over, dtype=jnp.int32)

        def collect(c):
            lane, out, finished = c
            block = self.step.outcome(lane)
            if not self.spec.execution.single:
                order = jnp.argsort(~over, stable=True)
                block = jax.tree.map(lambda x: x[order], block)
            put = jax.lax.dynamic_update_slice_in_dim
            out = jax.tree.map(lambda o, x: put(o, x, finished, 0), out, block)
            item = jnp.where(over, self.spec.execution.queue, lane.run.item)
            run = dataclasses.replace(lane.run, item=item)
            return dataclasses.replace(lane, run=run), out, finished + count

        before = carry.lane, carry.out, carry.finished
        lane, out, finished = jax.lax.cond(count > 0, collect, lambda c: c, before)
        return dataclasses.replace(carry, lane=lane, out=out, finished=finished)


def _full(value: Any, dtype: Any, *shape: int) -> Any:
    return np.full(shape, value, dtype)


def _first_estimate(lane: Lane) -> Array:
    """theta_hat of lanes at their first check, or the means where it is not kept: [d, B]."""
    theta_hat = lane.stats.theta_hat
    return lane.stats.means if theta_hat is None else theta_hat


def _pulls_at_stop(lane: Lane, pulled: Array, start: Array, opened: Array) -> Lane:
    """Write the counts at each observer's stop in this chunk, into the lane at its end.

    They are the counts at the end of the chunk, less the pulls since the stop. `pulled` [T, B]
    has the arm of each step, or -1. At the start of the chunk t was `start` [B], and the
    observers `opened` [S, D, B] were open.
    """
    k, record = lane.stats.counts.shape[0], lane.record
    drawn = (pulled >= 0).astype(jnp.int32)
    before = start + jnp.cumsum(drawn, 0) - drawn
    counts = lane.stats.counts.astype(jnp.int32)
    closed = opened & (record.samples > 0)

    def at_stop(x):
        pulls, closed, at = x

        def since():
            later = (pulled >= 0) & (before >= at)
            arms = jnp.arange(k, dtype=pulled.dtype)[None, :, None]
            hit = (pulled[:, None] == arms) & later[:, None]
            return counts - jnp.sum(hit, 0, dtype=jnp.int32)

        late = jnp.any(closed & (at < lane.stats.t))
        now = jax.lax.cond(late, since, lambda: counts)
        return jnp.where(closed, now, pulls)

    of_observers = jax.tree.map(
        lambda x: x.reshape((-1, *x.shape[2:])), (record.pulls, closed, record.samples)
    )
    pulls = jax.lax.map(at_stop, of_observers).reshape(*record.samples.shape[:2], k, -1)
    return dataclasses.replace(lane, record=dataclasses.replace(record, pulls=pulls))


def _logged(spec: Spec, lane: Lane, arm: Array, reward: Array, seen: Snapshot, log: Log) -> Log:
    """Write this step of lane 0 to the log."""
    t, end = seen.stats.t[0], spec.log - 1
    if spec.stopping[0].eliminates:
        pieces = jax.tree.map(lambda x: x[0], lane.observers[0])
    else:
        pieces = seen.problem.pieces(seen)
    left = pieces.remaining(seen.lanes)
    at = jnp.where(lane.stats.t[0] > t, t, end)
    put = jax.lax.dynamic_update_index_in_dim
    return dataclasses.replace(
        log,
        arm=put(log.arm, arm[0], at, 0),
        reward=put(log.reward, reward[0], at, 0),
        remaining=put(log.remaining, left[0], t, 0),
    )


program = Cache(Program, KEPT)
"""The program of a spec for inputs of one layout, compiled once while the cache keeps it."""


def compiled(spec: Spec, inputs: Inputs) -> bool:
    """Whether the program of a spec is in the cache and compiled."""
    held = program.peek(spec, inputs)
    return held is not None and held.compiled


def may_be_alone(spec: Spec, inputs: Inputs) -> bool:
    """Whether a single lane may take runs: its steps are one kernel, or it would be slow."""
    many = spec.by_vmap or spec.execution.gpu or spec.log
    return one_lane.WORKS and not many and outline(spec.executed(lanes=1), inputs).in_one_kernel
