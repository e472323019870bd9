"""One compiled loop over chunks of steps, for many runs of one rule.

A queue of runs refills a fixed number of lanes. A chunk is `chunk` steps of all
lanes, on noise drawn at its start. At its end the outcomes of finished runs are
collected; at the start of the next their lanes are refilled. Noise is a function of
(seed, run, t), and no lane reads another. So a run depends on (instance, rule,
settings, seed, run) alone.

`jaxelim.engine.step` defines a step.
"""

import dataclasses
import os
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxelim.cache import KEPT, Cache, Jitted
from jaxelim.engine import one_kernel, one_lane, records
from jaxelim.engine.costs import Costs
from jaxelim.engine.state import LANE_GROUP, Carry, Inputs, Lane, Log, Parked, Queue, Spec
from jaxelim.engine.step import Step
from jaxelim.engine.stepping import Stepping, Steps
from jaxelim.lanes import where

PARKED = 64
"""Places for parked runs, or a multiple: so that few layouts are compiled."""
BURST = 4
"""Fast steps between polls for waiting lanes.

With one group of lanes there is one step between polls, as most lanes wait then.
"""


def cpu_options(optimization: str | None) -> dict[str, str]:
    """Options of XLA:CPU for a program, at LLVM's level `optimization`; None: XLA's choice."""
    options = {"xla_cpu_prefer_vector_width": "512"}
    if optimization is not None:
        options["xla_backend_optimization_level"] = optimization
    return options


GRAPHS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CONDITIONAL,WHILE",
    "xla_gpu_graph_min_graph_size": 1,
}
"""Options of XLA:GPU that make one CUDA graph of a whole call of `advance`.

By default its loops are run by the host, which waits at each test.
"""


def compiler_options(spec: Spec) -> dict[str, Any] | None:
    """The options of XLA for a program; those that XLA_FLAGS names for a GPU are left to it."""
    if spec.tuned:
        return cpu_options(spec.family.optimization)
    if jax.default_backend() != "gpu":
        return None
    named = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in GRAPHS.items() if name not in named}


