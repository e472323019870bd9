"""One-parameter exponential families: divergences, LLRs of pieces, bounds on a mean.

A distribution is named by its mean. d(x, y) is the Kullback-Leibler divergence of the
family's distribution of mean x from that of mean y. All functions work entry by entry
on arrays of equal shapes, in float64 or float32; lanes come last (see `jaxelim.lanes`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Family, Problem
from jaxelim.contracts.shapes import Interval, Levels, Shape
from jaxelim.contracts.views import ArmContext, Snapshot, Statistics, View
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.families.arm_evidence import ArmEvidence, evidence_of
from jaxelim.lanes import ArmBlock, index_like
from jaxelim.stopping.thresholds import LinearThreshold

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_NEAR = 0.01
"""Below this |r| the closed forms of g and h cancel, and their series replace them.

The error of the truncated series is below rounding.
"""

_G = (1 / 2, -1 / 6, 1 / 12, -1 / 20, 1 / 30, -1 / 42, 1 / 56)
_H = (1 / 2, -1 / 3, 1 / 4, -1 / 5, 1 / 6, -1 / 7, 1 / 8)

_MOST = 100
"""Most iterations for a bound. Newton takes up to 6; this is enough for bisection alone."""


def _series(r: Array, near: Array, coefficients: Sequence[float]) -> Array:
    """r^2 times a polynomial in r where `near` holds; 0 elsewhere, where it could overflow."""
    r = jnp.where(near, r, 0)
    value = jnp.zeros_like(r)
    for coefficient in reversed(coefficients):
        value = value * r + coefficient
    return r * r * value


def _log1p(r: Array) -> Array:
    """log(1 + r), but 0 at r = -1: for use in (1 + r) log(1 + r)."""
    return jnp.log1p(jnp.where(r > -1, r, 0))


def g(r: Array) -> Array:
    """(1 + r) log(1 + r) - r for r >= -1, accurate near 0 too; g(-1) = 1."""
    near = jnp.abs(r) < _NEAR
    return jnp.where(near, _series(r, near, _G), (1 + r) * _log1p(r) - r)


def h(r: Array) -> Array:
    """r - log(1 + r) for r >= -1, accurate near 0 too; h(-1) = inf."""
    near = jnp.abs(r) < _NEAR
    return jnp.where(near, _series(r, near, _H), r - jnp.log1p(r))


def poisson(x: Array, y: Array, difference: Array | None = None) -> Array:
    """P(x, y) = x log(x/y) - x + y = y g((x - y)/y), the divergence of Poisson means.

    P(x, 0) = inf for x > 0, P(0, 0) = 0, P(0, y) = y.

    Args:
        x: any shape, at least 0.
        y: the same shape, at least 0.
        difference: x - y, where it is known with less rounding than x and y have.
    """
    return _poisson(x, y, x - y if difference is None else difference)


def _ratio(y: Array, difference: Array) -> tuple[Array, Array]:
    """r = (x - y)/y, and where y > 0; x - y elsewhere."""
    inside = y > 0
    return difference / jnp.where(inside, y, 1), inside


@jax.custom_jvp
def _poisson(x: Array, y: Array, difference: Array) -> Array:
    r, inside = _ratio(y, difference)
    near = jnp.abs(r) < _NEAR
    # Away from 0 y g(r) is not used: its product with 1 + r overflows where y is tiny.
    value = jnp.where(near, y * _series(r, near, _G), x * _log1p(r) - difference)
    return jnp.where(inside, value, jnp.where(x > 0, jnp.inf, 0))


@_poisson.defjvp
def _poisson_jvp(of, toward):
    """dP/dx = log(x/y), dP/dy = (y - x)/y; a differentiated series would cancel.

    Where they are infinite (x = 0 or y = 0), finite numbers replace them.
    """
    _, y, difference = of
    r, inside = _ratio(y, difference)
    return _poisson(*of), jnp.where(inside, _log1p(r) * toward[0] - r * toward[1], 0)


class OneParameter(Family):
    """A one-parameter exponential family of rewards; each arm has its own mean.

    A family defines `draw`, `divergence`, `variance` and `bracket`, and inherits the
    rest. Precision counts n are pulls over cost, or weights over cost. Estimates may
    lie at the ends of the range of means.

    Pieces: Garivier & Kaufmann 2016, section 2. Bounds: Kaufmann &
    Kalyanakrishnan 2013.
    """

    low: ClassVar[float] = -np.inf  # the range of means
    high: ClassVar[float] = np.inf

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

    # The contract of families.

    def check(self, instance: "Instance") -> None:
        means = instance.means
        if np.any((means < self.low) | (means > self.high)):
            bad = means[(means < self.low) | (means > self.high)][0]
            allowed = f"means from {self.low:g} to {self.high:g} for {self!r}"
            raise ArgumentError("theta", means, allowed, f"{bad:g} is not")

    def check_shape(self, problem: Problem, shape: Shape) -> None:
        super().check_shape(problem, shape)
        if isinstance(shape, Levels) and not self.low < shape.level < self.high:
            allowed = f"a number inside ({self.low:g}, {self.high:g}) for {self!r}"
            raise ArgumentError("level", shape.level, allowed)

    def ridge_of(
        self, ridge: float | None, instance: "Instance", threshold: Callable
    ) -> float | None:
        if isinstance(threshold, LinearThreshold):
            allowed = f"a threshold without a ridge for {self!r}, such as Heuristic() or GK16()"
            raise UnsupportedError("threshold", threshold, allowed)
        return super().ridge_of(ridge, instance, threshold)

    def check_noise(self, noise: np.ndarray, precision: str) -> None:
        bad = noise[(noise < 0) | (noise >= 1)]
        if self.noise == "uniform" and bad.size:
            allowed = f"uniforms, at least 0 and below 1, for {self!r}"
            raise ArgumentError("noise", noise, allowed, f"{bad[0]:g} is not")

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
        return Statistics(
            t=stats.t + go.astype(jnp.int32),
            counts=counts,
            means=jnp.where(chosen, sums / counts, stats.means),
            reward_sums=sums,
        )

    def evidence(self, space: ArmContext, stats: Statistics, shape: Shape) -> ArmEvidence:
        return evidence_of(self, space, shape, stats.means, stats.counts)

    def refuted_pairs(
        self, seen: Snapshot, arms: ArmBlock, beta: Array
    ) -> list[tuple[Array, Array]]:
        lanes, counts, means, out = seen.lanes, seen.stats.counts, seen.means, []
        for r in range(arms.m):
            i = arms.first + r
            own = lanes.take(counts, i), lanes.take(means, i)
            out.append((i, self.pair(*own, counts, means) > beta))
        return out

    def interval(self, seen: View, means: Array, beta: Array) -> Interval:
        """The means y with counts * d(mean, y) <= beta."""
        return Interval(*self.bounds(means, beta / seen.counts))

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
        u = jnp.clip(u, jnp.minimum(a, b), jnp.maximum(a, b))
        low, high = np.asarray([self.low, self.high], u.dtype)
        if np.isfinite(high) and high != 0:
            u = jnp.minimum(u, np.nextafter(high, low))
        if np.isfinite(low) and low != 0:
            u = jnp.maximum(u, np.nextafter(low, high))
        return u

    def pair(self, n_a: Array, a: Array, n_b: Array, b: Array) -> Array:
        """The infimum log-likelihood ratio of the piece {mu_a <= mu_b}.

        n_a d(a, u) + n_b d(b, u), u their middle, for a > b; else 0. Finite, even where
        a and b are the ends of the range. Arguments as in `middle`.
        """
        higher = jnp.maximum(a, b)  # keeps entries finite where the result is 0
        u = self.middle(n_a, higher, n_b, b)
        value = n_a * self.divergence(higher, u) + n_b * self.divergence(b, u)
        return jnp.where(a > b, value, 0)

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
        lower, upper = self.bracket(mean, radius)
        lower, upper = jnp.minimum(lower, mean), jnp.maximum(upper, mean)
        return self._bound(mean, radius, lower), self._bound(mean, radius, upper)

    def _bound(self, mean: Array, radius: Array, start: Array) -> Array:
        """The y with d(mean, y) = radius between mean and start, which is at it or beyond.

        Newton's method from `start`. Where a step leaves the interval that holds y, the
        interval is halved. The last step starts where d is within 1e-9 of the radius
        (float64). Newton's error is then squared, so this step ends at rounding. A
        finished entry no longer changes.
        """
        enough = float(np.sqrt(np.finfo(start.dtype).eps)) / 16

        def improved(carry):
            i, y, inner, outer, going = carry
            excess = self.divergence(mean, y) - radius
            inner, outer = jnp.where(excess < 0, y, inner), jnp.where(excess < 0, outer, y)
            variance, way = self.variance(y), y - mean
            ended = (variance <= 0) | (way == 0)
            new = y - jnp.where(ended, 0, excess) * (variance / jnp.where(ended, 1, way))
            inside = (new > jnp.minimum(inner, outer)) & (new < jnp.maximum(inner, outer))
            close = jnp.abs(excess) <= enough * radius
            stays = (new == y) | (close & ~inside)
            halved = jnp.where(stays, y, inner + (outer - inner) / 2)
            new = jnp.where(going, jnp.where(inside, new, halved), y)
            return i + 1, new, inner, outer, going & ~close & (new != y)

        def unfinished(carry):
            return jnp.any(carry[-1]) & (carry[0] < _MOST)

        mean = jnp.broadcast_to(mean, start.shape)
        carry = jnp.int32(0), start, mean, start, jnp.ones(start.shape, bool)
        return jax.lax.while_loop(unfinished, improved, carry)[1]
