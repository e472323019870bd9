"""Is any arm above a level? Several answers may be right."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import real
from jaxelim.contracts import PieceSet, Problem
from jaxelim.contracts.shapes import Levels
from jaxelim.errors import TieError, UnsupportedError
from jaxelim.lanes import index_like
from jaxelim.problems.masks import made_from

_OFF = 1e-14  # of the level, relative to the terms of a gap


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AboveSet(PieceSet):
    """Both sides of every arm. Settled once an arm is above, or all arms are below."""

    dropped: Array  # [K, 2] int32: t when {mu_k >= level} and {mu_k <= level} fell; 0 while active

    def active(self, seen):
        above = Levels.of(seen.shape).above
        dropped = jnp.where(above, self.dropped[:, 1], self.dropped[:, 0])
        return (dropped == 0) & seen.shape.exists

    def drop(self, seen, refuted):
        above, now = Levels.of(seen.shape).above, refuted & seen.shape.exists
        return self._without(seen, now & ~above, now & above)

    def drop_all(self, seen, beta):
        shape, refuted = Levels.of(seen.shape), []
        for above in (False, True):
            whole = jnp.full_like(shape.above, above), jnp.ones_like(shape.exists)
            side = seen.about(Levels(*whole, shape.level, whole[0].shape[0]))
            refuted.append(side.refuted(beta, side.shape.exists))
        return self._without(seen, *refuted)

    def _without(self, seen, at_least, at_most) -> "AboveSet":
        """The set without {mu_k >= level} and {mu_k <= level} of these arms: [K] bool each."""
        now = jnp.stack([at_least, at_most], 1)
        return AboveSet(jnp.where(now & (self.dropped == 0), seen.stats.t, self.dropped))

    def tests(self, seen, full):
        return self.remaining(seen.lanes) if full else self.active_count(seen)

    def settled(self, seen, full):
        none = seen.lanes.zeros(self.dropped[:, 0]) == 0
        return none | seen.lanes.any(self.dropped[:, 1] > 0)

    def verdict(self, seen, full):
        proven = self.dropped[:, 1] > 0
        best = seen.lanes.argmax(jnp.where(proven, seen.means, -jnp.inf))
        return proven & (index_like(proven) == best)

    def times(self):
        return self.dropped

    def remaining(self, lanes):
        return jnp.sum(self.dropped == 0, (0, 1), dtype=jnp.int32)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class AnyAbove(Problem):
    """Identify an arm with a mean above the level, or that there is none.

    Every arm above the level is a right answer; where there is none, "no arm" is, a public
    answer without True. Pieces of arm i: {mu_i <= level} alone. Pieces of no arm:
    {mu_k >= level} for every arm k. Unstructured arms only.

    The answer that tests and rules look at is the arm of largest LLR of {mu_i <= level}
    among those estimated at or above the level; no arm if there is none. The set of pieces
    is a K x 2 mask of both sides of every arm. A run stops when some arm is proven above,
    or all are proven below. (Degenne & Koolen 2019; Jourdan & Reda 2023, who call it good
    arm identification)

    Args:
        level: a mean, in the units of the rewards.

    Raises:
        ArgumentError: the level is no finite number.
    """

    level: float = 0.0
    name: ClassVar[str] = "any-above"
    lanes_last: ClassVar[bool] = True
    several_right: ClassVar[bool] = True
    times_axes: ClassVar[tuple[str, ...]] = ("arm", "side")

    def __post_init__(self):
        object.__setattr__(self, "level", real("level", self.level))

    def scaled(self, scale):
        return AnyAbove(self.level / scale)

    def check_arms(self, arms):
        if not np.array_equal(arms, np.eye(len(arms))):
            allowed = f"unstructured arms: {self!r} is not defined for others"
            raise UnsupportedError("instance", "linear", allowed)

    def check(self, arms, theta):
        means = arms @ theta
        if means.max() == self.level:
            on = np.flatnonzero(means == self.level).tolist()
            tied = f"arms {on} with their mean on the level {self.level}, and no arm above it"
            raise TieError("instance", tied, "a largest mean off the level")

    def right(self, means):
        order = np.argsort(-means, kind="stable")
        above = order[means[order] > self.level]
        return above if above.size else np.array([len(means)])

    def inner(self, means):
        right = self.right(means)
        nearest = means.max() if right[0] == len(means) else means[right]
        off = np.abs(nearest - self.level) > _OFF * (np.abs(nearest) + abs(self.level))
        return right[np.broadcast_to(off, right.shape)]

    def correct(self, answers, truth, means):
        right = self.right(means)
        if right[0] == len(means):
            return ~answers.any(-1)
        return answers[..., right].any(-1)

    def half_spaces(self, arms, theta):
        return self.half_spaces_of(int(self.right(arms @ theta)[0]), arms)

    def half_spaces_of(self, answer, arms):
        some = slice(None) if answer == len(arms) else [answer]
        sign = -1.0 if answer == len(arms) else 1.0
        return sign * arms[some], np.full(len(arms[some]), sign * self.level)

    def answer(self, seen):
        none = seen.lanes.max(seen.means) < self.level
        return jnp.where(none, jnp.int32(seen.means.shape[0]), seen.lanes.argmax(seen.means))

    def leading(self, seen, answer, evidence):
        arms, means = seen.means.shape[0], seen.means
        against = jnp.where(means >= self.level, evidence.values(), -jnp.inf)
        return jnp.where(answer == arms, answer, seen.lanes.argmax(against))

    def public(self, seen, answer):
        return index_like(seen.means) == answer

    def shape(self, seen, answer):
        arms, none = index_like(seen.means), answer == seen.means.shape[0]
        exists = jnp.broadcast_to(none | (arms == answer), seen.means.shape)
        above = jnp.broadcast_to(~none, seen.means.shape)
        return Levels(above, exists, self.level)

    def wrong_answers(self, arms):
        return arms

    def pieces(self, seen, pair_times=False):
        means = seen.means
        return AboveSet(jnp.zeros((means.shape[0], 2, *means.shape[1:]), jnp.int32))

    def plain_pieces(self, seen):
        return made_from(seen.shape, seen)
