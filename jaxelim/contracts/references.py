"""The shape of one arm's pieces, or of a reference's: pairs of arms, and levels."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.shapes import Interval, Levels, Rows, Shape
from jaxelim.lanes import LaneOps, index_like

if TYPE_CHECKING:
    from jaxelim.evidence.designs import Design, LinearContext

Tree = Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ReferenceRows(Shape):
    """One candidate i with every other: candidates are the arms, and a reference as number K.

    The reference has a known mean, the level. Place k is that of candidate k. So the piece
    is {mu_k >= mu_i} for two arms, {mu_i <= level} in place K, and {mu_k >= level} where i
    is the reference. A family that knows pairs and levels knows this shape.

    Args:
        first: the candidate i, [] int32.
        exists: which places hold a piece, [K + 1] bool: all but that of i.
        level: the mean of the reference, in the units of the means.
        count: the number of pieces, K.
    """

    first: Array
    exists: Array
    level: float = dataclasses.field(metadata={"static": True})  # type: ignore[assignment]
    count: int = dataclasses.field(metadata={"static": True})  # type: ignore[assignment]

    @classmethod
    def known_among(cls, kinds: tuple[type[Shape], ...]) -> bool:
        return cls in kinds or {Rows, Levels} <= set(kinds)

    @property
    def refers(self) -> Array:
        """Whether i is the reference: [] bool."""
        return self.first == self.exists.shape[0] - 1

    @property
    def _arm(self) -> Array:
        """The arm i; another arm where i is the reference: []."""
        return jnp.minimum(self.first, self.exists.shape[0] - 2)

    @property
    def pairs(self) -> Rows:
        """The pieces that are pairs."""
        return Rows(self._arm, self.exists[:-1] & ~self.refers)

    @property
    def levels(self) -> Levels:
        """The pieces that are levels: of arm i alone, or of all arms."""
        arms = self.exists[:-1]
        one = ~self.refers & (index_like(arms) == self.first)
        above = jnp.broadcast_to(~self.refers, arms.shape)
        return Levels(above, (self.refers & arms) | one, self.level)

    def all_levels(self, above: bool) -> Levels:
        """One side of the level for every arm: {mu_k <= level} if `above`, else {mu_k >= level}."""
        arms = self.exists[:-1]
        return Levels(jnp.full_like(arms, above), jnp.ones_like(arms), self.level, arms.shape[0])

    def combined(self, of: Callable[[Shape], Tree]) -> Tree:
        return jax.tree.map(self._placed, of(self.pairs), of(self.levels))

    def _placed(self, of_pairs: Array, of_levels: Array) -> Array:
        """Arrays [K, ..] of `pairs` and `levels`, at the places of this shape: [K + 1, ..]."""
        here = index_like(of_levels) == self.first
        own = jnp.where(here, of_levels, jnp.zeros_like(of_levels))
        if of_levels.dtype == jnp.bool_:
            last = jnp.any(own, 0, keepdims=True)
        else:
            last = jnp.sum(own, 0, keepdims=True, dtype=own.dtype)
        return jnp.concatenate([jnp.where(self.refers, of_levels, of_pairs), last])

    def of_level(self, piece: Array) -> Array:
        """Whether a piece [] compares an arm with the level: [] bool."""
        return self.refers | (piece == self.exists.shape[0] - 1)

    def pair(self, lanes: LaneOps, piece: Array) -> tuple[Array, Array]:
        last = self.exists.shape[0] - 1
        return jnp.where(self.refers, piece, self.first), jnp.where(
            piece == last, self._arm, piece
        ).astype(self.first.dtype)

    def separation(self, lanes: LaneOps, means: Array) -> Array:
        return self.combined(lambda part: part.separation(lanes, means))

    def overlap(self, lanes: LaneOps, interval: Interval) -> Array:
        return self.combined(lambda part: part.overlap(lanes, interval))

    def products(self, space: "LinearContext", design: "Design") -> Array:
        return design.cross(space, self._arm)

    def margin(self, space: "LinearContext", means: Array, theta_hat: Array | None) -> Array:
        return self.combined(lambda part: part.margin(space, means, theta_hat))

    def norm(self, space: "LinearContext", design: "Design", cross: Tree) -> Array:
        return self.combined(lambda part: part.norm(space, design, cross))

    def along(self, space: "LinearContext", design: "Design", cross: Tree, piece: Array) -> Array:
        _, arm = self.pair(space.lanes, piece)
        of_pair = self.pairs.along(space, design, cross, arm)
        return jnp.where(
            self.of_level(piece), self.levels.along(space, design, cross, arm), of_pair
        )

    def side(self, space: "LinearContext", piece: Array) -> tuple[Array, Array]:
        _, arm = self.pair(space.lanes, piece)
        of_levels, of_pairs = (part.side(space, arm) for part in (self.levels, self.pairs))
        ours = self.of_level(piece)
        y, c = (jnp.where(ours, a, b) for a, b in zip(of_levels, of_pairs, strict=True))
        return y, c

    def directions(self, space: "LinearContext") -> Array:
        return self.combined(lambda part: part.directions(space))

    def offsets(self, dtype: Any) -> Array:
        return self.combined(lambda part: part.offsets(dtype))

    def half_spaces(self, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [part.half_spaces(arms) for part in (self.pairs, self.levels)]
        directions, offsets = (np.concatenate(x) for x in zip(*parts, strict=True))
        return directions, offsets
