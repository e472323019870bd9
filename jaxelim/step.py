"""One step of many runs side by side: pure functions of the lanes' state; what feeds the lanes is `jaxelim.engine`.

A step of a lane: the check at t (answer, pieces, LLRs: once, for everyone); elimination and stopping rules read it; the rule
chooses; the reward; the statistics. A rule with a cheap form, `fast`, is asked that one, and lanes for which it says ASK stand
still until `choose` runs once for all of those together.

Freezing and clocks live here and nowhere else. No rule and no problem is known by name.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.base import ASK, OK, Check, Problem, SamplingRule, Statistics, Tree, View, check_of, looked_at
from jaxelim.design import Space
from jaxelim.elimination import Native, StoppingRule
from jaxelim.families import gaussian
from jaxelim.kept import Kept
from jaxelim.lanes import Lanes, saturated, where
from jaxelim.rule_contract import call

NO_ARM = np.int32(np.iinfo(np.int32).min)
"""In place of the arm that `choose` has chosen, where it has chosen none; never an arm, not even a wrong one."""

LANE_GROUP = 16
"""Lanes come in groups of this many, so that every count of lanes does the same arithmetic on each: in programs of eight XLA's
CPU backend rounds LinGame's weights differently, in the last digit, which after 10^5 samples is another arm."""


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
    def keeps(self) -> bool:
        """Whether products of the answer's arms are kept: where they cost more than to look whether they are still right."""
        return self.tuned and self.form != "diagonal" and not self.careful and self.problem.takes_rows()

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
    chosen: Array  # [B] int32: the arm that `choose` has chosen, NO_ARM for none
    bad_arm: Array  # [B] int32: the arm out of range that ended the run; 0, which is an arm, for none
    bad_answer: Array | None  # [B] int32: likewise the answer; None for problems whose answers are always in range


