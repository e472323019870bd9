"""The remainder of Stirling's formula, in plain arithmetic, with two derivatives.

log Gamma(x) = (x - 1/2) log x - x + log(2 pi)/2 + s(x). Differences of log Gamma at large
numbers lose digits; formulas made of s(x) and logarithms of ratios do not.

From x = 8 on s is its asymptotic series. Below it follows from Gamma(x + 8).
"""

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.numerics.logarithm import log, log1p

_SERIES = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)  # fmt: skip
"""Coefficients of x^-1, x^-3, ..; the error is below 1e-16 from x = 8 on."""
_SHIFT = 8.0
_PAIRS = (0.0, 6.0, 10.0, 12.0)
"""x (x + 7) = y, (x + 1)(x + 6) = y + 6, and so on: x (x + 1) .. (x + 7) has four factors."""


def _parts(x: Array) -> tuple[Array, Array, Array, Array]:
    """Where x is below the shift; a number below it; 1/y and 1/y^2 of y above it."""
    small = x < _SHIFT
    inverse = 1 / jnp.where(small, x + _SHIFT, x)
    return small, jnp.where(small, x, 1), inverse, inverse * inverse


def _polynomial(z: Array, coefficients: list[float]) -> Array:
    value = jnp.full_like(z, coefficients[-1])
    for one in reversed(coefficients[:-1]):
        value = value * z + one
    return value


@jax.custom_jvp
@jax.jit
def remainder(x: Array) -> Array:
    """s(x) of x above 0; any shape."""
    small, low, inverse, square = _parts(x)
    value = inverse * _polynomial(square, list(_SERIES))
    y, over = low * (low + 7), low + _SHIFT
    scale = 1 / (over * over)
    product = 1.0
    for k in _PAIRS:
        product = product * ((y + k) * scale)
    shifted = (low - 0.5) * log1p(_SHIFT / low) - log(product) - _SHIFT
    return jnp.where(small, value + shifted, value)


@jax.custom_jvp
@jax.jit
def _slope(x: Array) -> Array:
    """s'(x)."""
    small, low, _, square = _parts(x)
    value = -square * _polynomial(square, [(2 * i + 1) * a for i, a in enumerate(_SERIES)])
    y, over = low * (low + 7), low + _SHIFT
    shifted = log1p(_SHIFT / low) + _SHIFT / over - (low - 0.5) * (_SHIFT / (low * over))
    for k in _PAIRS:
        shifted = shifted - (2 * low + 7) / (y + k)
    return jnp.where(small, value + shifted, value)


@jax.jit
def _curvature(x: Array) -> Array:
    """s''(x)."""
    small, low, inverse, square = _parts(x)
    weights = [(2 * i + 1) * (2 * i + 2) * a for i, a in enumerate(_SERIES)]
    value = inverse * square * _polynomial(square, weights)
    y, over = low * (low + 7), 1 / (low + _SHIFT)
    under = 1 / low
    shifted = (low - 0.5) * (under - over) * (under + over) - 2 * (under - over)
    shifted = shifted - _SHIFT * over * over
    for k in _PAIRS:
        one = 1 / (y + k)
        shifted = shifted + one * ((2 * low + 7) ** 2 * one - 2)
    return jnp.where(small, value + shifted, value)


@remainder.defjvp
def _remainder_jvp(of, toward):
    return remainder(*of), _slope(*of) * toward[0]


@_slope.defjvp
def _slope_jvp(of, toward):
    return _slope(*of), _curvature(*of) * toward[0]
