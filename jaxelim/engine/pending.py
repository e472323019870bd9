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

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.views import Statistics
from jaxelim.lanes import LaneOps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """What a program depends on where rewards are pending: the room for them in a lane."""

    places: int  # a power of two, above the largest number of them; 0: rewards come from outside

    @staticmethod
    def of(batch: int, delay: int, most: int) -> "Schedule":
        """The room for a batch and a delay, in runs of at most so many samples."""
        places = 2
        while places <= min(batch + delay, most):
            places *= 2
        return Schedule(places=places)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """When rewards enter."""

    batch: Array  # [] int32: pulls of a batch
    delay: Array  # [] int32

    @staticmethod
    def of(batch: int, delay: int) -> "Timing":
        """As arrays."""
        return Timing(batch=np.int32(batch), delay=np.int32(delay))  # type: ignore[arg-type]

    def due(self, samples: Array, entered: Array, start: int) -> Array:
        """Whether the reward of the next pull is due: [B] bool.

        Args:
            samples: of each lane so far, [B].
            entered: of these, how many have entered, [B].
            start: the number of initial samples.
        """
        end = samples - (samples - start) % self.batch  # of the last batch that is whole
        return entered + self.delay < end


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Ring:
    """The last P pulls. That of sample s is at place (s - 1) mod P."""

    arm: Array  # [P, B] int32
    reward: Array  # [P, B]

    @staticmethod
    def empty(schedule: Schedule, like: Array) -> "Ring | None":
        """Without pulls, for lanes with rewards as `like` [B]; None: rewards come from outside."""
        if not schedule.places:
            return None
        arm = jnp.zeros((schedule.places, *like.shape), jnp.int32)
        return Ring(arm=arm, reward=arm.astype(like.dtype))

    def next(self, lanes: LaneOps, entered: Array) -> tuple[Array, Array]:
        """Arm and reward of the first pull after those that have `entered` [B]: [B] each."""
        place = entered & (self.arm.shape[0] - 1)
        return lanes.take(self.arm, place), lanes.take(self.reward, place)

    def pushed(self, lanes: LaneOps, samples: Array, arm: Array, reward: Array) -> "Ring":
        """The ring with one more pull [B], after so many `samples` [B].

        Where there is no pull the free place has numbers that nobody reads.
        """
        place = samples & (self.arm.shape[0] - 1)
        return Ring(
            arm=lanes.put(self.arm, place, arm), reward=lanes.put(self.reward, place, reward)
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Pending:
    """The pending rewards of B lanes."""

    entered: Statistics  # of the rewards that have entered
    checked: Array  # [B] int32: how many had entered at the last check; 0 before the first
    ring: Ring | None  # None where rewards come from outside

    @property
    def fresh(self) -> Array:
        """Whether rewards have entered since the last check: [B] bool."""
        return self.entered.t > self.checked

    @property
    def bare(self) -> "Pending":
        """Without the rewards that are pending."""
        return dataclasses.replace(self, ring=None)
