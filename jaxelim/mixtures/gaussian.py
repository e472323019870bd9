"""Mixtures of Gaussian rewards: closed forms, with the infimum inside the sum over the grid.

A prior of strength c gives arm k the precision and the price

    n'_k = N_k^2/(N_k + c)/cost_k,    log(1 + N_k/c)/2.

log M_k(u) = n'_k (m_k - u)^2/2 - price_k. Costs are variances in the unit of a run.

Linear rewards have one prior in R^d, N(theta, (c G)^-1), for every piece. With
G = sum_k phi_k phi_k' and V = sum_k N_k phi_k phi_k' a half-space y . lambda <= c0 has

    log e = margin^2/(2 (||y||^2_{V^-1} + c y' V^-1 G V^-1 y)) - log det(I + (c G)^-1 V)/2

for each c. In coordinates where G = I the determinant is the product of the pivots of
I + V/c.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.matrices import factor_inverse, pivots, product
from jaxelim.mixtures import Grid, log_mean_exp
from jaxelim.numerics.logarithm import log1p


class Weighed(NamedTuple):
    """What each prior makes of an arm's pulls: [.., J] each."""

    precision: Array  # n'
    price: Array


class Stat(NamedTuple):
    """What the mixture reads of arms: arrays of one shape."""

    n: Array
    mean: Array
    cost: Array


def log_e(margin: Array, pieces: Weighed) -> Array:
    """log e of pieces: margin^2 precision/2 - price, -inf where the margin is not above 0: [Q]."""
    squares = (margin * margin / 2)[..., None]
    value = log_mean_exp(squares * pieces.precision - pieces.price)
    return jnp.where((margin > 0) & ~jnp.isnan(value), value, -jnp.inf)


def half_spaces(y: Array, arms: Weighed) -> Weighed:
    """What each prior makes of pieces {y . lambda <= c} of independent arms, y [Q, K]: [Q, J]."""
    norm = jnp.matmul(y * y, 1 / arms.precision, precision="highest")
    price = jnp.matmul((y != 0).astype(y.dtype), arms.price, precision="highest")
    return Weighed(_inverse(norm), price)


def _inverse(norm: Array) -> Array:
    """1/norm; 0 where it is 0."""
    exists = norm > 0
    return jnp.where(exists, 1, 0) / jnp.where(exists, norm, 1)


def of_features(grid: Grid, y: Array, features: Array, counts: Array) -> Weighed:
    """What each prior, in units of G, makes of pieces {y . lambda <= c0} of linear arms: [Q, J].

    y [Q, d], features [K, d] that span R^d, counts [K] above 0.
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
    return Weighed(_inverse(norm), jnp.broadcast_to(jnp.sum(price, 1) / 2, norm.shape))
