"""Rewards that enter after their pulls, in all lanes; see `jaxelim.engine.pending`."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.views import Snapshot, Statistics
from jaxelim.engine.observing import Observing
from jaxelim.engine.pending import Pending, Ring
from jaxelim.engine.state import Inputs, Lane, Spec

_SHARE = 4  # a step lets rewards enter while one lane in so many has more due: a step costs more


@dataclasses.dataclass(frozen=True)
class Arrivals:
    """Lets pulls wait and rewards enter, for one spec. Without a schedule it changes nothing."""

    spec: Spec

    def started(self, seen: Snapshot) -> tuple[Statistics, Pending | None]:
        """What a rule sees after the initial pulls, and what is pending: nothing."""
        stats, schedule = seen.stats, self.spec.schedule
        if schedule is None:
            return stats, None
        ahead = self.spec.family.with_pending(seen.space, stats, stats)
        ring = Ring.empty(schedule, stats.means[0])
        return ahead, Pending(entered=stats, checked=jnp.zeros_like(stats.t), ring=ring)

    def entered(self, inputs: Inputs, lane: Lane) -> tuple[Lane, Array]:
        """The lanes after due rewards have entered, and which of them have more due: [B] bool.

        One enters in each lane, and further ones while many lanes have more due. Lanes that
        are alike, as those of a batch are, then take one step for all of their rewards.
        """
        waiting, none = lane.pending, jnp.zeros_like(lane.done)
        if waiting is None or waiting.ring is None:
            return lane, none
        if self.spec.execution.lane_ops(inputs.flag).gpu:
            return self._one_entered(inputs, lane)

        def go_on(carry: tuple[Array, Lane, Array]) -> Array:
            first, lane, more = carry
            due, live = (jnp.sum(x, dtype=jnp.int32) for x in (more & ~lane.done, ~lane.done))
            return first | ((due > 0) & (_SHARE * due >= live))

        def enter(carry: tuple[Array, Lane, Array]) -> tuple[Array, Lane, Array]:
            return jnp.bool_(False), *self._one_entered(inputs, carry[1])

        # One loop, so that every reward enters by the same compiled operations.
        return jax.lax.while_loop(go_on, enter, (jnp.bool_(True), lane, none))[1:]

    def _one_entered(self, inputs: Inputs, lane: Lane) -> tuple[Lane, Array]:
        """The lanes after one due reward has entered, and which of them have more due: [B] bool."""
        spec, waiting = self.spec, lane.pending
        assert waiting is not None and waiting.ring is not None
        assert inputs.timing is not None
        due = self._due(inputs, lane) & ~lane.done
        lanes = spec.execution.lane_ops(inputs.flag)
        lane = self.with_reward(inputs, lane, *waiting.ring.next(lanes, waiting.entered.t), due)
        return lane, self._due(inputs, lane)

    def _due(self, inputs: Inputs, lane: Lane) -> Array:
        """Whether the next reward is due: [B] bool. All are where no arm has rewards left."""
        assert lane.pending is not None and inputs.timing is not None
        samples, entered, known = lane.stats.t, lane.pending.entered.t, lane.stats.used_up
        due = inputs.timing.due(samples, entered, self.spec.initial_samples(inputs))
        return due if known is None else due | (jnp.all(known, 0) & (entered < samples))

    def with_reward(
        self, inputs: Inputs, lane: Lane, arm: Array, reward: Array, go: Array,
        item: Array | None = None,
    ) -> Lane:  # fmt: skip
        """The lanes after a reward has entered where `go` [B] bool holds; arm, reward [B].

        `item` [B]: the place of its item, for a family of common items; None: the next one.
        """
        spec, waiting = self.spec, lane.pending
        assert waiting is not None
        seen = Observing(spec).of(inputs, lane, waiting.entered)
        family: Any = spec.family
        of_item = {} if item is None else {"item": item}
        stats = family.update(seen, arm, reward, go, **of_item)
        now = dict(t=waiting.entered.t + go.astype(jnp.int32), stacks=lane.stats.stacks)
        stats = dataclasses.replace(stats, **now)
        ahead = spec.family.with_pending(seen.space, stats, lane.stats)
        waiting = dataclasses.replace(waiting, entered=stats)
        return dataclasses.replace(lane, stats=ahead, pending=waiting)

    def chosen(
        self, inputs: Inputs, seen: Snapshot, lane: Lane, arm: Array, reward: Array, go: Array
    ) -> tuple[Statistics, Pending | None]:
        """The statistics, and what is pending, after a pull where `go` [B] bool holds.

        Args:
            inputs: of the run.
            seen: what the rule saw.
            lane: of the same t.
            arm: the choice, [B].
            reward: of it, [B].
            go: [B] bool.
        """
        spec, waiting, t = self.spec, lane.pending, lane.stats.t + go.astype(jnp.int32)
        if waiting is None:
            stats = spec.family.update(seen, arm, reward, go)
            return dataclasses.replace(stats, t=t, stacks=lane.stats.stacks), None
        stats = spec.family.with_pending(seen.space, waiting.entered, lane.stats, (arm, go))
        checked, ring = jnp.where(go, waiting.entered.t, waiting.checked), waiting.ring
        if ring is not None:
            ring = ring.pushed(seen.lanes, lane.stats.t, arm, reward)
        waiting = dataclasses.replace(waiting, checked=checked, ring=ring)
        return dataclasses.replace(stats, t=t, stacks=lane.stats.stacks), waiting
