"""Pieces as half-spaces {y . theta <= c}, for arms with features.

A pair has y = z_i - z_k and c = -slack, z the features of the candidates. The reference is an
arm of features zero whose mean is the level. Signs are pairs with it: y = phi_k and
c = level above the level, y = -phi_k and c = -level below it.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.pieces import HalfSpaces, Pairs
from jaxelim.evidence.designs import Design, LinearContext

Tree = Any


def cached(pieces: Any) -> Array | None:
    """The arms i, [] or [m], whose products Phi V^-1 phi_i are `Directions.products`; or None."""
    plain = isinstance(pieces, Pairs) and not (pieces.items or pieces.refers)
    return pieces.first if plain else None


@dataclasses.dataclass(frozen=True)
class Directions:
    """The directions and offsets of pieces, and their products with V^-1.

    `cross` is what `products` gives for the design: Phi V^-1 z_i of pairs, [C] or [C, m];
    V^-1 z_p of all items, [P, d]; None for others.
    """

    space: LinearContext
    pieces: Any  # Pairs | HalfSpaces

    @property
    def features(self) -> Array:
        """The features of the candidates: [C, d]."""
        phi = self.space.features
        if self.pieces.items:
            return self.space.constants
        return jnp.concatenate([phi, jnp.zeros_like(phi[:1])]) if self.pieces.refers else phi

    @property
    def _arms(self) -> LinearContext:
        """The context with a reference among the arms, where there is one."""
        if not self.pieces.refers:
            return self.space
        return dataclasses.replace(self.space, features=self.features, transposed=None)

    def _design(self, design: Design) -> Design:
        if not self.pieces.refers:
            return design
        return dataclasses.replace(design, g=self.pieces.with_reference(design.g, 0))

    def _of_arms(self, x: Array) -> Array:
        """x without what belongs to the reference: [K]."""
        return x[:-1] if self.pieces.refers else x

    # Any pairs of candidates, whether or not they are pieces of the answer.

    def apart(self, i: Array) -> Array:
        """z_i - z_p of items, for every p: [P, d], or [P, d, B] for items i [B]."""
        z, own = self.features, self.space.lanes.row(self.features, i)
        return own[None] - (z if own.ndim == 1 else z[..., None])

    def margins(self, means: Array, theta_hat: Array | None, i: Array) -> Array:
        """(z_i - z_k) . theta_hat for every k: [C], or [m, C] for candidates i [m]."""
        if self.pieces.items:
            assert theta_hat is not None  # kept, as the problem's `uses_theta` is on
            y = self.apart(i)
            return jnp.sum((y if y.ndim > theta_hat.ndim else y[..., None]) * theta_hat[None], 1)
        means = self.pieces.with_reference(means, self.pieces.level)
        exact = self._arms.margins(means, theta_hat, i)
        if not (self.pieces.refers and self.space.cancellation_safe):
            return exact
        last = jnp.arange(means.shape[0], dtype=i.dtype).reshape(-1, *[1] * (means.ndim - 1))
        known = (last == means.shape[0] - 1) | (i == means.shape[0] - 1)
        return jnp.where(known, self.space.lanes.take(means, i) - means, exact)

    def distances(self, design: Design, cross: Array, i: Array) -> Array:
        """||z_i - z_k||^2_{V^-1} for every k, given Phi V^-1 z_i: [C]. Of items: `cross`.

        Of items it is the product of two differences. It loses half as many digits as the Gram
        form where items are near each other.
        """
        if not self.pieces.items:
            return self._design(design).distances(self._arms, cross, i)
        y, moved = self.apart(i), self.space.lanes.row(cross, i)[None] - cross
        return jnp.maximum(jnp.sum((y if y.ndim == moved.ndim else y[..., None]) * moved, 1), 0)

    def toward(self, design: Design, k: Any) -> Array:
        """Phi V^-1 z_k, with an entry for the reference: [C]; not of items."""
        return self._design(design).cross(self._arms, k)

    def difference(self, design: Design, toward: Array, i: Array, j: Array) -> Array:
        """Phi V^-1 (z_i - z_j), given `toward` of i: [K]."""
        if self.pieces.items:
            row, z = self.space.lanes.row, self.features
            return design.along(self.space, row(z, i) - row(z, j))
        along = self._design(design).difference(self._arms, toward, i, j)
        return self._of_arms(along)

    # The pieces.

    def products(self, design: Design) -> Tree:
        """What `norm` and `along` need of the design, as `cross`; None: nothing."""
        if self.pieces.items:
            return design.images(self.space, self.features)
        plain = isinstance(self.pieces, Pairs) and not self.pieces.signs
        return self.toward(design, self.pieces.first) if plain else None

    def margin(self, means: Array, theta_hat: Array | None) -> Array:
        """y_p . theta_hat - c_p: [Q]."""
        pieces = self.pieces
        if isinstance(pieces, HalfSpaces):
            assert theta_hat is not None  # kept, as the problem's `uses_theta` is on
            return jnp.sum(pieces.y * theta_hat[None], 1) - pieces.c
        if pieces.signs:
            return pieces.outside(self.space.lanes, means)
        margin = pieces.flat(self.margins(means, theta_hat, pieces.first))
        return margin + pieces.slack if pieces.slack else margin

    def norm(self, design: Design, cross: Tree) -> Array:
        """||y_p||^2_{V^-1}: [Q]."""
        pieces = self.pieces
        if isinstance(pieces, HalfSpaces):
            return design.squares(self.space, pieces.y)
        if pieces.signs:
            return design.g
        norm = self.distances(design, cross, pieces.first)
        return pieces.flat(jnp.swapaxes(norm, 0, 1)) if pieces.several else norm

    def along(self, design: Design, cross: Tree, piece: Array) -> Array:
        """Phi V^-1 y_piece: [K]."""
        space, pieces, lanes = self.space, self.pieces, self.space.lanes
        if isinstance(pieces, HalfSpaces):
            return design.along(space, lanes.row(pieces.y, piece))
        if pieces.signs:
            along = design.cross(space, piece)
            return jnp.where(lanes.take(pieces.above, piece), along, -along)
        if not pieces.several:
            return self.difference(design, cross, pieces.first, piece)
        i, k = pieces.pair(lanes, piece)
        row = cross[:, 0]
        r = jax.lax.div(piece, np.asarray(pieces.candidates, piece.dtype))
        for other in range(1, pieces.first.shape[0]):  # a gather would go entry by entry
            row = jnp.where(r == other, cross[:, other], row)
        return self.difference(design, row, i, k)

    def side(self, piece: Array) -> tuple[Array, Array | float]:
        """y [d] and c [] of one piece []."""
        space, pieces, row = self.space, self.pieces, self.space.lanes.row
        if isinstance(pieces, HalfSpaces):
            return row(pieces.y, piece), space.lanes.take(pieces.c, piece)
        if pieces.signs:
            above = space.lanes.take(pieces.above, piece)
            sign = jnp.where(above, 1, -1).astype(space.features.dtype)
            return row(space.features, piece) * sign, sign * pieces.level
        (i, k), z = pieces.pair(space.lanes, piece), self.features
        return row(z, i) - row(z, k), self._offset(i, k)

    def _offset(self, i: Array, k: Array) -> Array | float:
        """c of the pair (i, k): the level where k is the reference, - level where i is."""
        if not self.pieces.refers:
            return 0.0 - self.pieces.slack
        last, level = self.pieces.candidates - 1, self.pieces.level
        return jnp.where(k == last, level, 0.0) - jnp.where(i == last, level, 0.0)

    def half_spaces(self) -> HalfSpaces:
        """The pieces as half-spaces, for one run and in its units."""
        pieces, phi = self.pieces, self.space.features
        if isinstance(pieces, HalfSpaces):
            return dataclasses.replace(pieces, c=pieces.c.astype(phi.dtype))
        if pieces.signs:
            y = jnp.where(pieces.above[:, None], phi, -phi)
            c = jnp.where(pieces.above, pieces.level, -pieces.level).astype(phi.dtype)
            return HalfSpaces(y, c, pieces.exists, pieces.count)
        z, i = self.features, jnp.atleast_1d(pieces.first)[:, None]
        k = jnp.arange(z.shape[0], dtype=i.dtype)[None]
        y = (z[i] - z[k]).reshape(-1, z.shape[1])
        c = jnp.broadcast_to(self._offset(i, k), (i.shape[0], z.shape[0])).reshape(-1)
        return HalfSpaces(y, c.astype(phi.dtype), pieces.exists, pieces.count)
