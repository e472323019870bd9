"""One-parameter exponential families: divergences, LLRs of pieces, bounds on a mean.

A distribution is named by its mean. d(x, y) is the Kullback-Leibler divergence of the
family's distribution of mean x from that of mean y. All functions work entry by entry
on arrays of equal shapes; lanes come last (see `jaxelim.lanes`).
"""

import dataclasses
from typing import TYPE_CHECKING, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Problem, Source
from jaxelim.contracts.proofs import ONE_PARAMETER
from jaxelim.contracts.shapes import Interval, Levels, Rows, Shape
from jaxelim.contracts.sides import Sides
from jaxelim.contracts.views import ArmContext, Evidence, Snapshot, Statistics, View
from jaxelim.errors import ArgumentError
from jaxelim.evidence.exponential import SidesEvidence, evidence_of
from jaxelim.families import slack as slacks
from jaxelim.families.arm import ArmModel, Stat
from jaxelim.families.mean_mixtures import MeanMixtures
from jaxelim.lanes import ArmBlock, index_like
from jaxelim.numerics.logarithm import log1p
from jaxelim.numerics.roots import jet

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_NEAR = 0.01
"""Below this |r| r - log(1 + r) cancels; its series is then right to rounding."""
_SERIES = tuple((-1) ** k / k for k in range(2, 11))


@jax.custom_jvp
def excess(r: Array) -> Array:
    """r - log(1 + r) for r >= -1, with all digits near 0; inf at -1."""
    near, value = jnp.abs(r) < _NEAR, jnp.zeros_like(r)
    small = jnp.where(near, r, 0)
    for coefficient in reversed(_SERIES):
        value = value * small + coefficient
    return jnp.where(near, small * small * value, r - log1p(r))


@excess.defjvp
def _(of: tuple, toward: tuple) -> tuple[Array, Array]:
    """r/(1 + r); that of the series and of the difference would cost more, and digits."""
    (r,), (by,) = of, toward
    return excess(r), r * (1 / (1 + r)) * by


def count_loss(mean: Array, by: Array) -> Array:
    """P(m, s) = s - m log(1 + s/m), the loss of counts of mean m; s for m = 0."""
    some = mean > 0
    return jnp.where(some, mean * excess(by * (1 / jnp.where(some, mean, 1))), by)


class ExponentialFamily(ArmModel, MeanMixtures):
    """A one-parameter exponential family, whose distributions are named by their means."""

    exponential: ClassVar[bool] = True
    sufficient: ClassVar[int] = 1

    def law(self) -> str:
        return ONE_PARAMETER

    def check_noise(self, noise: np.ndarray) -> None:
        bad = noise[(noise < 0) | (noise >= 1)]
        if bad.size:
            allowed = f"uniforms, at least 0 and below 1, for {self!r}"
            raise ArgumentError("noise", noise, allowed, f"{bad[0]:g} is not")

    def variance(self, y: Array) -> Array:
        """The variance of rewards of mean y."""
        one = Stat(jnp.ones_like(y), y)
        return 1 / jet(lambda by: self.loss(one, by), jnp.zeros_like(y))[2]


_MOST = 100
"""Most iterations for a bound. It takes 2 or 3; this is enough for bisection alone."""


