"""One-parameter exponential families: their losses of a shift of the mean.

A distribution is named by its mean. d(x, y) is the Kullback-Leibler divergence of the
family's distribution of mean x from that of mean y; the loss of a shift is d(m, m + by).
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.proofs import ONE_PARAMETER
from jaxelim.families.arm import ArmModel
from jaxelim.numerics.logarithm import log1p

_NEAR = 0.01
"""Below this |r| r - log(1 + r) cancels; its series is then right to rounding."""
_SERIES = tuple((-1) ** k / k for k in range(2, 11))


def _near_zero(r: Array) -> tuple[Array, Array]:
    """Where |r| is small, and the series of r - log(1 + r) there."""
    near, value = jnp.abs(r) < _NEAR, jnp.zeros_like(r)
    small = jnp.where(near, r, 0)
    for coefficient in reversed(_SERIES):
        value = value * small + coefficient
    return near, small * small * value


@jax.custom_jvp
def excess(r: Array) -> Array:
    """r - log(1 + r) for r >= -1, with all digits near 0; inf at -1."""
    near, value = _near_zero(r)
    return jnp.where(near, value, r - log1p(r))


@excess.defjvp
def _(of: tuple, toward: tuple) -> tuple[Array, Array]:
    """r/(1 + r); that of the series and of the difference would cost more, and digits."""
    (r,), (by,) = of, toward
    return excess(r), r * (1 / (1 + r)) * by


@jax.custom_jvp
def time_loss(r: Array) -> Array:
    """log(1 + r) - r/(1 + r) for r > -1, with all digits near 0: the loss of waiting times."""
    ratio = r * (1 / (1 + r))
    near, value = _near_zero(-ratio)
    return jnp.where(near, value, log1p(r) - ratio)


@time_loss.defjvp
def _(of: tuple, toward: tuple) -> tuple[Array, Array]:
    """r/(1 + r)^2."""
    (r,), (by,) = of, toward
    inverse = 1 / (1 + r)
    return time_loss(r), r * inverse * inverse * by


def count_loss(mean: Array, by: Array) -> Array:
    """P(m, s) = s - m log(1 + s/m), the loss of counts of mean m; s for m = 0."""
    some = mean > 0
    return jnp.where(some, mean * excess(by * (1 / jnp.where(some, mean, 1))), by)


class OneParameter(ArmModel):
    """A one-parameter exponential family, whose distributions are named by their means.

    A family defines `draw` and `loss`, which is d(m, m + by). With `log_mixture` it has
    e-values too.
    """

    exponential: ClassVar[bool] = True
    sufficient: ClassVar[int] = 1

    def law(self) -> str:
        return ONE_PARAMETER
