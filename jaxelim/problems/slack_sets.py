"""Sets of pieces of best arm with slack: `BestArm(epsilon=..)`."""

import dataclasses
from typing import Any

import jax

from jaxelim.contracts.shapes import Rows
from jaxelim.problems.top_m import PairMask, PairSet, TopAnswer


def _as_top(seen: Any) -> Any:
    """What is seen, with the answer and the pieces in the form of top m, m = 1."""
    shape = Rows.of(seen.shape)
    shape = dataclasses.replace(shape, first=shape.first[None])
    return dataclasses.replace(seen, answer=TopAnswer(shape.first, seen.public), shape=shape)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SlackSet(PairSet):
    """The ordered pairs (i, k) whose piece {mu_k >= mu_i + epsilon} is refuted.

    Arm i is found when all its K - 1 pieces are. One mask over the arms would not do: an
    arm may fall to an arm that is itself epsilon worse than a third.
    """

    def active(self, seen):
        return super().active(_as_top(seen))

    def drop(self, seen, refuted):
        return super().drop(_as_top(seen), refuted)

    def tests(self, seen, full):
        return super().tests(_as_top(seen), full)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SlackMask(PairMask):
    """The same mask without times and found arms."""

    def active(self, seen):
        return super().active(_as_top(seen))

    def drop(self, seen, refuted):
        return SlackMask(super().drop(_as_top(seen), refuted).left)