class Program:
    """The compiled function of one spec for inputs of one layout.

    `advance` runs some chunks, from `empty` on. The compiled code is freed with
    the program.
    """

    def __init__(self, spec: Spec):
        self.spec, self.loop = spec, Loop(spec)
        self.lock = threading.Lock()  # held while compiling, so that threads do not compile twice
        self.compiled, self.costs = False, Costs()
        advance: Callable = self.loop.advance
        self._one = self._everyone = None
        if spec.devices > 1:
            mesh = Mesh(np.array(jax.devices()[: spec.devices]), ("device",))
            one, everyone = PartitionSpec("device"), PartitionSpec()
            inputs = everyone, one, one, everyone
            advance = jax.shard_map(
                _per_device(advance), mesh=mesh, in_specs=inputs, out_specs=one, check_vma=False
            )
            self._one, self._everyone = NamedSharding(mesh, one), NamedSharding(mesh, everyone)
        self.advance = Jitted(advance, compiler_options=compiler_options(spec), donate_argnums=(2,))

    @property
    def traces(self) -> int:
        """Number of traces of `advance`."""
        return self.loop.traces

    def empty(self, inputs: Inputs, queue: Queue) -> Carry:
        """The carry before the first chunk, on the host, with all lanes empty."""
        spec = self.spec
        lane, outcome = outline(spec, inputs)
        zeros = lambda s: np.zeros(s.shape, s.dtype)  # noqa: E731
        rows = lambda s: np.zeros((spec.queue + spec.lanes, *s.shape[1:]), s.dtype)  # noqa: E731
        log = None
        if spec.log:
            empty: dict[str, Any] = dict(
                arm=np.full(spec.log, -1, np.int32),
                reward=np.zeros(spec.log, spec.dtype),
                remaining=np.full(spec.log, -1, np.int32),
                first_rewards=np.zeros(spec.initial_samples(inputs), spec.dtype),
                theta_hat_0=np.zeros(_first_estimate(lane).shape[0], spec.dtype),
            )
            log = Log(**empty)
        idle: dict[str, Any] = dict(
            item=np.full(spec.lanes, spec.queue, np.int32), done=np.ones(spec.lanes, bool)
        )
        numbers: dict[str, Any] = dict(
            next=np.int32(0), finished=np.int32(0), iterations=np.int64(0), samples=np.int64(0),
            chooses=np.int64(0), live=np.int32(1), failed=np.bool_(False),
        )  # fmt: skip
        carry = Carry(
            lane=dataclasses.replace(jax.tree.map(zeros, lane), **idle),
            out=jax.tree.map(rows, outcome),
            log=log,
            **numbers,
        )
        if spec.devices == 1:
            return carry
        return jax.tree.map(lambda x: np.broadcast_to(x, (spec.devices, *np.shape(x))), carry)

    def taken_over(
        self, inputs: Inputs, queue: Queue, carry: Carry, larger: Spec
    ) -> tuple[Queue, Carry]:
        """Continue from a larger program's carry.

        A program of one lane takes the live lanes one after the other. Into any other
        they fit all at once.

        Args:
            carry: of a program whose spec, `larger`, differs only in its number of lanes and
                in the length of a chunk.

        Returns:
            The queue, with the live lanes parked for one lane, and the carry of this
            program; on the host.
        """
        spec, size = self.spec, self.spec.lanes
        layout: dict[str, Any] = dict(lanes=larger.lanes, chunk=larger.chunk)
        assert size < larger.lanes and dataclasses.replace(spec, **layout) == larger
        places = -(-larger.lanes // PARKED) * PARKED if size == 1 else size
        empty = self.empty(inputs, queue)

        def one(queue, carry, empty):
            done = np.asarray(carry.lane.done)
            order = np.resize(np.argsort(done, kind="stable"), places)

            def pick(x, like):
                return np.asarray(x)[..., order] if np.shape(x) != like.shape else np.asarray(x)

            lane, after = jax.tree.map(pick, carry.lane, empty.lane), np.asarray(carry.next)
            if size == 1:
                count: Any = np.sum(~done, dtype=np.int32)
                queue = dataclasses.replace(queue, parked=Parked(lane=lane, count=count))
                lane, after = empty.lane, np.int32(0)
            rows = spec.queue + size
            return queue, dataclasses.replace(
                jax.tree.map(np.asarray, dataclasses.replace(carry, log=None)),
                lane=lane,
                out=jax.tree.map(lambda x: np.asarray(x)[:rows], carry.out),
                log=carry.log,
                next=after,
            )

        if spec.devices == 1:
            return one(queue, carry, empty)
        carry = jax.device_get(carry)
        each = range(spec.devices)
        parts = [one(*jax.tree.map(lambda x, d=d: x[d], (queue, carry, empty))) for d in each]
        return jax.tree.map(lambda *x: np.stack(x), *parts)

    def taken_back(self, carry: Carry, before: Carry) -> Carry:
        """Go on with the queue, all lanes empty; on the host.

        Args:
            carry: of the program of one lane, which has ended all parked runs.
            before: this program's carry, from which it took over.
        """
        axis, more = int(self.spec.devices > 1), self.spec.lanes - 1

        def with_rows(x: Array) -> np.ndarray:
            rows = np.zeros((*x.shape[:axis], more, *x.shape[axis + 1 :]), x.dtype)
            return np.concatenate([np.asarray(x), rows], axis)

        kept = dataclasses.replace(carry, lane=before.lane, out=(), next=before.next)
        kept = jax.tree.map(np.array, kept)
        lane = dataclasses.replace(
            kept.lane,
            item=np.full_like(kept.lane.item, self.spec.queue),
            done=np.ones_like(kept.lane.done),
        )
        out, live = jax.tree.map(with_rows, carry.out), np.ones_like(kept.live)
        return dataclasses.replace(kept, lane=lane, out=out, live=live)

    def place(self, inputs: Inputs, queue: Queue, carry: Carry) -> tuple[Inputs, Queue, Carry]:
        """Put the arguments of `advance` on their devices.

        Their placement is that of its result, so that it compiles once.
        """
        one, everyone = self._one, self._everyone
        put = jax.device_put
        return put(inputs, everyone), put(queue, one), put(carry, one)

    def begun(self, inputs: Inputs, queue: Queue, carry: Carry) -> tuple[Inputs, Queue, Carry]:
        """Put the arguments of `advance` on their devices and compile the program for them."""
        if self.spec.devices > 1:
            inputs, queue, carry = self.place(inputs, queue, carry)
        else:
            inputs, queue = jax.device_put((inputs, queue))
        with self.lock:
            carry = jax.block_until_ready(self.advance(inputs, queue, carry, np.int32(0)))
            self.compiled = True
        return inputs, queue, carry


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

        more = lambda c: (c[0] < chunks) & (c[1].live > 0) & ~c[1].failed  # noqa: E731
        return jax.lax.while_loop(more, body, (jnp.zeros((), jnp.int32), carry))[1]

    def _chunk(self, inputs: Inputs, queue: Queue, carry: Carry) -> Carry:
        """Refill finished lanes, take `chunk` steps, collect the outcomes of finished runs."""
        alone = self.spec.lanes == 1
        refilled = self._unparked if alone else self._refilled
        carry, noise = refilled(inputs, queue, carry)
        start, opened = carry.lane.stats.t, carry.lane.closed_at == 0
        stepping = Stepping(self.spec, inputs, carry.lane, noise)
        stepped = one_lane.stepped if alone else self._stepped
        taken, steps = stepped(stepping, stepping.begun(carry))
        lane = self.step.watching.stepped(stepping.whole(steps.lane))
        if steps.pulled is not None:
            lane = records.pulls_at_stop(lane, steps.pulled, start, opened)
        samples = carry.samples + jnp.sum((lane.stats.t - start).astype(jnp.int64))
        carry = dataclasses.replace(
            self._collected(queue, dataclasses.replace(carry, lane=lane)),
            log=steps.log,
            iterations=carry.iterations + jnp.asarray(taken, carry.iterations.dtype),
            samples=samples,
            chooses=steps.chooses,
        )
        lane = carry.lane
        waiting = queue.length if queue.parked is None else queue.parked.count
        live = jnp.sum(~lane.done, dtype=jnp.int32) + (waiting - carry.next)
        return dataclasses.replace(carry, live=live, failed=self.step.failed(lane))

    def _refilled(self, inputs: Inputs, queue: Queue, carry: Carry) -> tuple[Carry, Array]:
        """Refill finished lanes from the queue, and draw the noise of the chunk.

        One call draws the noise of the initial pulls and of the chunk. The code that
        draws it is a large part of a small program, and so is compiled once.
        """
        spec, old, k = self.spec, carry.lane, self.spec.initial_samples(inputs)
        vacant = old.done
        item = jnp.where(vacant, carry.next + jnp.cumsum(vacant.astype(jnp.int32)) - 1, old.item)
        item = jnp.where(item < queue.length, item, spec.queue)
        at = jnp.minimum(item, spec.queue - 1)
        run = jnp.where(vacant, queue.run[at], old.run)
        row = jnp.where(vacant, queue.row[at], old.row)
        first = jnp.where(vacant, 0, old.stats.t - k)
        drawn = self.step.noise(inputs, run, row, first, k + spec.chunk)

        def refill(carry):
            fresh = self.step.start(inputs, queue, item, run, row, drawn[:k])
            log = carry.log
            if log is not None:
                rewards = self.step.first_rewards(inputs, fresh.nature, drawn[:k])
                estimate = _first_estimate(fresh)[:, 0]
                log = dataclasses.replace(log, first_rewards=rewards[:, 0], theta_hat_0=estimate)
            taken = jnp.sum(carry.lane.done, dtype=jnp.int32)
            upcoming = jnp.minimum(carry.next + taken, queue.length)
            lane = self._renewed(carry.lane, fresh)
            return dataclasses.replace(carry, lane=lane, next=upcoming, log=log)

        wanted = jnp.any(vacant) & (carry.next < queue.length)
        # The outcomes stay outside the branch, which would copy them.
        out, bare = carry.out, dataclasses.replace(carry, out=())
        carry = jax.lax.cond(wanted, refill, lambda c: c, bare)
        return dataclasses.replace(carry, out=out), drawn[k:]

    def _renewed(self, lane: Lane, fresh: Lane) -> Lane:
        """`lane`, with `fresh` in the finished lanes."""
        if self.spec.per_lane_instances:
            return where(lane.done, fresh, lane)
        shared = fresh.prepared
        without = lambda lane: dataclasses.replace(lane, prepared=())  # noqa: E731
        return dataclasses.replace(where(lane.done, without(fresh), without(lane)), prepared=shared)

    def _unparked(self, inputs: Inputs, queue: Queue, carry: Carry) -> tuple[Carry, Array]:
        """Take the next parked run into a lane that is done, and draw the noise of the chunk."""
        assert queue.parked is not None
        parked, count = queue.parked.lane, queue.parked.count
        wanted = carry.lane.done[0] & (carry.next < count)
        at = jnp.clip(carry.next, 0, count - 1)

        def next_of(x, old):
            if x.shape == old.shape:  # without an axis of lanes
                return x
            return jax.lax.dynamic_slice_in_dim(x, at, 1, x.ndim - 1)

        lane = jax.lax.cond(
            wanted,
            lambda old: jax.tree.map(next_of, parked, old),
            lambda old: old,
            carry.lane,
        )
        carry = dataclasses.replace(carry, lane=lane, next=carry.next + wanted.astype(jnp.int32))
        drawn = self.step.noise(inputs, lane.run, lane.row, lane.stats.t, self.spec.chunk)
        return carry, drawn

    def _stepped(self, stepping: Stepping, c: Steps) -> tuple[int, Steps]:
        """Take `chunk` steps of all lanes."""
        chunk = self.spec.chunk
        if self.spec.rule.fast is not None:
            c = self._two_speeds(stepping.one, stepping.asked, c)
        elif self.spec.one_kernel:
            c = one_kernel.loop(chunk, stepping.one, c, stepping.inputs.flag)
        else:
            c = jax.lax.fori_loop(0, chunk, stepping.one, c)
        return chunk, c

    def _two_speeds(self, one: Callable, asked: Callable, c: Steps) -> Steps:
        """Take bursts of `fast` steps, with calls of `choose` for waiting lanes in between."""
        spec = self.spec
        patience = spec.rule.traits.patience
        steps = 1 if spec.lanes <= LANE_GROUP else BURST

        def enough(c: Steps):
            count = lambda x: jnp.sum(x, dtype=jnp.float32)  # noqa: E731
            asking, live = count(c.lane.asks), count(~c.lane.done)
            return (asking > 0) & (asking >= patience * live)

        def burst(i, c: Steps) -> Steps:
            c = jax.lax.fori_loop(0, steps, lambda n, c: one(i * steps + n, c), c)
            # Only what `choose` changes is in the loop's state.
            held = c.pulled, c.log
            # In a branch, since XLA would compute what does not change in the loop before its test.
            loop = lambda c: jax.lax.while_loop(enough, asked, c)  # noqa: E731
            c = c._replace(pulled=None, log=None)
            c = jax.lax.cond(enough(c), loop, lambda c: c, c)
            return c._replace(pulled=held[0], log=held[1])

        return jax.lax.fori_loop(0, spec.chunk // steps, burst, c)

    def _collected(self, queue: Queue, carry: Carry) -> Carry:
        """Append the outcomes of finished runs and empty their lanes."""
        over = carry.lane.done & (carry.lane.item < queue.length)
        count = jnp.sum(over, dtype=jnp.int32)

        def collect(c):
            lane, out, finished = c
            block = records.outcome(self.spec, lane)
            if self.spec.lanes > 1:
                order = jnp.argsort(~over, stable=True)
                block = jax.tree.map(lambda x: x[order], block)
            put = jax.lax.dynamic_update_slice_in_dim
            out = jax.tree.map(lambda o, x: put(o, x, finished, 0), out, block)
            item = jnp.where(over, self.spec.queue, lane.item)
            return dataclasses.replace(lane, item=item), out, finished + count

        given = carry.lane, carry.out, carry.finished
        lane, out, finished = jax.lax.cond(count > 0, collect, lambda c: c, given)
        return dataclasses.replace(carry, lane=lane, out=out, finished=finished)


def _first_estimate(lane: Lane) -> Array:
    """theta_hat of lanes at their first check, or the means where it is not kept: [d, B]."""
    theta_hat = lane.stats.estimated_theta
    return lane.stats.means if theta_hat is None else theta_hat


def _per_device(advance: Callable) -> Callable:
    """`advance` for one of several devices; its queue and carry have a leading axis of 1."""

    def run(inputs, queue, carry, chunks):
        queue, carry = jax.tree.map(lambda x: x[0], (queue, carry))
        return jax.tree.map(lambda x: x[None], advance(inputs, queue, carry, chunks))

    return run


program = Cache(lambda spec, inputs: Program(spec), KEPT)
"""The program of a spec for inputs of one layout, compiled once while the cache keeps it."""

outline = Cache(lambda spec, inputs: Step(spec).outline(inputs), 8 * KEPT)
"""`Step.outline` of a spec for inputs of one layout."""


def compiled(spec: Spec, inputs: Inputs) -> bool:
    """Whether the program of a spec is in the cache and compiled."""
    found = program.peek(spec, inputs)
    return found is not None and found.compiled
