"""Pieces as half-spaces {y . theta <= c}, for arms with features; H_p with two derivatives.

A pair has y = z_i - z_k and c = -slack, z the features of the candidates. The reference is an
arm of features zero whose mean is the level. Signs are pairs with it: y = phi_k and
c = level - slack above the level, y = -phi_k and c = -level - slack below it.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.contracts.views import ArmContext, Evidence
from jaxelim.lanes import PLAIN, ArmBlock, LaneOps, index_like, pytree
from jaxelim.matrices import product
from jaxelim.numerics import jacobi


@pytree
class LinearContext(ArmContext):
    """The context of linear Gaussian rewards."""

    cancellation_safe: bool = dataclasses.field(default=False, metadata={"static": True})
    """Whether distances come from phi_i - phi_j, as some arms are too close for the Gram form."""

    def feature(self, k: Array | ArmBlock) -> Array:
        """phi_k, [d]."""
        return self.lanes.row(self.features, k)

    def differences(self, i: Array, many: bool) -> Array:
        """phi_i - phi_k for every k: [K, d].

        With `many` it has an axis of lanes, of length 1 if they share the differences.
        """
        y, features = self.feature(i), self.features
        if many:
            y, features = (x if x.ndim == n else x[..., None] for x, n in ((y, 2), (features, 3)))
        return y[None] - features

    # Of pieces, Pairs or HalfSpaces: their directions and offsets.

    def of_candidates(self, pieces: Any) -> "LinearContext":
        """The context with the candidates' features [C, d] as those of its arms."""
        phi, safe = self.features, self.cancellation_safe
        if pieces.items:  # estimates of items are not kept, so that margins need z_i - z_k
            features, safe = self.constants, True
        elif pieces.level is not None:
            features = jnp.concatenate([phi, jnp.zeros_like(phi[:1])])
        else:
            return self
        return dataclasses.replace(self, features=features, cancellation_safe=safe, transposed=None)

    def margins(self, pieces: Any, means: Array, theta_hat: Array | None, i: Array) -> Array:
        """(z_i - z_k) . theta_hat for every k: [C], or [m, C] for candidates i [m]."""
        every, own = self.of_candidates(pieces), pieces.with_reference(means, pieces.level)
        if not every.cancellation_safe or theta_hat is None:
            mean = self.lanes.take(own, i)
            return (mean if i.ndim < own.ndim else mean[:, None]) - own
        if i.ndim == own.ndim:
            rows = (self.margins(pieces, means, theta_hat, i[r]) for r in range(i.shape[0]))
            return jnp.stack(list(rows))
        exact = jnp.sum(every.differences(i, own.ndim == 2) * theta_hat[None], 1)
        if not pieces.refers:
            return exact
        last = own.shape[0] - 1
        known = (index_like(own) == last) | (i == last)
        return jnp.where(known, self.lanes.take(own, i) - own, exact)

    def margin(self, pieces: Any, means: Array, theta_hat: Array | None) -> Array:
        """y_p . theta_hat - c_p: [Q]."""
        if isinstance(pieces, HalfSpaces):
            assert theta_hat is not None  # kept, as the problem's `uses_theta` is on
            return jnp.sum(pieces.y * theta_hat[None], 1) - pieces.c
        if pieces.signs:
            return pieces.outside(self.lanes, means)
        margin = pieces.flat(self.margins(pieces, means, theta_hat, pieces.first))
        return margin + pieces.slack if pieces.slack else margin

    def side(self, pieces: Any, piece: Array) -> tuple[Array, Array | float]:
        """y [d] and c [] of one piece []."""
        row = self.lanes.row
        if isinstance(pieces, HalfSpaces):
            return row(pieces.y, piece), self.lanes.take(pieces.c, piece)
        if pieces.signs:
            above = self.lanes.take(pieces.above, piece)
            sign = jnp.where(above, 1, -1).astype(self.features.dtype)
            return row(self.features, piece) * sign, sign * pieces.level - pieces.slack
        (i, k), z = pieces.pair(self.lanes, piece), self.of_candidates(pieces).features
        return row(z, i) - row(z, k), self._offset(pieces, i, k)

    def _offset(self, pieces: Any, i: Array, k: Array) -> Array | float:
        """c of the pair (i, k): -slack, + level where k is the reference, - level where i is."""
        last, level = self.features.shape[0], pieces.level
        if level is None:
            return 0.0 - pieces.slack
        offset = jnp.where(k == last, level, 0.0) - jnp.where(i == last, level, 0.0)
        return offset - pieces.slack

    def half_spaces(self, pieces: Any) -> HalfSpaces:
        """The pieces as half-spaces, for one run and in its units."""
        dtype = self.features.dtype
        if isinstance(pieces, HalfSpaces):
            return dataclasses.replace(pieces, c=pieces.c.astype(dtype))
        z, (i, k) = self.of_candidates(pieces).features, pieces.places()
        c = jnp.broadcast_to(self._offset(pieces, i, k), i.shape)
        y = jnp.take(z, i, 0, mode="clip") - jnp.take(z, k, 0, mode="clip")
        return HalfSpaces(y, c.astype(dtype), pieces.exists, pieces.count)


