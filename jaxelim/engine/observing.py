"""Calls of elimination and stopping rules on the snapshot of every lane."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import StoppingRule
from jaxelim.contracts.views import ArmContext, Snapshot, Statistics, Tree
from jaxelim.engine.returned import call_stopping
from jaxelim.engine.state import Inputs, Lane, Run, Spec, of_run
from jaxelim.lanes import where
from jaxelim.thresholds.mixture import Mixture


class Observed(NamedTuple):
    """The results of the stopping rules on one snapshot."""

    states: tuple  # their next states, each [D, .., B]
    stops: Array  # [S, D, B] bool
    tested: Array  # [S, D, B] int32: pieces tested


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
        """The snapshot of statistics of these runs, with `more` of its fields."""
        kept = self.spec.family, self.spec.problem, self.space(inputs, run.features), stats
        return Snapshot.of(*kept, threshold=self.mixture, **more)

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
        threshold = self.mixture
        if threshold is None:
            return self.beta(t, delta)
        if any(stopping.native for stopping in self.spec.stopping):
            return jnp.asarray(threshold.arm_levels(stats.counts, delta), self.spec.dtype)
        width = threshold.width(t.astype(self.spec.dtype), delta)
        return jnp.asarray(width, self.spec.dtype)

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

    def observed(self, seen: Snapshot, lane: Lane, beta: Array) -> Observed:
        """What the stopping rules say of a snapshot."""
        if seen.since is None or seen.lanes.gpu:
            return self._observed(seen, lane, beta)
        # Where rewards enter in groups, most steps of most lanes have no test.
        none, some = self.untested(lane, beta), jnp.any(jnp.asarray(seen.live))
        return jax.lax.cond(some, lambda: self._observed(seen, lane, beta), lambda: none)

    def untested(self, lane: Lane, beta: Array) -> Observed:
        """What the stopping rules say where nothing is tested."""
        shape = len(self.spec.stopping), *beta.shape
        return Observed(lane.observers, jnp.zeros(shape, bool), jnp.zeros(shape, jnp.int32))

    def _observed(self, seen: Snapshot, lane: Lane, beta: Array) -> Observed:
        states, stops, tested = [], [], []
        live: Any = seen.live
        for s, (stopping, state) in enumerate(zip(self.spec.stopping, lane.observers, strict=True)):
            look, reads = partial(call_stopping, stopping, "observe", seen), state
            if seen.threshold is not None:
                look, reads = _looking(stopping, seen), (state, lane.record.closed_at[s] == 0)
            after, stop, tests = self._over_deltas(look, reads, beta)
            tests = jnp.broadcast_to(tests, stop.shape)
            if seen.since is not None:
                here = live & (lane.record.closed_at[s] == 0)
                after = jax.tree.map(partial(_where_tested, here), after, state)
                stop, tests = stop & here, jnp.where(here, tests, 0)
            states.append(after)
            stops.append(stop)
            tested.append(tests)
        known, ends = seen.stats.used_up, jnp.stack(stops)
        ends = ends if known is None else ends | jnp.all(known, 0)  # whatever a rule tests
        return Observed(tuple(states), ends, jnp.stack(tested))

    def sampling(self, seen: Snapshot, lane: Lane) -> Tree:
        """The next state of an elimination at sampling with sets of its own."""
        elimination = self.spec.elimination
        if elimination is None or elimination.shared:
            return lane.sampling
        after = elimination.update(seen, lane.sampling, lane.run.delta[0], self.spec.threshold)
        live: Any = seen.live
        return after if seen.since is None else where(live, after, lane.sampling)

    def answers(self, seen: Snapshot, states: tuple, beta: Array) -> Array:
        """The public answers of runs that stop with these next states: [S, D, W, B]."""

        def answer(rule: StoppingRule, state: Tree, _: Array) -> Array:
            return call_stopping(rule, "answer", seen, state)

        rules = zip(self.spec.stopping, states, strict=True)
        answers = [self._over_deltas(partial(answer, rule), state, beta) for rule, state in rules]
        return jnp.stack(answers)

    def bad_answer(self, seen: Snapshot, lane: Lane) -> tuple[Array | None, Array]:
        """An answer out of range, [B], and which lanes are live without one, [B] bool."""
        live, checked = ~lane.done, self.spec.problem.out_of_range(seen)
        if checked is None:
            return None, live
        (answer, beyond), before = checked, lane.fault.answer
        assert before is not None
        return jnp.where(live & beyond, answer, before), live & ~beyond

    def first_states(self, seen: Snapshot) -> tuple[tuple, Tree]:
        """`Lane.observers` and `Lane.sampling` before the first check."""
        spec, pair_times = self.spec, "pair_times" in self.spec.record
        states = tuple(call_stopping(one, "start", seen, pair_times) for one in spec.stopping)
        states = jax.tree.map(lambda x: jnp.broadcast_to(x, (spec.deltas, *x.shape)), states)
        if spec.elimination is None or spec.elimination.shared:
            return states, ()
        return states, spec.elimination.start(seen)


def _where_tested(here: Array, new: Array, old: Array) -> Array:
    """`new` [D, .., B] where `here` [D, B] holds, else `old`."""
    middle = (1,) * (new.ndim - 2)
    return jnp.where(here.reshape(here.shape[:1] + middle + here.shape[1:]), new, old)


def _looking(stopping: StoppingRule, seen: Snapshot) -> Callable:
    """`observe` of a state and of whether the observer is open, [B] bool: only then it looks."""

    def look(reads: Tree, beta: Array) -> tuple:
        state, opened = reads
        live = opened if seen.live is None else opened & seen.live
        return call_stopping(stopping, "observe", dataclasses.replace(seen, live=live), state, beta)

    return look
