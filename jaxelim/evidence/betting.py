"""Evidence from bounded rewards of any distribution: what bets against a mean have won.

Rewards are scaled to [0, 1]. A bet b > 0 against "the mean is u" multiplies its stake by
1 + b (x - u) at each reward x, with b u < 1, or by 1 - b (x - u), with b (1 - u) < 1. The
first wins where the mean is above u, the second where it is below. At the true mean each
stake is a martingale of mean 1. The best bet wins N KL_inf in the limit. (Honda & Takemura
2010; Waudby-Smith & Ramdas 2024; Orabona & Jun 2024)

An arm keeps the sums of four powers of its rewards x, and of 1 - x: the second kind of bet is
the first one on 1 - x against 1 - u. With T_i = sum (x - u)^i and edge = b u, a stake's
logarithm is at least

    b T_1 - b^2 T_2/2 + b^3 T_3/3 - kappa(edge) b^4 T_4,

where kappa(e) = 1/4 + e/5 + e^2/(6 (1 - e)) is above the remainder's coefficient
1/4 + e/5 + e^2/6 + ..: the remainder over z^4 rises with z, and z = b (x - u) >= -edge. It is
also at least that of N rewards of 0 and 1 with the same mean m, as a logarithm lies above its
chords: the best bet wins N kl(m, u) or more. Every value here is the larger of these two lower
bounds, and needs no grid of means. What rounding may add to a bound is taken off it. No term of
a sum of powers is negative, so each sum has small relative errors. Powers of x - 1/2 would not
do: large bets need T_i to a fraction of N u^i.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.shapes import Levels, Rows, Shape
from jaxelim.contracts.sides import Sides
from jaxelim.contracts.views import ArmContext, Evidence
from jaxelim.evidence.discrete import DiscreteEvidence
from jaxelim.evidence.references import evidence_about
from jaxelim.lanes import index_like
from jaxelim.numerics.logarithm import log, log1p

POWERS = 4
LARGEST_EDGE = 0.98
"""The largest share of a stake that one reward may lose."""
BETS = 2.0 ** np.arange(-12, 6, 0.5)
"""The bets of the mixture."""
_KEPT = -math.log(64)
"""The share of the stakes on one arm alone, as a logarithm: of each of the two."""
_TOGETHER = math.log1p(-2 / 64) - math.log(len(BETS) * (3 + 2**1.5))
"""The share of a product of two equal bets, as a logarithm: sum_d 2^(-|d|/2) = 3 + 2^(3/2)."""
_LEAST = -1e300
"""In place of -inf, the logarithm of stakes that are not made, where it is subtracted."""
_NEWTON = 3
"""Newton steps from the bet of the second order to the best bet."""
_ROUNDS = 2
"""Rounds of the search for a common mean that halve the way between points."""
_WAY = np.linspace(0, 1, 25) ** 2
OFFSETS = np.concatenate([-_WAY[:0:-1], _WAY])
"""Common means between which a pair's e-value is bounded: shares of the way to each mean."""


class Wins(NamedTuple):
    """What the rewards of arms say: arrays of one shape, [..]."""

    counts: Array  # N, above 0
    means: Array  # in [0, 1]
    powers: tuple[Array, ...]  # the sums of `terms`

    def side(self, u: Array, up: bool) -> "Side":
        """What bets against means u read: means of at most u (up), or of at least u."""
        half, v = len(self.powers) // 2, u if up else 1 - u
        sums = self.powers[:half] if up else self.powers[half:]
        rows = [(self.counts, *sums[:i]) for i in range(1, POWERS + 1)]
        share = sums[0] / self.counts * (1 - _error(self.counts))
        return Side(self.counts, tuple(_shifted(row, -v) for row in rows), v, share)


def terms(x: Array, rest: Array) -> list[Array]:
    """What a reward adds to the powers: those of x, and then of 1 - x."""
    return [y**i for y in (x, rest) for i in range(1, POWERS + 1)]


class Side(NamedTuple):
    """What bets on one side read, at means u: arrays of one shape, [..]."""

    counts: Array
    t: tuple[Array, ...]  # T_1, .., T_4, of 1 - x and 1 - u where the mean is below u
    unit: Array  # the edge of a unit bet
    share: Array  # the mean, or 1 less it, at most

    def logarithm(self, bet: Array) -> Array:
        """The first lower bound on a stake's logarithm; the bet's edge is below 1."""
        edge, n, t = bet * self.unit, self.counts, self.t
        squares, fourth = bet * bet * t[1], (bet * bet) ** 2 * t[3]
        kappa = _kappa(edge)
        value = bet * t[0] - squares / 2 + bet**3 * t[2] / 3 - kappa * fourth
        # T_i has at most this share of sum (x + u)^i as error; x + u <= |x - u| + 2 u.
        size = bet * t[0] + 2 * squares + (8 * kappa + 2) * (fourth + 16 * n * edge**4)
        return value - _error(n) * (size + 8 * n * edge)


