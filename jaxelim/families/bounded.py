"""Rewards in an interval, of any distribution: what bets against a mean have won.

Rewards are scaled to [0, 1]. A bet b > 0 against "the mean is at most u" multiplies its stake
by 1 + b (x - u) at each reward x. A bet against "at least u" is one on 1 - x against 1 - u. An
arm keeps the sums of four powers of x, and of 1 - x. They give the lower bounds on a stake's
logarithm of docs/reference/definitions.md, "Bounded rewards". What rounding may add to a bound
is taken off it. No term of a sum of powers is negative, so each sum has small relative errors.
Powers of x - 1/2 would not do: large bets need T_i = sum (x - u)^i to a fraction of N u^i.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Source
from jaxelim.contracts.proofs import BOUNDED
from jaxelim.errors import ArgumentError
from jaxelim.families.arm import ArmModel
from jaxelim.families.sources import BETAS, Betas, set_interval
from jaxelim.lanes import LaneOps, settings
from jaxelim.mixtures import Grid
from jaxelim.numerics import roots
from jaxelim.numerics.logarithm import log, log1p

POWERS = 4
LARGEST_EDGE = 0.98  # the largest share of a stake that one reward may lose
BETS = 2.0 ** np.arange(-12, 6, 0.5)  # the bets of the mixture
_KEPT = -math.log(64)  # the share of the stakes on each arm alone, as a logarithm
_TOGETHER = math.log1p(-2 / 64) - math.log(len(BETS) * (3 + 2**1.5))
"""The share of a product of two equal bets, as a logarithm: sum_d 2^(-|d|/2) = 3 + 2^(3/2)."""
_LEAST = -1e300  # in place of -inf, the logarithm of stakes that are not made
_NEWTON = 3  # Newton steps from the bet of the second order to the best bet
_ENOUGH = 1e-3  # relative size of the last step to a common mean; squared, to an interval's end


class Wins(NamedTuple):
    """What the rewards of arms say, scaled to [0, 1]: arrays of one shape, [..]."""

    n: Array  # above 0
    mean: Array
    x1: Array  # the sums of powers of x, and of 1 - x
    x2: Array
    x3: Array
    x4: Array
    rest1: Array
    rest2: Array
    rest3: Array
    rest4: Array
    ahead: Array | None = None  # P and Q of a stack that is drawn from without replacement
    drawn: Array | None = None
    size: Array | None = None  # its number of rewards

    def side(self, u: Array, up: Array | bool) -> "Side":
        """What bets against means of at most u (up), or of at least u, read."""
        own, rest = self[2 : POWERS + 2], self[POWERS + 2 : 2 * POWERS + 2]
        sums = [jnp.where(up, x, y) for x, y in zip(own, rest, strict=True)]
        v = jnp.where(up, u, 1 - u)
        rows = [(self.n, *sums[:i]) for i in range(1, POWERS + 1)]
        share = sums[0] / self.n * (1 - _error(self.n))
        side = Side(self.n, tuple(_shifted(row, -v) for row in rows), v, share)
        if self.ahead is None or self.drawn is None:
            return side
        more, most = self.ahead - u * self.drawn, self.ahead + u * self.drawn + self.drawn
        more = jnp.where(up, more, -more) - _error(self.n) * most
        return side._replace(more=more, speed=1 + self.drawn / self.n)

    def bet(self, u: Array, up: Array | bool) -> tuple[Array, Array]:
        """The best bet, and its derivative by the distance from the mean."""
        return self.side(u, up).slopes()

    def won(self, u: Array, up: Array | bool) -> Array:
        """The largest logarithm of a stake for each reward, at least 0, at means u: [..]."""
        return self.side(u, up).won() / self.n

    def stake(self, u: Array, bet: Array, up: Array | bool) -> Array:
        """The logarithm of a bet's stake, at most; -inf where the bet is not made: [..]."""
        side = self.side(u, up)
        made = bet * side.unit <= LARGEST_EDGE
        bet = jnp.where(made, bet, 0)
        return jnp.where(made, jnp.maximum(side.logarithm(bet), side.chord(bet)), -jnp.inf)

    def variance(self) -> Array:
        return jnp.maximum(self.x2 / self.n - (self.x1 / self.n) ** 2, 0)


