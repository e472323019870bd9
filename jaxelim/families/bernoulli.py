"""Rewards that are 0 or 1."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.families import draws
from jaxelim.families.one_parameter import OneParameter, count_loss
from jaxelim.lanes import LaneOps
from jaxelim.mixtures.pieces import Stat
from jaxelim.numerics.binet import remainder
from jaxelim.numerics.logarithm import log1p, log_ratio


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Bernoulli(OneParameter):
    r"""Rewards that are 1 with probability mu, else 0; means in [0, 1], both ends included.

    $$
    d(x, y) = x \log(x / y) + (1 - x) \log\left( \frac{1 - x}{1 - y} \right), V(y) = y (1 - y)
    $$

    Garivier & Kaufmann 2016; bounds: Kaufmann & Kalyanakrishnan 2013.
    """

    name: ClassVar[str] = "bernoulli"
    any_law: ClassVar[bool] = True
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0

    def check_rewards(self, rewards: np.ndarray) -> None:
        self.refuse_rewards(rewards, (rewards != 0) & (rewards != 1), "0 or 1")

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """1 where the noise, uniform on [0, 1), is below the mean, else 0."""
        return (noise < lanes.take(nature, arm)).astype(noise.dtype)

    def loss(self, stat: Stat, by: Array) -> Array:
        """P(m, by) + P(1 - m, -by)."""
        return count_loss(stat.mean, by) + count_loss(1 - stat.mean, -by)

    def posterior(self, key: Array, counts: Array, means: Array) -> Array:
        """Beta(1 + S, 1 + N - S), S the successes: the prior is uniform."""
        successes = counts * means
        return draws.beta(key, 1 + successes, 1 + (counts - successes), least=1.0)

    def log_mixture(self, stat: Stat, at: Array, c: Array) -> Array:
        """The prior is Beta(a, b), a = c at, b = c (1 - at). With S successes

        log B(S + a, N - S + b) - log B(a, b) - S log at - (N - S) log(1 - at).
        """
        (n, m), y = stat, jnp.stack([at, 1 - at])
        a, off = c * y, n * (m - at)  # of successes and of failures
        total, counts = n + c, n * jnp.stack([m, 1 - m]) + a
        ratio = log_ratio(counts, total * y, jnp.stack([off, -off]))
        more = remainder(jnp.concatenate([counts, a, jnp.stack([total, c])]))
        value = jnp.sum((counts - 0.5) * ratio, 0) - log1p(n / c) / 2
        return value + (more[0] - more[2]) + (more[1] - more[3]) - (more[4] - more[5])
