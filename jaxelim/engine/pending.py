"""Pending rewards: of pulls that are chosen, and whose rewards have not entered.

The reward of the pull chosen as sample s, of arm k, enters at the first batch end at or
after s + D_k, D_k the delay of the arm. Batches are counted from the first check on. Rewards enter
in groups, in the order of their pulls. One test follows a group.

`Lane.stats` then has what the sampling rule sees, as `Family.with_pending` says: its counts and
its t are those of all pulls. `Pending.entered` has the statistics of the rewards that have entered,
which tests see. A step enters one reward or more, and chooses where no other is due. So a sample
costs at most two steps, and one where a lane's rewards enter in a step of all lanes.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.views import Statistics
from jaxelim.lanes import LaneOps, index_like


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """What a program depends on where rewards are pending: the room for them in a lane."""

    classes: int  # of arms with equal delays; 0: rewards come from outside
    places: int  # of a class: a power of two, above its largest number of pending rewards

    @staticmethod
    def of(batch: int, delay: np.ndarray, most: int) -> "Schedule":
        """The room for batches and delays [K], in runs of at most so many samples."""
        places = 2
        while places <= min(batch + int(delay.max()), most):
            places *= 2
        return Schedule(classes=np.unique(delay).size, places=places)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """When rewards enter."""

    batch: Array  # [] int32: pulls of a batch
    delays: Array  # [G] int32: of each class of arms, increasing
    of_arm: Array  # [K] int32: the arm's class

    @staticmethod
    def of(batch: int, delay: np.ndarray) -> "Timing":
        """From the delays of the arms, [K]."""
        delays, of_arm = np.unique(delay, return_inverse=True)
        arrays = (np.asarray(x, np.int32) for x in (batch, delays, of_arm.reshape(-1)))
        return Timing(**dict(zip(("batch", "delays", "of_arm"), arrays, strict=True)))  # type: ignore[arg-type]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Ring:
    """The pulls of G classes of arms, P places each: the last ones, in the order of pulls."""

    arm: Array  # [G P, B] int32
    sample: Array  # [G P, B] int32: index of the pull, the first after the initial ones is n K + 1
    reward: Array  # [G P, B]
    chosen: Array  # [G, B] int32: pulls so far
    entered: Array  # [G, B] int32: of these, how many have entered


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


class Due(NamedTuple):
    """The earliest pull whose reward is due, of each lane."""

    any: Array  # [B] bool: there is one
    class_: Array  # [B] int32
    place: Array  # [B] int32: in the ring


def empty(schedule: Schedule, like: Array) -> Ring | None:
    """A ring without pulls, for lanes with rewards as `like` [B]; None: none is kept."""
    if not schedule.classes:
        return None
    none = jnp.zeros((schedule.classes, *like.shape), jnp.int32)
    places = jnp.zeros((schedule.classes * schedule.places, *like.shape), jnp.int32)
    reward = places.astype(like.dtype)
    return Ring(arm=places, sample=places, reward=reward, chosen=none, entered=none)


def due(
    schedule: Schedule, timing: Timing, lanes: LaneOps, ring: Ring, samples: Array, start: int
) -> Due:
    """The earliest due pull of every lane.

    Args:
        schedule, timing: of the call.
        lanes: the primitives.
        ring: of the lanes.
        samples: of each lane so far, [B].
        start: the number of initial samples.
    """
    first = _places(schedule, ring.entered)
    sample = jnp.stack([lanes.take(ring.sample, place) for place in first])
    end = samples - (samples - start) % timing.batch  # of the last batch that is whole
    delays = timing.delays[:, None]
    here = (ring.entered < ring.chosen) & (sample <= end - delays)
    order = jnp.where(here, sample, np.iinfo(np.int32).max)
    which = lanes.argmin(order)
    return Due(lanes.any(here), which, lanes.take(jnp.stack(first), which))


def _places(schedule: Schedule, count: Array) -> list[Array]:
    """Where the pulls number `count` [G, B] of the classes are: [B] each."""
    return [
        g * schedule.places + (count[g] & (schedule.places - 1)) for g in range(schedule.classes)
    ]


def taken(ring: Ring, due: Due) -> Ring:
    """The ring without the due pulls."""
    here = due.any & (index_like(ring.entered) == due.class_)
    return dataclasses.replace(ring, entered=ring.entered + here.astype(jnp.int32))


def pushed(
    schedule: Schedule, timing: Timing, lanes: LaneOps, ring: Ring, pull: tuple[Array, ...]
) -> Ring:
    """The ring with one more pull of each lane.

    Args:
        schedule, timing: of the call.
        lanes: the primitives.
        ring: of the lanes. A place is free in every class.
        pull: arm, reward, index of the sample, and whether there is a pull: [B] each.
    """
    arm, reward, sample, go = pull
    safe = jnp.clip(arm, 0, timing.of_arm.shape[0] - 1)
    which = timing.of_arm[safe]
    place = lanes.take(jnp.stack(_places(schedule, ring.chosen)), which)
    # Without a pull the free place has numbers that nobody reads.
    here = go & (index_like(ring.chosen) == which)
    return dataclasses.replace(
        ring,
        arm=lanes.put(ring.arm, place, arm),
        sample=lanes.put(ring.sample, place, sample),
        reward=lanes.put(ring.reward, place, reward),
        chosen=ring.chosen + here.astype(jnp.int32),
    )