class Bent(NamedTuple):
    """H_p at one allocation, where each second derivative is minus a product B B'.

    H_p is concave and homogeneous of degree one. `curvature(q, pull)`, of arguments [Q] that are
    not negative, is -sum_p q_p d2H_p/dw2 + sum_p pull_p dH_p/dw dH_p/dw': [K, K].
    """

    value: Array  # [Q]
    gradient: Array  # [K, Q]
    bend: Array  # [K, Q], or [K, Q, r]: B of each piece

    def curvature(self, mixture: Array, pull: Array | None = None) -> Array:
        bend = self.bend
        scaled = bend * mixture.reshape((1, -1) + (1,) * (bend.ndim - 2))
        inner = product(scaled.reshape(len(bend), -1), bend.reshape(len(bend), -1).T)
        if pull is None:
            return inner
        return inner + product(self.gradient * pull[None, :], self.gradient.T)

    def by(self, costs: Array | None) -> "Bent":
        """The same by weights in units of `costs` [K]."""
        if costs is None:
            return self
        of_bend = costs.reshape((-1,) + (1,) * (self.bend.ndim - 1))
        return Bent(self.value, self.gradient / costs[:, None], self.bend / of_bend)

    def over(self, unit: Array) -> "Bent":
        """The same of H_p over a unit []."""
        return Bent(self.value / unit, self.gradient / unit, self.bend * jnp.sqrt(1 / unit))


class Crossed(NamedTuple):
    """As `Bent`, of linear features: cross_kp = phi_k' V_w^-1 y_p."""

    value: Array  # [Q]
    gradient: Array  # [K, Q]
    cross: Array  # [K, Q]
    gram: Array  # [K, K] phi_j' V_w^-1 phi_k
    push: Array  # [Q] (g_p/n_p)^2, n_p = ||y_p||^2 in V_w^-1

    def over(self, unit: Array) -> "Crossed":
        value, gradient = self.value / unit, self.gradient / unit
        return self._replace(value=value, gradient=gradient, push=self.push / unit)

    def curvature(self, mixture: Array, pull: Array | None = None) -> Array:
        h = jnp.where(self.value > 0, 2 * mixture / jnp.where(self.value > 0, self.value, 1), 0)
        inner = product(self.cross * (mixture * self.push)[None, :], self.cross.T)
        return inner * self.gram + product(
            self.gradient * (-h if pull is None else pull - h)[None, :], self.gradient.T
        )


Derivatives = Bent | Crossed


