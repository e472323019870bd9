"""Logarithms and the remainder of Stirling's formula, in plain arithmetic that XLA:CPU vectorises.

XLA:CPU calls the C library for each float64 logarithm, one entry at a time. The forms
here take a quarter of that time, with an error of less than one unit in the last place.
Other types use JAX's own. (The reduction and the polynomial are those of fdlibm.)

log Gamma(x) = (x - 1/2) log x - x + log(2 pi)/2 + s(x). Differences of log Gamma at large
numbers lose digits; formulas made of s(x) and logarithms of ratios do not. From x = 8 on s is
its asymptotic series. Below it follows from Gamma(x + 8). It has two derivatives.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_LG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
_HIGH, _LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""log 2 in two parts: multiples of the first by an exponent are exact."""
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)
"""The bits of sqrt(1/2); mantissas are taken in [sqrt(1/2), sqrt(2))."""
_ONE = np.uint64(0x3FF0000000000000)
_INTEGER = 2.0**52 + 2.0**51
"""A float whose last bits are an integer: for conversions by addition."""


@jax.custom_jvp
@jax.jit
def log(x: Array) -> Array:
    """The natural logarithm of x, at least 0; any shape."""
    if x.dtype != jnp.float64:
        return jnp.log(x)
    value = _of_normal(jnp.maximum(x, np.finfo(np.float64).tiny))
    return _at_ends(x, value)


@log.defjvp
def _log_jvp(of, toward):
    return log(of[0]), toward[0] / of[0]


@jax.custom_jvp
@jax.jit
def log1p(r: Array) -> Array:
    """log(1 + r) of r, at least -1, accurate near r = 0 too; any shape."""
    if r.dtype != jnp.float64:
        return jnp.log1p(r)
    u = 1 + r
    positive = jnp.where((u > 0) & (u < jnp.inf), u, 1)
    return _at_ends(u, _of_normal(positive) + (r - (positive - 1)) / positive)


@log1p.defjvp
def _log1p_jvp(of, toward):
    return log1p(of[0]), toward[0] / (1 + of[0])


@jax.jit
def log_ratio(x: Array, y: Array, difference: Array) -> Array:
    """log(x/y) of positive numbers, from x - y where they are near each other; any shape."""
    near = 2 * x > y
    r = jnp.where(near, difference, 0) / jnp.where(near, y, 1)
    return jnp.where(near, log1p(r), log(jnp.where(near, 1, x) / jnp.where(near, 1, y)))


def _of_normal(x: Array) -> Array:
    """The logarithm of positive, finite, normal numbers."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint64) + (_ONE - _ROOT_HALF)
    mantissa = (bits & np.uint64(2**52 - 1)) + _ROOT_HALF
    exponent = (bits >> np.uint64(52)) + np.float64(_INTEGER).view(np.uint64)
    k = jax.lax.bitcast_convert_type(exponent, jnp.float64) - (_INTEGER + 1023)
    f = jax.lax.bitcast_convert_type(mantissa, jnp.float64) - 1
    s = f / (2 + f)
    z = s * s
    w = z * z
    odd = w * (_LG[1] + w * (_LG[3] + w * _LG[5]))
    even = z * (_LG[0] + w * (_LG[2] + w * (_LG[4] + w * _LG[6])))
    half = f * f / 2
    return k * _HIGH - ((half - (s * (half + (odd + even)) + k * _LOW)) - f)


def _at_ends(x: Array, value: Array) -> Array:
    """The value, but -inf at and below 0, inf at inf, NaN of NaN."""
    return jnp.where(x < jnp.inf, jnp.where(x > 0, value, -jnp.inf), x)


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