class Side(NamedTuple):
    """What bets on one side read, at means u: arrays of one shape, [..]."""

    counts: Array
    t: tuple[Array, ...]  # T_1, .., T_4, of 1 - x and 1 - u where the mean is below u
    unit: Array  # the edge of a unit bet
    share: Array  # the mean, or 1 less it, at most
    more: Array | None = None  # without replacement: what T_1 is larger by, at least
    speed: Array | None = None  # and 1 + Q/N

    @property
    def first(self) -> Array:
        """What a small bet wins, in units of the bet."""
        return self.t[0] if self.more is None else self.t[0] + self.more

    def plus(self, value: Array, bet: Array) -> Array:
        """The logarithm of a stake with replacement, and what it is larger by without."""
        return value if self.more is None else value + bet * self.more

    def logarithm(self, bet: Array) -> Array:
        """The lower bound by powers; the bet's edge is below 1."""
        edge, n, t = bet * self.unit, self.counts, self.t
        squares, fourth = bet * bet * t[1], (bet * bet) ** 2 * t[3]
        kappa = _kappa(edge)
        value = bet * t[0] - squares / 2 + bet**3 * t[2] / 3 - kappa * fourth
        # T_i has at most this share of sum (x + u)^i as error; x + u <= |x - u| + 2 u.
        size = bet * t[0] + 2 * squares + (8 * kappa + 2) * (fourth + 16 * n * edge**4)
        return self.plus(value - _error(n) * (size + 8 * n * edge), bet)

    def chord(self, bet: Array) -> Array:
        """The lower bound by rewards of 0 and 1: a logarithm lies above its chords."""
        edge = bet * self.unit
        each = (1 - self.share) * log1p(-edge) + self.share * log1p(bet - edge)
        return self.plus(self.counts * each, bet)

    def best(self) -> tuple[Array, Array, Array, Array]:
        """The best bet and its rise, and the bets of Newton's method and of the second order.

        No bet is below the best on 0/1 rewards of that mean, (m - v)/(v (1 - v)). All are 0 where
        no bet wins, but for the rise: 1/c + b^2, c the mean of ((x - v)/(1 + b (x - v)))^2.
        """
        t, v, gains = (self.first, *self.t[1:]), self.unit, self.gains()
        t = tuple(jnp.where(gains, x, 1) for x in t)
        highest = LARGEST_EDGE / jnp.maximum(v, 1e-12)
        second = jnp.minimum(t[0] / t[1], highest)
        bet, steep = second, t[1]
        for _ in range(_NEWTON):
            edge = bet * v
            kappa, rest = _kappa(edge), 1 - edge
            rise = edge * (0.2 + edge * (2 - edge) / (6 * rest * rest))  # edge dkappa/dedge
            slope = bet * (t[2] - bet * (4 * kappa + rise) * t[3])
            slope = t[0] + bet * (slope - t[1])
            curve = bet * (2 * t[2] - bet * (12 * kappa + 8 * rise) * t[3]) - t[1]
            steep = jnp.maximum(-curve, 0.2 * t[1])
            bet = jnp.clip(bet + slope / steep, 0.2 * second, jnp.minimum(5 * second, highest))
        m, spread = self.share, jnp.maximum(v * (1 - v), 1e-300)
        if self.more is not None:
            m = jnp.clip(m + self.more / self.counts, 0, 1)
        of_ends = (m - v) / spread
        wide = of_ends > bet
        inner = jnp.where(bet < highest, self.counts / steep, 0)
        rise = jnp.where(wide, m * (1 - m) / (spread * spread), inner)
        b = jnp.where(wide, of_ends, bet)
        b, bet, second = (jnp.where(gains, x, 0) for x in (b, bet, second))
        return b, jnp.where(gains, rise + b * b, 1), bet, second

    def slopes(self) -> tuple[Array, Array]:
        """The derivative of a reward's win in the distance, which is the best bet, and its own."""
        bet, rise, *_ = self.best()
        return (bet, rise) if self.speed is None else (bet * self.speed, rise * self.speed)

    def gains(self) -> Array:
        """Whether some bet wins."""
        return (self.first > 0) & (self.t[1] > 0)

    def won(self) -> Array:
        """The largest logarithm of a stake, at least 0."""
        b, _, bet, second = self.best()
        found = jnp.maximum(self.logarithm(bet), self.logarithm(0.8 * second))
        if self.more is None:  # kl(m, u) of Bernoulli rewards, finite where u is an end
            m, u = self.share, self.unit
            yes = m * log(jnp.where(m > 0, m, 1) / jnp.clip(u, 1e-300, 1))
            no = (1 - m) * log(jnp.where(m < 1, 1 - m, 1) / jnp.clip(1 - u, 1e-16, 1))
            found = jnp.maximum(found, self.counts * (yes + no))
        else:
            b = jnp.minimum(b, LARGEST_EDGE / jnp.maximum(self.unit, 1e-12))
            found = jnp.maximum(found, self.chord(b))
        return jnp.where(self.gains(), jnp.maximum(found, 0), 0)


