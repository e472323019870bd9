"""Mixtures of linear Gaussian rewards: one prior in R^d, N(theta, (c G)^-1), for every piece.

With G = sum_k phi_k phi_k' and V = sum_k N_k phi_k phi_k' a half-space y . lambda <= c0 has

    log e = margin^2/(2 (||y||^2_{V^-1} + c y' V^-1 G V^-1 y)) - log det(I + (c G)^-1 V)/2

for each c. In coordinates where G = I the determinant is the product of the pivots of
I + V/c.
"""

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.matrices import factor_inverse, pivots, product
from jaxelim.mixtures.gaussian import Weighed
from jaxelim.mixtures.grid import Grid
from jaxelim.numerics.logarithm import log1p


def half_spaces(grid: Grid, y: Array, features: Array, counts: Array) -> Weighed:
    """What each prior makes of pieces {y . lambda <= c0}: [Q, J].

    Args:
        grid: the strengths, in units of G.
        y: the directions: [Q, d].
        features: of the arms, which span R^d: [K, d].
        counts: pulls, above 0: [K].
    """
    white = factor_inverse(product(features.T, features))  # [d, d]: W G W' = I
    arms = product(features, white.T)  # [K, d]
    design = product(arms.T * counts[None], arms)
    factor = factor_inverse(design)
    z = product(product(y, white.T), factor.T)  # ||z||^2 is that of y in V^-1
    c = jnp.asarray(grid.strengths, y.dtype)
    norm = jnp.sum(z * z, 1)[:, None] + c * jnp.sum(jnp.square(product(z, factor)), 1)[:, None]
    diagonal = jnp.eye(features.shape[1], dtype=y.dtype)
    price = log1p(jax.vmap(lambda c: pivots(design / c + diagonal) - 1)(c))
    exists = norm > 0
    precision = jnp.where(exists, 1, 0) / jnp.where(exists, norm, 1)
    return Weighed(precision, jnp.broadcast_to(jnp.sum(price, 1) / 2, precision.shape))