class OneParameter(MeanMixtures):
    """A one-parameter exponential family of rewards; each arm has its own mean.

    A family defines `draw`, `divergence`, `variance` and `bracket`, and inherits the
    rest. With `log_mixture` it has e-values too. Precision counts n are pulls over cost,
    or weights over cost; see `costs`. Estimates may lie at the ends of the range of means.

    Pieces: Garivier & Kaufmann 2016, section 2. Bounds: Kaufmann &
    Kalyanakrishnan 2013.
    """

    low: ClassVar[float] = -np.inf  # the range of means
    high: ClassVar[float] = np.inf
    sufficient: ClassVar[int] = 1

    def divergence(self, x: Array, y: Array) -> Array:
        """d(x, y): 0 for x = y, inf where y is an end of the range that x is not."""
        raise TypeError(f"{type(self).__name__} does not define divergence(x, y)")

    def variance(self, y: Array) -> Array:
        """V(y), the variance at mean y, 0 at a finite end: dd(x, y)/dy = (y - x)/V(y)."""
        raise TypeError(f"{type(self).__name__} does not define variance(y)")

    def bracket(self, mean: Array, radius: Array) -> tuple[Array, Array]:
        """Finite numbers at or beyond the two `bounds`, inside the range.

        A bracket at an end of the range, where V = 0, is taken as the bound itself. It
        may be there only if the bound is that end, up to rounding.
        """
        raise TypeError(f"{type(self).__name__} does not define bracket(mean, radius)")

    def costs(self, means: Array) -> Array | None:
        """c_k of every arm, positive, of the shape of means [K]; None: all are 1.

        N pulls of an arm of cost c count as N/c in its LLRs.
        """
        return None

    def precision(self, means: Array, counts: Array) -> Array:
        """The precision counts N_k/c_k of pulls or weights [K]: [K]."""
        costs = self.costs(means)
        return counts if costs is None else counts / costs

    # The contract of families.

    def law(self) -> str:
        return ONE_PARAMETER

    def check(self, instance: "Instance") -> None:
        means = instance.means
        if np.any((means < self.low) | (means > self.high)):
            bad = means[(means < self.low) | (means > self.high)][0]
            allowed = f"means from {self.low:g} to {self.high:g} for {self!r}"
            raise ArgumentError("theta", means, allowed, f"{bad:g} is not")

    def check_shape(self, problem: Problem, shape: Shape) -> None:
        super().check_shape(problem, shape)
        if shape.level is not None and not self.low < shape.level < self.high:
            allowed = f"a number inside ({self.low:g}, {self.high:g}) for {self!r}"
            raise ArgumentError("level", shape.level, allowed)
        if shape.slack and not shape.slack < self.high - self.low:
            allowed = f"a number below {self.high - self.low:g} for {self!r}"
            raise ArgumentError("epsilon", problem.epsilon, allowed, "else every arm is right")

    def nature(self, instance: "Instance") -> np.ndarray:
        """The means: [I, K]."""
        return instance.means.reshape(-1, instance.K)

    def start(
        self, space: ArmContext, problem: Problem, tables: tuple, rewards: Array
    ) -> Statistics:
        t = jnp.full(rewards.shape[1:], rewards.shape[0], jnp.int32)
        ones = jnp.ones_like(rewards)
        return Statistics(t=t, counts=ones, means=rewards, reward_sums=rewards)

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> Statistics:
        stats = seen.stats
        assert stats.reward_sums is not None
        chosen = (index_like(stats.means) == arm) & go
        counts = stats.counts + chosen.astype(stats.means.dtype)
        sums = stats.reward_sums + jnp.where(chosen, reward, 0)
        return dataclasses.replace(
            stats,
            t=stats.t + go.astype(jnp.int32),
            counts=counts,
            means=jnp.where(chosen, sums / counts, stats.means),
            reward_sums=sums,
        )

    def pooled(
        self, space: ArmContext, stats: Statistics, pulls: Array, means: Array, squares: Array
    ) -> Statistics:
        assert stats.reward_sums is not None
        counts, sums = stats.counts + pulls, stats.reward_sums + pulls * means
        return dataclasses.replace(stats, counts=counts, means=sums / counts, reward_sums=sums)

    def evidence(self, space: ArmContext, stats: Statistics, shape: Shape) -> Evidence:
        return evidence_of(self, space, shape, stats.means, stats.counts)

    def scales(self, means: Array, source: Source | None) -> Array:
        """c_k: [K]."""
        costs = self.costs(means)
        return jnp.ones_like(means) if costs is None else costs

    def truth(
        self, features: Array | None, theta: Array, scales: Array, directions: Array,
        offsets: Array, slack: bool,
    ) -> SidesEvidence:  # fmt: skip
        return SidesEvidence.of(self, Sides.of(directions, offsets, slack), theta, scales)

    def refuted_pairs(
        self, seen: Snapshot, arms: ArmBlock, beta: Array
    ) -> list[tuple[Array, Array]]:
        lanes, means, out = seen.lanes, seen.means, []
        counts = self.precision(means, seen.stats.counts)
        for r in range(arms.m):
            i = arms.first + r
            own = lanes.take(counts, i), lanes.take(means, i)
            if seen.shape.slack:
                value = self.slack_pair(*own, counts, means, seen.shape.slack)
            else:
                value = self.pair(*own, counts, means)
            out.append((i, value > beta))
        return out

    def interval(self, seen: View, means: Array, beta: Array) -> Interval:
        """The means y with n d(mean, y) <= beta, n the precision counts of the pulls [K]."""
        return Interval(*self.bounds(means, beta / self.precision(means, seen.counts)))

    def overlap(self, seen: View, beta: Array) -> Array:
        """The overlaps, from no more bounds than they need."""
        lanes, shape, means = seen.lanes, seen.shape, seen.means
        # A subclass may have intervals of its own.
        if type(self).interval is not OneParameter.interval or not isinstance(shape, Rows | Levels):
            return super().overlap(seen, beta)
        radius = beta / self.precision(means, seen.counts)
        if isinstance(shape, Levels):
            bound = self.bound(means, radius, upper=~shape.above)
            return jnp.where(shape.above, shape.level - bound, bound - shape.level)
        upper, first = self.bound(means, radius, upper=True), shape.first
        lower = self.bound(lanes.take(means, first), lanes.take(radius, first), upper=False)
        lower = lower + shape.slack if shape.slack else lower
        return jnp.concatenate([upper - x for x in lower]) if shape.several else upper - lower

    def share(self, seen: View, i: Array, k: Array) -> Array:
        """n_i d(m_i, u)/(n_i d(m_i, u) + n_k d(m_k, u)), u their middle: [].

        n_k/(n_i + n_k) at equal means. (You, Qin, Wang & Yang 2023.)
        """
        lanes, means = seen.lanes, seen.means
        n = self.precision(means, seen.counts)
        (n_i, m_i), (n_k, m_k) = ((lanes.take(n, j), lanes.take(means, j)) for j in (i, k))
        u = self.middle(n_i, m_i, n_k, m_k)
        own, other = n_i * self.divergence(m_i, u), n_k * self.divergence(m_k, u)
        apart = (m_i != m_k) & (own + other > 0)  # at an end of the range u is moved off it
        return jnp.where(apart, own, n_k) / jnp.where(apart, own + other, n_i + n_k)

    # LLRs of pieces, and bounds on a mean.

    def middle(self, n_a: Array, a: Array, n_b: Array, b: Array) -> Array:
        """u = (n_a a + n_b b)/(n_a + n_b): between a and b in either order.

        For a > b it is the mean that both arms have at the closest point of {mu_a <= mu_b}. It is
        never a finite end of the range other than 0, to which it might be rounded: there d(., u)
        is infinite.

        Args:
            n_a: precision counts of arm a, positive.
            a: its mean.
            n_b: precision counts of arm b, positive.
            b: its mean.
        """
        u = b + (a - b) * (n_a / (n_a + n_b))
        return self._inside(jnp.clip(u, jnp.minimum(a, b), jnp.maximum(a, b)))

    def _inside(self, u: Array) -> Array:
        """u, moved off a finite end of the range other than 0."""
        low, high = np.asarray([self.low, self.high], u.dtype)
        if np.isfinite(high) and high != 0:
            u = jnp.minimum(u, np.nextafter(high, low))
        if np.isfinite(low) and low != 0:
            u = jnp.maximum(u, np.nextafter(low, high))
        return u

    def around(self, a: Array, up: Array, b: Array, down: Array) -> tuple[Array, Array, Array]:
        """d(a, u), d(b, u) and V(u) at u = a - up = b + down, for a > b.

        A family may form them from up and down, which keep the digits that a - u and u - b
        lose near a tie. This default does not.

        Args:
            a: the higher mean.
            up: a - u, positive.
            b: the lower mean.
            down: u - b, positive.
        """
        u = self._inside(jnp.clip(b + down, b, a))
        return self.divergence(a, u), self.divergence(b, u), self.variance(u)

    def pair(self, n_a: Array, a: Array, n_b: Array, b: Array) -> Array:
        """The infimum log-likelihood ratio of the piece {mu_a <= mu_b}.

        n_a d(a, u) + n_b d(b, u), u their middle, for a > b; else 0. Finite, even where
        a and b are the ends of the range. Arguments as in `middle`.
        """
        higher = jnp.maximum(a, b)  # keeps entries finite where the result is 0
        u = self.middle(n_a, higher, n_b, b)
        value = n_a * self.divergence(higher, u) + n_b * self.divergence(b, u)
        return jnp.where(a > b, value, 0)

    def slack_middle(
        self, n_a: Array, a: Array, n_b: Array, b: Array, slack: float | Array
    ) -> tuple[Array, Array]:
        """The means x and x + slack of both arms at the closest point of {mu_b >= mu_a + slack}.

        For a > b - slack; see `jaxelim.families.slack`. As of `middle`, they are never a
        finite end of the range other than 0.
        """
        x = slacks.closest(self, n_a, a, n_b, b, slack)
        return self._inside(x), self._inside(x + slack)

    def slack_pair(self, n_a: Array, a: Array, n_b: Array, b: Array, slack: float) -> Array:
        """The infimum log-likelihood ratio of the piece {mu_b >= mu_a + slack}.

        n_a d(a, x) + n_b d(b, x + slack), x as of `slack_middle`, for a > b - slack; else 0.
        Finite. A family that lists `SlackRows` in `shapes` must have log V concave.

        Args:
            n_a: precision counts of arm a, positive.
            a: its mean.
            n_b: precision counts of arm b, positive.
            b: its mean.
            slack: a number above 0, below the length of the range of means.
        """
        apart = (a - b) + slack > 0
        higher = jnp.where(apart, a, b)  # keeps entries finite where the result is 0
        x, y = self.slack_middle(n_a, higher, n_b, b, slack)
        value = n_a * self.divergence(higher, x) + n_b * self.divergence(b, y)
        return jnp.where(apart, value, 0)

    def level(self, n: Array, mean: Array, level: Array, above: Array) -> Array:
        """The infimum log-likelihood ratio of one side of a level.

        n d(mean, level) for a mean strictly on the other side; else 0.

        Args:
            n: precision counts.
            mean: the arm's mean.
            level: inside the range of means, not at an end.
            above: bool, the side that the answer gives the arm. True: the piece is
                {mu <= level}. False: it is {mu >= level}.
        """
        beyond = jnp.where(above, mean > level, mean < level)
        return jnp.where(beyond, n * self.divergence(mean, level), 0)

    def bounds(self, mean: Array, radius: Array) -> tuple[Array, Array]:
        """L = inf{y <= mean : d(mean, y) <= radius} and U = sup{y >= mean : the same}.

        Both are exact up to rounding, and no entry depends on the others. The loop does
        not support reverse-mode derivatives.

        Args:
            mean: any shape, inside the range, ends included.
            radius: the same shape, finite, at least 0: beta/n.
        """
        return self.bound(mean, radius, upper=False), self.bound(mean, radius, upper=True)

    def bound(self, mean: Array, radius: Array, upper: bool | Array) -> Array:
        """One of the two `bounds`: U where `upper`, bool, holds, else L."""
        below, above = self.bracket(mean, radius)
        below, above = jnp.minimum(below, mean), jnp.maximum(above, mean)
        if isinstance(upper, bool):
            return self._bound(mean, radius, above if upper else below)
        return self._bound(mean, radius, jnp.where(upper, above, below))

    def _bound(self, mean: Array, radius: Array, start: Array) -> Array:
        """The y with d(mean, y) = radius between mean and start, which is at it or beyond.

        y is a smooth function of q = sqrt(2 d(mean, y)): dy/dq = q V(y)/(y - mean). A
        Runge-Kutta step of order 4 leads from the q of a y to that of the radius. Its
        error is of order 5 in the change of q. Where a step leaves the interval that
        holds y, the interval is halved. The last step starts where d is within 1e-6 of
        the radius (float64), and ends at rounding. A finished entry no longer changes.
        """
        aim, kind = jnp.sqrt(2 * radius), np.finfo(start.dtype)
        enough, rounded = float(kind.eps) ** 0.2 / 8, (kind.nexp, 2 * kind.nmant // 3)

        def slope(y, q):
            way = y - mean
            return q * (self.variance(y) / jnp.where(way == 0, 1, way))

        def improved(y, value, inner, outer, last):
            """The next y; the shift to it is rounded, but for the `last`."""
            excess = value - radius
            ended = (self.variance(y) <= 0) | (y == mean)
            q = jnp.sqrt(2 * value)
            step = -2 * excess / (q + aim)  # aim - q would cancel
            half = step / 2

            def moved(by):
                # The select keeps y + a * b from becoming one operation in some programs only.
                return y + jnp.where(ended, 0, by)

            a = slope(y, q)
            b = slope(moved(half * a), (q + aim) / 2)
            c = slope(moved(half * b), (q + aim) / 2)
            d = slope(moved(step * c), aim)
            shift = step * ((a + 2 * (b + c) + d) / 6)
            if not last:  # so y has the same digits in every program
                shift = jax.lax.reduce_precision(shift, *rounded)
            new = moved(shift)
            inside = (new > jnp.minimum(inner, outer)) & (new < jnp.maximum(inner, outer))
            return new, inside | (new == y)

        def near(y, value):
            """Where the next step is the last, or there is none."""
            ended = (self.variance(y) <= 0) | (y == mean)
            return ended | (jnp.abs(value - radius) <= enough * radius)

        def narrowed(y, value, inner, outer):
            below = value < radius
            return jnp.where(below, y, inner), jnp.where(below, outer, y)

        def body(carry):
            i, y, value, inner, outer = carry
            inner, outer = narrowed(y, value, inner, outer)
            new, inside = improved(y, value, inner, outer, False)
            new = jnp.where(inside, new, inner + (outer - inner) / 2)
            new = jnp.where(near(y, value), y, new)
            return i + 1, new, self.divergence(mean, new), inner, outer

        def unfinished(carry):
            i, y, value, *_ = carry
            return jnp.any(~near(y, value)) & (i < _MOST)

        mean = jnp.broadcast_to(mean, start.shape)
        carry = jnp.int32(0), start, self.divergence(mean, start), mean, start
        _, y, value, inner, outer = jax.lax.while_loop(unfinished, body, carry)
        new, inside = improved(y, value, *narrowed(y, value, inner, outer), True)
        return jnp.where(inside, new, y)
