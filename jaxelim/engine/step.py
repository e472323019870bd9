"""One step of all lanes: pure functions of their state.

A step builds the snapshot at t once. Elimination and stopping rules read it, the
sampling rule chooses an arm, the source draws the reward, the family counts it. Rare work of
the rule (`contracts.Rarely`) is done for the lanes that need it, gathered in groups.

This module decides which lanes advance and when runs end. It names no rule,
problem or family.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.cache import KEPT, Cache
from jaxelim.checks import shipped
from jaxelim.contracts import Family, looks
from jaxelim.contracts.family import noise_type
from jaxelim.contracts.views import ArmContext, Snapshot, Statistics, Tree, View
from jaxelim.engine import watching
from jaxelim.engine.asking import Asking
from jaxelim.engine.one_lane import Traced, operations
from jaxelim.engine.state import (
    Inputs,
    Lane,
    Outcome,
    Outline,
    Pending,
    Queue,
    Record,
    Run,
    of_run,
)  # fmt: skip
from jaxelim.families import draws as random
from jaxelim.lanes import where
from jaxelim.returned import call_stopping


class Taken(NamedTuple):
    """The result of a step."""

    lane: Lane
    arm: Array  # [B] int32: the choice; -1 where no reward is drawn, if any may be
    go: Array  # [B] bool: whether the lane draws it
    seen: Snapshot
    reward: Array  # [B]; 0 where none is drawn
    asks: Array  # [B] bool: the lane lacks rare work that was left out


class Step(Asking):
    """Steps of the lanes, for one spec."""

    def noise(self, inputs: Inputs, run: Array, row: Array, start: Array, length: int) -> Array:
        """The noise of runs [B] from t = start [B] on: [length, B]."""
        kind, dtype = self.spec.source.noise, self.spec.dtype
        if inputs.noise is not None:
            return random.given(kind, inputs.noise, row, start, length, dtype)
        return random.seeded(kind, inputs.key, run, start, length, dtype)

    def pull(
        self, inputs: Inputs, lane: Lane, noise: Array | None = None, light: bool = False,
        work: bool = True, tests: bool = True, pulls: bool = True,
    ) -> Taken:  # fmt: skip
        """Take one step of every lane.

        An arm or an answer out of range ends a run, with observers still open. So does a
        number that is not finite. `noise` [B] is that of the rewards; None: they come from outside,
        and pulls are pending. A `light` step leaves rare work out, and says where it lacks.
        Without `work` none is done, for a choice that is dropped. Without `tests` nothing stops a
        run. Without `pulls` the step ends with the choice.
        """
        in_groups, record = lane.pending is not None, lane.record
        lane, waits = self.entered(inputs, lane)
        seen = self.snapshot(inputs, lane)
        checked = self.checked(inputs, lane, seen, waits)
        beta = self.betas(lane)
        if tests and self.spec.evidence is not None:
            checked = checked.with_check(log_e=looks.of_every_answer(checked))
        observe = partial(self.observed, checked) if tests else self.untested
        observers, stops, tested = observe(lane, beta)
        sampling = self.sampling(checked, lane)
        view = self.view(inputs, seen, lane.run, observers, sampling)
        fault, live = watching.seen(self.spec, seen, view, lane)
        wanted = live & jnp.any((record.samples == 0) & ~stops, (0, 1)) & ~waits
        wanted = wanted if work else jnp.zeros_like(wanted)
        arm, state, asks = self.asked(view, lane.rule_state, wanted, light)
        arm = self.playable(view, arm)
        ready: Any = True if asks is None else ~asks
        entered: Any = True
        if in_groups:
            ready, entered = ready & ~waits, checked.check.live

        log_e = lane.log_e
        if tests:
            log_e = jax.tree.map(jnp.maximum, log_e, checked.check.log_e)
        # Which observers' runs end at this snapshot, [S, D, B] bool each.
        opened = (record.samples == 0) & live
        stopping = opened & stops
        native = self.natively(view, state, opened & ~stopping & ready & entered)
        if native is not None:
            stopping = stopping | native[0]
        capped = opened & ~stopping & (lane.stats.t >= inputs.cap) & ready
        closing = stopping | capped
        still = opened & ~closing

        def answered(before: Array) -> Array:
            """The public answers, with those of the runs that end: [S, D, W, B]."""
            now = self.answers(checked, observers, beta)
            if native is not None:
                now = jnp.where(native[0][:, :, None], native[1], now)
            now = jnp.where(capped[:, :, None], checked.public, now)
            return jnp.where(closing[:, :, None], now, before)

        if seen.lanes.gpu:
            # `any` over lanes would be a kernel of one block, and the branch one more node.
            answers = answered(record.answer)
        else:
            some = jnp.any(closing)
            answers = jax.lax.cond(some, answered, lambda answers: answers, record.answer)
        goes_on = jnp.any(still, (0, 1))
        go = live & goes_on & ready
        # Such a lane draws one more sample, which is never read; masking it would cost too much.
        wrong = go & ((arm < 0) | (arm >= lane.stats.counts.shape[0]))
        partly = asks is not None or in_groups
        if partly:  # some lanes do not draw
            state = where(go, state, lane.rule_state)
        estimates = record.estimates
        if estimates:
            known = estimates_of(lane.stats, lane.pending)
            estimates = where(closing[:, :, None], known, estimates)
        counted = closing | (still & go)
        worked = jax.tree.map(
            lambda x, more: x + jnp.where(go, more, 0).astype(jnp.int64),
            lane.work, self.work(view, state),
        )  # fmt: skip
        record = dataclasses.replace(
            record,
            samples=jnp.where(closing, lane.stats.t, record.samples),
            stopped=record.stopped | stopping,
            answer=answers,
            tests_stopping=record.tests_stopping + jnp.where(counted, tested, 0).astype(jnp.int64),
            work=where(closing, lane.work, record.work),
            estimates=estimates,
        )
        stats, pending, reward = lane.stats, lane.pending, jnp.zeros(go.shape, self.spec.dtype)
        if noise is not None:
            lanes, nature = seen.lanes, of_run(lane.run.nature, inputs.nature)
            number = lanes.take(lane.stats.counts, arm).astype(jnp.int32)
            reward = self.spec.source.draw(lanes, nature, arm, number, noise)
        if pulls:
            stats, pending = self.chosen(seen, lane, arm, reward, go)
        if partly:
            keep = jnp.any(closing, (0, 1)) | go
            observers = where(keep, observers, lane.observers)
            sampling = where(keep, sampling, lane.sampling)
        now = dataclasses.replace(
            lane,
            stats=stats,
            rule_state=state,
            observers=observers,
            sampling=sampling,
            record=record,
            work=worked,
            done=~goes_on | wrong,  # a finished lane has no open observers, so it stays done
            fault=watching.marked(fault, wrong, watching.ARM, arm),
            log_e=log_e,
            pending=pending,
        )
        if noise is not None:
            if not shipped(self.spec.family):
                now = watching.ended(now, go & ~jnp.isfinite(reward), watching.REWARD)
            arm = jnp.where(go, arm, -1)
        return Taken(now, arm, go, seen, reward, jnp.zeros_like(go) if asks is None else asks)

    def outcome(self, lane: Lane) -> Outcome:
        """The outcomes of lanes whose runs are over."""
        spec, left = self.spec, lane.record
        pulls = lane.stats.counts[None, None] if left.pulls is None else left.pulls
        times = []
        for s, stopping in enumerate(spec.stopping):
            eliminated = lane.observers[s].times() if stopping.eliminates else None
            if eliminated is not None:
                until = jax.vmap(lambda times, at: jnp.where(times <= at, times, 0))
                eliminated = until(eliminated, left.samples[s])
            times.append(eliminated)
        kept = left.estimates
        if "means" in spec.record and spec.observers == 1:  # rewards end with the run
            kept = jax.tree.map(lambda x: x[None, None], estimates_of(lane.stats, lane.pending))
        left = dataclasses.replace(left, pulls=pulls.astype(jnp.int32), estimates=kept)
        out = Outcome(
            item=lane.run.item, record=left, times=tuple(times),
            degenerate=spec.family.degenerate(lane.stats),
        )  # fmt: skip
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), out)

    # The start of a run.

    def outline(self, inputs: Inputs) -> Outline:
        """The `Outline`, by a trace of every method of the rules, which checks them."""
        spec, rule, execution = self.spec, self.spec.rule, self.spec.execution
        of_lanes, of_runs = (_like(jnp.int32, n) for n in (execution.lanes, execution.queue))
        queue = Queue(
            run=of_runs, row=of_runs, instance=of_runs, length=_like(jnp.int32),
            delta=_like(spec.dtype, spec.deltas, execution.queue),
        )  # fmt: skip
        dtype = noise_type(spec.source.noise, spec.dtype)
        noise = _like(dtype, spec.initial_samples(inputs), execution.lanes)
        choices: dict[str, Any] = {"rare": False, "in_one_kernel": False, "inner_loops": False}

        def traced(*arguments):
            (lane, view), given = _started(self, arguments)(arguments), arguments[0]
            if not all(map(shipped, spec.stopping)):
                seen, beta = self.snapshot(given, lane), self.betas(lane)
                self.answers(seen, self.observed(seen, lane, beta)[0], beta)
            _, state, _ = self.asked(view, lane.rule_state, ~lane.done)
            if rule.rare:
                choices["rare"] = self.ask("probe", view, state)[2] is not None
            if spec.family.design and not rule.rare:
                choose = Traced(lambda state: self.ask("choose", view, state), state)
                names = {one.primitive.name for one in operations(choose.closed.jaxpr)}
                choices["inner_loops"] = bool(names & {"while", "scan"})
            if execution.single:
                noise = arguments[-1][0]
                step = Traced(lambda lane: self.pull(given, lane, noise, rule.rare).lane, lane)
                choices["in_one_kernel"] = step.allowed
            self.natively(view, state, lane.record.samples == 0)
            self.work(view, state)
            return lane, self.outcome(lane)

        arguments = inputs, queue, of_lanes, of_lanes, of_lanes, noise
        return Outline(*jax.eval_shape(traced, *arguments), **choices)

    def start(self, *arguments: Any) -> Lane:
        """Lanes at t = n K, after n initial pulls of each arm; the arguments of `started`."""
        return _started(self, arguments)(arguments)[0]

    def first_rewards(self, inputs: Inputs, nature: Tree, noise: Array) -> Array:
        """The rewards of the initial pulls, in rounds of all arms: [n K, B]; noise [n K, B].

        Where rewards come from outside these are given in place of noise.
        """
        if self.spec.places == 0:
            return noise
        zero, k = jnp.zeros(noise.shape[1:], jnp.int32), inputs.features.shape[1]
        lanes = self.spec.execution.lane_ops(inputs.flag)
        draw = partial(self.spec.source.draw, lanes, of_run(nature, inputs.nature))
        samples = jnp.arange(noise.shape[0], dtype=jnp.int32)
        return jax.vmap(lambda s, noise: draw(zero + s % k, zero + s // k, noise))(samples, noise)

    def _first_statistics(
        self, inputs: Inputs, space: ArmContext, tables: Tree, rewards: Array
    ) -> Statistics:
        """The statistics after the initial pulls; rewards [n K, B]."""
        spec, k, b = self.spec, inputs.features.shape[1], rewards.shape[1]
        if spec.initial_pulls == 1:
            return spec.family.start(space, spec.problem, tables, rewards)
        go = jnp.ones((b,), bool)

        def more(s: Array, stats: Statistics) -> Statistics:
            seen = Snapshot.of(spec.family, spec.problem, space, stats)
            arm = jnp.full((b,), s % k, jnp.int32)
            reward = jax.lax.dynamic_index_in_dim(rewards, s, keepdims=False)
            new = spec.family.update(seen, arm, reward, go)
            return dataclasses.replace(new, t=stats.t + 1)

        stats = spec.family.start(space, spec.problem, tables, rewards[:k])
        return jax.lax.fori_loop(np.int32(k), np.int32(rewards.shape[0]), more, stats)

    def started(
        self, inputs: Inputs, queue: Queue, item: Array, run: Array, row: Array, noise: Array
    ) -> tuple[Lane, View]:
        """Lanes at t = n K, and the view of the rule then.

        `item` [B] are places in the queue. `noise` [n K, B] is that of `run` and `row`, [B].
        """
        spec, k, b = self.spec, inputs.features.shape[1], noise.shape[1]
        at = jnp.minimum(item, spec.execution.queue - 1)
        instance, features, nature, prepared = queue.instance[at], None, None, None
        tables = of_run(None, inputs.tables)
        if spec.per_lane_instances:
            features, nature, prepared, tables = jax.tree.map(
                lambda x: jnp.moveaxis(x[instance], 0, -1),
                (inputs.features, inputs.nature, inputs.prepared, inputs.tables),
            )
        run_of = Run(
            item=item, index=run, row=row, instance=instance, delta=queue.delta[:, at],
            features=features, nature=nature, prepared=prepared,
        )  # fmt: skip
        space = self.space(inputs, features)
        rewards = self.first_rewards(inputs, nature, noise)
        stats = self._first_statistics(inputs, space, tables, rewards)
        if not isinstance(spec.source, Family):
            shared = jax.tree.map(lambda x: x[0, ..., None], inputs.nature)
            lengths = spec.source.lengths(shared if nature is None else nature)
            if lengths is not None:
                stacks = jnp.broadcast_to(lengths, (k, b)).astype(stats.counts.dtype)
                stats = dataclasses.replace(stats, stacks=stacks)
        seen = Snapshot.of(spec.family, spec.problem, space, stats)
        pair_times, own = "pair_times" in spec.record, spec.elimination
        states = tuple(call_stopping(one, "start", seen, pair_times) for one in spec.stopping)
        observers = jax.tree.map(lambda x: jnp.broadcast_to(x, (spec.deltas, *x.shape)), states)
        sampling = () if own is None or own.shared else own.start(seen)
        pending = None
        if spec.places is not None:
            waits = jnp.zeros((spec.places, b), jnp.int32) if spec.places else None
            worth = None if waits is None else waits.astype(stats.means.dtype)
            checked = jnp.zeros_like(stats.t)
            pending = Pending(entered=stats, checked=checked, arms=waits, rewards=worth)
            stats = spec.family.with_pending(space, stats, stats)
            seen = self.snapshot_of(inputs, run_of, stats)
        view = self.view(inputs, seen, run_of, observers, sampling)
        state = self.init(view)
        counted, none = self.work(view, state), jnp.zeros((b,), jnp.int64)

        def many(dtype: Any, *more: int) -> Array:
            return jnp.zeros((len(spec.stopping), spec.deltas, *more, b), dtype)

        estimates = ()
        if "means" in spec.record and spec.observers > 1:
            known = estimates_of(stats, pending)
            estimates = jax.tree.map(lambda x: many(x.dtype, k), known)
        record = Record(
            samples=many(jnp.int32),
            stopped=many(bool),
            answer=many(bool, seen.public.shape[0]),
            pulls=many(jnp.int32, k) if spec.observers > 1 else None,
            tests_stopping=many(jnp.int64),
            work=tuple(many(jnp.int64) for _ in counted),
            estimates=estimates,
        )
        lane = Lane(
            run=run_of,
            stats=stats,
            rule_state=state,
            observers=observers,
            sampling=sampling,
            record=record,
            work=tuple(none for _ in counted),
            done=item >= queue.length,
            fault=none,
            log_e=None if spec.evidence is None else looks.none_so_far(seen),
            pending=pending,
        )
        lost = ~lane.done & jnp.any(~jnp.isfinite(rewards), 0)
        return watching.ended(lane, lost, watching.REWARD), view


def estimates_of(stats: Statistics, pending: Pending | None) -> dict[str, Array]:
    """What a run estimates of its arms, by name, and from how many rewards: [K] each.

    The number of rewards is that of pulls where none is pending, and then is not kept.
    """
    names = ("means", "variances") if hasattr(stats, "variances") else ("means",)
    known = {name: getattr(stats, name) for name in names}
    return known if pending is None else {**known, "entered": pending.entered.counts}


def _like(dtype: Any, *shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


_started = Cache(lambda step, given: Traced(lambda x: step.started(*x), given), KEPT)
"""`Step.started`, traced once for `outline` and the loop."""
outline = Cache(lambda spec, inputs: Step(spec).outline(inputs), 8 * KEPT)
"""`Step.outline` of a spec for inputs of one layout."""
