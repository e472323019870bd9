"""One-parameter exponential families, and Gaussian rewards of unknown variances.

A distribution of the former, of 0 or 1, counts, or waiting times, is named by its mean. d(x, y)
is the Kullback-Leibler divergence of the family's distribution of mean x from that of mean y;
the loss of a shift is d(m, m + by).

Of the latter, with f degrees of freedom and v the variance of an arm's rewards, moving its mean
by x has the log-likelihood ratio f log(1 + x^2/v)/2. An arm without variance moves for nothing.
The mixture has a right Haar prior on the standard deviation and a prior N(0, 1/c) on the effect.
M is a martingale for one arm alone, but log M is at most Exp(1) in law: with y the least sum of
two over a common mean, a pair has the e-value e^y/(1 + y).

(Jourdan, Degenne & Kaufmann 2023; docs/reference/definitions.md has the formulas.)
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are imported on first use
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family
from jaxelim.contracts.proofs import ONE_PARAMETER, UNKNOWN_VARIANCE
from jaxelim.contracts.views import Statistics
from jaxelim.families import draws
from jaxelim.families.arm import ArmModel, ArmStatistics
from jaxelim.families.sources import Normal
from jaxelim.lanes import LaneOps, named_pytree, settings
from jaxelim.mixtures import log_mean_exp
from jaxelim.mixtures.pieces import Stat
from jaxelim.numerics.logarithm import log, log1p, log_ratio, remainder

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_NEAR = 0.01  # below this |r| r - log(1 + r) cancels; its series is then right to rounding
_SERIES = tuple((-1) ** k / k for k in range(2, 11))
_MOST = 1e30  # largest ratio v/gap^2: beyond it a pair costs less than rounding
_FARTHEST = 1e75  # largest distance over the standard deviation in a mixture; its powers are finite
_STEPS, _POLISH = 3, 2  # Newton steps for the distance to a root, and for the root itself
_FAR = 1e-3  # the longest of the latter


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


# That of the series and of the difference would cost more, and digits.
excess.defjvps(lambda by, _, r: r * (1 / (1 + r)) * by)


@jax.custom_jvp
def time_loss(r: Array) -> Array:
    """log(1 + r) - r/(1 + r) for r > -1, with all digits near 0: the loss of waiting times."""
    ratio = r * (1 / (1 + r))
    near, value = _near_zero(-ratio)
    return jnp.where(near, value, log1p(r) - ratio)


time_loss.defjvps(lambda by, _, r: r * (1 / (1 + r)) * (1 / (1 + r)) * by)


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


@settings
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


@settings
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


@settings
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


class Spread(NamedTuple):
    """The statistics of arms, of any one shape."""

    n: Array
    mean: Array
    squares: Array  # M2 = sum of (x - m)^2 over an arm's rewards, by Welford's recurrence

    @property
    def variance(self) -> Array:
        """v = M2/N; 0 for one pull, or rewards that are all equal."""
        return self.squares / self.n


@named_pytree
class StudentStatistics(ArmStatistics):
    """Statistics with M2, so that variances are known."""

    @property
    def variances(self) -> Array:
        """v = M2/N: [K]."""
        return self.rest[0] / self.counts


@settings
class GaussianUnknownVariance(ArmModel):
    """Gaussian rewards whose means and variances are both unknown; each arm has its own.

    With N pulls, mean m, v = sum (x - m)^2/N and f degrees of freedom, a level costs
    f log(1 + (m - level)^2/v)/2, and a pair the least sum of two such numbers at a common
    mean. An arm of equal rewards is never told apart, so each has two or more initial pulls.

    f = N - 1 keeps P(L > x) <= exp(-x) for one arm, as a known variance does. f = N is the
    likelihood ratio itself, which exceeds such a threshold too often after few pulls.
    Without a source rewards have the standard deviation 1, which no rule and no test reads.

    Source: Jourdan, Degenne & Kaufmann 2023.

    Args:
        degrees: "free" for f = N - 1, or "glr" for f = N.

    Raises:
        ArgumentError: degrees is another word.
    """

    degrees: str = "free"
    name: ClassVar[str] = "gaussian-unknown-variance"
    noise: ClassVar[str] = "normal"
    initial_pulls: ClassVar[int] = 2
    sufficient: ClassVar[int] = 2
    slack: ClassVar[bool] = False
    kind: ClassVar[Callable[..., Any]] = Spread
    statistics: ClassVar[Callable[..., Any]] = StudentStatistics
    convex_in: ClassVar[str | None] = None
    truth, share = Family.truth, Family.share  # not defined: H_p has kinks

    def __post_init__(self) -> None:
        checks.choice("degrees", self.degrees, ("free", "glr"))

    def check(self, instance: "Instance") -> None:
        if instance.source is None:
            Normal().check(instance)

    def law(self) -> str:
        return UNKNOWN_VARIANCE

    def estimated(
        self, counts: np.ndarray, means: np.ndarray, moments: np.ndarray | None
    ) -> Normal:
        """Of the arms' variances. An arm of equal rewards has the mean of the others'."""
        assert moments is not None
        variances = moments[:, 0] / counts
        spread = variances[variances > 0]
        other = spread.mean() if spread.size else (1e-3 * np.abs(means).max()) ** 2 or 1.0
        variances = np.where(variances > 0, variances, other)
        return Normal(tuple(np.sqrt(variances).tolist()))

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """mean + noise, with standard normal noise."""
        return lanes.take(nature, arm) + noise

    def first(self, x: Array) -> Spread:
        return Spread(jnp.ones_like(x), x, jnp.zeros_like(x))

    def more(self, stat: Spread, x: Array) -> Spread:
        n, off = stat.n + 1, x - stat.mean
        mean = stat.mean + off / n
        return Spread(n, mean, stat.squares + off * (x - mean))

    def loss(self, stat: Spread, by: Array) -> Array:
        """log(1 + by^2/v)/2; 0 where v = 0."""
        known = stat.squares > 0
        inverse = jnp.where(known, stat.n / jnp.where(known, stat.squares, 1), 0)
        return jnp.log1p(by * by * inverse) / 2

    def weight(self, stat: Spread) -> Array:
        """Degrees of freedom."""
        return stat.n - 1 if self.degrees == "free" else stat.n

    def reach(self, stat: Spread, radius: Array, up: Array | bool) -> Array:
        """The x with loss(x) = radius; inf where the radius is, or v = 0."""
        known = (radius < jnp.inf) & (stat.squares > 0)
        wide = jnp.expm1(2 * jnp.where(known, radius, 0))
        return jnp.where(known, jnp.sqrt(stat.variance * wide), jnp.inf)

    def meet(self, w_a: Array, a: Spread, w_b: Array, b: Spread, off: Array) -> Array:
        """The x in [0, off] with the least sum of losses.

        The derivative is a cubic with one root or three there; of three the outer two are minima.
        They are the least roots seen from both ends, at which the sum is compared. H_p has a kink
        where both minima are equal: H* and Track-and-Stop are not defined.
        """
        fixed_a, fixed_b = a.squares > 0, b.squares > 0  # an arm without variance moves all the way
        square = jnp.maximum(off * off, float(np.finfo(off.dtype).tiny))
        v_a, v_b = (
            jnp.minimum(jnp.where(fixed, stat.squares, 1) / (stat.n * square), _MOST)
            for fixed, stat in ((fixed_a, a), (fixed_b, b))
        )
        total = w_a + w_b
        share = 1 / jnp.where(total > 0, total, 1)
        p, q = w_a * share, w_b * share
        up, down = _least_root(p, q, v_a, v_b), _least_root(q, p, v_b, v_a)
        # What a costs with its mean at `up` from b's, over that `down` from its own; b's.
        of_a = (v_a + (1 - up) ** 2) / (v_a + down * down)
        of_b = (v_b + up * up) / (v_b + (1 - down) ** 2)
        x = jnp.where(p * jnp.log(of_a) + q * jnp.log(of_b) <= 0, 1 - up, down)
        return off * jnp.where(fixed_a, jnp.where(fixed_b, x, 0), 1)

    def degenerate(self, stats: Statistics) -> Array:
        """1 + the first arm with three or more rewards that are all equal, else 0."""
        equal = (self.stat(stats).squares == 0) & (stats.counts >= 3)
        return jnp.where(jnp.any(equal, 0), 1 + jnp.argmax(equal, 0), 0).astype(jnp.int32)

    def log_mixture(self, stat: Spread, at: Array, c: Array) -> Array:
        """log M at the means `at`; 0 where v = 0 or N < 2."""
        n, known = stat.n, (stat.variance > 0) & (stat.n >= 2)
        ratio = jnp.abs(stat.mean - at) * jnp.sqrt(1 / jnp.where(known, stat.variance, 1))
        z = jnp.square(jnp.minimum(ratio, _FARTHEST))
        value = (n * (log1p(z) - log1p(z * (c / (n + c)))) - log1p(n / c)) / 2
        return jnp.where(known, value, 0)

    def together(self, a: Array, b: Array) -> Array:
        """y - log(1 + y); y itself below 0."""
        y = log_mean_exp(a) + log_mean_exp(b)
        return y - log1p(jnp.maximum(y, 0))


def _least_root(p: Array, q: Array, other: Array, own: Array) -> Array:
    """The least root in [0, 1] of c(x) = p (x - 1)(x^2 + own) + q x ((x - 1)^2 + other).

    p and q = 1 - p are the shares of the arms at 1 and at 0, `other` and `own` their v/gap^2.
    c(0) < 0, and c is concave up to h = (1 + q)/3. Where c >= 0 at its maximum in [0, h], the
    least root is at distance e before that maximum; e solves e^3 + 3 r e^2 + s e = c(maximum),
    with 3 r^2 = -c'(h) or s = c'(h), whichever is positive. Newton's method falls from above to
    e, then rises from below to the root. Elsewhere the result is some other point of [0, 1].
    """
    linear, turn = p * own + q * (1 + other), (1 + q) / 3
    slope = linear - (1 + q) * turn
    rises = slope > 0
    r = jnp.sqrt(jnp.maximum(-slope, 0) / 3)
    top = jnp.maximum(turn - r, 0)

    def c(x: Array) -> Array:
        return ((x - (1 + q)) * x + linear) * x - p * own

    high, tiny = jnp.maximum(c(top), 0), float(np.finfo(p.dtype).tiny)
    wide, steep = 3 * r, jnp.maximum(slope, 0)
    # Each of the three terms alone gives an upper bound on e; the least is below 1.5 e.
    e = jnp.exp(jnp.log(jnp.maximum(high, tiny)) / 3)
    bound = jnp.where(rises, high / jnp.maximum(steep, tiny),
                      jnp.sqrt(high / jnp.maximum(wide, tiny)))  # fmt: skip
    e = jnp.minimum(e, bound)
    for _ in range(_STEPS):
        excess = ((e + wide) * e + steep) * e - high
        step = excess / jnp.maximum((3 * e + 2 * wide) * e + steep, tiny)
        e = jnp.clip(e - step, 0, e)
    x = jnp.clip(top - e, 0, 1)
    for _ in range(_POLISH):
        tilt = (3 * x - 2 * (1 + q)) * x + linear
        # Where c is flat its rounding would move x far; a true correction is small.
        step = jnp.clip(c(x) / jnp.maximum(tilt, tiny), -_FAR, _FAR)
        x = jnp.clip(x - jnp.where(tilt > 0, step, 0), 0, 1)
    return x
