"""The pieces of an answer: pairs of candidates, or half-spaces.

An answer is wrong where the truth is in one of its pieces. Q is the number of places, some
of which may hold no piece; shapes of arrays leave the lanes out (see `jaxelim.lanes`).
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.errors import ArgumentError
from jaxelim.lanes import LaneOps, pytree

_STATIC = {"static": True}


class Interval(NamedTuple):
    """Confidence intervals of the means."""

    lower: Array  # [K], in the units of the means
    upper: Array  # [K]


class Pieces:
    """What both kinds of pieces have: Q places, some of which hold no piece."""

    exists: Array  # [Q] bool: which places hold a piece
    count: int | None  # number of pieces, if all answers have the same
    slack: float = 0.0
    level: float | None = None
    items = signs = several = refers = False  # as of `Pairs`
    candidates: int | None = None

    def total(self) -> Array:
        """The number of pieces: [] int32."""
        if self.count is None:
            return jnp.sum(self.exists, 0, dtype=jnp.int32)
        return jnp.full(self.exists.shape[1:], self.count, jnp.int32)


@pytree
class Pairs(Pieces):
    """Pieces {mu_k >= mu_i + slack}: of one or several candidates i, with every candidate k.

    Candidates are the arms in their order, or the problem's items, compared by z . theta. With
    a `level`, a reference of that mean, never pulled, follows the arms as number K. Where
    `first` is None, every piece is of an arm k and the reference: {mu_k <= level - slack}
    where `above` holds, else {mu_k >= level + slack}.

    Args:
        first: the candidates i, [] or [m] int32; None: the reference.
        exists: which places hold a piece, [C] or [m C] bool. Place r C + k is the pair of
            the r-th i and of k; C is the number of candidates, or of arms without `first`.
        above: [K] bool, without `first`: whether the answer puts arm k above the level.
        slack: a number of at least 0, in the units of the means.
        level: the mean of the reference, in the units of the means; None: there is none.
        count: number of pieces, if all answers have the same; None: they are counted.
        items: whether candidates are items, whose features [P, d] are the problem's constants.

    Raises:
        ArgumentError: level or slack is no number.
    """

    first: Any
    exists: Any
    above: Any = None
    slack: float = dataclasses.field(default=0.0, metadata=_STATIC)
    level: Any = dataclasses.field(default=None, metadata=_STATIC)
    count: int | None = dataclasses.field(default=None, metadata=_STATIC)
    items: bool = dataclasses.field(default=False, metadata=_STATIC)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        level = 0.0 if self.level is None else self.level
        for name, value in (("level", level), ("slack", self.slack)):
            if not isinstance(value, float | int | np.floating | np.integer):
                raise ArgumentError(name, value, "a number, not an array")

    @property
    def signs(self) -> bool:  # type: ignore[override]
        """Whether every piece compares an arm with the level."""
        return self.first is None

    @property
    def edge(self) -> Any:
        """Where each arm's piece begins, of signs: a number, or [K] with slack."""
        if not self.slack:
            return self.level
        return jnp.where(self.above, self.level - self.slack, self.level + self.slack)

    def flipped(self) -> "Pairs":
        """Signs with every arm on the other side."""
        return dataclasses.replace(self, above=~self.above)

    @property
    def several(self) -> bool:  # type: ignore[override]
        """Whether `first` is [m], with several candidates."""
        return self.first is not None and self.first.ndim == self.exists.ndim

    @property
    def refers(self) -> bool:  # type: ignore[override]
        """Whether the last candidate is a reference."""
        return self.first is not None and self.level is not None

    @property
    def candidates(self) -> int:  # type: ignore[override]
        """The number C of candidates k of each i; of arms for signs."""
        places = self.exists.shape[0]
        return places // self.first.shape[0] if self.several else places

    def row(self, i: Array, exists: Array, count: int | None = None) -> "Pairs":
        """The pairs of another candidate i [], with the same slack and level."""
        return dataclasses.replace(self, first=i, exists=exists, count=count)

    def others(self, i: Array) -> "Pairs":
        """The pairs of candidate i [] with every other candidate, in the lanes of i."""
        n = self.candidates
        k = jnp.arange(n, dtype=jnp.int32).reshape(n, *[1] * i.ndim)
        return self.row(i, k != i, n - 1)

    def with_reference(self, x: Array, reference: Any) -> Array:
        """x [K] of the arms, followed by that of the reference where there is a level: [C]."""
        if self.level is None:
            return x
        return jnp.concatenate([x, jnp.full_like(x[:1], reference)])

    def ends(self, lanes: LaneOps, x: Array) -> tuple[Array, Array]:
        """x_i and x_k of every piece, not of signs, x [C]: to broadcast to [C] or [m, C]."""
        own = lanes.take(x, self.first)
        return (own[:, None], x[None]) if self.several else (own, x)

    def places(self) -> tuple[Array, Array]:
        """The candidates i and k of every place, for one run: [Q] each; of signs with it too."""
        n = self.candidates
        k = jnp.arange(n, dtype=jnp.int32)
        if self.first is None:
            return jnp.where(self.above, k, n), jnp.where(self.above, n, k)
        i = jnp.atleast_1d(self.first)
        return jnp.repeat(i, n), jnp.tile(k, i.shape[0])

    def flat(self, rows: Array) -> Array:
        """[m, C] -> [Q] if `several`; [C] is [Q]."""
        return rows.reshape((-1, *rows.shape[2:])) if self.several else rows

    def apart(self, pieces: Array) -> Array:
        """The inverse of `flat`, for several candidates i: [Q] -> [m, C]."""
        return pieces.reshape((self.first.shape[0], -1, *pieces.shape[1:]))

    def pair(self, lanes: LaneOps, piece: Array) -> tuple[Array, Array]:
        """The candidates i and k of a piece []; not of signs."""
        if not self.several:
            return self.first, piece
        n = np.asarray(self.candidates, piece.dtype)
        return lanes.take(self.first, jax.lax.div(piece, n)), jax.lax.rem(piece, n)

    def arms(self, lanes: LaneOps, piece: Array) -> tuple[Array, Array]:
        """The arms of a piece [], the better first; one arm twice against the reference."""
        if self.first is None:
            return piece, piece
        i, k = self.pair(lanes, piece)
        if not self.refers:
            return i, k
        last = self.candidates - 1
        i, k = jnp.where(i == last, k, i), jnp.where(k == last, i, k)
        return i.astype(piece.dtype), k.astype(piece.dtype)

    def outside(self, lanes: LaneOps, means: Array) -> Array:
        """How far means [K] lie outside each piece, negative inside: [Q]."""
        if self.signs:
            return jnp.where(self.above, means - self.edge, self.edge - means)
        a, b = self.ends(lanes, self.with_reference(means, self.level))
        off = self.flat(a - b)
        return off + self.slack if self.slack else off

    def overlap(self, lanes: LaneOps, interval: Interval) -> Array:
        """How far the two sides' intervals overlap, U_k - L_i less the slack: [Q]."""
        lower, upper = interval.lower, interval.upper
        if self.signs:
            return jnp.where(self.above, self.edge - lower, upper - self.edge)
        low, _ = self.ends(lanes, self.with_reference(lower, self.level))
        _, high = self.ends(lanes, self.with_reference(upper, self.level))
        over = self.flat(high - low)
        return over - self.slack if self.slack else over


def pairs_of(pieces: Pieces) -> Pairs:
    """The pieces, asserted to be pairs."""
    assert isinstance(pieces, Pairs)
    return pieces


@pytree
class HalfSpaces(Pieces):
    """Pieces {lambda : y . lambda <= c} of any direction, for rewards with features."""

    y: Any  # [Q, d]
    c: Any  # [Q]
    exists: Any  # [Q] bool: which places hold a piece
    count: int | None = dataclasses.field(default=None, metadata=_STATIC)
