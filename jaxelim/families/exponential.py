"""Rewards that are waiting times."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.families import draws
from jaxelim.families.one_parameter import OneParameter, time_loss
from jaxelim.lanes import LaneOps
from jaxelim.mixtures.pieces import Stat
from jaxelim.numerics.binet import remainder
from jaxelim.numerics.logarithm import log, log1p, log_ratio


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Exponential(OneParameter):
    r"""Rewards with P(X > x) = exp(-x/mu); means above 0.

    $$
    d(x, y) = \frac{x}{y} - 1 - \log(x / y), V(y) = y^2
    $$

    Garivier & Kaufmann 2016.
    """

    name: ClassVar[str] = "exponential"
    low: ClassVar[float] = 0.0
    least: ClassVar[float] = 1e-100  # squares of means must not underflow
    convex_in: ClassVar[str] = "reciprocal"

    def check_rewards(self, rewards: np.ndarray) -> None:
        self.refuse_rewards(rewards, rewards <= 0, "above 0")

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """The quantile -mu log(1 - noise), above 0 for noise 0 too."""
        least = np.asarray(1e-300 if noise.dtype == jnp.float64 else 1e-30, noise.dtype)
        return jnp.maximum(-lanes.take(nature, arm) * jnp.log1p(-noise), least)

    def loss(self, stat: Stat, by: Array) -> Array:
        """log(1 + r) - r/(1 + r), r = by/m."""
        return time_loss(by / stat.mean)

    def posterior(self, key: Array, counts: Array, means: Array) -> Array:
        """S/Gamma(N), S the sum of rewards: the prior is Jeffreys'."""
        return counts * means / draws.gamma(key, counts, least=1.0)

    def log_mixture(self, stat: Stat, at: Array, c: Array) -> Array:
        """The prior of the rate is Gamma(a, rate b), a = c + 1, b = c at. With S the sum

        log Gamma(N + a) - log Gamma(a) + a log b - (N + a) log(S + b) + N log at + S/at.
        """
        (n, m), y, a, scaled = stat, at, c + 1, c
        total, off = n + a, n * ((m - y) / y)
        ratio = log_ratio(scaled + n * (m / y), total, off + (scaled - a))
        value = off - total * ratio - log1p(n / a) / 2
        return value + a * log(scaled / a) + remainder(total) - remainder(a)