class Coordinates(NamedTuple):
    """Coordinates of one instance in which Phi' Phi is the identity; r = min(K, d)."""

    map: Array  # [d, r]: features @ map are the features in these coordinates
    sizes: Array  # [r] singular values of the features
    basis: Array  # [r, d] orthonormal rows; 0 where no arm reaches
    reached: Array  # [r] bool: some arm reaches the coordinate
    tolerance: Array  # [] of the singular values

    @staticmethod
    def of(arms: Array) -> "Coordinates":
        """Those of features [K, d] of any rank; constants to a derivative."""
        _, s, vt = jacobi.svd(jax.lax.stop_gradient(arms))
        tol = max(arms.shape) * jnp.finfo(arms.dtype).eps * jnp.max(s)
        reached = s > tol
        scale = jnp.where(reached, 1 / jnp.where(reached, s, 1), 0)
        basis = vt * reached[:, None].astype(vt.dtype)
        return Coordinates((basis * scale[:, None]).T, s, basis, reached, tol)

    def spanned(self, directions: Array) -> Array:
        """Which directions [P, d] lie in the span of the features: [P] bool."""
        pieces, basis = jax.lax.stop_gradient(directions), self.basis
        inside = product(product(pieces, basis.T), basis)
        size, off = (jnp.linalg.norm(x, axis=1) for x in (pieces, pieces - inside))
        return off <= 1e4 * self.tolerance / jnp.maximum(jnp.max(self.sizes), self.tolerance) * size


@pytree
class HalfSpaceEvidence(Evidence):
    """The evidence about any half-spaces under weights, with its derivatives; of one run.

    It is in coordinates with Phi' Phi = identity, in which it is computed stably, and directions
    that no arm reaches have separate coordinates.
    """

    phi: Array  # [K, r] features
    y: Array  # [P, r] directions of the pieces
    idle: Array  # [r] 1 on coordinates that no arm reaches, else 0
    gaps: Array  # [P] y_p . theta - c_p; 0 inside a piece, and where no arms reach y_p
    weights: Array  # [K] positive
    lanes: LaneOps = PLAIN

    @staticmethod
    def of(arms: Array, theta: Array, pieces: HalfSpaces) -> "HalfSpaceEvidence":
        """The evidence at theta [d] of features [K, d] of any rank, under uniform weights."""
        frame = Coordinates.of(arms)
        margin = product(pieces.y, theta) - pieces.c
        gaps = jnp.where((margin > 0) & frame.spanned(pieces.y), margin, 0)
        even = jnp.full(arms.shape[0], 1 / arms.shape[0], arms.dtype)
        phi, y = product(arms, frame.map), product(pieces.y, frame.map)
        return HalfSpaceEvidence(phi, y, (~frame.reached).astype(phi.dtype), gaps, even)

    def outside(self) -> Array:
        return self.gaps

    def priced(self, prices: Array) -> "HalfSpaceEvidence":
        """With features phi_k/sqrt(prices_k): V_w is that of w_k/prices_k pulls."""
        return dataclasses.replace(self, phi=self.phi * jnp.sqrt(1 / prices)[:, None])

    def weighted(self, weights: Array) -> "HalfSpaceEvidence":
        return dataclasses.replace(self, weights=weights)

    def values(self) -> Array:
        return self.derivatives().value

    def derivatives(self) -> Crossed:
        design = product(self.phi.T * self.weights[None], self.phi) + jnp.diag(self.idle)
        inverse = self.lanes.inverse_factor(design)
        phi, y = product(self.phi, inverse.T), product(self.y, inverse.T)
        norm = jnp.sum(y * y, 1)
        # XLA:CPU would compute the norms again in each of their consumers.
        phi, y, norm = jax.lax.optimization_barrier((phi, y, jnp.where(norm > 0, norm, 1)))
        cross, push = product(phi, y.T), (self.gaps / norm) ** 2
        value, gram = self.gaps * self.gaps / (2 * norm), product(phi, phi.T)
        return Crossed(value, push[None] * cross * cross / 2, cross, gram, push)
