"""Best-arm identification."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import real
from jaxelim.contracts import PieceSet, Problem
from jaxelim.contracts.shapes import Rows
from jaxelim.errors import TieError
from jaxelim.lanes import index_like, over_arm_blocks
from jaxelim.problems.epsilon_best_arm import LARGEST, EpsilonBestArm


def refuted_against(seen, beta) -> Array:
    """The arms k with a refuted piece {mu_i <= mu_k} for some i: [K] bool."""

    def more(fallen, arms):
        for _, row in seen.family.refuted_pairs(seen, arms, beta):
            fallen = jnp.where(row, 1, fallen)
        return fallen

    # 0 or 1 in the floating type: XLA:CPU does not vectorise the loop with booleans.
    return over_arm_blocks(seen.means.shape[0], more, jnp.zeros_like(seen.means)) > 0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ArmSet(PieceSet):
    """A mask over the arms, stored as the times at which they were dropped."""

    dropped: Array  # [K] int32, 0 while active
    left: Array  # [] int32: number of active arms

    def active(self, seen):
        return (self.dropped == 0) & (index_like(self.dropped) != seen.answer)

    def active_count(self, seen):
        return self.left - (seen.lanes.take(self.dropped, seen.answer) == 0).astype(jnp.int32)

    def drop(self, seen, refuted):
        dropped = jnp.where(refuted & (self.dropped == 0), seen.stats.t, self.dropped)
        return ArmSet(dropped, seen.lanes.zeros(dropped))

    def drop_all(self, seen, beta):
        return self.drop(seen, refuted_against(seen, beta))

    def tests(self, seen, full):
        return self.left * (self.dropped.shape[0] - 1) if full else self.active_count(seen)

    def settled(self, seen, full):
        return self.left <= 1

    def verdict(self, seen, full):
        return jnp.where(self.left == 0, seen.public, self.dropped == 0)

    def times(self):
        return self.dropped

    def remaining(self, lanes):
        return self.left


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ArmMask(PieceSet):
    """A mask over the arms, without times."""

    left: Array  # [K] bool

    def active(self, seen):
        return self.left & (index_like(self.left) != seen.answer)

    def drop(self, seen, refuted):
        return ArmMask(self.left & ~refuted)

    def drop_all(self, seen, beta):
        return ArmMask(self.left & ~refuted_against(seen, beta))


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class BestArm(Problem):
    """Identify the arm with the largest mean.

    Pieces: y = phi_i - phi_k, c = 0, for the best arm i and every other arm k; K - 1 of
    them. The set of pieces is one mask over the arms. (Paper, section 2 and appendix
    "Identification Problems".)

    `BestArm(epsilon=..)`, above 0, makes an `EpsilonBestArm`: then every arm within epsilon
    of the largest mean is right.

    Args:
        epsilon: the slack, from 0 to 1e15, in the units of the rewards.

    Raises:
        ArgumentError: epsilon is no such number.
    """

    epsilon: dataclasses.InitVar[float] = 0.0
    name: ClassVar[str] = "best-arm"
    lanes_last: ClassVar[bool] = True

    def __new__(cls, epsilon: float = 0.0) -> Any:
        epsilon = real("epsilon", epsilon, low=0, high=LARGEST)
        return EpsilonBestArm(epsilon) if epsilon else super().__new__(cls)

    def __post_init__(self, epsilon: float) -> None:
        """Keep nothing of epsilon, which is 0 here."""

    def check(self, arms, theta):
        means = arms @ theta
        best = np.flatnonzero(means == means.max())
        if best.size > 1:
            tied = f"arms {best.tolist()} with the same largest mean"
            raise TieError("instance", tied, "one best arm")

    def half_spaces(self, arms, theta):
        best = int(np.argmax(arms @ theta))
        directions = np.delete(arms[best] - arms, best, 0)
        return directions, np.zeros(len(directions))

    def answer(self, seen):
        return seen.lanes.argmax(seen.means)

    def public(self, seen, answer):
        return index_like(seen.means) == answer

    def shape(self, seen, answer):
        return Rows(answer, index_like(seen.means) != answer, seen.means.shape[0] - 1)

    def pieces(self, seen, pair_times=False):
        means = seen.means
        left = jnp.full(means.shape[1:], means.shape[0], jnp.int32)
        return ArmSet(jnp.zeros(means.shape, jnp.int32), left)

    def plain_pieces(self, seen):
        return ArmMask(jnp.ones(seen.means.shape, bool))
