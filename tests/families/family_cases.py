"""User-defined reward families for the tests; the best time to stop a bet."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import binom

import jaxelim as je
from jaxelim.families.arm import End, losses
from jaxelim.families.one_parameter import count_loss


def of_one(family, means):
    """Statistics of one pull with these means."""
    return family.kind(jnp.ones_like(means), means)


def bounds(family, mean, radius):
    """The ends of {y : d(mean, y) <= radius}."""
    mean, radius = jnp.broadcast_arrays(mean, radius)
    down, up = (family.reach(of_one(family, mean), radius, side) for side in (False, True))
    return mean - down, mean + up


def pair(family, n_a, a, n_b, b, slack=0.0):
    """The LLR of {mu_b >= mu_a + slack}."""
    ends = End(of_one(family, a), n_a), End(of_one(family, b), n_b)
    of_a, of_b = losses(family, *ends, slack)
    return n_a * of_a + n_b * of_b


def best_stop(values, worth):
    """The worth of the best stopping time of draws without replacement, by backward induction.

    `worth`: of stopping after each order of some of the values, and after none.
    """
    for order in sorted(worth, key=len, reverse=True):
        left = list(values)
        for x in order:
            left.remove(x)
        if left:
            later = np.mean([worth[(*order, x)] for x in left], 0)
            worth[order] = np.maximum(worth[order], later)
    return worth[()]


@dataclasses.dataclass(frozen=True)
class Geometric(je.families.OneParameter):
    """Rewards 0, 1, .. with P(X >= k) = (mu/(1 + mu))^k."""

    name: ClassVar[str] = "geometric"
    low: ClassVar[float] = 0.0

    def draw(self, lanes, nature, arm, pull, noise):
        mean = lanes.take(nature, arm)
        ratio = mean / (1 + mean)
        steps = jnp.log1p(-noise) / jnp.log(jnp.where(ratio > 0, ratio, 0.5))
        return jnp.where(ratio > 0, jnp.floor(steps), 0)

    def loss(self, stat, by):
        return count_loss(stat.mean, by) - count_loss(1 + stat.mean, by)


@dataclasses.dataclass(frozen=True)
class Proven(Geometric):
    """The same, with one prior for all tested means: Beta(1/2, 1/2) on 1/(1 + mean)."""

    name: ClassVar[str] = "proven"
    convex_in: ClassVar[str | None] = None

    def law(self):
        return "one-parameter"

    def log_mixture(self, stat, at, c):
        n, s, lgamma = stat.n, stat.n * stat.mean, jax.lax.lgamma
        value = lgamma(n + 0.5) + lgamma(s + 0.5) - lgamma(n + s + 1) - np.log(np.pi)
        return value + n * jnp.log1p(at) + s * jnp.log1p(1 / at) + 0 * c


@dataclasses.dataclass(frozen=True)
class Textbook(Geometric):
    """The same, with the textbook's loss, which cancels for small shifts."""

    name: ClassVar[str] = "textbook"

    def loss(self, stat, by):
        x, y = stat.mean, stat.mean + by
        ratio = jnp.where((x > 0) & (y > 0), x / jnp.where(y > 0, y, 1), 1)
        return x * jnp.log(ratio) - (1 + x) * jnp.log((1 + x) / (1 + y))


@dataclasses.dataclass(frozen=True)
class Binomial(je.families.OneParameter):
    """Successes in `trials` trials, drawn from tables of distribution functions.

    Args:
        trials: number of trials, at least 1.
    """

    trials: int = 5
    name: ClassVar[str] = "binomial"
    low: ClassVar[float] = 0.0

    @property
    def high(self):
        return float(self.trials)

    def nature(self, instance):
        p = super().nature(instance)[..., None] / self.trials
        return np.stack([binom.cdf(k, self.trials, p[..., 0]) for k in range(self.trials)], -1)

    def draw(self, lanes, nature, arm, pull, noise):
        return jnp.sum((lanes.row(nature, arm) <= noise).astype(noise.dtype), 0)

    def loss(self, stat, by):
        return count_loss(stat.mean, by) + count_loss(self.trials - stat.mean, -by)


@dataclasses.dataclass(frozen=True)
class Faces(je.Bernoulli):
    """Rewards -2 or -1: Bernoulli rewards less 2."""

    name: ClassVar[str] = "faces"
    low: ClassVar[float] = -2.0
    high: ClassVar[float] = -1.0

    def check_rewards(self, rewards):
        self.refuse_rewards(rewards, (rewards != -2) & (rewards != -1), "-2 or -1")

    def draw(self, lanes, nature, arm, pull, noise):
        return super().draw(lanes, nature + 2, arm, pull, noise) - 2

    def loss(self, stat, by):
        return super().loss(stat._replace(mean=stat.mean + 2), by)

    def log_mixture(self, stat, at, c):
        return super().log_mixture(stat._replace(mean=stat.mean + 2), at + 2, c)
