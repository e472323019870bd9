"""Many runs of one rule, each on its own clock, in one compiled loop.

A queue of runs feeds a fixed number of lanes. A chunk is `chunk` steps of all lanes on noise drawn at its start; at its end
the lanes whose runs are over hand in their results and are refilled from the queue. Nothing but (instance, rule, settings,
seed, run) decides what a run does: its noise is a function of (seed, run, t), and no lane sees another.

What a step does is `jaxelim.step`; when steps are taken, when `choose` runs for the lanes that ask for it, and where runs come
from and go to is decided here.
"""

import dataclasses
import threading
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxelim.cache import KEPT, Cache, Jitted
from jaxelim.lanes import where
from jaxelim.step import LANE_GROUP, Lane, Spec, Step

FEW_LANES = (16, 32)
"""Sizes that the last runs of a queue may be moved to."""
BURST = 4
"""Fast steps between two looks at who waits for `choose`; with a group or less one at a time, since then most of them wait."""


def cpu_options(form: str) -> dict[str, str]:
    """How XLA's CPU backend compiles a program whose design has this form."""
    options = {"xla_cpu_prefer_vector_width": "512"}
    if form != "diagonal":
        # LLVM's higher levels compile a quarter longer, for steps that take as long; but for the small ones (measured).
        # By the form alone: what is compiled must not depend on how many runs there are, lest rounding does.
        options["xla_backend_optimization_level"] = "1"
    return options


class Program:
    """The compiled function of one spec for inputs of one layout: `advance` runs some chunks; `empty` is what the first call
    starts from. What is compiled is given back with the program."""

    def __init__(self, spec: Spec):
        self.spec, self.loop = spec, Loop(spec)
        self.lock = threading.Lock()  # held while it compiles, so that threads do not compile it twice
        self.compiled = False
        self.cost = 0.0  # seconds that it took to compile
        self.waited = 0.0  # seconds in which few of its lanes lived, over all jobs, with no smaller program to go on with
        options = cpu_options(spec.form) if spec.tuned else None
        advance = self.loop.advance
        self._one = self._everyone = None
        if spec.devices > 1:
            mesh = Mesh(np.array(jax.devices()[: spec.devices]), ("device",))
            one, everyone = PartitionSpec("device"), PartitionSpec()
            advance = jax.shard_map(
                _per_device(advance), mesh=mesh, in_specs=(everyone, one, one, everyone), out_specs=one, check_vma=False
            )
            self._one, self._everyone = NamedSharding(mesh, one), NamedSharding(mesh, everyone)
        self.advance = Jitted(advance, compiler_options=options, donate_argnums=(2,))

    @property
    def traces(self) -> int:
        """How often `advance` was traced."""
        return self.loop.traces

    def empty(self, inputs: dict, queue: dict) -> dict:
        """The loop's state before the first chunk, on the host: no lane is taken, nothing has been handed in."""
        spec = self.spec
        lane, results = outline(spec, inputs)
        zeros = lambda tree: jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), tree)  # noqa: E731
        log = {}
        if spec.log:
            log = {
                "arm": np.full(spec.log, -1, np.int32),
                "reward": np.zeros(spec.log, spec.dtype),
                "remaining": np.full(spec.log, -1, np.int32),
                "theta_hat_0": np.zeros(lane.stats.theta_hat.shape[0], spec.dtype),
            }
        nobody = np.full(spec.lanes, spec.queue, np.int32)
        carry = {
            "lane": dataclasses.replace(zeros(lane), item=nobody, done=np.ones(spec.lanes, bool)),
            "out": {k: np.zeros((spec.queue + spec.lanes, *s.shape[1:]), s.dtype) for k, s in results.items()},
            "log": log,
            "next": np.int32(0),
            "finished": np.int32(0),
            "iterations": np.int64(0),
            "samples": np.int64(0),
            "chooses": np.int64(0),
            "live": np.int32(1),
            "failed": np.bool_(False),
        }
        if spec.devices == 1:
            return carry
        return jax.tree.map(lambda x: np.broadcast_to(x, (spec.devices, *np.shape(x))), carry)

    def taken_over(self, inputs: dict, queue: dict, carry: dict, larger: Spec) -> dict:
        """The state, on the host, of a program of the same spec with more lanes, whose queue is empty and whose live lanes are
        no more than there are here: this program goes on from it."""
        spec, size = self.spec, self.spec.lanes

        def one(carry, empty):
            lane = carry["lane"]
            order = np.argsort(np.asarray(lane.done), kind="stable")[:size]
            pick = lambda x, like: np.asarray(x)[..., order] if np.shape(x) != like.shape else np.asarray(x)  # noqa: E731
            rows = spec.queue + size
            return {
                **{name: np.asarray(x) for name, x in carry.items() if name not in ("lane", "out", "log")},
                "lane": jax.tree.map(pick, lane, empty["lane"]),
                "out": {name: np.asarray(x)[:rows] for name, x in carry["out"].items()},
                "log": carry["log"],
            }

        assert size < larger.lanes and dataclasses.replace(spec, lanes=larger.lanes) == larger
        empty = self.empty(inputs, queue)
        if spec.devices == 1:
            return one(carry, empty)
        carry = jax.device_get(carry)
        parts = [one(*jax.tree.map(lambda x, d=d: x[d], (carry, empty))) for d in range(spec.devices)]
        return jax.tree.map(lambda *x: np.stack(x), *parts)

    def place(self, inputs: dict, queue: dict, carry: dict) -> tuple[dict, dict, dict]:
        """The arguments of `advance` on their devices, placed as it gives its state back: it compiles once."""
        return (jax.device_put(inputs, self._everyone), jax.device_put(queue, self._one), jax.device_put(carry, self._one))

    def begun(self, inputs: dict, queue: dict, carry: dict) -> tuple[dict, dict, dict]:
        """The arguments of `advance` on their devices, the program compiled for them."""
        inputs, queue, carry = self.place(inputs, queue, carry)
        with self.lock:
            carry = jax.block_until_ready(self.advance(inputs, queue, carry, np.int32(0)))
            self.compiled = True
        return inputs, queue, carry


