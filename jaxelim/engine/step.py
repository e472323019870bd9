"""One step of many runs side by side: pure functions of the lanes' state.

A step of a lane: the snapshot at t, computed once; elimination and stopping rules read it; the rule
chooses; the reward; the statistics. A rule with a cheap form, `fast`, is asked that one. Lanes for
which it says ASK stand still until `choose` runs once for all of those together.

Freezing and clocks live here. No rule, problem or family is known by name.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import OK, Snapshot, Tree, View
from jaxelim.design import Space
from jaxelim.elimination import Native
from jaxelim.engine.state import LANE_GROUP, NO_ARM, Inputs, Lane, Log, Outcome, Queue, Spec
from jaxelim.families import noise as random
from jaxelim.lanes import Lanes, saturated, where
from jaxelim.rule_contract import call
from jaxelim.views import pieces_for_sampling


class Observed(NamedTuple):
    """What the stopping rules say of one snapshot."""

    states: tuple  # their next states, each [D, .., B]
    stops: Array  # [S, D, B] bool
    tested: Array  # [S, D, B] int32: pieces tested


class Choice(NamedTuple):
    """What the sampling rule says."""

    arm: Array  # [B] int32
    state: Tree
    ready: Array  # [B] bool: there is an arm
    decided: Array  # [B] bool: `choose` had found it
    status: Array  # [B] int32


class Ending(NamedTuple):
    """Which observers' runs end at this snapshot, [S, D, B] bool each."""

    stopping: Array  # by their stopping rule
    capped: Array  # cut off
    closing: Array  # either
    native: tuple[Array, Array] | None  # where the rule's own test ends them, and its answer
    still: Array  # stay open


class Pulled(NamedTuple):
    """What a step leaves."""

    lane: Lane
    arm: Array  # [B] int32; -1: none
    reward: Array  # [B]
    seen: Snapshot