def _error(counts: Array) -> Array:
    """The relative error of a sum of N powers that are not negative, at most.

    Each sum adds 2^-53, and a power at most 16 times that.
    """
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


@functools.partial(jax.jit, static_argnums=2)  # traced once for each layout
def best(wins: Wins, u: Array, up: bool) -> Array:
    """The largest logarithm of a stake, at least 0, at means u: [..]."""
    side = wins.side(u, up)
    wins_some = (side.t[0] > 0) & (side.t[1] > 0)
    t = tuple(jnp.where(wins_some, x, 1) for x in side.t)
    side, unit = side._replace(t=t), side.unit
    highest = LARGEST_EDGE / jnp.maximum(unit, 1e-12)
    second = jnp.minimum(t[0] / t[1], highest)
    bet = second
    for _ in range(_NEWTON):
        edge = bet * unit
        kappa, rest = _kappa(edge), 1 - edge
        rise = edge * (0.2 + edge * (2 - edge) / (6 * rest * rest))  # edge dkappa/dedge
        slope = bet * (t[2] - bet * (4 * kappa + rise) * t[3])
        slope = t[0] + bet * (slope - t[1])
        curve = bet * (2 * t[2] - bet * (12 * kappa + 8 * rise) * t[3]) - t[1]
        step = slope / jnp.minimum(curve, -0.2 * t[1])
        bet = jnp.clip(bet - step, 0.2 * second, jnp.minimum(5 * second, highest))
    found = jnp.maximum(side.logarithm(bet), side.logarithm(0.8 * second))
    found = jnp.maximum(found, wins.counts * _divergence(side.share, unit))
    return jnp.where(wins_some, jnp.maximum(found, 0), 0)


def _divergence(m: Array, u: Array) -> Array:
    """kl(m, u) of Bernoulli rewards, finite where u is an end."""
    inside, rest = jnp.clip(u, 1e-300, 1), jnp.clip(1 - u, 1e-16, 1)
    yes = m * log(jnp.where(m > 0, m, 1) / inside)
    return yes + (1 - m) * log(jnp.where(m < 1, 1 - m, 1) / rest)


def stakes(wins: Wins, u: Array, up: bool) -> Array:
    """The logarithms of the stakes of all bets, at most; -inf where they are not made: [J, ..]."""
    side = wins.side(u, up)
    bets = jnp.asarray(BETS.reshape((-1,) + (1,) * jnp.ndim(side.t[0])), side.t[0].dtype)
    made = bets * side.unit <= LARGEST_EDGE
    bets = jnp.where(made, bets, 0)
    edges = bets * side.unit
    chord = (1 - side.share) * log1p(-edges) + side.share * log1p(bets - edges)
    value = jnp.maximum(side.logarithm(bets), wins.counts * chord)
    return jnp.where(made, value, -jnp.inf)


def mixed(wins: Wins, u: Array, up: bool) -> Array:
    """The logarithm of the mean of all stakes: at most log e, [..]."""
    return jax.nn.logsumexp(stakes(wins, u, up), axis=0) - math.log(len(BETS))


def mixed_pair(of_a: Array, of_b: Array) -> Array:
    """The logarithm of the mean of products of two arms' stakes [J, ..]: [..].

    Bets that are d places apart have 2^(-|d|/2) of the stakes: with equal counts the best
    bets on both arms are equal, and with other counts their ratio is that of the counts.
    """
    most = [jnp.maximum(jnp.max(x, 0), _LEAST) for x in (of_a, of_b)]
    a, b = (jnp.exp(x - top) for x, top in zip((of_a, of_b), most, strict=True))

    def add(sums: tuple[Array, ...], stakes: tuple[Array, Array]) -> tuple[tuple, None]:
        total, lower, up_to = sums  # of smaller bets on a, and of bets on b, with their weights
        a, b = stakes
        up_to = up_to * 0.5**0.5 + b
        return (total + (a * up_to + b * lower), (lower + a) * 0.5**0.5, up_to), None

    (total, *_), _ = jax.lax.scan(add, (jnp.zeros_like(most[0]),) * 3, (a, b))
    return most[0] + most[1] + jnp.log(total) + _TOGETHER


class Common(NamedTuple):
    """A pair's closest point: u of arm a, u + slack of arm b, and what each arm's bet wins."""

    u: Array
    of_a: Array
    of_b: Array


