"""Many runs of one rule, each on its own clock, in one compiled loop.

A queue of runs feeds a fixed number of lanes. A chunk is `chunk` steps of all lanes on noise drawn at its start; at its end
the lanes whose runs are over hand in their results and are refilled from the queue. Nothing but (instance, rule, settings,
seed, run) decides what a run does: its noise is a function of (seed, run, t), and no lane sees another.

One step of a lane: the check at t (answer, pieces, LLRs: once, for everyone); elimination and stopping rules read it; the
rule chooses; the reward; the statistics. A rule with a cheap form, `fast`, is asked that one, and lanes for which it says ASK
stand still until enough of them wait; then `choose` runs once for all of those together.

Freezing, clocks and refilling live here and nowhere else. The engine knows no rule and no problem by name.
"""

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxelim.base import ASK, OK, Check, Problem, SamplingRule, Statistics, Tree, View, check_of
from jaxelim.design import Space
from jaxelim.elimination import Native, StoppingRule
from jaxelim.families import gaussian
from jaxelim.lanes import Lanes, where

LANE_GROUP = 8
"""Lanes come in groups of this many, so that every count of lanes does the same arithmetic on each."""
FEW_LANES = (8, 32)
"""Sizes that the last runs of a queue may be moved to."""
BURST = 4
"""Fast steps between two looks at who waits for `choose`."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """All that is compiled in. Equal specs share one compiled program."""

    problem: Problem
    rule: SamplingRule
    stopping: tuple[StoppingRule, ...]
    elimination: Any  # None, or the rule whose set sampling looks at
    threshold: Callable
    ridge: float
    form: str
    careful: bool
    owned: bool  # every lane has its own instance
    deltas: int  # observed side by side on one trajectory
    lanes: int
    chunk: int
    queue: int  # room for so many runs, per device
    given_noise: bool
    precision: str
    tuned: bool
    vmapped: bool
    pair_times: bool
    log: int  # length of the log of lane 0; 0 for none
    devices: int

    @property
    def dtype(self) -> Any:
        return jnp.dtype(self.precision)

    @property
    def observers(self) -> int:
        return len(self.stopping) * self.deltas


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lane:
    """One run in progress; every array has the lanes B as its last axis. S stopping rules, D deltas, W width of an answer."""

    item: Array  # [B] place in the queue; beyond its end for an empty lane
    run: Array  # [B] run index, what the noise depends on
    row: Array  # [B] row of given noise
    instance: Array  # [B]
    delta: Array  # [D, B]
    features: Array | None  # [K, d, B] where lanes own them
    mu: Array | None  # [K, B] likewise
    prepared: Tree
    stats: Statistics
    own: Tree  # the rule's state
    observers: tuple  # the stopping rules' states, each [D, .., B]
    sampling: Tree  # the state of an elimination that sampling keeps for itself
    closed_at: Array  # [S, D, B] int32: samples when the observer's run was over, 0 while it is open
    stopped: Array  # [S, D, B] bool: over by its stopping rule, not by the cap
    answers: Array  # [S, D, W, B] bool
    pulls: Array | None  # [S, D, K, B] where observers stop at different times
    tests: Array  # [S, D, B] int64: pieces tested for stopping
    reads: Array  # [B] int64: pieces read for sampling so far
    reads_at: Array  # [S, D, B] int64: the same when the observer's run was over
    done: Array  # [B] bool
    asks: Array  # [B] bool: waits for `choose`
    chosen: Array  # [B] int32: the arm that `choose` has chosen, -1 for none


def _over_deltas(spec: Spec, f: Callable, state: Tree, beta: Array) -> Tree:
    """f(state, beta) for every delta, along the leading axis of both; for one delta without any batching."""
    if spec.deltas == 1:
        out = f(jax.tree.map(lambda x: x[0], state), beta[0])
        return jax.tree.map(lambda x: x[None], out)
    return jax.vmap(f)(state, beta)


class Program:
    """The compiled function of one spec: `advance` runs some chunks; `empty` is what the first call starts from."""

    alive: "weakref.WeakSet[Program]" = weakref.WeakSet()  # for tests that count traces

    def __init__(self, spec: Spec):
        Program.alive.add(self)
        self.spec = spec
        self.traces = 0  # how often `advance` was traced; the tests count them
        self._shapes: dict = {}
        options = {"xla_cpu_prefer_vector_width": "512"} if spec.tuned else None
        advance = self._advance
        self._one = self._everyone = None
        if spec.devices > 1:
            mesh = Mesh(np.array(jax.devices()[: spec.devices]), ("device",))
            one, everyone = PartitionSpec("device"), PartitionSpec()
            advance = jax.shard_map(
                _per_device(advance), mesh=mesh, in_specs=(everyone, one, one, everyone), out_specs=one, check_vma=False
            )
            self._one, self._everyone = NamedSharding(mesh, one), NamedSharding(mesh, everyone)
        self.advance = jax.jit(advance, compiler_options=options, donate_argnums=(2,))

    # ---- pieces of a step ----

    def _lanes(self, inputs: dict) -> Lanes:
        return Lanes(inputs["flag"] if self.spec.tuned else None)

    def _space(self, inputs: dict, features: Array | None, plain: bool = False) -> Space:
        lanes = Lanes(None) if plain else self._lanes(inputs)
        return Space(lanes, inputs["features"][0] if features is None else features, inputs["problem"], self.spec.careful)

    def _noise(self, inputs: dict, lane_run: Array, row: Array, start: Array, length: int) -> Array:
        if self.spec.given_noise:
            return gaussian.given_noise(inputs["noise"], row, start, length, self.spec.dtype)
        return gaussian.seeded_noise(inputs["key"], lane_run, start, length, self.spec.dtype)

    def _view(self, inputs: dict, check: Check, lane: Lane, observers: tuple, sampling: Tree) -> View:
        spec, stats, elimination = self.spec, check.stats, self.spec.elimination
        kept = sampling
        if elimination is not None and elimination.shared:
            kept = jax.tree.map(lambda x: x[0], observers[0])
        t = stats.t + 1
        delta = lane.delta[0]
        return View(
            check.space,
            check.problem,
            t,
            stats.counts,
            stats.means,
            stats.design,
            check.answer,
            check.gap,
            check.metric.norm,
            *self._active(check, kept),
            check.metric,
            delta,
            self._beta(t, delta),
            lane.prepared,
            stats.theta_hat,
            stats.reward_sums,
            kept,
            gaussian.seeded_chance(inputs["key"], lane.run, t, spec.dtype) if spec.rule.uses_chance else None,
            spec.ridge,
            elimination,
        )

    def _beta(self, t: Array, delta: Array) -> Array:
        return jnp.asarray(self.spec.threshold(t.astype(self.spec.dtype), delta), self.spec.dtype)

    def _ask(self, method: Callable, view: View, state: Tree, *more: Tree) -> Tree:
        """The rule's method on all lanes: as it is where the rule is written for them, else one lane at a time under vmap."""
        if self.spec.rule.lanes_last and not self.spec.vmapped:
            if not self.spec.owned:  # what all lanes share gets an axis to be broadcast along
                prepared = jax.tree.map(lambda x: x[..., None], view.prepared)
                view = dataclasses.replace(view, prepared=prepared)
            return method(view, state, *more)
        axes = jax.tree.map(lambda _: -1, (view, state, *more))
        features = None if view.space.features.ndim == 2 else -1
        one = dataclasses.replace(view.space, lanes=Lanes(None))
        shared = lambda tree: jax.tree.map(lambda _: None, tree)  # noqa: E731
        of_space = dataclasses.replace(one, features=features, constants=shared(one.constants))
        view = dataclasses.replace(view, space=one, metric=dataclasses.replace(view.metric, space=one))
        axes_of_view = dataclasses.replace(
            axes[0],
            space=of_space,
            metric=dataclasses.replace(axes[0].metric, space=of_space),
            prepared=axes[0].prepared if self.spec.owned else shared(view.prepared),
        )
        return jax.vmap(method, in_axes=(axes_of_view, *axes[1:]), out_axes=-1)(view, state, *more)

    def _active(self, check: Check, kept: Tree) -> tuple[Array, Array]:
        """The pieces that sampling looks at, [Q, B], and how many they are, [B]."""
        elimination, lanes = self.spec.elimination, check.space.lanes
        if elimination is None:
            return check.exists, check.problem.total(check.exists)
        if elimination.shared:
            return check.problem.active(lanes, kept, check.answer), check.problem.reading(lanes, kept, check.answer)
        active = elimination.active(check, kept)
        return active, lanes.sum(active)

    def _check(self, inputs: dict, lane: Lane) -> Check:
        spec = self.spec
        full = any(rule.full for rule in spec.stopping) or getattr(spec.elimination, "full", False)
        # A lane that is done runs on unread; what falls there is dated after its end, and so left out of its results.
        stats = dataclasses.replace(lane.stats, t=lane.stats.t + lane.done.astype(jnp.int32))
        return check_of(spec.problem, self._space(inputs, lane.features), stats, full)

    def _step(self, inputs: dict, lane: Lane, noise: Array) -> tuple[Lane, Array, Array, Check]:
        """One step of every lane: the next lanes, the arm pulled (-1: none), the reward, and the check that was read."""
        spec, rule = self.spec, self.spec.rule
        lanes = self._lanes(inputs)
        check = self._check(inputs, lane)
        stats, live = lane.stats, ~lane.done
        beta = jax.vmap(lambda delta: self._beta(stats.t, delta))(lane.delta)

        observers, stops, tested = [], [], []
        for stopping, state in zip(spec.stopping, lane.observers, strict=True):

            def look(state, beta, stopping=stopping):
                return stopping.observe(check, state, beta)

            state, stop, tests = _over_deltas(spec, look, state, beta)
            observers.append(state)
            stops.append(stop)
            tested.append(jnp.broadcast_to(tests, stop.shape))
        observers = tuple(observers)
        opened = (lane.closed_at == 0) & live
        stopping_now = opened & jnp.stack(stops)

        sampling = lane.sampling
        if spec.elimination is not None and not spec.elimination.shared:
            sampling = spec.elimination.update(check, lane.sampling, lane.delta[0], spec.threshold)
        view = self._view(inputs, check, lane, observers, sampling)
        two_speed = rule.fast is not None
        if two_speed:
            arm, own, status = self._ask(rule.fast, view, lane.own)
            status = jnp.broadcast_to(status, live.shape)
            decided = lane.chosen >= 0
            arm = jnp.where(decided, lane.chosen, arm)
            ready = decided | (status == OK)
            own = where(decided, lane.own, own)
        else:
            arm, own = self._ask(rule.choose, view, lane.own)
            ready, decided, status = jnp.ones_like(live), jnp.zeros_like(live), jnp.full(live.shape, OK)
        arm = jnp.broadcast_to(arm, live.shape).astype(jnp.int32)

        natively_now, verdict = None, check.mask
        if "native" in rule.stopping:
            natively, verdict = self._ask(rule.native, view, own)
            ends = rule.always_native or any(isinstance(s, Native) for s in spec.stopping)
            native_now = opened & ~stopping_now & (natively & ready & live)
            if not rule.always_native:
                native_now = native_now & np.array([isinstance(s, Native) for s in spec.stopping])[:, None, None]
            natively_now = native_now if ends else jnp.zeros_like(opened)
            stopping_now = stopping_now | natively_now
        capped = opened & ~stopping_now & (stats.t >= inputs["cap"]) & ready
        closing = stopping_now | capped
        still = opened & ~closing
        goes_on = jnp.any(still, (0, 1))
        go = live & goes_on & ready
        if two_speed:
            asks = live & goes_on & ~decided & (status == ASK)
            moved = go | (live & goes_on & ~decided & (status != ASK))
            go, asks, moved, closing = lanes.pin(lambda *x: x, go, asks, moved, closing)
            own = where(moved & ~(decided & ~go), own, lane.own)
            chosen = jnp.where(go, -1, lane.chosen)
        else:
            asks, chosen = lane.asks, lane.chosen

        def close(answers):
            now = jnp.stack([
                _over_deltas(spec, lambda state, _, rule=rule: rule.answer(check, state), state, beta)
                for rule, state in zip(spec.stopping, observed, strict=True)
            ])
            if natively_now is not None:
                now = jnp.where(natively_now[:, :, None], verdict, now)
            now = jnp.where(capped[:, :, None], check.mask, now)
            return jnp.where(closing[:, :, None], now, answers)

        observed = observers
        answers = jax.lax.cond(jnp.any(closing), close, lambda answers: answers, lane.answers)
        counted = closing | (still & go)
        reads = lane.reads
        reads_now = self._ask(rule.reads, view, own)
        reward = inputs["mu"][0] if lane.mu is None else lane.mu
        reward = lanes.take(reward, arm) + noise
        after = gaussian.update(check.space, stats, arm, reward, go)
        if two_speed:
            keep = jnp.any(closing, (0, 1)) | go
            observers = where(keep, observers, lane.observers)
            sampling = where(keep, sampling, lane.sampling)
        now = dataclasses.replace(
            lane,
            stats=after,
            own=own,
            observers=observers,
            sampling=sampling,
            closed_at=jnp.where(closing, stats.t, lane.closed_at),
            stopped=lane.stopped | stopping_now,
            answers=answers,
            tests=lane.tests + jnp.where(counted, jnp.stack(tested), 0).astype(jnp.int64),
            reads=reads + jnp.where(go, reads_now, 0).astype(jnp.int64),
            reads_at=jnp.where(closing, reads, lane.reads_at),
            done=lane.done | (live & ~goes_on),
            asks=asks,
            chosen=chosen,
        )
        return now, jnp.where(go, arm, -1), reward, check

    def _choose(self, inputs: dict, lane: Lane) -> Lane:
        """The full definition for the first lanes that ask, gathered together."""
        spec, rule = self.spec, self.spec.rule
        size = lane.asks.shape[0]
        batch = min(getattr(rule, "batch", 16), size)
        place = jnp.cumsum(lane.asks.astype(jnp.int32)) - 1
        taken = lane.asks & (place < batch)
        order = jnp.argsort(~lane.asks, stable=True).astype(jnp.int32)[:batch]
        # Places left over repeat the first lane that asks, so that loops in `choose` are as long as those that asked need.
        order = jnp.where(jnp.arange(batch) < jnp.sum(lane.asks), order, order[0])
        few = jax.tree.map(lambda x: x[..., order], lane if spec.owned else dataclasses.replace(lane, prepared=()))
        if not spec.owned:  # shared by all lanes, and without their axis
            few = dataclasses.replace(few, prepared=lane.prepared)
        check = self._check(inputs, few)
        observers, sampling = few.observers, few.sampling
        if spec.elimination is not None:
            if spec.elimination.shared:
                beta = jax.vmap(lambda delta: self._beta(few.stats.t, delta))(few.delta)
                look = lambda state, beta: spec.stopping[0].update(check, state, beta)  # noqa: E731
                observers = (_over_deltas(spec, look, few.observers[0], beta), *few.observers[1:])
            else:
                sampling = spec.elimination.update(check, sampling, few.delta[0], spec.threshold)
        view = self._view(inputs, check, few, observers, sampling)
        arm, own = self._ask(rule.choose, view, few.own)
        place = jnp.clip(place, 0, batch - 1)
        spread = lambda new, old: jnp.where(taken, new[..., place], old)  # noqa: E731
        return dataclasses.replace(
            lane,
            own=jax.tree.map(spread, own, lane.own),
            chosen=spread(jnp.broadcast_to(arm, (batch,)).astype(jnp.int32), lane.chosen),
            asks=lane.asks & ~taken,
        )

    # ---- a run's beginning ----

    def _start(self, inputs: dict, queue: dict, item: Array) -> Lane:
        """Lanes at t = K, every arm pulled once, for the runs at these places in the queue ([B])."""
        spec = self.spec
        b = item.shape[0]
        at = jnp.minimum(item, spec.queue - 1)
        run, row, instance = queue["run"][at], queue["row"][at], queue["instance"][at]
        delta = queue["delta"][:, at]
        k = inputs["mu"].shape[1]

        def own(table: Array) -> Array:
            return jnp.moveaxis(table[instance], 0, -1)

        features = own(inputs["features"]) if spec.owned else None
        mu = own(inputs["mu"]) if spec.owned else None
        prepared = jax.tree.map(own if spec.owned else (lambda x: x[0]), inputs["prepared"])
        first = self._noise(inputs, run, row, jnp.zeros((b,), jnp.int32), k)
        first = first + (inputs["mu"][0][:, None] if mu is None else mu)
        space = self._space(inputs, features)
        stats = gaussian.start(
            space,
            spec.form,
            inputs,
            instance,
            first,
            spec.careful or spec.problem.uses_theta or spec.log > 0,
            spec.rule.uses_rewards,
        )
        check = check_of(spec.problem, space, stats, False)
        observers = []
        for stopping in spec.stopping:
            state = stopping.start(check, spec.pair_times)
            observers.append(jax.tree.map(lambda x: jnp.broadcast_to(x, (spec.deltas, *x.shape)), state))
        shape = (len(spec.stopping), spec.deltas)
        many = lambda dtype, *more: jnp.zeros((*shape, *more, b), dtype)  # noqa: E731
        sampling = ()
        if spec.elimination is not None and not spec.elimination.shared:
            sampling = spec.elimination.start(check)
        lane = Lane(
            item,
            run,
            row,
            instance,
            delta,
            features,
            mu,
            prepared,
            stats,
            (),
            tuple(observers),
            sampling,
            many(jnp.int32),
            many(bool),
            many(bool, check.mask.shape[0]),
            many(jnp.int32, k) if spec.observers > 1 else None,
            many(jnp.int64),
            jnp.zeros((b,), jnp.int64),
            many(jnp.int64),
            item >= queue["length"],
            jnp.zeros((b,), bool),
            jnp.full((b,), -1, jnp.int32),
        )
        view = self._view(inputs, check, lane, lane.observers, lane.sampling)
        return dataclasses.replace(lane, own=self._ask_init(view))

    def _ask_init(self, view: View) -> Tree:
        state = self._ask(lambda view, _: self.spec.rule.init(view), view, ())
        b = view.t.shape[0]
        return jax.tree.map(
            lambda x: x if x.ndim and x.shape[-1] == b else jnp.broadcast_to(x[..., None], (*x.shape, b)),
            jax.tree.map(jnp.asarray, state),
        )

    # ---- the loop ----

    def _results(self, lane: Lane) -> dict:
        """What a finished run hands in, lanes first."""
        problem = self.spec.problem
        pulls = lane.stats.counts[None, None] if lane.pulls is None else lane.pulls
        out = {
            "item": lane.item,
            "samples": lane.closed_at,
            "stopped": lane.stopped,
            "answer": lane.answers,
            "pulls": pulls.astype(jnp.int32),
            "tests_stopping": lane.tests,
            "tests_sampling": lane.reads_at,
        }
        for s, stopping in enumerate(self.spec.stopping):
            times = problem.times(lane.observers[s]) if stopping.eliminates else None
            if times is not None:
                at = lane.closed_at[s].reshape(lane.closed_at[s].shape[:1] + (1,) * (times.ndim - 2) + (-1,))
                out[f"times_{s}"] = jnp.where(times <= at, times, 0)
        return {name: jnp.moveaxis(x, -1, 0) for name, x in out.items()}

    def empty(self, inputs: dict, queue: dict) -> dict:
        """The loop's state before the first chunk, on the host: no lane is taken, nothing has been handed in."""
        spec = self.spec
        key = str(jax.tree.map(np.shape, inputs))
        if key not in self._shapes:
            one = queue if spec.devices == 1 else jax.tree.map(lambda x: x[0], queue)
            shape = jax.eval_shape(self._start, inputs, one, jax.ShapeDtypeStruct((spec.lanes,), jnp.int32))
            self._shapes[key] = shape, jax.eval_shape(self._results, shape)
        lane, results = self._shapes[key]
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

    def _advance(self, inputs: dict, queue: dict, carry: dict, chunks: Array) -> dict:
        self.traces += 1

        def body(c):
            n, carry = c
            return n + 1, self._chunk(inputs, queue, carry)

        more = lambda c: (c[0] < chunks) & (c[1]["live"] > 0)  # noqa: E731
        return jax.lax.while_loop(more, body, (jnp.zeros((), jnp.int32), carry))[1]

    def _renewed(self, lane: Lane, fresh: Lane) -> Lane:
        """`fresh` in the lanes that are done."""
        if self.spec.owned:
            return where(lane.done, fresh, lane)
        bare = where(lane.done, dataclasses.replace(fresh, prepared=()), dataclasses.replace(lane, prepared=()))
        return dataclasses.replace(bare, prepared=fresh.prepared)

    def _log(self, lane: Lane, arm: Array, reward: Array, check: Check, log: dict) -> dict:
        t, end = check.stats.t[0], self.spec.log - 1
        seen = self.spec.stopping[0]
        left = jnp.full_like(arm, -1)
        if seen.eliminates:
            pieces = jax.tree.map(lambda x: x[0], lane.observers[0])
            left = check.problem.remaining(check.space.lanes, pieces)
        at = jnp.where(lane.stats.t[0] > t, t, end)
        return {
            "arm": log["arm"].at[at].set(arm[0]),
            "reward": log["reward"].at[at].set(reward[0]),
            "remaining": log["remaining"].at[t].set(left[0]),
            "theta_hat_0": log["theta_hat_0"],
        }

    def _chunk(self, inputs: dict, queue: dict, carry: dict) -> dict:
        spec = self.spec
        two_speed = spec.rule.fast is not None
        size, length = spec.lanes, spec.chunk

        def refill(c):
            lane, upcoming, log = c
            item = jnp.where(lane.done, upcoming + jnp.cumsum(lane.done.astype(jnp.int32)) - 1, lane.item)
            fresh = self._start(inputs, queue, jnp.where(item < queue["length"], item, spec.queue))
            if spec.log:
                assert fresh.stats.theta_hat is not None
                log = {**log, "theta_hat_0": fresh.stats.theta_hat[:, 0]}
            taken = jnp.sum(lane.done, dtype=jnp.int32)
            return self._renewed(lane, fresh), jnp.minimum(upcoming + taken, queue["length"]), log

        wanted = jnp.any(carry["lane"].done) & (carry["next"] < queue["length"])
        state = (carry["lane"], carry["next"], carry["log"])
        lane, upcoming, log = jax.lax.cond(wanted, refill, lambda c: c, state)
        start, opened = lane.stats.t, lane.closed_at == 0
        noise = self._noise(inputs, lane.run, lane.row, start, length)
        pulled = jnp.full((length, size), -1, jnp.int16) if spec.observers > 1 else None
        # The features of a lane are fixed while it lives: kept out of the inner loop's state.
        fixed = {"features": lane.features, "mu": lane.mu, "prepared": lane.prepared, "delta": lane.delta}
        bare = dataclasses.replace(lane, features=None, mu=None, prepared=(), delta=jnp.zeros((0, size), lane.delta.dtype))
        each = jnp.arange(size, dtype=jnp.int32)

        def one(n, c):
            bare, pulled, log = c
            full = dataclasses.replace(bare, **fixed)
            if two_speed:
                at = jnp.minimum(full.stats.t - start, length - 1)
                eps = noise.reshape(-1).at[at * size + each].get(mode="promise_in_bounds")
            else:
                eps = jax.lax.dynamic_index_in_dim(noise, n, keepdims=False)
            now, arm, reward, check = self._step(inputs, full, eps)
            if pulled is not None:
                pulled = jax.lax.dynamic_update_index_in_dim(pulled, arm.astype(jnp.int16), n, 0)
            if spec.log:
                log = self._log(now, arm, reward, check, log)
            return dataclasses.replace(now, features=None, mu=None, prepared=(), delta=bare.delta), pulled, log

        c = (bare, pulled, log)
        chooses = carry["chooses"]
        if two_speed:
            patience = getattr(spec.rule, "patience", 0.0)

            def burst(i, c):
                c, chooses = c
                c = jax.lax.fori_loop(0, BURST, lambda n, c: one(i * BURST + n, c), c)

                def enough(c):
                    asking, live = (jnp.sum(x, dtype=jnp.float32) for x in (c[0].asks, ~c[0].done))
                    return (asking > 0) & (asking >= patience * live)

                def slow(c):
                    bare, chooses = c
                    now = self._choose(inputs, dataclasses.replace(bare, **fixed))
                    return dataclasses.replace(now, features=None, mu=None, prepared=(), delta=bare.delta), chooses + 1

                bare, chooses = jax.lax.while_loop(enough, slow, (c[0], chooses))
                return (bare, *c[1:]), chooses

            c, chooses = jax.lax.fori_loop(0, length // BURST, burst, (c, chooses))
        else:
            c = jax.lax.fori_loop(0, length, one, c)
        bare, pulled, log = c
        lane = dataclasses.replace(bare, **fixed)
        if pulled is not None:
            lane = self._pulls_at_stop(lane, pulled, start, opened)

        over = lane.done & (lane.item < queue["length"])
        count = jnp.sum(over, dtype=jnp.int32)

        def hand_in(c):
            lane, out, finished = c
            order = jnp.argsort(~over, stable=True)
            block = jax.tree.map(lambda x: x[order], self._results(lane))
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
        }

    def _pulls_at_stop(self, lane: Lane, pulled: Array, start: Array, opened: Array) -> Lane:
        """The counts at each observer's stop in this chunk: those at its end, less the pulls since (`pulled` [T, B])."""
        k = lane.stats.counts.shape[0]
        drawn = (pulled >= 0).astype(jnp.int32)
        before = start + jnp.cumsum(drawn, 0) - drawn
        counts = lane.stats.counts.astype(jnp.int32)
        closed = opened & (lane.closed_at > 0)

        def at_stop(x):
            pulls, closed, at = x

            def since():
                later = (pulled >= 0) & (before >= at)
                hit = (pulled[:, None] == jnp.arange(k, dtype=pulled.dtype)[None, :, None]) & later[:, None]
                return counts - jnp.sum(hit, 0, dtype=jnp.int32)

            late = jnp.any(closed & (at < lane.stats.t))
            now = jax.lax.cond(late, since, lambda: counts)
            return jnp.where(closed, now, pulls)

        flat = jax.tree.map(lambda x: x.reshape((-1, *x.shape[2:])), (lane.pulls, closed, lane.closed_at))
        return dataclasses.replace(lane, pulls=jax.lax.map(at_stop, flat).reshape(*lane.closed_at.shape[:2], k, -1))


def _per_device(advance: Callable) -> Callable:
    """`advance` for one device of many: its queue and its state come and go with a leading axis of length 1."""

    def run(inputs, queue, carry, chunks):
        queue, carry = jax.tree.map(lambda x: x[0], (queue, carry))
        return jax.tree.map(lambda x: x[None], advance(inputs, queue, carry, chunks))

    return run


@functools.lru_cache(maxsize=64)
def program(spec: Spec) -> Program:
    """The program of a spec, compiled once in this process."""
    return Program(spec)


def compiled(spec: Spec) -> bool:
    """Whether this process has compiled the program of a spec."""
    return any(program.spec == spec and program.traces > 0 for program in Program.alive)
