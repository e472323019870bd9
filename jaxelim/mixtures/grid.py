"""Priors of a mixture of likelihood ratios."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import real
from jaxelim.errors import ArgumentError
from jaxelim.numerics.logarithm import log

_FLOOR = -1e300
_STRENGTHS = (1e-3, 1e9)
"""The range of strengths in which log M keeps 7 digits, for all families."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Grid:
    """Priors c_1, .., c_J of equal weight centred at the tested mean, or one fixed prior.

    A prior of strength c has the weight of c pulls.

    Args:
        strengths: [J] numbers from 0.001 to 1e9.
        prior: two numbers, the second above 0, in place of the strengths. Bernoulli:
            Beta(a, b). Poisson: Gamma(shape, rate) of the mean. Exponential:
            Gamma(shape, rate) of 1/mean. Gaussian: mean and standard deviation of the
            mean, in the units of the rewards. None: the strengths.

    Raises:
        ArgumentError: strengths or prior are no such numbers.
    """

    strengths: tuple[float, ...] = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
    prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        least, most = _STRENGTHS
        allowed = f"one or more numbers from {least:g} to {most:g}"
        strengths = _numbers("strengths", self.strengths, allowed)
        if not strengths or min(strengths) < least or max(strengths) > most:
            raise ArgumentError("strengths", self.strengths, allowed)
        object.__setattr__(self, "strengths", strengths)
        if self.prior is None:
            return
        allowed = "None, or two numbers, the second above 0"
        prior = _numbers("prior", self.prior, allowed)
        if len(prior) != 2 or prior[1] <= 0:
            raise ArgumentError("prior", self.prior, allowed)
        object.__setattr__(self, "prior", prior)

    @property
    def size(self) -> int:
        """J: the number of strengths, or 1 with a fixed prior."""
        return 1 if self.prior is not None else len(self.strengths)

    def over(self, *x: Array) -> tuple[Array, ...]:
        """The strengths [1, .., J], then each of x [..] as [.., 1]: to broadcast to [.., J]."""
        strengths = np.reshape(self.strengths, (1,) * x[0].ndim + (-1,))
        return jnp.asarray(strengths, x[0].dtype), *(values[..., None] for values in x)

    def spread(self, *x: Array) -> tuple[Array, ...]:
        """The strengths, then each of x [..], all repeated to [.., J]; strengths 0 for a prior."""
        strengths = (0.0,) if self.prior is not None else self.strengths
        shape = (*x[0].shape, self.size)
        strengths = np.broadcast_to(np.asarray(strengths), shape)
        spread = (jnp.broadcast_to(values[..., None], shape) for values in x)
        return jnp.asarray(strengths, x[0].dtype), *spread

    def log_mean_exp(self, values: Array) -> Array:
        """The logarithm of the mean of exp(values) along the last axis: [.., J] -> [..]."""
        # Nothing depends on this shift. The derivative of `max` divides by the number of values
        # that equal it: none, where XLA computes the values twice and LLVM rounds them apart.
        most = jax.lax.stop_gradient(jnp.maximum(jnp.max(values, -1), _FLOOR))
        total = jnp.sum(jnp.exp(values - most[..., None]), -1)
        return most + log(total) - math.log(values.shape[-1])


def _numbers(name: str, values: Any, allowed: str) -> tuple[float, ...]:
    """The finite numbers of a list or tuple."""
    if not isinstance(values, list | tuple | np.ndarray):
        raise ArgumentError(name, values, allowed)
    try:
        return tuple(real(name, value) for value in values)
    except ArgumentError:
        raise ArgumentError(name, values, allowed) from None
