"""Pieces as half-spaces {y . theta <= c}, for arms with features.

A pair has y = z_i - z_k and c = -slack, z the features of the candidates. The reference is an
arm of features zero whose mean is the level. Signs are pairs with it: y = phi_k and
c = level - slack above the level, y = -phi_k and c = -level - slack below it.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.evidence.designs import LinearContext


@dataclasses.dataclass(frozen=True)
class Directions:
    """The directions and offsets of pieces."""

    space: LinearContext
    pieces: Any  # Pairs | HalfSpaces

    @property
    def candidates(self) -> LinearContext:
        """The context with the candidates' features [C, d] as those of its arms."""
        space, phi = self.space, self.space.features
        if self.pieces.items:  # estimates of items are not kept, so that margins need z_i - z_k
            features, safe = space.constants, True
        elif self.pieces.refers:
            features = jnp.concatenate([phi, jnp.zeros_like(phi[:1])])
            safe = space.cancellation_safe
        else:
            return space
        own = dict(features=features, cancellation_safe=safe, transposed=None)
        return dataclasses.replace(space, **own)

    def margins(self, means: Array, theta_hat: Array | None, i: Array) -> Array:
        """(z_i - z_k) . theta_hat for every k: [C], or [m, C] for candidates i [m]."""
        means = self.pieces.with_reference(means, self.pieces.level)
        exact = self.candidates.margins(means, theta_hat, i)
        if not (self.pieces.refers and self.space.cancellation_safe):
            return exact
        last = jnp.arange(means.shape[0], dtype=i.dtype).reshape(-1, *[1] * (means.ndim - 1))
        known = (last == means.shape[0] - 1) | (i == means.shape[0] - 1)
        return jnp.where(known, self.space.lanes.take(means, i) - means, exact)

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

    def side(self, piece: Array) -> tuple[Array, Array | float]:
        """y [d] and c [] of one piece []."""
        space, pieces, row = self.space, self.pieces, self.space.lanes.row
        if isinstance(pieces, HalfSpaces):
            return row(pieces.y, piece), space.lanes.take(pieces.c, piece)
        if pieces.signs:
            above = space.lanes.take(pieces.above, piece)
            sign = jnp.where(above, 1, -1).astype(space.features.dtype)
            return row(space.features, piece) * sign, sign * pieces.level - pieces.slack
        (i, k), z = pieces.pair(space.lanes, piece), self.candidates.features
        return row(z, i) - row(z, k), self._offset(i, k)

    def _offset(self, i: Array, k: Array) -> Array | float:
        """c of the pair (i, k): -slack, + level where k is the reference, - level where i is."""
        if not self.pieces.refers:
            return 0.0 - self.pieces.slack
        last, level = self.pieces.candidates - 1, self.pieces.level
        offset = jnp.where(k == last, level, 0.0) - jnp.where(i == last, level, 0.0)
        return offset - self.pieces.slack

    def half_spaces(self) -> HalfSpaces:
        """The pieces as half-spaces, for one run and in its units."""
        pieces, phi = self.pieces, self.space.features
        if isinstance(pieces, HalfSpaces):
            return dataclasses.replace(pieces, c=pieces.c.astype(phi.dtype))
        if pieces.signs:
            y = jnp.where(pieces.above[:, None], phi, -phi)
            c = jnp.where(pieces.above, pieces.level, -pieces.level) - pieces.slack
            return HalfSpaces(y, c.astype(phi.dtype), pieces.exists, pieces.count)
        z, i = self.candidates.features, jnp.atleast_1d(pieces.first)[:, None]
        k = jnp.arange(z.shape[0], dtype=i.dtype)[None]
        y = (z[i] - z[k]).reshape(-1, z.shape[1])
        c = jnp.broadcast_to(self._offset(i, k), (i.shape[0], z.shape[0])).reshape(-1)
        return HalfSpaces(y, c.astype(phi.dtype), pieces.exists, pieces.count)
