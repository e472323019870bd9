"""Rewards that are counts."""

import dataclasses
from typing import TYPE_CHECKING, ClassVar

import jax
import numpy as np
import scipy  # its parts are imported on first use
from jax import Array

from jaxelim.families import draws
from jaxelim.families.one_parameter import OneParameter, count_loss
from jaxelim.lanes import LaneOps
from jaxelim.mixtures.pieces import Stat
from jaxelim.numerics.binet import remainder
from jaxelim.numerics.logarithm import log1p, log_ratio

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Poisson(OneParameter):
    """Rewards 0, 1, 2, .. with a Poisson distribution of mean mu; means from 0 to 1000.

    d(x, y) = x log(x/y) - x + y, V(y) = y. An arm of mean 0 has rewards 0.

    Garivier & Kaufmann 2016.
    """

    name: ClassVar[str] = "poisson"
    low: ClassVar[float] = 0.0
    most: ClassVar[float] = 1000.0  # a draw counts entries of a table that is a little longer

    def check_rewards(self, rewards: np.ndarray) -> None:
        bad = (rewards < 0) | (rewards != np.floor(rewards))
        self.refuse_rewards(rewards, bad, "0, 1, 2, ..")

    def nature(self, instance: "Instance") -> np.ndarray:
        """P(X <= k), k = 0, 1, .. until 1 - P(X <= k) < 2^-53 for all arms: [I, K, n]."""
        means = super().nature(instance)
        length, largest = 1, means.max()
        cdf, rest_of = scipy.special.pdtr, scipy.special.pdtrc
        while rest_of(length - 1, largest) >= 2.0**-53:
            length += 1
        k, means = np.arange(length), means[..., None]
        table, rest = cdf(k, means), rest_of(k, means)
        table = np.where(table < 0.5, table, 1 - rest)  # each where it has more digits
        return np.maximum(table, 1e-30)  # noise 0 has reward 0 where the probability underflows

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """The quantile: the least k with P(X <= k) above the noise, uniform on [0, 1)."""
        return lanes.sum(lanes.row(nature, arm) <= noise).astype(noise.dtype)

    def loss(self, stat: Stat, by: Array) -> Array:
        """P(m, by)."""
        return count_loss(stat.mean, by)

    def posterior(self, key: Array, counts: Array, means: Array) -> Array:
        """Gamma(S + 1/2)/N, S the sum of rewards: the prior is Jeffreys'."""
        return draws.gamma(key, counts * means + 0.5) / counts

    def log_mixture(self, stat: Stat, at: Array, c: Array) -> Array:
        """The prior is Gamma(a, rate c), a = c at. With S the sum

        log Gamma(S + a) - log Gamma(a) + a log c - (S + a) log(N + c) - S log at + N at.
        """
        (n, m), y, a = stat, at, c * at
        total, off = n * m + a, n * (m - y)
        ratio = log_ratio(total, (n + c) * y, off)
        half = ratio + log1p(n / c)
        return total * ratio - off - half / 2 + remainder(total) - remainder(a)
