"""Sets of pieces that are one mask: over pairs of arms, or over the sides of levels.

Any problem with such pieces may have them. They have no times and no early ends.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import PieceSet, looks
from jaxelim.contracts.shapes import Levels, Rows, Shape
from jaxelim.contracts.views import Snapshot
from jaxelim.errors import UnsupportedError
from jaxelim.lanes import index_like, over_arm_blocks


def refuted_pairs(seen, beta) -> Array:
    """Whether beta refutes the piece {mu_j <= mu_k}, for every ordered pair: [j, k] bool."""
    if seen.threshold is not None:
        return looks.refuted_pairs(seen, beta)

    def more(refuted, arms):
        for j, row in seen.family.refuted_pairs(seen, arms, beta):
            if seen.shape.slack:  # else an arm is never refuted against itself
                row = row & (index_like(row) != j)
            refuted = jax.lax.dynamic_update_index_in_dim(refuted, row, j, 0)
        return refuted

    shape = seen.means.shape
    return over_arm_blocks(shape[0], more, jnp.zeros(shape[:1] + shape, bool))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OrderedPairs(PieceSet):
    """A mask over all ordered pairs of arms, for answers whose pieces are `Rows`."""

    left: Array  # [K, K] bool: row j, column k: the piece {mu_j <= mu_k} is not refuted

    def active(self, seen):
        shape = Rows.of(seen.shape)
        rows = seen.lanes.row(self.left, shape.first)  # [K] or [K, m]
        if shape.several:
            rows = shape.flat(jnp.swapaxes(rows, 0, 1))
        return rows & shape.exists

    def drop(self, seen, refuted):
        shape, left, arms = Rows.of(seen.shape), self.left, index_like(seen.means)
        now = refuted & shape.exists
        rows = list(shape.apart(now)) if shape.several else [now]
        first = list(shape.first) if shape.several else [shape.first]
        for i, row in zip(first, rows, strict=True):
            left = left & ~((arms == i)[:, None] & row[None])
        return OrderedPairs(left)

    def drop_all(self, seen, beta):
        return OrderedPairs(self.left & ~refuted_pairs(seen, beta))

    def tests(self, seen, full):
        if not full:
            return self.active_count(seen)
        return jnp.sum(self._left(), (0, 1), dtype=jnp.int32)

    def _left(self) -> Array:
        """`left` without pairs of an arm with itself."""
        arms = jnp.arange(self.left.shape[0], dtype=jnp.int32)
        apart = (arms[:, None] != arms).reshape(self.left.shape[:2] + (1,) * (self.left.ndim - 2))
        return self.left & apart

    def remaining(self, lanes):
        return jnp.sum(self._left(), (0, 1), dtype=jnp.int32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BothSides(PieceSet):
    """A mask over the two pieces of each arm, for answers whose pieces are `Levels`."""

    left: Array  # [K, 2] bool, of estimates below and above the level

    def active(self, seen):
        above = Levels.of(seen.shape).above
        sides = jnp.where(above, self.left[:, 1], self.left[:, 0])
        return sides & seen.shape.exists

    def drop(self, seen, refuted):
        above, now = Levels.of(seen.shape).above, refuted & seen.shape.exists
        sides = [self.left[:, 0] & ~(now & ~above), self.left[:, 1] & ~(now & above)]
        return BothSides(jnp.stack(sides, 1))

    def remaining(self, lanes):
        return jnp.sum(self.left, (0, 1), dtype=jnp.int32)


def made_from(shape: Shape, seen: Snapshot) -> PieceSet:
    """The full set of pieces of all answers with shapes of this type.

    Raises:
        UnsupportedError: the pieces are not made of arms, so they have no index that
            all answers share.
    """
    means = seen.means
    if isinstance(shape, Rows):
        return OrderedPairs(jnp.ones((means.shape[0], *means.shape), bool))
    if isinstance(shape, Levels):
        return BothSides(jnp.ones((means.shape[0], 2, *means.shape[1:]), bool))
    allowed = "elimination with pieces of Rows or Levels, or a HalfSpaces problem"
    raise UnsupportedError("problem", seen.problem, allowed)