@dataclasses.dataclass(frozen=True)
class Step:
    """What happens to the lanes, for one spec."""

    spec: Spec

    def lanes(self, inputs: Inputs) -> Lanes:
        """The primitives of this program."""
        return Lanes(inputs.flag if self.spec.tuned else None)

    def _space(self, inputs: Inputs, features: Array | None) -> Space:
        features = inputs.features[0] if features is None else features
        return self.spec.family.space(self.lanes(inputs), features, inputs.constants)

    def noise(self, inputs: Inputs, run: Array, row: Array, start: Array, length: int) -> Array:
        """What `draw` gets, [length, B], of runs [B] from t = start [B] on."""
        kind, dtype = self.spec.family.noise, self.spec.dtype
        if inputs.noise is not None:
            return random.given(kind, inputs.noise, row, start, length, dtype)
        return random.seeded(kind, inputs.key, run, start, length, dtype)

    # The snapshot, and who looks at it.

    def _snapshot(self, inputs: Inputs, lane: Lane) -> Snapshot:
        spec = self.spec
        # A lane that is done runs on unread. What falls there is dated after its end, and so left
        # out of its results.
        stats = dataclasses.replace(lane.stats, t=lane.stats.t + lane.done.astype(jnp.int32))
        return Snapshot.of(spec.family, spec.problem, self._space(inputs, lane.features), stats)

    def _beta(self, t: Array, delta: Array) -> Array:
        return jnp.asarray(self.spec.threshold(t.astype(self.spec.dtype), delta), self.spec.dtype)

    def _betas(self, lane: Lane) -> Array:
        """beta(t, delta) of the observers: [D, B]."""
        return jax.vmap(lambda delta: self._beta(lane.stats.t, delta))(lane.delta)

    def _over_deltas(self, f: Callable, state: Tree, beta: Array) -> Tree:
        """f(state, beta) for every delta, along the leading axis of both; for one unbatched."""
        if self.spec.deltas == 1:
            out = f(jax.tree.map(lambda x: x[0], state), beta[0])
            return jax.tree.map(lambda x: x[None], out)
        return jax.vmap(f)(state, beta)

    def _observed(self, seen: Snapshot, lane: Lane, beta: Array) -> Observed:
        states, stops, tested = [], [], []
        for stopping, state in zip(self.spec.stopping, lane.observers, strict=True):
            look = partial(stopping.observe, seen)
            state, stop, tests = self._over_deltas(look, state, beta)
            states.append(state)
            stops.append(stop)
            tested.append(jnp.broadcast_to(tests, stop.shape))
        return Observed(tuple(states), jnp.stack(stops), jnp.stack(tested))

    def _sampling(self, seen: Snapshot, lane: Lane) -> Tree:
        """The next state of an elimination that sampling keeps for itself."""
        elimination = self.spec.elimination
        if elimination is None or elimination.shared:
            return lane.sampling
        return elimination.update(seen, lane.sampling, lane.delta[0], self.spec.threshold)

    # The rule.

    def _view(
        self, inputs: Inputs, seen: Snapshot, lane: Lane, observers: tuple, sampling: Tree
    ) -> View:
        spec, stats, elimination = self.spec, seen.stats, self.spec.elimination
        if elimination is not None and elimination.shared:
            sampling = jax.tree.map(lambda x: x[0], observers[0])
        t, delta, chance = stats.t + 1, lane.delta[0], None
        if spec.rule.traits.uses_chance:
            chance = random.chance(inputs.key, lane.run, t, spec.dtype)
        active, reading = pieces_for_sampling(seen, elimination, sampling)
        return View(
            family=spec.family,
            problem=spec.problem,
            elimination=elimination,
            space=seen.space,
            t=t,
            counts=stats.counts,
            means=stats.means,
            theta_hat=stats.estimated_theta,
            reward_sums=stats.reward_sums,
            answer=seen.answer,
            shape=seen.shape,
            evidence=seen.evidence,
            active=active,
            reading=reading,
            piece_set=sampling,
            delta=delta,
            beta=self._beta(t, delta),
            prepared=lane.prepared,
            chance=chance,
        )

    def _ask(self, name: str, view: View, *state: Tree) -> Tree:
        """The rule's method on all lanes: as it is where it is lanes-last, else under vmap."""
        spec, method = self.spec, partial(call, self.spec.rule, name)
        if spec.rule.traits.lanes_last and not spec.vmapped:
            if not spec.owned:  # what all lanes share gets an axis to be broadcast along
                prepared = jax.tree.map(lambda x: x[..., None], view.prepared)
                view = dataclasses.replace(view, prepared=prepared)
            return method(view, *state)
        one = dataclasses.replace(view.space, lanes=Lanes(None))
        view = _within(view, one)
        axes = jax.tree.map(lambda _: -1, (view, *state))
        shared = lambda tree: jax.tree.map(lambda _: None, tree)  # noqa: E731
        features = None if view.space.features.ndim == 2 else -1
        of_space = dataclasses.replace(one, features=features, constants=shared(one.constants))
        of_view = _within(axes[0], of_space)
        if not spec.owned:
            of_view = dataclasses.replace(of_view, prepared=shared(view.prepared))
        return jax.vmap(method, in_axes=(of_view, *axes[1:]), out_axes=-1)(view, *state)

    def _asked(self, view: View, lane: Lane) -> Choice:
        live = ~lane.done
        if self.spec.rule.fast is None:
            arm, state = self._ask("choose", view, lane.rule_state)
            ready, decided = jnp.ones_like(live), jnp.zeros_like(live)
            status = jnp.full(live.shape, OK)
        else:
            arm, state, status = self._ask("fast", view, lane.rule_state)
            status = jnp.broadcast_to(status, live.shape)
            decided = lane.chosen != NO_ARM
            arm = jnp.where(decided, lane.chosen, saturated(arm))
            ready = decided | (status == OK)
            state = where(decided, lane.rule_state, state)
        arm = jnp.broadcast_to(saturated(arm), live.shape)
        return Choice(arm, state, ready, decided, status)

    def _natively(self, view: View, state: Tree, still: Array) -> tuple[Array, Array] | None:
        """Where, of those `still` open, the rule's own test ends the run, and its answer."""
        rule, stopping = self.spec.rule, self.spec.stopping
        if not (rule.traits.always_native or any(isinstance(s, Native) for s in stopping)):
            return None
        natively, verdict = self._ask("native", view, state)
        now = still & natively
        if not rule.traits.always_native:
            now = now & np.array([isinstance(s, Native) for s in stopping])[:, None, None]
        return now, verdict

    # One step.

    def _bad_answer(self, seen: Snapshot, lane: Lane) -> tuple[Array | None, Array]:
        """The number of an answer out of range, and the lanes that are live and have none."""
        live, found = ~lane.done, self.spec.problem.out_of_range(seen)
        if found is None:
            return None, live
        assert lane.bad_answer is not None
        answer, beyond = found
        return jnp.where(live & beyond, answer, lane.bad_answer), live & ~beyond

    def _ending(
        self, inputs: Inputs, view: View, lane: Lane, live: Array, observed: Observed,
        choice: Choice,
    ) -> Ending:  # fmt: skip
        opened = (lane.closed_at == 0) & live
        stopping = opened & observed.stops
        native = self._natively(view, choice.state, opened & ~stopping & choice.ready)
        if native is not None:
            stopping = stopping | native[0]
        capped = opened & ~stopping & (lane.stats.t >= inputs.cap) & choice.ready
        closing = stopping | capped
        return Ending(stopping, capped, closing, native, opened & ~closing)

    def _answers(
        self, seen: Snapshot, lane: Lane, observed: Observed, ending: Ending, beta: Array
    ) -> Array:
        """The public answers of the runs that are over: [S, D, W, B]."""

        def close(answers):
            now = jnp.stack([
                self._over_deltas(lambda state, _, rule=rule: rule.answer(seen, state), state, beta)
                for rule, state in zip(self.spec.stopping, observed.states, strict=True)
            ])
            if ending.native is not None:
                now = jnp.where(ending.native[0][:, :, None], ending.native[1], now)
            now = jnp.where(ending.capped[:, :, None], seen.public, now)
            return jnp.where(ending.closing[:, :, None], now, answers)

        return jax.lax.cond(jnp.any(ending.closing), close, lambda answers: answers, lane.answers)

    def _reward(self, inputs: Inputs, lane: Lane, arm: Array, noise: Array) -> Array:
        lanes, counts = self.lanes(inputs), lane.stats.counts
        nature = jax.tree.map(lambda x: x[0], inputs.nature) if lane.nature is None else lane.nature
        pull = lanes.take(counts, arm).astype(jnp.int32)
        return self.spec.family.draw(lanes, nature, arm, pull, noise)

    def pull(self, inputs: Inputs, lane: Lane, noise: Array) -> Pulled:
        """One step of every lane.

        A run whose rule chooses an arm out of range, or whose answer is out of range, is over with
        observers still open."""
        spec, two_speed = self.spec, self.spec.rule.fast is not None
        seen, beta = self._snapshot(inputs, lane), self._betas(lane)
        observed = self._observed(seen, lane, beta)
        bad_answer, live = self._bad_answer(seen, lane)
        sampling = self._sampling(seen, lane)
        view = self._view(inputs, seen, lane, observed.states, sampling)
        choice = self._asked(view, lane)
        ending = self._ending(inputs, view, lane, live, observed, choice)

        closing, goes_on = ending.closing, jnp.any(ending.still, (0, 1))
        go = live & goes_on & choice.ready
        # Such a lane takes one more sample, which nobody reads: to keep it from that would take as
        # long as the whole check.
        wrong = go & ((choice.arm < 0) | (choice.arm >= lane.stats.counts.shape[0]))
        asks, chosen, state = lane.asks, lane.chosen, choice.state
        if two_speed:
            asks = live & goes_on & ~choice.decided & (choice.status != OK)
            go, asks, closing = self.lanes(inputs).pin(lambda *x: x, go, asks, closing)
            state = where(go, state, lane.rule_state)
            chosen = jnp.where(go, NO_ARM, lane.chosen)
        answers = self._answers(seen, lane, observed, ending, beta)
        counted = closing | (ending.still & go)
        reads_now = self._ask("reads", view, state)
        reward = self._reward(inputs, lane, choice.arm, noise)
        stats = spec.family.update(seen, choice.arm, reward, go)
        observers = observed.states
        if two_speed:
            keep = jnp.any(closing, (0, 1)) | go
            observers = where(keep, observers, lane.observers)
            sampling = where(keep, sampling, lane.sampling)
        now = dataclasses.replace(
            lane,
            stats=dataclasses.replace(stats, t=lane.stats.t + go.astype(jnp.int32)),
            rule_state=state,
            observers=observers,
            sampling=sampling,
            closed_at=jnp.where(closing, lane.stats.t, lane.closed_at),
            stopped=lane.stopped | ending.stopping,
            answers=answers,
            tests=lane.tests + jnp.where(counted, observed.tested, 0).astype(jnp.int64),
            reads=lane.reads + jnp.where(go, reads_now, 0).astype(jnp.int64),
            reads_at=jnp.where(closing, lane.reads, lane.reads_at),
            done=~goes_on | wrong,  # nothing is open in a lane that was done before
            asks=asks,
            chosen=chosen,
            bad_arm=jnp.where(wrong, choice.arm, lane.bad_arm),
            bad_answer=bad_answer,
        )
        return Pulled(now, jnp.where(go, choice.arm, -1), reward, seen)

    def failed(self, lane: Lane) -> Array:
        """Whether some run is over for an arm or an answer out of range: []."""
        found = jnp.any(lane.bad_arm != 0)
        return found if lane.bad_answer is None else found | jnp.any(lane.bad_answer != 0)

    def choose(self, inputs: Inputs, lane: Lane) -> Lane:
        """The full definition for the first lanes that ask, gathered together."""
        spec, size = self.spec, lane.asks.shape[0]
        batch = min(spec.rule.traits.batch, size)
        place = jnp.cumsum(lane.asks.astype(jnp.int32)) - 1
        taken = lane.asks & (place < batch)
        order = jnp.argsort(~lane.asks, stable=True).astype(jnp.int32)[:batch]
        # Places left over repeat the first lane that asks: loops in `choose` are as long as those
        # that asked need.
        asking = jnp.minimum(jnp.sum(lane.asks, dtype=jnp.int32), batch)
        order = jnp.where(jnp.arange(batch, dtype=jnp.int32) < asking, order, order[0])
        own = lane if spec.owned else dataclasses.replace(lane, prepared=())
        few = jax.tree.map(lambda x: x[..., order], own)
        if not spec.owned:  # shared by all lanes, and without their axis
            few = dataclasses.replace(few, prepared=lane.prepared)
        seen = self._snapshot(inputs, few)
        observers = few.observers
        if spec.elimination is not None and spec.elimination.shared:
            look = partial(spec.stopping[0].update, seen)
            first = self._over_deltas(look, few.observers[0], self._betas(few))
            observers = (first, *few.observers[1:])
        view = self._view(inputs, seen, few, observers, self._sampling(seen, few))
        lanes = dataclasses.replace(view.lanes, read=asking)
        view = _within(view, dataclasses.replace(view.space, lanes=lanes))
        arm, state = self._ask("choose", view, few.rule_state)
        place = jnp.clip(place, 0, batch - 1)
        spread = lambda new, old: jnp.where(taken, new[..., place], old)  # noqa: E731
        arm = jnp.broadcast_to(jnp.maximum(saturated(arm), NO_ARM + 1), (batch,))
        return dataclasses.replace(
            lane,
            rule_state=jax.tree.map(spread, state, lane.rule_state),
            chosen=spread(arm, lane.chosen),
            asks=lane.asks & ~taken,
        )

    # The start of a run, and its end.

    def outline(self, inputs: Inputs) -> tuple[Lane, Outcome]:
        """Shapes and dtypes of the lanes and of what they leave. Traces every method of the rule,
        which checks it."""
        spec, rule = self.spec, self.spec.rule
        each = jax.ShapeDtypeStruct((spec.lanes,), jnp.int32)
        long = jax.ShapeDtypeStruct((spec.queue,), jnp.int32)
        levels = jax.ShapeDtypeStruct((spec.deltas, spec.queue), spec.dtype)
        length = jax.ShapeDtypeStruct((), jnp.int32)
        shapes: dict[str, Any] = dict(run=long, row=long, instance=long, delta=levels)
        queue = Queue(**shapes, length=length)  # type: ignore[arg-type]
        noise = jax.ShapeDtypeStruct((inputs.features.shape[1], spec.lanes), spec.dtype)

        def traced(*given):
            lane, view = self._started(*given)
            state = self._asked(view, lane).state
            if rule.fast is not None:
                self._ask("choose", view, state)
            self._natively(view, state, lane.closed_at == 0)
            self._ask("reads", view, state)
            return lane, self.outcome(lane)

        return jax.eval_shape(traced, inputs, queue, each, each, each, noise)

    def start(self, *given: Any) -> Lane:
        """Lanes at t = K, every arm pulled once; given inputs, queue, item, run, row and noise.

        Args:
            item: places in the queue, [B].
            noise: of the initial pulls, [K, B]; `run` and `row`, [B], are what it was drawn for.
        """
        return self._started(*given)[0]

    def first_rewards(self, inputs: Inputs, nature: Tree, noise: Array) -> Array:
        """Of one pull of each arm: [K, B], noise likewise."""
        lanes, each = self.lanes(inputs), jnp.zeros(noise.shape[1:], jnp.int32)
        if nature is None:
            nature = jax.tree.map(lambda x: x[0], inputs.nature)
        draw = partial(self.spec.family.draw, lanes, nature)
        arms = jnp.arange(noise.shape[0], dtype=jnp.int32)
        return jax.vmap(lambda arm, noise: draw(each + arm, each, noise))(arms, noise)

    def _started(
        self, inputs: Inputs, queue: Queue, item: Array, run: Array, row: Array, noise: Array
    ) -> tuple[Lane, View]:
        """`start`, and what the rule sees then."""
        spec, (k, b) = self.spec, noise.shape
        at = jnp.minimum(item, spec.queue - 1)
        instance, delta = queue.instance[at], queue.delta[:, at]
        of_lane = lambda x: jnp.moveaxis(x[instance], 0, -1)  # noqa: E731
        owned = lambda tree: jax.tree.map(of_lane, tree) if spec.owned else None  # noqa: E731
        per_lane = of_lane if spec.owned else (lambda x: x[0])
        features, nature = owned(inputs.features), owned(inputs.nature)
        prepared, tables = jax.tree.map(per_lane, (inputs.prepared, inputs.tables))
        space = self._space(inputs, features)
        rewards = self.first_rewards(inputs, nature, noise)
        stats = spec.family.start(space, spec.problem, tables, rewards)
        seen = Snapshot.of(spec.family, spec.problem, space, stats)
        observers = []
        for stopping in spec.stopping:
            state = stopping.start(seen, spec.pair_times)
            wide = lambda x: jnp.broadcast_to(x, (spec.deltas, *x.shape))  # noqa: E731
            observers.append(jax.tree.map(wide, state))
        sampling = ()
        if spec.elimination is not None and not spec.elimination.shared:
            sampling = spec.elimination.start(seen)
        shape, none = (len(spec.stopping), spec.deltas), jnp.zeros((b,), jnp.int32)
        many = lambda dtype, *more: jnp.zeros((*shape, *more, b), dtype)  # noqa: E731
        in_range = spec.problem.out_of_range(seen) is None
        lane = Lane(
            item=item,
            run=run,
            row=row,
            instance=instance,
            delta=delta,
            features=features,
            nature=nature,
            prepared=prepared,
            stats=stats,
            rule_state=(),
            observers=tuple(observers),
            sampling=sampling,
            closed_at=many(jnp.int32),
            stopped=many(bool),
            answers=many(bool, seen.public.shape[0]),
            pulls=many(jnp.int32, k) if spec.observers > 1 else None,
            tests=many(jnp.int64),
            reads=jnp.zeros((b,), jnp.int64),
            reads_at=many(jnp.int64),
            done=item >= queue.length,
            asks=jnp.zeros((b,), bool),
            chosen=jnp.full((b,), NO_ARM),
            bad_arm=none,
            bad_answer=None if in_range else none,
        )
        view = self._view(inputs, seen, lane, lane.observers, lane.sampling)
        return dataclasses.replace(lane, rule_state=self._ask_init(view)), view

    def _ask_init(self, view: View) -> Tree:
        b = view.t.shape[0]

        def wide(x):
            x = jnp.asarray(x)
            own = x.ndim and x.shape[-1] == b
            return x if own else jnp.broadcast_to(x[..., None], (*x.shape, b))

        return jax.tree.map(wide, self._ask("init", view))

    def refreshed(self, inputs: Inputs, lane: Lane, arm: Array) -> Lane:
        """In float32: statistics recomputed in every lane that has just drawn (arm >= 0) as many
        samples as the family says since the last time; a few lanes at a time.

        When that is depends on the run's own clock alone, and so on neither lanes nor chunks."""
        family, k = self.spec.family, lane.stats.counts.shape[0]
        assert family.refresh is not None

        def some(c):
            stats, due = c
            order = jnp.argsort(~due, stable=True)[:LANE_GROUP]
            few = jax.tree.map(lambda x: x[..., order], stats)
            features, axis = inputs.features[0], None
            if lane.features is not None:
                features, axis = lane.features[..., order], -1
            new = jax.vmap(family.refreshed, (axis, -1), -1)(features, few)
            new = where(due[order], new, few)
            after = jax.tree.map(lambda x, y: x.at[..., order].set(y), stats, new)
            return after, due.at[order].set(False)

        due = (arm >= 0) & ((lane.stats.t - k) % family.refresh == 0)
        stats, _ = jax.lax.while_loop(lambda c: jnp.any(c[1]), some, (lane.stats, due))
        return dataclasses.replace(lane, stats=stats)

    def outcome(self, lane: Lane) -> Outcome:
        """What finished runs leave."""
        pulls = lane.stats.counts[None, None] if lane.pulls is None else lane.pulls
        times = []
        for s, stopping in enumerate(self.spec.stopping):
            found = lane.observers[s].times() if stopping.eliminates else None
            if found is not None:
                at = lane.closed_at[s]
                at = at.reshape(at.shape[:1] + (1,) * (found.ndim - 2) + (-1,))
                found = jnp.where(found <= at, found, 0)
            times.append(found)
        out = Outcome(
            item=lane.item,
            samples=lane.closed_at,
            stopped=lane.stopped,
            answer=lane.answers,
            pulls=pulls.astype(jnp.int32),
            tests_stopping=lane.tests,
            tests_sampling=lane.reads_at,
            times=tuple(times),
        )
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), out)

    def logged(self, pulled: Pulled, log: Log) -> Log:
        """The log with this step of lane 0."""
        seen, lane = pulled.seen, pulled.lane
        t, end = seen.stats.t[0], self.spec.log - 1
        if self.spec.stopping[0].eliminates:
            pieces = jax.tree.map(lambda x: x[0], lane.observers[0])
        else:
            pieces = seen.problem.pieces(seen)
        left = pieces.remaining(seen.lanes)
        at = jnp.where(lane.stats.t[0] > t, t, end)
        return dataclasses.replace(
            log,
            arm=log.arm.at[at].set(pulled.arm[0]),
            reward=log.reward.at[at].set(pulled.reward[0]),
            remaining=log.remaining.at[t].set(left[0]),
        )

    def pulls_at_stop(self, lane: Lane, pulled: Array, start: Array, opened: Array) -> Lane:
        """The counts at each observer's stop in this chunk: those at the chunk's end, less the
        pulls since; `pulled` [T, B]."""
        k = lane.stats.counts.shape[0]
        drawn = (pulled >= 0).astype(jnp.int32)
        before = start + jnp.cumsum(drawn, 0) - drawn
        counts = lane.stats.counts.astype(jnp.int32)
        closed = opened & (lane.closed_at > 0)

        def at_stop(x):
            pulls, closed, at = x

            def since():
                later = (pulled >= 0) & (before >= at)
                each = jnp.arange(k, dtype=pulled.dtype)[None, :, None]
                hit = (pulled[:, None] == each) & later[:, None]
                return counts - jnp.sum(hit, 0, dtype=jnp.int32)

            late = jnp.any(closed & (at < lane.stats.t))
            now = jax.lax.cond(late, since, lambda: counts)
            return jnp.where(closed, now, pulls)

        flat = lambda x: x.reshape((-1, *x.shape[2:]))  # noqa: E731
        given = jax.tree.map(flat, (lane.pulls, closed, lane.closed_at))
        pulls = jax.lax.map(at_stop, given).reshape(*lane.closed_at.shape[:2], k, -1)
        return dataclasses.replace(lane, pulls=pulls)


def _within(view: View, space: Space) -> View:
    """The view, and its evidence, with another space."""
    evidence = dataclasses.replace(view.evidence, space=space)  # type: ignore[type-var]
    return dataclasses.replace(view, space=space, evidence=evidence)
