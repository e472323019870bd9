"""The information H_p(w) that an allocation gives on each piece, with two derivatives.

For a piece {lambda : y . lambda <= c} and weights w, with V_w = sum_k w_k phi_k phi_k'
and gap g = y . theta - c > 0,

    H_p(w) = g^2 / (2 ||y||^2_{V_w^-1}),    dH_p/dw_k = (phi_k . (theta - lambda_p))^2 / 2,

where lambda_p is the point of the piece closest to theta. H_p is concave, monotone and
homogeneous of degree one in w: H_p(w) = sum_k w_k dH_p/dw_k. (Tirinzoni & Degenne,
2022, section 2 and the appendix on identification problems.)

Axis letters: K arms, d dimensions, P pieces. All functions are pure, for jit and vmap.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Coordinates(NamedTuple):
    """Features and directions in coordinates with Phi' Phi = identity.

    Information does not change under a linear map of the features. In these coordinates
    it is computed stably, and directions that no arm reaches have separate coordinates.
    """

    map: jax.Array  # [d, r] the linear map, r = min(K, d): phi = arms @ map, y = directions @ map
    phi: jax.Array  # [K, r] features
    y: jax.Array  # [P, r] directions of the pieces
    idle: jax.Array  # [r] 1 on coordinates that no arm reaches, else 0
    spanned: jax.Array  # [P] bool: the direction lies in the span of the features

    def information(self, weights, gaps) -> "Information":
        """H_p and its gradient at positive weights [K].

        gaps [P] are y . theta - c; where a gap is 0, H_p and its gradient are 0.
        """
        design = product((self.phi * weights[:, None]).T, self.phi) + jnp.diag(self.idle)
        factor = jnp.linalg.cholesky(design)
        arms = jax.scipy.linalg.solve_triangular(factor, self.phi.T, lower=True)
        pieces = jax.scipy.linalg.solve_triangular(factor, self.y.T, lower=True)
        norm = jnp.sum(pieces**2, axis=0)
        norm = jnp.where(norm > 0, norm, 1)
        cross = product(arms.T, pieces)
        gradient = ((gaps / norm) ** 2)[None, :] * cross**2 / 2
        return Information(gaps**2 / (2 * norm), gradient, cross, product(arms.T, arms), norm)


class Information(NamedTuple):
    """H_p at one allocation, with the terms of its derivatives."""

    value: jax.Array  # [P] H_p(w)
    gradient: jax.Array  # [K, P] dH_p/dw_k
    cross: jax.Array  # [K, P] phi_k' V_w^-1 y_p
    gram: jax.Array  # [K, K] phi_j' V_w^-1 phi_k
    norm: jax.Array  # [P] ||y_p||^2 in V_w^-1

    def curvature(self, gaps, mixture):
        """-sum_p q_p d2H_p/dw2, a positive semi-definite [K, K] matrix, for q [P]."""
        h = jnp.where(self.value > 0, 2 * mixture / jnp.where(self.value > 0, self.value, 1), 0)
        inner = product(self.cross * (mixture * (gaps / self.norm) ** 2)[None, :], self.cross.T)
        return inner * self.gram - product(self.gradient * h[None, :], self.gradient.T)


def product(a, b):
    """a @ b for JAX arrays at the highest precision: TF32 must not reach a certificate."""
    return jnp.matmul(a, b, precision="highest")


def coordinates(arms, directions) -> Coordinates:
    """Whiten features [K, d] and directions [P, d] by an SVD; works at any rank."""
    _, s, vt = jnp.linalg.svd(arms, full_matrices=False)
    tol = max(arms.shape) * jnp.finfo(arms.dtype).eps * jnp.max(s)
    reached = s > tol
    scale = jnp.where(reached, 1 / jnp.where(reached, s, 1), 0)
    basis = vt * reached[:, None].astype(vt.dtype)
    map = (basis * scale[:, None]).T
    inside = product(product(directions, basis.T), basis)
    size = jnp.linalg.norm(directions, axis=1)
    spanned = (
        jnp.linalg.norm(directions - inside, axis=1)
        <= 1e4 * tol / jnp.maximum(jnp.max(s), tol) * size
    )
    idle = (~reached).astype(s.dtype)
    return Coordinates(map, product(arms, map), product(directions, map), idle, spanned)
