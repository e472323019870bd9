"""Mixtures of likelihood ratios, of priors that are centred at the tested mean.

Those of Gaussian rewards have closed forms, with the infimum inside the sum over the grid. A
prior of strength c gives arm k the precision and the price

    n'_k = N_k^2/(N_k + c)/cost_k,    log(1 + N_k/c)/2.

log M_k(u) = n'_k (m_k - u)^2/2 - price_k. Costs are variances in the unit of a run.

Linear rewards have one prior in R^d, N(theta, (c G)^-1), for every piece. With
G = sum_k phi_k phi_k' and V = sum_k N_k phi_k phi_k' a half-space y . lambda <= c0 has

    log e = margin^2/(2 (||y||^2_{V^-1} + c y' V^-1 G V^-1 y)) - log det(I + (c G)^-1 V)/2

for each c. In coordinates where G = I the determinant is the product of the pivots of
I + V/c.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import real_array
from jaxelim.errors import ArgumentError
from jaxelim.lanes import settings
from jaxelim.matrices import factor_inverse, pivots, product
from jaxelim.numerics.logarithm import log, log1p

_FLOOR = -1e300
_STRENGTHS = (1e-3, 1e9)  # in this range log M keeps 7 digits, for all families


@settings
class Grid:
    """Priors of equal weight. That of strength c has the weight of c pulls.

    Args:
        strengths: [J] numbers from 0.001 to 1e9.

    Raises:
        ArgumentError: they are no such numbers.
    """

    strengths: tuple[float, ...] = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)

    def __post_init__(self) -> None:
        strengths, (least, most) = real_array("strengths", self.strengths, ndim=1), _STRENGTHS
        if not len(strengths) or strengths.min() < least or strengths.max() > most:
            allowed = f"one or more numbers from {least:g} to {most:g}"
            raise ArgumentError("strengths", self.strengths, allowed)
        object.__setattr__(self, "strengths", tuple(strengths.tolist()))


def spread(priors: Any, *x: Any) -> tuple[Any, ...]:
    """The priors, [J] or [.., J], then each of x, trees of arrays [..], all repeated to [.., J]."""
    like = jax.tree.leaves(x)[0]
    shape = (*like.shape, np.shape(priors)[-1])
    repeated = [jax.tree.map(lambda x: jnp.broadcast_to(x[..., None], shape), one) for one in x]
    return jnp.broadcast_to(jnp.asarray(priors, like.dtype), shape), *repeated


def log_mean_exp(values: Array) -> Array:
    """The logarithm of the mean of exp(values) along the last axis: [.., J] -> [..]."""
    # Nothing depends on this shift. The derivative of `max` divides by the number of values
    # that equal it: none, where XLA computes the values twice and LLVM rounds them apart.
    most = jax.lax.stop_gradient(jnp.maximum(jnp.max(values, -1), _FLOOR))
    total = jnp.sum(jnp.exp(values - most[..., None]), -1)
    return most + log(total) - math.log(values.shape[-1])


class Weighed(NamedTuple):
    """What each prior makes of the pulls of arms, or of pieces: [.., J] each."""

    precision: Array  # n'
    price: Array

    def log_e(self, margin: Array) -> Array:
        """log e of pieces: margin^2 precision/2 - price, -inf where no margin is above 0: [Q]."""
        squares = (margin * margin / 2)[..., None]
        value = log_mean_exp(squares * self.precision - self.price)
        return jnp.where((margin > 0) & ~jnp.isnan(value), value, -jnp.inf)

    def half_spaces(self, y: Array) -> "Weighed":
        """Of pieces {y . lambda <= c} of independent arms, which these are; y [Q, K]: [Q, J]."""
        norm = jnp.matmul(y * y, 1 / self.precision, precision="highest")
        price = jnp.matmul((y != 0).astype(y.dtype), self.price, precision="highest")
        return Weighed(_inverse(norm), price)


class GaussianStat(NamedTuple):
    """What the mixture of Gaussian rewards reads of arms: arrays of one shape."""

    n: Array
    mean: Array
    cost: Array

    def weighed(self, c: Array) -> Weighed:
        return Weighed(self.n * (self.n / (self.n + c)) / self.cost, log1p(self.n / c) / 2)


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
