"""The shape of any pairs of arms and levels together, of one run."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.shapes import Levels, Rows, Shape
from jaxelim.lanes import LaneOps


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sides(Shape):
    """Half-spaces whose direction is e_i - e_k, e_k or -e_k.

    With an offset c, these are pairs {mu_k >= mu_i - c}, and levels c or -c of arm k.

    Args:
        first: the arm i, or the arm of a level, [Q] int32.
        second: the arm k, or the arm of a level, [Q] int32.
        sign: 0 for a pair; 1 for a mean above its level, -1 for one below it: [Q].
        offset: c, [Q].
        slack: whether all pieces are pairs with c < 0; static.
    """

    first: Array
    second: Array
    sign: Array
    offset: Array
    slack: bool = dataclasses.field(default=False, metadata={"static": True})  # type: ignore[assignment]

    @staticmethod
    def of(directions: Array, offsets: Array, slack: bool = False) -> "Sides":
        """The shape of half-spaces with directions [Q, K]; one of zeros holds no piece."""
        up, down = directions > 0, directions < 0
        first = jnp.argmax(up | (down & ~jnp.any(up, 1)[:, None]), 1).astype(jnp.int32)
        second = jnp.argmax(down | (up & ~jnp.any(down, 1)[:, None]), 1).astype(jnp.int32)
        return Sides(first, second, jnp.sum(directions, 1), offsets, slack)

    @staticmethod
    def about(shape: Shape, arms: int, dtype: Any) -> "Sides":
        """The pieces of pairs and levels of so many arms, at their places."""
        return shape.combined(lambda plain: Sides._about(plain, arms, dtype))

    @staticmethod
    def _about(shape: Shape, arms: int, dtype: Any) -> "Sides":
        if isinstance(shape, Levels):
            sign, k = jnp.where(shape.above, 1, -1).astype(dtype), jnp.arange(arms, dtype=jnp.int32)
            return Sides(k, k, sign, sign * shape.level)
        return Sides.pairs(
            Rows.of(shape).first, arms, jnp.asarray(-shape.slack, dtype), bool(shape.slack)
        )

    @staticmethod
    def pairs(first: Array, arms: int, offset: Array, slack: bool = False) -> "Sides":
        """The pairs of arms first [] or [m] with every arm k, of one offset []: place r K + k."""
        first = jnp.reshape(first, (-1, 1))
        i = jnp.broadcast_to(first, (first.shape[0], arms)).reshape(-1).astype(jnp.int32)
        k = jnp.tile(jnp.arange(arms, dtype=jnp.int32), first.shape[0])
        zero = jnp.zeros(i.shape, offset.dtype)
        return Sides(i, k, zero, zero + offset, slack)

    @property
    def exists(self) -> Array:  # type: ignore[override]
        return (self.first != self.second) | (self.sign != 0)

    @property
    def level(self) -> Array:
        """The level of each piece that is no pair: [Q]."""
        return self.offset * self.sign

    def separation(self, lanes: LaneOps, means: Array) -> Array:
        a, b = means[self.first], means[self.second]
        return jnp.where(self.sign == 0, a - b, self.sign * a) - self.offset

    def placed(self, of_first: Array, of_second: Array, arms: int) -> Array:
        """Numbers [Q] at the two arms of each piece, or at the one of a level: [K, Q]."""
        index = np.arange(arms, dtype=np.int32)[:, None]
        first = jnp.where(index == self.first[None], of_first[None], 0)
        other = (index == self.second[None]) & (self.sign == 0)[None]
        return jnp.where(other, of_second[None], first)
