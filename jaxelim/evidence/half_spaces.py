"""H_p of linear Gaussian rewards with two derivatives, about half-spaces; of one run."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.contracts.views import Evidence
from jaxelim.evidence.derivatives import Crossed
from jaxelim.lanes import PLAIN, LaneOps
from jaxelim.matrices import product
from jaxelim.numerics import jacobi


class Coordinates(NamedTuple):
    """Coordinates of one instance in which Phi' Phi is the identity; r = min(K, d)."""

    map: Array  # [d, r]: features @ map are the features in these coordinates
    sizes: Array  # [r] singular values of the features
    basis: Array  # [r, d] orthonormal rows; 0 where no arm reaches
    reached: Array  # [r] bool: some arm reaches the coordinate
    tolerance: Array  # [] of the singular values

    @staticmethod
    def of(arms: Array) -> "Coordinates":
        """The coordinates of features [K, d] of any rank; constants to a derivative."""
        _, s, vt = jacobi.svd(jax.lax.stop_gradient(arms))
        tol = max(arms.shape) * jnp.finfo(arms.dtype).eps * jnp.max(s)
        reached = s > tol
        scale = jnp.where(reached, 1 / jnp.where(reached, s, 1), 0)
        basis = vt * reached[:, None].astype(vt.dtype)
        return Coordinates((basis * scale[:, None]).T, s, basis, reached, tol)

    def parameter(self, theta: Array) -> Array:
        """theta [d] in these coordinates, [r]: scores of features stay."""
        return self.sizes * product(self.basis, theta)

    def spanned(self, directions: Array) -> Array:
        """Which directions [P, d] lie in the span of the features: [P] bool."""
        pieces, basis = jax.lax.stop_gradient(directions), self.basis
        inside = product(product(pieces, basis.T), basis)
        size, off = (jnp.linalg.norm(x, axis=1) for x in (pieces, pieces - inside))
        return off <= 1e4 * self.tolerance / jnp.maximum(jnp.max(self.sizes), self.tolerance) * size


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HalfSpaceEvidence(Evidence):
    """The evidence about any half-spaces under weights, with its derivatives; of one run.

    It is in coordinates with Phi' Phi = identity. Information does not change under a
    linear map of the features. In these coordinates it is computed stably, and directions
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
        """The evidence at theta [d] of features [K, d] of any rank, under uniform weights.

        r = min(K, d). No derivative passes through the map to the coordinates.
        """
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
