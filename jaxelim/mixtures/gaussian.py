"""Mixtures of Gaussian arms: closed forms, with the infimum inside the sum over the grid.

A prior of strength c gives arm k the precision and the price

    n'_k = N_k^2/(N_k + c)/cost_k,    log(1 + N_k/c)/2.

log M_k(u) = n'_k (m_k - u)^2/2 - price_k. Costs are variances in the unit of a run.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.mixtures.grid import Grid, log_mean_exp
from jaxelim.numerics.logarithm import log1p


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weighed:
    """What each prior makes of an arm's pulls: [.., J] each."""

    precision: Array  # n'
    price: Array


class Stat(NamedTuple):
    """What the mixture reads of arms: arrays of one shape."""

    n: Array
    mean: Array
    cost: Array


def log_mixture(stat: Stat, at: Array, c: Array) -> Array:
    """log M at the means `at`, all arrays of one shape."""
    n, mean, cost = stat
    return n * (n / (n + c)) / cost * (jnp.square(mean - at) / 2) - log1p(n / c) / 2


def weighed(grid: Grid, counts: Array, costs: Array | float) -> Weighed:
    """Precisions and prices of arms.

    Args:
        grid: the priors.
        counts: pulls N [..], above 0.
        costs: variances of one reward in the unit of a run: [..], or a number.
    """
    strength, n = grid.over(counts)
    costs = costs if isinstance(costs, float | int) else costs[..., None]
    return Weighed(n * (n / (n + strength)) / costs, log1p(n / strength) / 2)


def log_e(margin: Array, pieces: Weighed) -> Array:
    """log e of pieces: margin^2 precision/2 - price, -inf where the margin is not above 0: [Q].

    Args:
        margin: [Q], how far the estimates are outside the piece.
        pieces: [Q, J].
    """
    squares = (margin * margin / 2)[..., None]
    value = log_mean_exp(squares * pieces.precision - pieces.price)
    return jnp.where((margin > 0) & ~jnp.isnan(value), value, -jnp.inf)


def half_spaces(y: Array, arms: Weighed) -> Weighed:
    """What each prior makes of pieces {y . lambda <= c} of independent arms: [Q, J].

    1/sum_k y_k^2/n'_k, and the sum of the prices where y_k is not 0.

    Args:
        y: the directions: [Q, K].
        arms: [K, J].
    """
    norm = jnp.matmul(y * y, 1 / arms.precision, precision="highest")
    price = jnp.matmul((y != 0).astype(y.dtype), arms.price, precision="highest")
    exists = norm > 0
    return Weighed(jnp.where(exists, 1, 0) / jnp.where(exists, norm, 1), price)
