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


def apart(grid: Grid, margin: Array, precision: Array, price: Array) -> Array:
    """log e of pieces at a margin: margin^2 precision/2 - price, -inf where it is not above 0.

    Args:
        grid: the priors.
        margin: [Q], how far the estimates are outside the piece.
        precision, price: [Q, J].
    """
    squares = (margin * margin / 2)[..., None]
    value = log_mean_exp(squares * precision - price)
    return jnp.where((margin > 0) & ~jnp.isnan(value), value, -jnp.inf)


def pair(grid: Grid, margin: Array, a: Weighed, b: Weighed) -> Array:
    """log e of {mu_b >= mu_a + slack}, margin m_a - m_b + slack: [Q], of arms [Q, J] each.

    The precision of a reference is infinite.
    """
    x, y = (jnp.where(jnp.isinf(arm.precision), 1, arm.precision) for arm in (a, b))
    precision = jnp.where(jnp.isinf(b.precision), x, x * (y / (x + y)))
    precision = jnp.where(jnp.isinf(a.precision), y, precision)
    return apart(grid, margin, precision, a.price + b.price)


def half_space(grid: Grid, margin: Array, y: Array, arms: Weighed) -> Array:
    """log e of {y . lambda <= c} on independent arms: [Q].

    margin^2/(2 sum_k y_k^2/n'_k) - the sum of the prices where y_k is not 0.

    Args:
        grid: the priors.
        margin: y . means - c: [Q].
        y: the directions: [Q, K].
        arms: [K, J].
    """
    norm = jnp.matmul(y * y, 1 / arms.precision, precision="highest")
    price = jnp.matmul((y != 0).astype(y.dtype), arms.price, precision="highest")
    exists = norm > 0
    precision = jnp.where(exists, 1, 0) / jnp.where(exists, norm, 1)
    return apart(grid, margin, precision, price)
