"""Mixtures of linear Gaussian rewards: one prior in R^d, N(theta, (c G)^-1), for every piece.

With G = sum_k phi_k phi_k' and V = sum_k N_k phi_k phi_k' a half-space y . lambda <= c0 has

    log e = margin^2/(2 (||y||^2_{V^-1} + c y' V^-1 G V^-1 y)) - log det(I + (c G)^-1 V)/2

for each c. In coordinates where G = I and V = diag(s), with z = y in them, the denominator
is 2 sum_i z_i^2 (s_i + c)/s_i^2, and the determinant prod_i (1 + s_i/c): all c at once.
"""

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular

from jaxelim.errors import ArgumentError
from jaxelim.mixtures.gaussian import Weighed, apart
from jaxelim.mixtures.grid import Grid
from jaxelim.numerics.logarithm import log1p


def whitened(features: Array, counts: Array) -> tuple[Array, Array, Array]:
    """L [d, d] of G = L L'; the eigenvalues s [d] and vectors [d, d] of L^-1 V L^-1'."""
    lower = jnp.linalg.cholesky(jnp.matmul(features.T, features, precision="highest"))
    arms = solve_triangular(lower, features.T, lower=True)  # [d, K]
    design = jnp.matmul(arms * counts[None], arms.T, precision="highest")
    s, vectors = jnp.linalg.eigh(design)
    return lower, s, vectors


def weighed(grid: Grid, y: Array, features: Array, counts: Array) -> Weighed:
    """Precision and price of directions y [Q, d]: [Q, J] each; others as of `half_spaces`."""
    lower, s, vectors = whitened(features, counts)
    squares = solve_triangular(lower, y.T, lower=True)
    squares = jnp.square(jnp.matmul(squares.T, vectors, precision="highest"))  # [Q, d]
    c, s = grid.over(s)
    price = jnp.sum(log1p(s / c), 0)[None] / 2
    norm = jnp.matmul(squares, (s + c) / (s * s), precision="highest")
    exists = norm > 0
    precision = jnp.where(exists, 1, 0) / jnp.where(exists, norm, 1)
    return Weighed(precision, jnp.broadcast_to(price, precision.shape))


def half_spaces(grid: Grid, margin: Array, y: Array, features: Array, counts: Array) -> Array:
    """log e of half-spaces {lambda : y . lambda <= c0}: [Q].

    Args:
        grid: the strengths, in units of G.
        margin: y . theta_hat - c0, theta_hat without a ridge: [Q].
        y: the directions: [Q, d].
        features: of the arms, which span R^d: [K, d].
        counts: pulls, above 0: [K].

    Raises:
        ArgumentError: the grid has a fixed prior.
    """
    if grid.prior is not None:
        raise ArgumentError("prior", grid.prior, "None for linear arms")
    of_y = weighed(grid, y, features, counts)
    return apart(grid, margin, of_y.precision, of_y.price)