class Truth(NamedTuple):
    """Distributions of given points in [0, 1], one pull each: [..], and points [.., S]."""

    n: Array
    mean: Array
    points: Array
    probabilities: Array

    def side(self, u: Array, up: Array | bool) -> tuple[Array, ...]:
        """x - u or u - x and its probabilities, the edge of a unit bet, whether all is staked."""
        shape = jnp.broadcast_shapes(jnp.shape(u), self.mean.shape)
        both = self.points, self.probabilities
        points, p = (jnp.broadcast_to(x, (*shape, x.shape[-1])) for x in both)
        x = jnp.where(jnp.asarray(up)[..., None], points, 1 - points)
        v = jnp.where(up, u, 1 - u)
        off = x - v[..., None]
        # The best bet may be all, with no point at the end that loses all.
        ratio = jnp.where(x > 0, off / jnp.where(x > 0, x, 1), -jnp.inf)
        return off, p, v, jnp.sum(jnp.where(p > 0, p * ratio, 0), -1) >= 0

    def bet(self, u: Array, up: Array | bool) -> tuple[Array, Array]:
        """As of `Wins`. KL_inf has the derivative -b or b in u. (Honda & Takemura, theorem 8)"""
        off, p, v, whole = self.side(u, up)
        first = jnp.sum(p * off, -1)
        inside, largest = (first > 0) & ~whole, 1 / v

        def falls(bet: Array, off: Array) -> tuple[Array, Array]:
            """Minus the expected win's derivative by the bet, and the derivative of that."""
            part = off / jnp.where(p > 0, 1 + bet[..., None] * off, 1)
            return -jnp.sum(p * part, -1), jnp.sum(p * part * part, -1)

        fixed, guess = jax.lax.stop_gradient((off, first / jnp.sum(p * off * off, -1)))
        high = jax.lax.stop_gradient(jnp.where(inside, largest, 0))
        enough = float(np.finfo(u.dtype).eps) ** 0.5
        zero = jnp.zeros_like(high)
        bet = roots.crossing(lambda b: falls(b, fixed), zero, high, guess, enough)
        bet = jnp.where(inside, bet, 0)
        slope, steep = falls(bet, off)  # one more step, which has the bet's derivative
        steep = jnp.where(inside, jax.lax.stop_gradient(steep), 1)
        bet = jnp.where(inside, bet - slope / steep, jnp.where(whole, largest, 0))
        return bet, jnp.where(whole, 0, 1 / steep) + bet * bet

    def won(self, u: Array, up: Array | bool) -> Array:
        """KL_inf against means of at most u (up), or of at least u."""
        off, p, *_ = self.side(u, up)
        wealth = 1 + self.bet(u, up)[0][..., None] * off
        some = (p > 0) & (wealth > 0)
        return jnp.sum(jnp.where(some, p * jnp.log(jnp.where(some, wealth, 1)), 0), -1)

    def variance(self) -> Array:
        mean = jnp.sum(self.probabilities * self.points, -1, keepdims=True)
        return jnp.sum(self.probabilities * (self.points - mean) ** 2, -1)


def _error(counts: Array) -> Array:
    """The relative error of a sum of N powers, at most: 2^-53 a sum, and 2^-49 a power."""
    return (counts + 16) * 2.0**-50


def _shifted(sums: tuple[Array, ...], r: Array) -> Array:
    """sum (y + r)^i from sums of y^j, j = 0 .. i."""
    order = len(sums) - 1
    total = sums[0]
    for j in range(1, order + 1):  # Horner's rule in r
        total = total * r + math.comb(order, j) * sums[j]
    return total


def _kappa(edge: Array) -> Array:
    """Above 1/4 + edge/5 + edge^2/6 + .., for an edge in [0, 1)."""
    return 0.25 + edge * (0.2 + edge / (6 * (1 - edge)))


