"""Best-arm identification."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.checks import real
from jaxelim.contracts import Problem
from jaxelim.contracts.shapes import Rows
from jaxelim.errors import ArgumentError, TieError
from jaxelim.lanes import index_like
from jaxelim.problems.arm_sets import ArmMask, ArmSet
from jaxelim.problems.best_item import BestItem
from jaxelim.problems.epsilon_best_arm import LARGEST, EpsilonBestArm


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class BestArm(Problem):
    """Identify the arm with the largest mean.

    Pieces: y = phi_i - phi_k, c = 0, for the best arm i and every other arm k; K - 1 of
    them. The set of pieces is one mask over the arms. (Paper, section 2 and appendix
    "Identification Problems".)

    `BestArm(epsilon=..)`, above 0, makes an `EpsilonBestArm`: then every arm within epsilon
    of the largest mean is right. `BestArm(items=..)` makes a `BestItem`: the best of items
    that are not the arms.

    Args:
        epsilon: the slack, from 0 to 1e15, in the units of the rewards.
        items: the features z_p of the items in rows, [P, d]; None: the arms.

    Raises:
        ArgumentError: epsilon is no such number, items are no such array, or both are given.
    """

    epsilon: dataclasses.InitVar[float] = 0.0
    items: dataclasses.InitVar[Any] = dataclasses.field(default=None, kw_only=True)
    name: ClassVar[str] = "best-arm"
    lanes_last: ClassVar[bool] = True

    def __new__(cls, epsilon: float = 0.0, *, items: Any = None) -> Any:
        epsilon = real("epsilon", epsilon, low=0, high=LARGEST)
        if epsilon and items is not None:
            raise ArgumentError("epsilon", epsilon, "0 with items: slack is of arms")
        if items is not None:
            return BestItem(items)
        return EpsilonBestArm(epsilon) if epsilon else super().__new__(cls)

    def __post_init__(self, epsilon: float, items: Any) -> None:
        """Keep nothing of epsilon and items, which are 0 and None here."""

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

    def wrong_answers(self, arms):
        return arms - 1

    def pieces(self, seen, pair_times=False):
        return ArmSet.full(seen.means)

    def plain_pieces(self, seen):
        return ArmMask(jnp.ones(seen.means.shape, bool))