@functools.partial(jax.jit, static_argnums=4)  # traced once for each layout
def closest(a: Wins, b: Wins, w_a: Array, w_b: Array, slack: float) -> Common:
    """The u in [m_b - slack, m_a] of the least sum of both arms' best wins, under weights.

    Args:
        a, b: of the two arms.
        w_a, w_b: weights or counts; an arm's wins are w/N times those of its rewards.
        slack: of {mu_b >= mu_a + slack}, scaled.
    """
    low = jnp.clip(b.means - slack, 0, 1)
    high = jnp.clip(a.means, low, 1 - slack)
    shares = (w_a / a.counts, w_b / b.counts)
    places = jnp.arange(5, dtype=low.dtype).reshape((-1,) + (1,) * jnp.ndim(high))

    def common(way: Array) -> Common:
        u = low + (high - low) * way
        return Common(u, shares[0] * best(a, u, True), shares[1] * best(b, u + slack, False))

    def values(way: Array) -> Array:
        at = common(way)
        return at.of_a + at.of_b

    def lowest(found: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        """The place of the least of five values, at most the last but one, and three about it."""
        place = jnp.clip(jnp.argmin(found, 0), 1, 3).astype(low.dtype)
        about = (jnp.sum(jnp.where(places == place + n, found, 0), 0) for n in (-1, 0, 1))
        return place, tuple(about)  # type: ignore[return-value]

    way, step, found = jnp.full_like(low, 0.5), 1 / 4, values(places / 4)
    for _ in range(_ROUNDS):
        place, (left, middle, right) = lowest(found)
        way, step = way + (place - 2) * step, step / 2
        inner = values(jnp.stack([way - step, way + step]))
        found = jnp.stack([left, inner[0], middle, inner[1], right])
    place, (left, middle, right) = lowest(found)
    bend = left - 2 * middle + right
    move = (left - right) / jnp.where(bend > 0, 2 * bend, 1)
    move = jnp.where(bend > 0, jnp.clip(move, -1, 1), 0)
    return common(way + (place - 2 + move) * step)


def log_e_of_pairs(a: Wins, b: Wins, slack: float) -> Array:
    """log e of {mu_b >= mu_a + slack}: [..]; the least over cells of means.

    A stake of a falls with u, one of b rises. So in a cell of u their product is at least
    that of a's at the cell's upper end and b's at the lower.
    """
    low, high = _between(a, b, slack)
    middle = closest(a, b, a.counts, b.counts, slack).u
    offsets = OFFSETS.reshape((-1,) + (1,) * jnp.ndim(middle))
    u = jnp.where(
        offsets < 0, middle + offsets * (middle - low), middle + offsets * (high - middle)
    )
    of_a, of_b = _stakes_at(a, b, u, u, slack)
    inside = jnp.min(mixed_pair(of_a[:, 1:], of_b[:, :-1]), 0)
    return _least(a, b, slack, inside, of_a, of_b)


def log_e_above(a: Wins, b: Wins, slack: float) -> Array:
    """Above `log_e_of_pairs`: what the mean of all bets has won against one mean between, [..]."""
    low, high = _between(a, b, slack)
    middle = closest(a, b, a.counts, b.counts, slack).u
    of_a, of_b = _stakes_at(a, b, jnp.stack([low, middle]), jnp.stack([middle, high]), slack)
    inside = mixed_pair(of_a[:, 1], of_b[:, 0])
    return _least(a, b, slack, inside, of_a, of_b)


def _between(a: Wins, b: Wins, slack: float) -> tuple[Array, Array]:
    """The means u of a between both estimates, with u and u + slack in [0, 1]: the ends, [..]."""
    return jnp.maximum(b.means - slack, 0), jnp.minimum(a.means, 1 - slack)


def _stakes_at(a: Wins, b: Wins, u: Array, v: Array, slack: float) -> tuple[Array, Array]:
    """The logarithms of all stakes on a against u [..], and on b against v + slack: [J, ..]."""
    upper = jnp.clip(v + slack, 0, 1)
    return stakes(a, jnp.clip(u, 0, 1), True), stakes(b, upper, False)


def _least(a: Wins, b: Wins, slack: float, inside: Array, of_a: Array, of_b: Array) -> Array:
    """The lesser of `inside` and of what stakes on one arm alone have won: [..].

    Beyond the first u the stakes on b may be lost, and beyond the last u those on a. Where
    no mean in [0, 1] is beyond, all stakes count.

    Args:
        a, b, slack: as of `closest`.
        inside: the least between the first u and the last: [..].
        of_a, of_b: the logarithms of all stakes, at rising u: [J, G, ..] each.
    """
    below, above = b.means - slack, a.means
    alone = (
        jnp.where(beyond, jax.nn.logsumexp(x, axis=0) - math.log(len(BETS)) + _KEPT, jnp.inf)
        for x, beyond in ((of_a[:, 0], below > 0), (of_b[:, -1], above < 1 - slack))
    )
    return jnp.where(above > below, functools.reduce(jnp.minimum, alone, inside), -jnp.inf)


def two_points(wins: Wins) -> Array:
    """Two points of each arm and their probabilities, with three moments of [K]: [K, 4].

    Those of the Gauss quadrature of the rewards, so inside their range.
    """
    first, second, third = (x / wins.counts for x in wins.powers[:3])
    variance = jnp.maximum(second - first**2, 1e-12)
    skew = (third - 3 * first * second + 2 * first**3) / variance**1.5
    root = jnp.sqrt(skew * skew + 4)
    std = jnp.sqrt(variance)
    points = [wins.means + std * (skew + sign * root) / 2 for sign in (-1, 1)]
    low, high = (jnp.clip(x, 0, 1) for x in points)
    share = jnp.where(high > low, (wins.means - low) / jnp.where(high > low, high - low, 1), 0.5)
    return jnp.stack([low, high, 1 - share, share], -1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BettingEvidence(Evidence):
    """The evidence about pieces of one shape, under counts or weights."""

    closed_form = False

    space: ArmContext
    shape: Shape
    means: Array  # [K]
    weights: Array  # [K] pulls, or weights over the costs, positive
    wins: Wins  # [K], scaled to [0, 1]
    low: float = dataclasses.field(default=0.0, metadata={"static": True})
    width: float = dataclasses.field(default=1.0, metadata={"static": True})
    costs: Array | None = None  # [K], positive; None: all are 1

    def weighted(self, weights: Array) -> "BettingEvidence":
        return dataclasses.replace(self, weights=self.per_cost(weights))

    def about(self, shape: Shape) -> Evidence:
        return evidence_about(shape, lambda plain: dataclasses.replace(self, shape=plain))

    def with_derivatives(self) -> DiscreteEvidence:
        """Of two points an arm, with the first three moments of its rewards, for one run."""
        shape = Sides.about(self.shape, len(self.means), self.means.dtype)
        points = two_points(self.wins)
        sides = DiscreteEvidence.of(shape, self.means, points, self.low, self.width)
        return dataclasses.replace(sides, costs=self.costs)

    def values(self) -> Array:
        lanes, shape = self.space.lanes, self.shape
        if isinstance(shape, Levels):
            return self.weights * self._of_levels()
        rows = Rows.of(shape)
        leaves, tree = jax.tree.flatten((self.wins, self.weights))
        sides = [rows.sides(lanes, leaf) for leaf in leaves]
        slack = shape.slack / self.width

        def of_pairs(*ends: Array) -> Array:
            whole = jnp.broadcast_arrays(*ends)
            (a, w_a), (b, w_b) = (tree.unflatten(whole[side::2]) for side in (0, 1))
            common = closest(a, b, w_a, w_b, slack)
            return common.of_a + common.of_b

        values = lanes.materialize(of_pairs, *(end for side in sides for end in side))
        return rows.flat(values) if rows.several else values

    def gradient(self, piece: Array) -> Array:
        each = index_like(self.means)
        if isinstance(self.shape, Levels):
            return self.per_cost(jnp.where(each == piece, self._of_levels(), 0))
        i, k = self.shape.pair(self.space.lanes, piece)
        common, take = self.common(i, k), self.space.lanes.take
        slopes = common.of_a / take(self.weights, i), common.of_b / take(self.weights, k)
        return self.per_cost(jnp.where(each == i, slopes[0], jnp.where(each == k, slopes[1], 0)))

    def common(self, i: Array, k: Array) -> Common:
        """Of two arms []."""
        take = self.space.lanes.take
        (a, w_a), (b, w_b) = (
            jax.tree.map(lambda x, arm=arm: take(x, arm), (self.wins, self.weights))
            for arm in (i, k)
        )
        slack = self.shape.slack / self.width
        # Apart from what reads it, so that every program of a call rounds it alike.
        return self.space.lanes.materialize(lambda *sides: closest(*sides, slack), a, b, w_a, w_b)

    def _of_levels(self) -> Array:
        """The best wins a reward against the level: [K]."""
        shape = Levels.of(self.shape)
        level = (jnp.asarray(shape.level, self.means.dtype) - self.low) / self.width
        level = jnp.broadcast_to(level, self.means.shape)
        above = best(self.wins, level, True), best(self.wins, level, False)
        return jnp.where(shape.above, *above) / self.wins.counts