class Loop:
    """What a program is made of: pure functions, traced once for each layout of the inputs."""

    def __init__(self, spec: Spec):
        self.spec, self.step = spec, Step(spec)
        self.traces = 0  # how often `advance` was traced

    def advance(self, inputs: dict, queue: dict, carry: dict, chunks: Array) -> dict:
        """Some chunks, but no more than the runs need."""
        self.traces += 1

        def body(c):
            n, carry = c
            return n + 1, self._chunk(inputs, queue, carry)

        more = lambda c: (c[0] < chunks) & (c[1]["live"] > 0) & ~c[1]["failed"]  # noqa: E731
        return jax.lax.while_loop(more, body, (jnp.zeros((), jnp.int32), carry))[1]

    def _renewed(self, lane: Lane, fresh: Lane) -> Lane:
        """`fresh` in the lanes that are done."""
        if self.spec.owned:
            return where(lane.done, fresh, lane)
        bare = where(lane.done, dataclasses.replace(fresh, prepared=()), dataclasses.replace(lane, prepared=()))
        return dataclasses.replace(bare, prepared=fresh.prepared)

    def _chunk(self, inputs: dict, queue: dict, carry: dict) -> dict:
        spec = self.spec
        two_speed = spec.rule.fast is not None
        size, length, k = spec.lanes, spec.chunk, inputs["mu"].shape[1]

        # Lanes that are done take the next places in the queue. Noise is drawn in one go for the initial pulls of those and
        # for the chunk of all: what draws it is a quarter of a small program, and like this it is compiled once.
        vacant = carry["lane"].done
        item = jnp.where(vacant, carry["next"] + jnp.cumsum(vacant.astype(jnp.int32)) - 1, carry["lane"].item)
        item = jnp.where(item < queue["length"], item, spec.queue)
        at = jnp.minimum(item, spec.queue - 1)
        run, row = (jnp.where(vacant, queue[name][at], getattr(carry["lane"], name)) for name in ("run", "row"))
        drawn = self.step.noise(inputs, run, row, jnp.where(vacant, 0, carry["lane"].stats.t - k), k + length)
        noise = drawn[k:]

        def refill(c):
            lane, upcoming, log = c
            fresh = self.step.start(inputs, queue, item, run, row, drawn[:k])
            if spec.log:
                assert fresh.stats.theta_hat is not None
                log = {**log, "theta_hat_0": fresh.stats.theta_hat[:, 0]}
            taken = jnp.sum(lane.done, dtype=jnp.int32)
            return self._renewed(lane, fresh), jnp.minimum(upcoming + taken, queue["length"]), log

        wanted = jnp.any(vacant) & (carry["next"] < queue["length"])
        state = (carry["lane"], carry["next"], carry["log"])
        lane, upcoming, log = jax.lax.cond(wanted, refill, lambda c: c, state)
        start, opened = lane.stats.t, lane.closed_at == 0
        narrow = jnp.int16 if k <= jnp.iinfo(jnp.int16).max else jnp.int32
        pulled = jnp.full((length, size), -1, narrow) if spec.observers > 1 else None
        # The features of a lane are fixed while it lives: kept out of the inner loop's state.
        fixed = {"features": lane.features, "mu": lane.mu, "prepared": lane.prepared, "delta": lane.delta}
        bare = dataclasses.replace(lane, features=None, mu=None, prepared=(), delta=jnp.zeros((0, size), lane.delta.dtype))

        def one(n, c):
            bare, pulled, log = c
            full = dataclasses.replace(bare, **fixed)
            if two_speed:
                at = jnp.minimum(full.stats.t - start, length - 1)
                eps = self.step.lanes(inputs).take(noise, at)
            else:
                eps = jax.lax.dynamic_index_in_dim(noise, n, keepdims=False)
            now, arm, reward, check = self.step.pull(inputs, full, eps)
            if spec.precision == "float32":
                now = self.step.refreshed(inputs, now, arm)
            if pulled is not None:
                pulled = jax.lax.dynamic_update_index_in_dim(pulled, arm.astype(narrow), n, 0)
            if spec.log:
                log = self.step.logged(now, arm, reward, check, log)
            return dataclasses.replace(now, features=None, mu=None, prepared=(), delta=bare.delta), pulled, log

        c = (bare, pulled, log)
        chooses = carry["chooses"]
        if two_speed:
            patience = getattr(spec.rule, "patience", 0.0)

            steps = 1 if size <= LANE_GROUP else BURST

            def burst(i, c):
                c, chooses = c
                c = jax.lax.fori_loop(0, steps, lambda n, c: one(i * steps + n, c), c)

                def enough(c):
                    asking, live = (jnp.sum(x, dtype=jnp.float32) for x in (c[0].asks, ~c[0].done))
                    return (asking > 0) & (asking >= patience * live)

                def slow(c):
                    bare, chooses = c
                    now = self.step.choose(inputs, dataclasses.replace(bare, **fixed))
                    return dataclasses.replace(now, features=None, mu=None, prepared=(), delta=bare.delta), chooses + 1

                bare, chooses = jax.lax.while_loop(enough, slow, (c[0], chooses))
                return (bare, *c[1:]), chooses

            c, chooses = jax.lax.fori_loop(0, length // steps, burst, (c, chooses))
        else:
            c = jax.lax.fori_loop(0, length, one, c)
        bare, pulled, log = c
        lane = dataclasses.replace(bare, **fixed)
        if pulled is not None:
            lane = self.step.pulls_at_stop(lane, pulled, start, opened)

        over = lane.done & (lane.item < queue["length"])
        count = jnp.sum(over, dtype=jnp.int32)

        def hand_in(c):
            lane, out, finished = c
            order = jnp.argsort(~over, stable=True)
            block = jax.tree.map(lambda x: x[order], self.step.results(lane))
            out = jax.tree.map(lambda o, x: jax.lax.dynamic_update_slice_in_dim(o, x, finished, 0), out, block)
            return dataclasses.replace(lane, item=jnp.where(over, spec.queue, lane.item)), out, finished + count

        samples = carry["samples"] + jnp.sum((lane.stats.t - start).astype(jnp.int64))
        lane, out, finished = jax.lax.cond(count > 0, hand_in, lambda c: c, (lane, carry["out"], carry["finished"]))
        live = jnp.sum(~lane.done, dtype=jnp.int32) + (queue["length"] - upcoming)
        return {
            "lane": lane,
            "out": out,
            "log": log,
            "next": upcoming,
            "finished": finished,
            "iterations": carry["iterations"] + length,
            "samples": samples,
            "chooses": chooses,
            "live": live,
            "failed": self.step.failed(lane),
        }


def _per_device(advance: Callable) -> Callable:
    """`advance` for one device of many: its queue and its state come and go with a leading axis of length 1."""

    def run(inputs, queue, carry, chunks):
        queue, carry = jax.tree.map(lambda x: x[0], (queue, carry))
        return jax.tree.map(lambda x: x[None], advance(inputs, queue, carry, chunks))

    return run


program = Cache(lambda spec, inputs: Program(spec), KEPT)
"""The program of a spec for inputs of one layout, compiled once while it is kept."""

outline = Cache(lambda spec, inputs: Step(spec).outline(inputs), 8 * KEPT)
"""`Step.outline` of a spec for inputs of one layout."""


def compiled(spec: Spec, inputs: dict) -> bool:
    """Whether the program of a spec is kept, and compiled."""
    found = program.peek(spec, inputs)
    return found is not None and found.compiled