@dataclasses.dataclass(frozen=True)
class Step:
    """What happens to the lanes, for one spec. `inputs` is what all runs share, as `jaxelim.drive` lays it out."""

    spec: Spec

    def lanes(self, inputs: dict) -> Lanes:
        return Lanes(inputs["flag"] if self.spec.tuned else None)

    def _space(self, inputs: dict, features: Array | None) -> Space:
        features = inputs["features"][0] if features is None else features
        return Space(self.lanes(inputs), features, inputs["problem"], self.spec.careful)

    def noise(self, inputs: dict, run: Array, row: Array, start: Array, length: int) -> Array:
        """Standard normals [length, B] of runs [B] from t = start [B] on."""
        if self.spec.given_noise:
            return gaussian.given_noise(inputs["noise"], row, start, length, self.spec.dtype)
        return gaussian.seeded_noise(inputs["key"], run, start, length, self.spec.dtype)

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
            *looked_at(check, elimination, kept),
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

    def _ask(self, name: str, view: View, *state: Tree) -> Tree:
        """The rule's method on all lanes: as it is where the rule is written for them, else one lane at a time under vmap."""
        method = partial(call, self.spec.rule, name)
        if self.spec.rule.lanes_last and not self.spec.vmapped:
            if not self.spec.owned:  # what all lanes share gets an axis to be broadcast along
                prepared = jax.tree.map(lambda x: x[..., None], view.prepared)
                view = dataclasses.replace(view, prepared=prepared)
            return method(view, *state)
        axes = jax.tree.map(lambda _: -1, (view, *state))
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
        return jax.vmap(method, in_axes=(axes_of_view, *axes[1:]), out_axes=-1)(view, *state)

    def _check(self, inputs: dict, lane: Lane) -> Check:
        spec = self.spec
        # A lane that is done runs on unread; what falls there is dated after its end, and so left out of its results.
        stats = dataclasses.replace(lane.stats, t=lane.stats.t + lane.done.astype(jnp.int32))
        return check_of(spec.problem, self._space(inputs, lane.features), stats)

    def _betas(self, lane: Lane) -> Array:
        """beta(t, delta) of the observers: [D, B]."""
        return jax.vmap(lambda delta: self._beta(lane.stats.t, delta))(lane.delta)

    def _over_deltas(self, f: Callable, state: Tree, beta: Array) -> Tree:
        """f(state, beta) for every delta, along the leading axis of both; for one delta without any batching."""
        if self.spec.deltas == 1:
            out = f(jax.tree.map(lambda x: x[0], state), beta[0])
            return jax.tree.map(lambda x: x[None], out)
        return jax.vmap(f)(state, beta)

    def _observed(self, check: Check, lane: Lane, beta: Array) -> tuple[tuple, Array, Array]:
        """The stopping rules' next states, which of them stop, and how many pieces they tested: the latter two [S, D, B]."""
        observers, stops, tested = [], [], []
        for stopping, state in zip(self.spec.stopping, lane.observers, strict=True):

            def look(state, beta, stopping=stopping):
                return stopping.observe(check, state, beta)

            state, stop, tests = self._over_deltas(look, state, beta)
            observers.append(state)
            stops.append(stop)
            tested.append(jnp.broadcast_to(tests, stop.shape))
        return tuple(observers), jnp.stack(stops), jnp.stack(tested)

    def _asked(self, view: View, lane: Lane) -> tuple[Array, Tree, Array, Array, Array]:
        """What the rule says: the arm, its next state, whether there is an arm, whether `choose` had found it, the status."""
        rule, live = self.spec.rule, ~lane.done
        if rule.fast is None:
            arm, own = self._ask("choose", view, lane.own)
            ready, decided, status = jnp.ones_like(live), jnp.zeros_like(live), jnp.full(live.shape, OK)
        else:
            arm, own, status = self._ask("fast", view, lane.own)
            status = jnp.broadcast_to(status, live.shape)
            decided = lane.chosen != NO_ARM
            arm = jnp.where(decided, lane.chosen, saturated(arm))
            ready = decided | (status == OK)
            own = where(decided, lane.own, own)
        return jnp.broadcast_to(saturated(arm), live.shape), own, ready, decided, status

    def _natively(self, view: View, own: Tree, still: Array) -> tuple[Array, Array] | None:
        """Where ([S, D, B], of those `still` open) the rule's own test ends the run, and its answer; None if nobody asks."""
        rule, stopping = self.spec.rule, self.spec.stopping
        if not (rule.always_native or any(isinstance(s, Native) for s in stopping)):
            return None
        natively, verdict = self._ask("native", view, own)
        now = still & natively
        if not rule.always_native:
            now = now & np.array([isinstance(s, Native) for s in stopping])[:, None, None]
        return now, verdict

    def pull(self, inputs: dict, lane: Lane, noise: Array) -> tuple[Lane, Array, Array, Check]:
        """One step of every lane: the next lanes, the arm pulled (-1: none), the reward, and the check that was read.

        A run whose rule chooses an arm out of range, or whose answer is out of range, is over with observers still open."""
        spec, rule = self.spec, self.spec.rule
        lanes = self.lanes(inputs)
        check = self._check(inputs, lane)
        stats, live = lane.stats, ~lane.done
        beta = self._betas(lane)
        observers, stops, tested = self._observed(check, lane, beta)
        bad_answer, found = None, spec.problem.out_of_range(check.answer)
        if found is not None:
            assert lane.bad_answer is not None
            answer, beyond = found
            bad_answer = jnp.where(live & beyond, answer, lane.bad_answer)
            live = live & ~beyond
        opened = (lane.closed_at == 0) & live
        stopping_now = opened & stops

        sampling = lane.sampling
        if spec.elimination is not None and not spec.elimination.shared:
            sampling = spec.elimination.update(check, lane.sampling, lane.delta[0], spec.threshold)
        view = self._view(inputs, check, lane, observers, sampling)
        arm, own, ready, decided, status = self._asked(view, lane)
        native = self._natively(view, own, opened & ~stopping_now & ready)
        if native is not None:
            stopping_now = stopping_now | native[0]
        capped = opened & ~stopping_now & (stats.t >= inputs["cap"]) & ready
        closing = stopping_now | capped
        still = opened & ~closing
        goes_on = jnp.any(still, (0, 1))
        go = live & goes_on & ready
        # Such a lane takes one more sample, which nobody reads: to keep it from that would take as long as the whole check.
        wrong = go & ((arm < 0) | (arm >= stats.counts.shape[0]))
        asks, chosen = lane.asks, lane.chosen
        if rule.fast is not None:
            asks = live & goes_on & ~decided & (status == ASK)
            moved = go | (live & goes_on & ~decided & (status != ASK))
            go, asks, moved, closing = lanes.pin(lambda *x: x, go, asks, moved, closing)
            own = where(moved & ~(decided & ~go), own, lane.own)
            chosen = jnp.where(go, NO_ARM, lane.chosen)

        def close(answers, observers=observers):
            now = jnp.stack([
                self._over_deltas(lambda state, _, rule=rule: rule.answer(check, state), state, beta)
                for rule, state in zip(spec.stopping, observers, strict=True)
            ])
            if native is not None:
                now = jnp.where(native[0][:, :, None], native[1], now)
            now = jnp.where(capped[:, :, None], check.mask, now)
            return jnp.where(closing[:, :, None], now, answers)

        answers = jax.lax.cond(jnp.any(closing), close, lambda answers: answers, lane.answers)
        counted = closing | (still & go)
        reads_now = self._ask("reads", view, own)
        reward = inputs["mu"][0] if lane.mu is None else lane.mu
        reward = lanes.take(reward, arm) + noise
        after = gaussian.update(check.space, dataclasses.replace(stats, products=check.stats.products), arm, reward, go)
        if rule.fast is not None:
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
            tests=lane.tests + jnp.where(counted, tested, 0).astype(jnp.int64),
            reads=lane.reads + jnp.where(go, reads_now, 0).astype(jnp.int64),
            reads_at=jnp.where(closing, lane.reads, lane.reads_at),
            done=~goes_on | wrong,  # nothing is open in a lane that was done before
            asks=asks,
            chosen=chosen,
            bad_arm=jnp.where(wrong, arm, lane.bad_arm),
            bad_answer=bad_answer,
        )
        return now, jnp.where(go, arm, -1), reward, check

    def failed(self, lane: Lane) -> Array:
        """Whether some run is over for an arm or an answer out of range: []."""
        found = jnp.any(lane.bad_arm != 0)
        return found if lane.bad_answer is None else found | jnp.any(lane.bad_answer != 0)

    def choose(self, inputs: dict, lane: Lane) -> Lane:
        """The full definition for the first lanes that ask, gathered together."""
        spec, rule = self.spec, self.spec.rule
        size = lane.asks.shape[0]
        batch = min(getattr(rule, "batch", 16), size)
        place = jnp.cumsum(lane.asks.astype(jnp.int32)) - 1
        taken = lane.asks & (place < batch)
        order = jnp.argsort(~lane.asks, stable=True).astype(jnp.int32)[:batch]
        # Places left over repeat the first lane that asks, so that loops in `choose` are as long as those that asked need.
        asking = jnp.minimum(jnp.sum(lane.asks, dtype=jnp.int32), batch)
        order = jnp.where(jnp.arange(batch, dtype=jnp.int32) < asking, order, order[0])
        few = jax.tree.map(lambda x: x[..., order], lane if spec.owned else dataclasses.replace(lane, prepared=()))
        if not spec.owned:  # shared by all lanes, and without their axis
            few = dataclasses.replace(few, prepared=lane.prepared)
        check = self._check(inputs, few)
        observers, sampling = few.observers, few.sampling
        if spec.elimination is not None:
            if spec.elimination.shared:
                look = lambda state, beta: spec.stopping[0].update(check, state, beta)  # noqa: E731
                observers = (self._over_deltas(look, few.observers[0], self._betas(few)), *few.observers[1:])
            else:
                sampling = spec.elimination.update(check, sampling, few.delta[0], spec.threshold)
        view = self._view(inputs, check, few, observers, sampling)
        lanes = dataclasses.replace(view.lanes, read=asking)
        view = dataclasses.replace(view, space=dataclasses.replace(view.space, lanes=lanes))
        arm, own = self._ask("choose", view, few.own)
        place = jnp.clip(place, 0, batch - 1)
        spread = lambda new, old: jnp.where(taken, new[..., place], old)  # noqa: E731
        return dataclasses.replace(
            lane,
            own=jax.tree.map(spread, own, lane.own),
            chosen=spread(jnp.broadcast_to(jnp.maximum(saturated(arm), NO_ARM + 1), (batch,)), lane.chosen),
            asks=lane.asks & ~taken,
        )

    def outline(self, inputs: dict) -> tuple[Lane, dict]:
        """Shapes and dtypes of the lanes and of what they hand in. Traces every method of the rule, which checks it."""
        spec, rule = self.spec, self.spec.rule
        each = jax.ShapeDtypeStruct((spec.lanes,), jnp.int32)
        long = jax.ShapeDtypeStruct((spec.queue,), jnp.int32)
        levels = jax.ShapeDtypeStruct((spec.deltas, spec.queue), spec.dtype)
        length = jax.ShapeDtypeStruct((), jnp.int32)
        queue = {"run": long, "row": long, "instance": long, "delta": levels, "length": length}
        noise = jax.ShapeDtypeStruct((inputs["mu"].shape[1], spec.lanes), spec.dtype)

        def traced(*given):
            lane, view = self._started(*given)
            own = self._asked(view, lane)[1]
            if rule.fast is not None:
                self._ask("choose", view, own)
            self._natively(view, own, lane.closed_at == 0)
            self._ask("reads", view, own)
            return lane, self.results(lane)

        return jax.eval_shape(traced, inputs, queue, each, each, each, noise)

    def start(self, *given: Any) -> Lane:
        """Lanes at t = K, every arm pulled once; given inputs, queue, item, run, row and noise.

        Args:
            item: places in the queue, [B].
            noise: of the initial pulls, [K, B]; `run` and `row`, [B], are what it was drawn for.
        """
        return self._started(*given)[0]

    def _started(
        self, inputs: dict, queue: dict, item: Array, run: Array, row: Array, noise: Array
    ) -> tuple[Lane, View]:
        """`start`, and what the rule sees then."""
        spec = self.spec
        b = item.shape[0]
        at = jnp.minimum(item, spec.queue - 1)
        instance, delta = queue["instance"][at], queue["delta"][:, at]
        k = inputs["mu"].shape[1]

        def own(table: Array) -> Array:
            return jnp.moveaxis(table[instance], 0, -1)

        features = own(inputs["features"]) if spec.owned else None
        mu = own(inputs["mu"]) if spec.owned else None
        prepared = jax.tree.map(own if spec.owned else (lambda x: x[0]), inputs["prepared"])
        first = noise + (inputs["mu"][0][:, None] if mu is None else mu)
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
        check = check_of(spec.problem, space, stats)
        if spec.keeps and (arms := spec.problem.rows(check.answer)) is not None:
            stats = dataclasses.replace(stats, products=Kept.nothing(arms, stats.means))
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
            jnp.full((b,), NO_ARM),
            jnp.zeros((b,), jnp.int32),
            None if spec.problem.out_of_range(check.answer) is None else jnp.zeros((b,), jnp.int32),
        )
        view = self._view(inputs, check, lane, lane.observers, lane.sampling)
        return dataclasses.replace(lane, own=self._ask_init(view)), view

    def _ask_init(self, view: View) -> Tree:
        state = self._ask("init", view)
        b = view.t.shape[0]
        return jax.tree.map(
            lambda x: x if x.ndim and x.shape[-1] == b else jnp.broadcast_to(x[..., None], (*x.shape, b)),
            jax.tree.map(jnp.asarray, state),
        )

    def refreshed(self, inputs: dict, lane: Lane, arm: Array) -> Lane:
        """In float32: statistics made afresh in every lane that has just drawn (arm >= 0) so many samples, a few lanes at a time.

        When that is depends on the run's own clock alone, and so on neither lanes nor chunks."""
        k = lane.stats.counts.shape[0]

        def some(c):
            stats, due = c
            order = jnp.argsort(~due, stable=True)[:LANE_GROUP]
            few = jax.tree.map(lambda x: x[..., order], stats)
            features = inputs["features"][0] if lane.features is None else lane.features[..., order]
            axes = (None if lane.features is None else -1, -1)
            new = jax.vmap(partial(gaussian.afresh, ridge=self.spec.ridge), axes, -1)(features, few)
            new = where(due[order], new, few)
            return jax.tree.map(lambda x, y: x.at[..., order].set(y), stats, new), due.at[order].set(False)

        due = (arm >= 0) & ((lane.stats.t - k) % gaussian.REFRESH == 0)
        stats, _ = jax.lax.while_loop(lambda c: jnp.any(c[1]), some, (lane.stats, due))
        return dataclasses.replace(lane, stats=stats)

    def results(self, lane: Lane) -> dict:
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

    def logged(self, lane: Lane, arm: Array, reward: Array, check: Check, log: dict) -> dict:
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

    def pulls_at_stop(self, lane: Lane, pulled: Array, start: Array, opened: Array) -> Lane:
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

