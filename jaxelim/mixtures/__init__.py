"""Mixtures of likelihood ratios, of priors that are centred at the tested mean."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import real_array
from jaxelim.errors import ArgumentError
from jaxelim.numerics.logarithm import log

_FLOOR = -1e300
_STRENGTHS = (1e-3, 1e9)  # in this range log M keeps 7 digits, for all families


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
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
