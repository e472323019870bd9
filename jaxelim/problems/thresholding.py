"""Thresholding bandits, also called online sign identification."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import real
from jaxelim.contracts import PieceSet, Problem
from jaxelim.contracts.shapes import Levels
from jaxelim.errors import ArgumentError
from jaxelim.problems.masks import made_from


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SignSet(PieceSet):
    """The arms whose side of the level is open. Full and selective tests are the same."""

    dropped: Array  # [K] int32: 0 while active, then the time; negative for arms below the level
    left: Array  # [] int32: number of active arms

    def active(self, seen):
        return self.dropped == 0

    def active_count(self, seen):
        return self.left

    def drop(self, seen, refuted):
        t = seen.stats.t
        signed = jnp.where(seen.answer, t, -t)
        dropped = jnp.where(refuted & (self.dropped == 0), signed, self.dropped)
        return SignSet(dropped, seen.lanes.zeros(dropped))

    def settled(self, seen, full):
        return self.left == 0

    def verdict(self, seen, full):
        return self.dropped > 0

    def restarting(self, seen):
        return made_from(seen.shape, seen)

    def times(self):
        return jnp.abs(self.dropped)

    def remaining(self, lanes):
        return self.left


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Thresholding(Problem):
    """Identify the arms with a mean at or above the level.

    Piece k: y = s_k phi_k, c = s_k level, with s_k = 1 for empirical means at or above
    the level, else -1; K of them. The ridge is not recentred on the level. (Paper,
    section 2 and appendix "Identification Problems", where the level is 0.)

    Args:
        level: the threshold on the means, in the units of the rewards.
    """

    level: float = 0.0
    name: ClassVar[str] = "thresholding"
    lanes_last: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "level", real("level", self.level))

    def scaled(self, scale):
        return Thresholding(self.level / scale)

    def check(self, arms, theta):
        on = np.flatnonzero(arms @ theta == self.level)
        if on.size:
            tied = f"arms {on.tolist()} with their mean on the level {self.level}"
            raise ArgumentError("instance", tied, "no mean on it")

    def half_spaces(self, arms, theta):
        sign = np.where(arms @ theta >= self.level, 1.0, -1.0)
        return sign[:, None] * arms, sign * self.level

    def answer(self, seen):
        return seen.means >= self.level

    def public(self, seen, answer):
        return answer

    def shape(self, seen, answer):
        return Levels(answer, jnp.ones_like(answer), self.level, answer.shape[0])

    def wrong_answers(self, arms):
        return arms

    def pieces(self, seen, pair_times=False):
        means = seen.means
        left = jnp.full(means.shape[1:], means.shape[0], jnp.int32)
        return SignSet(jnp.zeros(means.shape, jnp.int32), left)
