"""Shapes of an answer's pieces: which means each piece compares.

A piece {lambda : y . lambda <= c} is a pair of arms (`Rows`), one arm and a level (`Levels`),
or any half-space (`Directions`). Pairs with slack, of items, and together with a level are in
`slack`, `items` and `references` of `jaxelim.contracts`. For linear Gaussian rewards a shape
also gives margins y . theta_hat - c, norms ||y||^2_{V^-1} and products Phi V^-1 y. Q is the
number of places, some of which may hold no piece; shapes of arrays leave the lanes out (see
`jaxelim.lanes`).
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.errors import ArgumentError
from jaxelim.lanes import LaneOps

if TYPE_CHECKING:
    from jaxelim.evidence.designs import Design, LinearContext

Tree = Any
_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Interval:
    """Confidence intervals of the means."""

    lower: Array  # [K], in the units of the means
    upper: Array  # [K]

    def across(self, level: float, above: Array) -> Array:
        """How far each interval reaches past the level, from the side `above` [K] bool: [K]."""
        return jnp.where(above, level - self.lower, self.upper - level)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SymmetricInterval(Interval):
    """Intervals of equal length on both sides of the means."""

    means: Array  # [K]
    radius: Array  # [K]

    @staticmethod
    def of(means: Array, radius: Array) -> "SymmetricInterval":
        """The intervals [means - radius, means + radius]; both [K]."""
        return SymmetricInterval(means - radius, means + radius, means, radius)

    def across(self, level: float, above: Array) -> Array:
        return self.radius - jnp.abs(self.means - level)


class Shape:
    """The contract of a shape."""

    exists: Array  # [Q] bool: which places hold a piece
    count: int | None  # number of pieces, if it is static
    slack: float = 0.0  # of pairs {mu_k >= mu_i + slack}, in the units of the means
    level: float | None = None  # that arms are compared with, in the units of the means; None: none

    @classmethod
    def known_among(cls, kinds: tuple[type["Shape"], ...]) -> bool:
        """Whether evidence about these kinds of shapes is evidence about this one."""
        return issubclass(cls, kinds)

    def combined(self, of: Callable[["Shape"], Tree]) -> Tree:
        """What `of` gives for every place, arrays [Q, ..]: asked of plain shapes alone.

        A shape of pairs and levels asks for both, and puts them together.
        """
        return of(self)

    def total(self) -> Array:
        """The number of pieces: [] int32."""
        if self.count is None:
            return jnp.sum(self.exists, 0, dtype=jnp.int32)
        return jnp.full(self.exists.shape[1:], self.count, jnp.int32)

    def ties(self, margins: Array, within: float) -> Array:
        """The pieces whose margin [Q] is at most `within`, so that answers are tied: [Q] bool."""
        return self.exists & (margins <= within)

    def pair(self, lanes: LaneOps, piece: Array) -> tuple[Array, Array]:
        """The two arms of a piece [], the better one first; one arm twice for a level."""
        raise TypeError(f"{type(self).__name__}: its pieces are not made of arms")

    def separation(self, lanes: LaneOps, means: Array) -> Array:
        """How far means [K] lie outside each piece: m_i - m_k, m_k - level or level - m_k: [Q]."""
        raise TypeError(f"{type(self).__name__}: its pieces are not made of arms")

    def overlap(self, lanes: LaneOps, interval: Interval) -> Array:
        """How far the two sides' intervals overlap: U_k - L_i, level - L_k or U_k - level: [Q]."""
        raise TypeError(f"{type(self).__name__}: its pieces are not made of arms")

    def rows(self) -> Array | None:
        """The arms i, [] or [m], whose products Phi V^-1 phi_i `norm` and `along` need; or None."""
        return None

    def products(self, space: "LinearContext", design: "Design") -> Tree:
        """The products with V^-1 that `norm` and `along` need, as `cross`; None: none."""
        rows = self.rows()
        return None if rows is None else design.cross(space, rows)

    def margin(self, space: "LinearContext", means: Array, theta_hat: Array | None) -> Array:
        """y_p . theta_hat - c_p: [Q]."""
        raise TypeError(f"{type(self).__name__} does not define margin")

    def norm(self, space: "LinearContext", design: "Design", cross: Tree) -> Array:
        """||y_p||^2_{V^-1}: [Q]. `cross`: what `products` gives."""
        raise TypeError(f"{type(self).__name__} does not define norm")

    def along(self, space: "LinearContext", design: "Design", cross: Tree, piece: Array) -> Array:
        """phi_k' V^-1 y_piece for every arm k: [K]."""
        raise TypeError(f"{type(self).__name__} does not define along")

    def side(self, space: "LinearContext", piece: Array) -> tuple[Array, Array | float]:
        """y [d] and c [] of one piece []."""
        raise TypeError(f"{type(self).__name__} does not define side")

    def directions(self, space: "LinearContext") -> Array:
        """The direction y of every place, for one run: [Q, d]; traced."""
        raise TypeError(f"{type(self).__name__} does not define directions")

    def offsets(self, dtype: Any) -> Array:
        """The offset c of every place, for one run: [Q]; traced. 0 for pairs without slack."""
        return jnp.full(self.exists.shape, -self.slack, dtype)

    def half_spaces(self, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Host, one run: the directions [P, d] and offsets [P] of the pieces that exist."""
        raise TypeError(f"{type(self).__name__} does not define half_spaces")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows(Shape):
    """Pairs y = phi_i - phi_k, c = 0, of one or several arms i with every arm k.

    Args:
        first: the arms i, [] or [m] int32.
        exists: which places hold a piece, [K] or [m K] bool. Place r K + k is the pair
            of the r-th i and of k.
        count: number of pieces, if all answers have the same; None: they are counted.
    """

    first: Array
    exists: Array
    count: int | None = dataclasses.field(default=None, metadata=_STATIC)

    @staticmethod
    def of(shape: Shape) -> "Rows":
        """The shape, asserted to be rows."""
        assert isinstance(shape, Rows)
        return shape

    @property
    def several(self) -> bool:
        """Whether `first` is [m], with several arms."""
        return self.first.ndim == self.exists.ndim

    def flat(self, rows: Array) -> Array:
        """[m, K] -> [Q]."""
        return rows.reshape((-1, *rows.shape[2:]))

    def apart(self, pieces: Array) -> Array:
        """[Q] -> [m, K]."""
        return pieces.reshape((self.first.shape[0], -1, *pieces.shape[1:]))

    def ties(self, margins: Array, within: float) -> Array:
        """No ties if there are several rows, where ties inside the answer do not count."""
        if self.several:
            return jnp.zeros_like(self.exists)
        return super().ties(margins, within)

    def pair(self, lanes: LaneOps, piece: Array) -> tuple[Array, Array]:
        if not self.several:
            return self.first, piece
        arms = self.exists.shape[0] // self.first.shape[0]
        return lanes.take(self.first, piece // arms), piece % arms

    def overlap(self, lanes: LaneOps, interval: Interval) -> Array:
        first = list(self.first) if self.several else [self.first]
        return jnp.concatenate([interval.upper - lanes.take(interval.lower, i) for i in first])

    def sides(self, lanes: LaneOps, x: Array) -> tuple[Array, Array]:
        """x_i and x_k of every piece, x [K]: to broadcast to [Q], or to [m, K] if `several`."""
        if not self.several:
            return lanes.take(x, self.first), x
        return lanes.take(x, self.first)[:, None], x[None]

    def separation(self, lanes: LaneOps, means: Array) -> Array:
        a, b = self.sides(lanes, means)
        return self.flat(a - b) if self.several else a - b

    def rows(self) -> Array:
        return self.first

    def margin(self, space: "LinearContext", means: Array, theta_hat: Array | None) -> Array:
        margins = space.margins(means, theta_hat, self.first)
        return self.flat(margins) if self.several else margins

    def norm(self, space: "LinearContext", design: "Design", cross: Tree) -> Array:
        norm = design.distances(space, cross, self.first)
        return self.flat(jnp.swapaxes(norm, 0, 1)) if self.several else norm

    def along(self, space: "LinearContext", design: "Design", cross: Tree, piece: Array) -> Array:
        if not self.several:
            return design.difference(space, cross, self.first, piece)
        m = self.first.shape[0]
        arms = np.asarray(self.exists.shape[0] // m, piece.dtype)
        r, k = jax.lax.div(piece, arms), jax.lax.rem(piece, arms)
        row = cross[:, 0]
        for other in range(1, m):  # one pass over all rows, as a gather goes entry by entry
            row = jnp.where(r == other, cross[:, other], row)
        return design.difference(space, row, space.lanes.take(self.first, r), k)

    def side(self, space: "LinearContext", piece: Array) -> tuple[Array, float]:
        i, k = self.pair(space.lanes, piece)
        return space.feature(i) - space.feature(k), 0.0 - self.slack

    def directions(self, space: "LinearContext") -> Array:
        phi = space.features
        if not self.several:
            return phi[self.first][None] - phi
        return (phi[self.first][:, None] - phi[None]).reshape(-1, phi.shape[1])

    def half_spaces(self, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = np.atleast_1d(np.asarray(self.first))
        exists = np.asarray(self.exists).reshape(len(first), -1)
        y = np.concatenate([(arms[i] - arms)[row] for i, row in zip(first, exists, strict=True)])
        return y, np.zeros(len(y))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Levels(Shape):
    """One arm each: y = s_k phi_k, c = s_k level, s_k = 1 for means above the level, else -1.

    Args:
        above: whether the answer puts the mean above the level, [K] bool.
        exists: which arms have a piece, [K] bool.
        level: a number, in the units of the means.
        count: as in `Rows`.

    Raises:
        ArgumentError: level is no number.
    """

    above: Array
    exists: Array
    level: float = dataclasses.field(default=0.0, metadata=_STATIC)  # type: ignore[assignment]
    count: int | None = dataclasses.field(default=None, metadata=_STATIC)

    @staticmethod
    def of(shape: Shape) -> "Levels":
        """The shape, asserted to be levels."""
        assert isinstance(shape, Levels)
        return shape

    def __post_init__(self) -> None:
        if not isinstance(self.level, float | int | np.floating | np.integer):
            raise ArgumentError("level", self.level, "a number, not an array")

    def pair(self, lanes: LaneOps, piece: Array) -> tuple[Array, Array]:
        return piece, piece

    def overlap(self, lanes: LaneOps, interval: Interval) -> Array:
        return interval.across(self.level, self.above)

    def separation(self, lanes: LaneOps, means: Array) -> Array:
        return jnp.where(self.above, means - self.level, self.level - means)

    def margin(self, space: "LinearContext", means: Array, theta_hat: Array | None) -> Array:
        return self.separation(space.lanes, means)

    def norm(self, space: "LinearContext", design: "Design", cross: Tree) -> Array:
        return design.g

    def along(self, space: "LinearContext", design: "Design", cross: Tree, piece: Array) -> Array:
        along = design.cross(space, piece)
        return jnp.where(space.lanes.take(self.above, piece), along, -along)

    def side(self, space: "LinearContext", piece: Array) -> tuple[Array, Array]:
        above = space.lanes.take(self.above, piece)
        sign = jnp.where(above, 1, -1).astype(space.features.dtype)
        return space.feature(piece) * sign, sign * self.level

    def directions(self, space: "LinearContext") -> Array:
        return jnp.where(self.above[:, None], space.features, -space.features)

    def offsets(self, dtype: Any) -> Array:
        return jnp.where(self.above, self.level, -self.level).astype(dtype)

    def half_spaces(self, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        exists = np.asarray(self.exists)
        sign = np.where(np.asarray(self.above), 1.0, -1.0)[exists]
        return sign[:, None] * arms[exists], sign * self.level


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Directions(Shape):
    """Half-spaces of any direction.

    Args:
        y: the directions, [Q, d].
        c: the offsets, [Q].
        exists: which places hold a piece, [Q] bool.
        count: as in `Rows`.
    """

    y: Array
    c: Array
    exists: Array
    count: int | None = dataclasses.field(default=None, metadata=_STATIC)

    def margin(self, space: "LinearContext", means: Array, theta_hat: Array | None) -> Array:
        assert theta_hat is not None  # kept, as the problem's `uses_theta` is on
        return jnp.sum(self.y * theta_hat[None], 1) - self.c

    def norm(self, space: "LinearContext", design: "Design", cross: Tree) -> Array:
        return design.squares(space, self.y)

    def along(self, space: "LinearContext", design: "Design", cross: Tree, piece: Array) -> Array:
        return design.along(space, space.lanes.row(self.y, piece))

    def side(self, space: "LinearContext", piece: Array) -> tuple[Array, Array]:
        return space.lanes.row(self.y, piece), space.lanes.take(self.c, piece)

    def directions(self, space: "LinearContext") -> Array:
        return self.y

    def offsets(self, dtype: Any) -> Array:
        return self.c.astype(dtype)

    def half_spaces(self, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        exists = np.asarray(self.exists)
        return np.asarray(self.y)[exists], np.asarray(self.c)[exists]
