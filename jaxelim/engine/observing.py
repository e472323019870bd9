"""Snapshots of every lane, and calls of elimination and stopping rules on them.

Pending rewards are those of pulls that are chosen, and whose rewards have not entered. The reward
of the pull chosen as sample s enters at the first batch end at or after s + D, D the delay.
Batches are counted from the first check on. Rewards enter in groups, in the order of their pulls.
One test follows a group.

`Lane.stats` then has what the sampling rule sees, as `Family.with_pending` says: its counts and
its t are those of all pulls. `Pending.entered` has the statistics of the rewards that have entered,
which tests see. A step enters one reward or more, and chooses where no other is due. So a sample
costs at most two steps, and one where a lane's rewards enter in a step of all lanes.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import StoppingRule
from jaxelim.contracts.views import ArmContext, Check, Snapshot, Statistics, Tree
from jaxelim.engine.state import Inputs, Lane, Pending, Run, Spec, of_run
from jaxelim.lanes import where
from jaxelim.returned import call_stopping
from jaxelim.thresholds import Mixture

_SHARE = 4  # a step lets rewards enter while one lane in so many has more due: a step costs more


@dataclasses.dataclass(frozen=True)
class Observing:
    """Builds the snapshot of every lane, and calls the rules that read it, for one spec."""

    spec: Spec

    def space(self, inputs: Inputs, features: Array | None) -> ArmContext:
        """What is fixed over a run; `features` as of `Run`."""
        lanes, own = self.spec.execution.lane_ops(inputs.flag), of_run(features, inputs.features)
        space = self.spec.family.space(lanes, own, inputs.constants)
        return dataclasses.replace(space, transposed=inputs.transposed, prices=inputs.prices)

    def snapshot(self, inputs: Inputs, lane: Lane) -> Snapshot:
        """What a rule sees."""
        # Finished lanes keep stepping. What they eliminate gets a time after their end;
        # `outcome` drops it.
        stats = dataclasses.replace(lane.stats, t=lane.stats.t + lane.done.astype(jnp.int32))
        return self.snapshot_of(inputs, lane.run, stats, live=~lane.done)

    def snapshot_of(self, inputs: Inputs, run: Run, stats: Statistics, **more: Any) -> Snapshot:
        """The snapshot of statistics of these runs, with `more` fields of its check."""
        kept = self.spec.family, self.spec.problem, self.space(inputs, run.features), stats
        return Snapshot.of(*kept, Check(mixture=self.mixture, **more))

    def checked(self, inputs: Inputs, lane: Lane, seen: Snapshot, waits: Array) -> Snapshot:
        """What tests see: the rewards that have entered, and which lanes are tested.

        Those are the lanes in which rewards have entered since the last test, and none of which
        `waits` [B] bool.
        """
        pending = lane.pending
        if pending is None:
            return seen
        tested = ~lane.done & (pending.entered.t > pending.checked) & ~waits
        more = dict(live=tested, since=pending.checked)
        return self.snapshot_of(inputs, lane.run, pending.entered, **more)

    @property
    def mixture(self) -> Mixture | None:
        """The threshold, if it is a mixture."""
        threshold = self.spec.threshold
        return threshold if isinstance(threshold, Mixture) else None

    def beta(self, t: Array, delta: Array) -> Array:
        return jnp.asarray(self.spec.threshold(t.astype(self.spec.dtype), delta), self.spec.dtype)

    def width(self, t: Array, delta: Array, stats: Statistics) -> Array:
        """What a rule reads as beta: [B]; levels of arms, [K, B], of a rule that stops by them."""
        threshold, dtype = self.mixture, self.spec.dtype
        if threshold is None:
            return self.beta(t, delta)
        if any(stopping.native for stopping in self.spec.stopping):
            return jnp.asarray(threshold.arm_levels(stats.counts, delta), dtype)
        return jnp.asarray(threshold.width(t.astype(dtype), delta), dtype)

    def betas(self, lane: Lane) -> Array:
        """beta(t, delta) for every delta: [D, B]."""
        t = lane.stats.t if lane.pending is None else lane.pending.entered.t
        return jax.vmap(lambda delta: self.beta(t, delta))(lane.run.delta)

    def _over_deltas(self, f: Callable, state: Tree, beta: Array) -> Tree:
        """f(state, beta) for every delta, the leading axis of both; without vmap for one delta."""
        if self.spec.deltas == 1:
            out = f(jax.tree.map(lambda x: x[0], state), beta[0])
            return jax.tree.map(lambda x: x[None], out)
        if self.mixture is not None:  # under vmap each look would cost that of all deltas
            return jax.lax.map(lambda c: f(*c), (state, beta))
        return jax.vmap(f)(state, beta)

    def observed(self, seen: Snapshot, lane: Lane, beta: Array) -> tuple[tuple, Array, Array]:
        """What the stopping rules say of a snapshot.

        Returns:
            Their next states, each [D, .., B]; whether they stop, [S, D, B] bool; and how many
            pieces they tested, [S, D, B] int32.
        """
        if seen.check.since is None or seen.lanes.gpu:
            return self._observed(seen, lane, beta)
        # Where rewards enter in groups, most steps of most lanes have no test.
        none, some = self.untested(lane, beta), jnp.any(jnp.asarray(seen.check.live))
        return jax.lax.cond(some, lambda: self._observed(seen, lane, beta), lambda: none)

    def untested(self, lane: Lane, beta: Array) -> tuple[tuple, Array, Array]:
        """`observed` where nothing is tested."""
        shape = len(self.spec.stopping), *beta.shape
        return lane.observers, jnp.zeros(shape, bool), jnp.zeros(shape, jnp.int32)

    def _observed(self, seen: Snapshot, lane: Lane, beta: Array) -> tuple[tuple, Array, Array]:
        live, found = seen.check.live, []
        for s, (stopping, state) in enumerate(zip(self.spec.stopping, lane.observers, strict=True)):
            observe = partial(call_stopping, stopping, "observe")

            def look(reads: Tree, beta: Array, observe: Callable = observe) -> tuple:
                if seen.check.mixture is None:
                    return observe(seen, reads, beta)
                state, opened = reads  # only where the observer is open it looks
                now = seen.with_check(live=opened if live is None else opened & live)
                return observe(now, state, beta)

            opened = lane.record.samples[s] == 0
            reads = state if seen.check.mixture is None else (state, opened)
            after, stop, tests = self._over_deltas(look, reads, beta)
            tests = jnp.broadcast_to(tests, stop.shape)
            if seen.check.since is not None:
                here = jnp.asarray(live) & opened
                after = jax.vmap(where)(here, after, state)
                stop, tests = stop & here, jnp.where(here, tests, 0)
            found.append((after, stop, tests))
        states, stops, tested = zip(*found, strict=True)
        known, ends = seen.stats.used_up, jnp.stack(stops)
        ends = ends if known is None else ends | jnp.all(known, 0)  # whatever a rule tests
        return states, ends, jnp.stack(tested)

    def sampling(self, seen: Snapshot, lane: Lane) -> Tree:
        """The next state of an elimination at sampling with sets of its own."""
        elimination = self.spec.elimination
        if elimination is None or elimination.shared:
            return lane.sampling
        after = elimination.update(seen, lane.sampling, lane.run.delta[0], self.spec.threshold)
        if seen.check.since is None:
            return after
        return where(jnp.asarray(seen.check.live), after, lane.sampling)

    def answers(self, seen: Snapshot, states: tuple, beta: Array) -> Array:
        """The public answers of runs that stop with these next states: [S, D, W, B]."""

        def answer(rule: StoppingRule, state: Tree, _: Array) -> Array:
            return call_stopping(rule, "answer", seen, state)

        rules = zip(self.spec.stopping, states, strict=True)
        answers = [self._over_deltas(partial(answer, rule), state, beta) for rule, state in rules]
        return jnp.stack(answers)

    # Pending rewards.

    def entered(self, inputs: Inputs, lane: Lane) -> tuple[Lane, Array]:
        """The lanes after due rewards have entered, and which of them have more due: [B] bool.

        One enters in each lane, and further ones while many lanes have more due: lanes that are
        alike take one step for all rewards of a batch.
        """
        none = jnp.zeros_like(lane.done)
        if not self.spec.places:
            return lane, none
        lanes, start = self.spec.execution.lane_ops(inputs.flag), self.spec.initial_samples(inputs)
        timing: Any = inputs.timing

        def due(lane: Lane) -> Array:
            """Whether the next reward is. All are where no arm has rewards left."""
            samples, known, waiting = lane.stats.t, lane.stats.used_up, cast(Any, lane.pending)
            entered, (batch, delay) = waiting.entered.t, timing
            end = samples - (samples - start) % batch  # of the last batch that is whole
            here = entered + delay < end
            return here if known is None else here | (jnp.all(known, 0) & (entered < samples))

        def one_each(lane: Lane) -> tuple[Lane, Array]:
            waiting: Any = lane.pending
            place = self._place(waiting.entered.t)
            arm, reward = lanes.take(waiting.arms, place), lanes.take(waiting.rewards, place)
            lane = self.with_reward(inputs, lane, arm, reward, due(lane) & ~lane.done)
            return lane, due(lane)

        def go_on(carry: tuple[Array, Lane, Array]) -> Array:
            first, lane, more = carry
            due, live = (jnp.sum(x, dtype=jnp.int32) for x in (more & ~lane.done, ~lane.done))
            return first | ((due > 0) & (_SHARE * due >= live))

        if self.spec.execution.gpu:
            return one_each(lane)
        # One loop, so that every reward enters by the same compiled operations.
        return jax.lax.while_loop(
            go_on, lambda c: (jnp.bool_(False), *one_each(c[1])), (jnp.bool_(True), lane, none)
        )[1:]

    def _place(self, before: Array) -> Array:
        """Where the first pull after so many is kept."""
        assert self.spec.places
        return before & (self.spec.places - 1)

    def with_reward(
        self, inputs: Inputs, lane: Lane, arm: Array, reward: Array, go: Array,
        item: Array | None = None,
    ) -> Lane:  # fmt: skip
        """The lanes after a reward has entered where `go` [B] bool holds; arm, reward [B].

        `item` [B]: the place of its item, for a family of common items; None: the next one.
        """
        waiting: Any = lane.pending
        family: Any = self.spec.family
        seen = self.snapshot_of(inputs, lane.run, waiting.entered)
        of_item = {} if item is None else {"item": item}
        now = dict(t=waiting.entered.t + go.astype(jnp.int32), stacks=lane.stats.stacks)
        stats = dataclasses.replace(family.update(seen, arm, reward, go, **of_item), **now)
        ahead = family.with_pending(seen.space, stats, lane.stats)
        waiting = dataclasses.replace(waiting, entered=stats)
        return dataclasses.replace(lane, stats=ahead, pending=waiting)

    def chosen(
        self, seen: Snapshot, lane: Lane, arm: Array, reward: Array, go: Array
    ) -> tuple[Statistics, Pending | None]:
        """The statistics, and what is pending, after pulls of `arm` [B] where `go` [B] bool holds.

        `seen` is what the rule saw; where there is no pull the free place gets numbers that
        nobody reads.
        """
        waiting: Any = lane.pending
        family, put = self.spec.family, seen.lanes.put
        more = dict(t=lane.stats.t + go.astype(jnp.int32), stacks=lane.stats.stacks)
        if waiting is None:
            return dataclasses.replace(family.update(seen, arm, reward, go), **more), None
        stats = family.with_pending(seen.space, waiting.entered, lane.stats, (arm, go))
        checked = jnp.where(go, waiting.entered.t, waiting.checked)
        waiting = dataclasses.replace(waiting, checked=checked)
        if self.spec.places:
            place = self._place(lane.stats.t)
            kept = put(waiting.arms, place, arm), put(waiting.rewards, place, reward)
            waiting = dataclasses.replace(waiting, arms=kept[0], rewards=kept[1])
        return dataclasses.replace(stats, **more), waiting
