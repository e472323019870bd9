"""Divergences of Poisson and of exponential means, accurate where means are near each other.

All functions work entry by entry on arrays of equal shapes.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.numerics.logarithm import log, log1p

_NEAR = 0.01
"""Below this |r| the closed forms of g and h cancel, and their series replace them.

The error of the truncated series is below rounding.
"""

_G = (1 / 2, -1 / 6, 1 / 12, -1 / 20, 1 / 30, -1 / 42, 1 / 56)
_H = (1 / 2, -1 / 3, 1 / 4, -1 / 5, 1 / 6, -1 / 7, 1 / 8)


def _series(r: Array, near: Array, coefficients: Sequence[float]) -> Array:
    """r^2 times a polynomial in r where `near` holds; 0 elsewhere, where it could overflow."""
    r = jnp.where(near, r, 0)
    value = jnp.zeros_like(r)
    for coefficient in reversed(coefficients):
        value = value * r + coefficient
    return r * r * value


def _log1p(r: Array) -> Array:
    """log(1 + r), but 0 at r = -1: for use in (1 + r) log(1 + r)."""
    return log1p(jnp.where(r > -1, r, 0))


def g(r: Array) -> Array:
    """(1 + r) log(1 + r) - r for r >= -1, accurate near 0 too; g(-1) = 1."""
    near = jnp.abs(r) < _NEAR
    return jnp.where(near, _series(r, near, _G), (1 + r) * _log1p(r) - r)


def h(r: Array) -> Array:
    """r - log(1 + r) for r >= -1, accurate near 0 too; h(-1) = inf."""
    near = jnp.abs(r) < _NEAR
    return jnp.where(near, _series(r, near, _H), r - log1p(r))


def poisson(x: Array, y: Array, difference: Array | None = None) -> Array:
    """P(x, y) = x log(x/y) - x + y = y g((x - y)/y), the divergence of Poisson means.

    P(x, 0) = inf for x > 0, P(0, 0) = 0, P(0, y) = y.

    Args:
        x: any shape, at least 0.
        y: the same shape, at least 0.
        difference: x - y, where it is known with less rounding than x and y have.
    """
    return _poisson_traced(x, y, x - y if difference is None else difference)


def _ratio(y: Array, difference: Array) -> tuple[Array, Array]:
    """r = (x - y)/y, and where y > 0; x - y elsewhere."""
    inside = y > 0
    return difference / jnp.where(inside, y, 1), inside


@jax.custom_jvp
def _poisson(x: Array, y: Array, difference: Array) -> Array:
    r, inside = _ratio(y, difference)
    near = jnp.abs(r) < _NEAR
    # Away from 0 y g(r) is not used: its product with 1 + r overflows where y is tiny.
    value = jnp.where(near, y * _series(r, near, _G), x * _log1p(r) - difference)
    return jnp.where(inside, value, jnp.where(x > 0, jnp.inf, 0))


@_poisson.defjvp
def _poisson_jvp(of, toward):
    """dP/dx = log(x/y), dP/dy = (y - x)/y; a differentiated series would cancel.

    Where they are infinite (x = 0 or y = 0), finite numbers replace them.
    """
    _, y, difference = of
    r, inside = _ratio(y, difference)
    return _poisson(*of), jnp.where(inside, _log1p(r) * toward[0] - r * toward[1], 0)


def itakura(x: Array, y: Array, difference: Array | None = None) -> Array:
    """h((x - y)/y) = x/y - 1 - log(x/y), the divergence of means x, y of exponential rewards.

    inf for x = 0 or y = 0, but 0 for x = y = 0.

    Args:
        x: any shape, at least 0.
        y: the same shape, at least 0.
        difference: x - y, where it is known with less rounding than x and y have.
    """
    return _itakura_traced(x, y, x - y if difference is None else difference)


@jax.custom_jvp
def _itakura(x: Array, y: Array, difference: Array) -> Array:
    inside = (x > 0) & (y > 0)
    r = jnp.where(inside, difference, 0) / jnp.where(inside, y, 1)
    near = jnp.abs(r) < _NEAR
    # Away from 0, the ratio and not r: r = -1 + x/y would round to -1 for small x/y.
    ratio = jnp.where(inside & ~near, x, 1) / jnp.where(inside & ~near, y, 1)
    value = jnp.where(near, _series(r, near, _H), ratio - 1 - log(ratio))
    return jnp.where(inside, value, jnp.where(x == y, 0, jnp.inf))


@_itakura.defjvp
def _itakura_jvp(of, toward):
    """dd/dx = (x - y)/(x y), dd/dy = (y - x)/y^2; 0 where x or y is 0."""
    x, y, difference = of
    inside = (x > 0) & (y > 0)
    r = jnp.where(inside, difference, 0) / jnp.where(inside, y, 1)
    by_x, by_y = (r / jnp.where(inside, mean, 1) for mean in (x, y))
    return _itakura(*of), by_x * toward[0] - by_y * toward[1]


# A program calls them dozens of times: each layout of the arguments is traced once.
_poisson_traced, _itakura_traced = jax.jit(_poisson, inline=True), jax.jit(_itakura, inline=True)
