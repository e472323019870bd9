"""Pending rewards: of pulls that are chosen, and whose rewards have not entered.

The reward of the pull chosen as sample s enters at the first batch end at or after s + D, D the
delay. Batches are counted from the first check on. Rewards enter in groups, in the order of their
pulls. One test follows a group.

`Lane.stats` then has what the sampling rule sees, as `Family.with_pending` says: its counts and
its t are those of all pulls. `Pending.entered` has the statistics of the rewards that have entered,
which tests see. A step enters one reward or more, and chooses where no other is due. So a sample
costs at most two steps, and one where a lane's rewards enter in a step of all lanes.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.views import Snapshot, Statistics
from jaxelim.engine.observing import Observing
from jaxelim.engine.state import Inputs, Lane, Pending

_SHARE = 4  # a step lets rewards enter while one lane in so many has more due: a step costs more


class Arrivals(Observing):
    """Lets pulls wait and rewards enter. Where none waits it changes nothing."""

    def first_pending(self, seen: Snapshot) -> tuple[Statistics, Pending | None]:
        """What a rule sees after the initial pulls, and what is pending: nothing."""
        stats, places = seen.stats, self.spec.places
        if places is None:
            return stats, None
        ahead = self.spec.family.with_pending(seen.space, stats, stats)
        like, arms, rewards = stats.means[0], None, None
        if places:
            arms = jnp.zeros((places, *like.shape), jnp.int32)
            rewards = arms.astype(like.dtype)
        checked = jnp.zeros_like(stats.t)
        return ahead, Pending(entered=stats, checked=checked, arms=arms, rewards=rewards)

    def entered(self, inputs: Inputs, lane: Lane) -> tuple[Lane, Array]:
        """The lanes after due rewards have entered, and which of them have more due: [B] bool.

        One enters in each lane, and further ones while many lanes have more due: lanes that are
        alike take one step for all rewards of a batch.
        """
        none = jnp.zeros_like(lane.done)
        if not self.spec.places:
            return lane, none
        if self.spec.execution.gpu:
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
        """`entered`, of one reward in each lane."""
        waiting: Any = lane.pending
        due = self._due(inputs, lane) & ~lane.done
        lanes, place = self.spec.execution.lane_ops(inputs.flag), self._place(waiting.entered.t)
        arm, reward = lanes.take(waiting.arms, place), lanes.take(waiting.rewards, place)
        lane = self.with_reward(inputs, lane, arm, reward, due)
        return lane, self._due(inputs, lane)

    def _place(self, before: Array) -> Array:
        """Where the first pull after so many is kept."""
        assert self.spec.places
        return before & (self.spec.places - 1)

    def _due(self, inputs: Inputs, lane: Lane) -> Array:
        """Whether the next reward is due: [B] bool. All are where no arm has rewards left."""
        assert lane.pending is not None and inputs.timing is not None
        (batch, delay), start = inputs.timing, self.spec.initial_samples(inputs)
        samples, entered, known = lane.stats.t, lane.pending.entered.t, lane.stats.used_up
        end = samples - (samples - start) % batch  # of the last batch that is whole
        due = entered + delay < end
        return due if known is None else due | (jnp.all(known, 0) & (entered < samples))

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
        stats = family.update(seen, arm, reward, go, **of_item)
        now = dict(t=waiting.entered.t + go.astype(jnp.int32), stacks=lane.stats.stacks)
        stats = dataclasses.replace(stats, **now)
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
        family, waiting, lanes = self.spec.family, lane.pending, seen.lanes
        more = dict(t=lane.stats.t + go.astype(jnp.int32), stacks=lane.stats.stacks)
        if waiting is None:
            return dataclasses.replace(family.update(seen, arm, reward, go), **more), None
        stats = family.with_pending(seen.space, waiting.entered, lane.stats, (arm, go))
        checked = jnp.where(go, waiting.entered.t, waiting.checked)
        waiting = dataclasses.replace(waiting, checked=checked)
        if waiting.arms is not None and waiting.rewards is not None:
            place = self._place(lane.stats.t)
            arms = lanes.put(waiting.arms, place, arm)
            rewards = lanes.put(waiting.rewards, place, reward)
            waiting = dataclasses.replace(waiting, arms=arms, rewards=rewards)
        return dataclasses.replace(stats, **more), waiting
