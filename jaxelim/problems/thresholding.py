"""Thresholding bandits, also called online sign identification."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.checks import real
from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.sets import SignSet
from jaxelim.errors import ArgumentError


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

    def answer(self, seen):
        return seen.means >= self.level

    def public(self, seen, answer):
        return answer

    def shape(self, seen, answer):
        everywhere = jnp.ones_like(answer)
        return Pairs(None, everywhere, answer, level=self.level, count=answer.shape[0])

    def wrong_answers(self, arms):
        return arms

    def pieces(self, seen, pair_times=False):
        return SignSet.full(seen.means)
