"""One-parameter exponential families: 0 or 1, counts, waiting times, and their losses.

A distribution is named by its mean. d(x, y) is the Kullback-Leibler divergence of the
family's distribution of mean x from that of mean y; the loss of a shift is d(m, m + by).
"""

import dataclasses
from typing import TYPE_CHECKING, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are imported on first use
from jax import Array

from jaxelim.contracts.proofs import ONE_PARAMETER
from jaxelim.families import draws
from jaxelim.families.arm import ArmModel
from jaxelim.lanes import LaneOps
from jaxelim.mixtures.pieces import Stat
from jaxelim.numerics.binet import remainder
from jaxelim.numerics.logarithm import log, log1p, log_ratio

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_NEAR = 0.01  # below this |r| r - log(1 + r) cancels; its series is then right to rounding
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
        """The prior is Beta(c at, c (1 - at))."""
        (n, m), y = stat, jnp.stack([at, 1 - at])
        a, off = c * y, n * (m - at)  # of successes and of failures
        total, counts = n + c, n * jnp.stack([m, 1 - m]) + a
        ratio = log_ratio(counts, total * y, jnp.stack([off, -off]))
        more = remainder(jnp.concatenate([counts, a, jnp.stack([total, c])]))
        value = jnp.sum((counts - 0.5) * ratio, 0) - log1p(n / c) / 2
        return value + (more[0] - more[2]) + (more[1] - more[3]) - (more[4] - more[5])


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
        cdf, rest_of = scipy.special.pdtr, scipy.special.pdtrc
        length, largest = 1, means.max()
        while rest_of(length - 1, largest) >= 2.0**-53:
            length += 1
        table, rest = (f(np.arange(length), means[..., None]) for f in (cdf, rest_of))
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
        """The prior is Gamma(c at, rate c)."""
        (n, m), a = stat, c * at
        total, off = n * m + a, n * (m - at)
        ratio = log_ratio(total, (n + c) * at, off)
        half = ratio + log1p(n / c)
        return total * ratio - off - half / 2 + remainder(total) - remainder(a)


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
        return jnp.maximum(-lanes.take(nature, arm) * jnp.log1p(-noise), 1e-300)

    def loss(self, stat: Stat, by: Array) -> Array:
        """log(1 + r) - r/(1 + r), r = by/m."""
        return time_loss(by / stat.mean)

    def posterior(self, key: Array, counts: Array, means: Array) -> Array:
        """S/Gamma(N), S the sum of rewards: the prior is Jeffreys'."""
        return counts * means / draws.gamma(key, counts, least=1.0)

    def log_mixture(self, stat: Stat, at: Array, c: Array) -> Array:
        """The prior of the rate is Gamma(c + 1, rate c at)."""
        (n, m), a = stat, c + 1
        total, off = n + a, n * ((m - at) / at)
        ratio = log_ratio(c + n * (m / at), total, off + (c - a))
        value = off - total * ratio - log1p(n / a) / 2
        return value + a * log(c / a) + remainder(total) - remainder(a)
