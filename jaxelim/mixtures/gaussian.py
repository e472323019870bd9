"""Mixtures of Gaussian arms: closed forms, with the infimum inside the sum over the grid.

A prior of strength c centred at the tested mean gives arm k the precision and the price

    n'_k = N_k^2/(N_k + c)/cost_k,    log(1 + N_k/c)/2,

and a fixed prior N(mean, sd^2), with c_k = cost_k/sd^2,

    n'_k = N_k/cost_k,    log(1 + N_k/c_k)/2 + N_k c_k/(N_k + c_k) (m_k - mean)^2/(2 cost_k).

log M_k(u) = n'_k (m_k - u)^2/2 - price_k. Costs are variances in the unit of a run.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.errors import ArgumentError
from jaxelim.mixtures.grid import Grid
from jaxelim.numerics.logarithm import log1p

_REACH = 1e12
"""Most standard deviations of a reward in a fixed prior; their squares are finite."""


def check_prior(grid: Grid, least: float, most: float) -> None:
    """Refuse a fixed prior N(mean, sd^2) whose precisions are out of a float's range.

    Args:
        grid: the priors.
        least, most: the smallest and the largest standard deviation of an arm's rewards.

    Raises:
        ArgumentError: mean or sd are out of range.
    """
    if grid.prior is None:
        return
    mean, sd = grid.prior
    if abs(mean) > _REACH * least or not most / _REACH <= sd <= least * _REACH:
        allowed = f"mean and standard deviation: a mean within {_REACH * least:g} of 0, and a "
        allowed += f"standard deviation from {most / _REACH:g} to {least * _REACH:g}"
        raise ArgumentError("prior", grid.prior, allowed)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weighed:
    """What each prior makes of an arm's pulls: [.., J] each."""

    precision: Array  # n'
    price: Array

    def log_mixture(self, means: Array, at: Array) -> Array:
        """log M_j at the means `at` [..]: [.., J]."""
        off = (means - at)[..., None]
        return self.precision * (off * off / 2) - self.price


def weighed(grid: Grid, counts: Array, means: Array, costs: Array | float, unit: float) -> Weighed:
    """Precisions and prices of arms.

    Args:
        grid: the priors.
        counts: pulls N [..], above 0.
        means: m [..], in units of `unit`.
        costs: variances of one reward, [..] or a number, in units of unit^2.
        unit: the unit of a run, in the units of the rewards.
    """
    strength, n = grid.over(counts)
    if grid.prior is None:
        precision = n * (n / (n + strength))
        price = log1p(n / strength) / 2
        costs = costs if isinstance(costs, float | int) else costs[..., None]
        return Weighed(precision / costs, price)
    centre, spread = (number / unit for number in grid.prior)
    strength = costs / spread**2
    off = means - centre
    price = log1p(counts / strength) / 2
    price = price + counts * (strength / (counts + strength)) * (off * off) / (2 * costs)
    return Weighed((counts / costs)[..., None], price[..., None])


def apart(grid: Grid, margin: Array, precision: Array, price: Array) -> Array:
    """log e of pieces at a margin: margin^2 precision/2 - price, -inf where it is not above 0.

    Args:
        grid: the priors.
        margin: [Q], how far the estimates are outside the piece.
        precision, price: [Q, J].
    """
    squares = (margin * margin / 2)[..., None]
    value = grid.log_mean_exp(squares * precision - price)
    return jnp.where((margin > 0) & ~jnp.isnan(value), value, -jnp.inf)


def pair(grid: Grid, margin: Array, a: Weighed, b: Weighed) -> Array:
    """log e of {mu_b >= mu_a + slack}, margin m_a - m_b + slack: [Q], of arms [Q, J] each."""
    precision = a.precision * (b.precision / (a.precision + b.precision))
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