@settings
class Bounded(ArmModel):
    """Rewards from `low` to `high` of any distribution; each arm has its own mean.

    Nothing but the interval is assumed. The evidence is what the best bets against a mean
    have won, N KL_inf in the limit; `Mixture` tests what the mean of all bets has won. Without
    a source rewards are one of the two ends.

    (Honda & Takemura 2010; Waudby-Smith & Ramdas 2024; Orabona & Jun 2024)

    Args:
        low: the lower end of the interval, in the units of the rewards.
        high: the upper end.

    Raises:
        ArgumentError: an end is not finite, or high is not above low.
    """

    low: float = 0.0  # type: ignore[misc]
    high: float = 1.0  # type: ignore[misc]
    name: ClassVar[str] = "bounded"
    kind: ClassVar[Callable[..., Any]] = Wins
    any_law: ClassVar[bool] = True
    without_replacement: ClassVar[bool] = True
    convex_in: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        set_interval(self)

    @property
    def width(self) -> float:
        return self.high - self.low

    def law(self) -> str:
        return BOUNDED

    def estimated(self, counts: np.ndarray, means: np.ndarray, moments: np.ndarray | None) -> Betas:
        """Beta distributions with the means and variances of the rewards."""
        assert moments is not None
        m = np.clip(self._share(means), 1e-6, 1 - 1e-6)
        first, second = (moments[:, power] / counts for power in (0, 1))
        variance = np.clip(second - first**2, 1e-9, 0.999 * m * (1 - m))
        total = m * (1 - m) / variance - 1
        table = np.clip(np.stack([m * total, (1 - m) * total], 1), *BETAS)
        return Betas(table, self.low, self.high)

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """`high` where the noise is at least the probability of `low`."""
        above = 1 - self._share(lanes.take(nature, arm))
        return jnp.where(noise >= above, self.high, self.low).astype(noise.dtype)

    def _share(self, means: Any) -> Any:
        return (means - self.low) / self.width

    def _scaled(self, stat: Any) -> Any:
        """The same arms, of rewards in [0, 1]."""
        return stat._replace(mean=jnp.clip(self._share(stat.mean), 0, 1))

    def tables(self, instance: Any) -> Any:
        """[I, K] the numbers of rewards that are drawn without replacement; () where none are."""
        source: Any = getattr(instance, "source", None)
        shuffled = getattr(source, "order", "") == "permuted"
        return source.lengths(source.nature(instance)) if shuffled else ()

    def start(self, space: Any, problem: Any, tables: Any, rewards: Array) -> Any:
        stats, none = super().start(space, problem, (), rewards), jnp.zeros_like(rewards)
        if isinstance(tables, tuple):
            return stats
        size = jnp.broadcast_to(tables.reshape(len(rewards), -1), none.shape).astype(none.dtype)
        return dataclasses.replace(stats, rest=(*stats.rest, none, none, size))

    def first(self, x: Array) -> Wins:
        return Wins(jnp.ones_like(x), x, *self._terms(x))

    def more(self, stat: Wins, x: Array) -> Wins:
        sums = [before + term for before, term in zip(stat[2:10], self._terms(x), strict=True)]
        n = stat.n + 1
        if stat.size is not None and stat.ahead is not None and stat.drawn is not None:
            left = jnp.maximum(stat.size - stat.n, 1)
            sums += [stat.ahead + stat.x1 / left, stat.drawn + stat.n / left, stat.size]
        return Wins(n, self.low + self.width * (sums[0] / n), *sums)

    def _terms(self, x: Array) -> list[Array]:
        both = self._share(x), (self.high - x) / self.width
        return [y**i for y in both for i in range(1, POWERS + 1)]

    def loss(self, stat: Any, by: Array) -> Array:
        """What the best bet against mean + by has won for each reward."""
        arm = self._scaled(stat)
        return jnp.where(by != 0, arm.won(arm.mean + by / self.width, by < 0), 0)

    def meet(self, w_a: Array, a: Any, w_b: Array, b: Any, off: Array) -> Array:
        """There w_a times the best bet on a is w_b times that on b."""
        a, b, off = self._scaled(a), self._scaled(b), off / self.width
        m_a, m_b = a.mean, b.mean
        low = jnp.maximum(off - (1 - m_b), 0)
        high = jnp.where(off > 0, jnp.clip(m_a, low, off), low)

        def f(x: Array) -> tuple[Array, Array]:
            (of_a, rise_a), (of_b, rise_b) = a.bet(m_a - x, True), b.bet(m_b + (off - x), False)
            return w_a * of_a - w_b * of_b, w_a * rise_a + w_b * rise_b

        square = off * off
        square = jnp.where(square > 0, square, 1)
        of_a, of_b = w_a / (a.variance() + square), w_b / (b.variance() + square)
        total = of_a + of_b
        guess = off * (of_b / jnp.where(total > 0, total, 1))
        enough = _ENOUGH if isinstance(a, Wins) else float(np.finfo(off.dtype).eps) ** 0.5
        return self.width * roots.crossing(f, low, high, guess, enough)

    def reach(self, stat: Wins, radius: Array, up: Array | bool) -> Array:
        arm = self._scaled(stat)
        room = jnp.where(up, 1 - arm.mean, arm.mean)
        aim, sign = jnp.sqrt(2 * radius), jnp.where(up, 1.0, -1.0)

        def f(x: Array) -> tuple[Array, Array]:
            """sqrt(2 win) less its aim, which is nearly linear."""
            side = arm.side(arm.mean + sign * x, ~jnp.asarray(up))
            root = jnp.sqrt(2 * side.won() / arm.n)
            return root - aim, side.slopes()[0] / jnp.where(root > 0, root, 1)

        whole = (room <= 0) | (f(room)[0] <= 0)
        guess = aim * jnp.sqrt(arm.variance() + aim * aim / 8)
        high = jnp.where(whole, 0, room)
        x = roots.crossing(f, jnp.zeros_like(high), high, guess, _ENOUGH**2)
        return self.width * jnp.where(whole, room, x)

    def bending(self, stat: Wins | Truth) -> Truth:
        """Two points of each arm: the Gauss quadrature of its rewards."""
        if isinstance(stat, Truth):
            return stat
        mean, (first, second, third) = self._scaled(stat).mean, (x / stat.n for x in stat[2:5])
        variance = jnp.maximum(second - first**2, 1e-12)
        skew = (third - 3 * first * second + 2 * first**3) / variance**1.5
        root, std = jnp.sqrt(skew * skew + 4), jnp.sqrt(variance)
        low, high = (jnp.clip(mean + std * (skew + sign * root) / 2, 0, 1) for sign in (-1, 1))
        share = jnp.where(high > low, (mean - low) / jnp.where(high > low, high - low, 1), 0.5)
        points, probabilities = jnp.stack([low, high], -1), jnp.stack([1 - share, share], -1)
        return Truth(jnp.ones_like(mean), stat.mean, points, probabilities)

    def scales(self, means: Array, source: Source | None = None) -> Truth:
        """Points and probabilities; of the two ends where there is no source."""
        if source is not None:
            points, probabilities = source.points()
            points = self._share(points)
        else:
            share = self._share(means)
            points = jnp.stack([jnp.zeros_like(share), jnp.ones_like(share)], -1)
            probabilities = jnp.stack([1 - share, share], -1)
        one = jnp.ones_like(means)
        return Truth(one, means, jnp.asarray(points), jnp.asarray(probabilities))

    def log_mixture(self, stat: Wins, at: Array, c: Array) -> Array:
        """Of the bet |c|, that the mean is above `at` where c > 0; -inf beyond the estimate."""
        value = self._scaled(stat).stake(self._share(at), jnp.abs(c), c > 0)
        return jnp.where((stat.mean - at) * c >= 0, value, -jnp.inf)

    def priors(self, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
        """Bets take the place of strengths."""
        if grid != Grid():
            allowed = f"the default for {self!r}, whose mixture is one of bets"
            raise ArgumentError("strengths", grid.strengths, allowed)
        return BETS, -BETS

    def together(self, a: Array, b: Array) -> Array:
        """The logarithm of what all products of stakes, and those of each arm alone, have won.

        Stakes of a pair, [.., J] -> [..]. Bets that are d places apart have 2^(-|d|/2) of the
        stakes: the ratio of the best bets is that of the counts. Bets beyond an arm's estimate
        may be lost; the other arm's are then left.
        """
        a, b = (jnp.moveaxis(x, -1, 0) for x in (a, b))
        alone = (jax.nn.logsumexp(x, axis=0) - math.log(len(BETS)) + _KEPT for x in (a, b))
        most = [jnp.maximum(jnp.max(x, 0), _LEAST) for x in (a, b)]

        def add(sums: tuple[Array, ...], stakes: tuple[Array, Array]) -> tuple[tuple, None]:
            total, lower, up_to = sums  # of smaller bets on a, and of bets on b, with their weights
            a, b = stakes
            up_to = up_to * 0.5**0.5 + b
            return (total + (a * up_to + b * lower), (lower + a) * 0.5**0.5, up_to), None

        a, b = (jnp.exp(x - top) for x, top in zip((a, b), most, strict=True))
        (total, *_), _ = jax.lax.scan(add, (jnp.zeros_like(most[0]),) * 3, (a, b))
        mixed = most[0] + most[1] + jnp.log(total) + _TOGETHER
        return functools.reduce(jnp.logaddexp, alone, mixed)
