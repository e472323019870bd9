"""Rewards of independent arms: statistics of each arm, and one function `loss` of them.

`loss(stat, by)` is the least log-likelihood ratio of moving an arm's mean by `by`, for each
unit of the arm's weight, which is its number of pulls in most families. All evidence follows
from it. With weights W_k, or counts, the piece {mu_k >= mu_i + slack} has

    H = min over x of  W_i loss_i(-x) + W_k loss_k(off - x),   0 <= x <= off,

off how far the estimates lie outside it. A reference never moves, so that the arm moves all of
off. By the envelope theorem dH/dW_k is loss_k at the closest point. With l' and l'' the
derivatives there, d2H/dW2 is minus the square of (l_i', l_k')/sqrt(W_i l_i'' + W_k l_k'').
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Family, Problem
from jaxelim.contracts.pieces import Interval, Pairs, Pieces, pairs_of
from jaxelim.contracts.views import ArmContext, Evidence, Snapshot, Statistics, View
from jaxelim.errors import ArgumentError, undefined
from jaxelim.evidence.half_spaces import Bent
from jaxelim.lanes import PLAIN, LaneOps, index_like, named_pytree, pytree, where
from jaxelim.mixtures.pieces import Stat
from jaxelim.numerics import roots

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_ALMOST = 1 - 2.0**-52  # of the way to an end of the range, where a loss may be infinite


@named_pytree
class ArmStatistics(Statistics):
    """The statistics of a run: counts, means, and what else the model's `Stat` has."""

    rest: tuple[Array, ...] = ()  # [K] each

    @property
    def moments(self) -> Array | None:
        return jnp.stack(self.rest, -1) if self.rest else None


class ArmModel(Family):
    """The contract of a family of independent arms: a frozen dataclass of settings.

    A model defines `draw` and `loss`; with statistics beyond counts and means also `first`,
    `more` and its `kind` of `Stat`. These go entry by entry, for arrays of any one shape.
    """

    by_loss: ClassVar[bool] = True
    low: ClassVar[float] = -np.inf  # the range of means
    high: ClassVar[float] = np.inf
    least: ClassVar[float] = -np.inf  # of the means that rewards are drawn at, and the largest
    most: ClassVar[float] = np.inf
    kind: ClassVar[Callable[..., Any]] = Stat
    statistics: ClassVar[Callable[..., Any]] = ArmStatistics
    exponential: ClassVar[bool] = False
    """Whether w_a loss_a + w_b loss_b is least at the weighted mean of the two means."""

    def first(self, x: Array) -> Any:
        """The statistics after one reward, n and mean arrays like x."""
        return self.kind(jnp.ones_like(x), x)

    def more(self, stat: Any, x: Array) -> Any:
        """The statistics after one more reward. A model without it keeps exact sums."""
        raise undefined(self, "more(stat, x)")

    def loss(self, stat: Any, by: Array) -> Array:
        """The least log-likelihood ratio of moving the mean, like `by`, for a unit of weight.

        It is 0 for by = 0, and grows on both sides. mean + by lies inside the range.
        """
        raise undefined(self, "loss(stat, by)")

    def weight(self, stat: Any) -> Array:
        """What `loss` is multiplied by: pulls times `per_pull`, or degrees of freedom."""
        one = self.per_pull(stat.n)
        return stat.n if one is None else stat.n * one

    def per_pull(self, like: Array) -> Array | None:
        """What one pull adds to the weight of each arm, as `like` [K]; None: 1."""
        return None

    def meet(self, w_a: Array, a: Any, w_b: Array, b: Any, off: Array) -> Array:
        """The x in [0, off] with the least w_a loss(a, -x) + w_b loss(b, off - x).

        Weights and off are at least 0. This default finds the root of the derivative, which
        has to be the only one.
        """
        total = w_a + w_b
        p = jnp.where(total > 0, w_a / jnp.where(total > 0, total, 1), 0.5)
        low, high = jnp.zeros_like(off), off
        if np.isfinite(self.high):
            low = jnp.maximum(low, off - (self.high - b.mean))
        if np.isfinite(self.low):
            high = jnp.minimum(high, a.mean - self.low)
        high = jnp.maximum(low, high)

        def slope(x: Array) -> Array:
            down, up = (
                jax.jvp(lambda by, stat=stat: self.loss(stat, by), (by,), (jnp.ones_like(by),))[1]
                for stat, by in ((a, -x), (b, off - x))
            )
            return -(p * down + (1 - p) * up)

        return roots.rising(slope, low, high, low + (high - low) * (1 - p))

    def reach(self, stat: Any, radius: Array, up: Array | bool) -> Array:
        """The largest x >= 0 with loss(stat, x) <= radius, or loss(stat, -x) where not `up`.

        It is the distance to the end of the range where the loss stays below there.
        """
        room, other = self.high - stat.mean, stat.mean - self.low
        room, other = jnp.where(up, room, other), jnp.where(up, other, room)
        sign = jnp.where(up, 1.0, -1.0)
        below, above = np.isfinite(self.low), np.isfinite(self.high)
        ended = bool(below) if below == above else jnp.where(up, above, below)
        return roots.outermost(lambda x: self.loss(stat, sign * x), radius, room, other, ended)

    def bending(self, stat: Any) -> Any:
        """Statistics with nearly the same loss, which has two derivatives."""
        return stat

    # The statistics of a run.

    def stat(self, stats: Statistics) -> Any:
        """The statistics that the methods above read, of those of a run."""
        rest = stats.rest if isinstance(stats, ArmStatistics) else ()
        return self.kind(stats.counts, stats.means, *rest)

    def stat_of(self, counts: Array, means: Array, moments: Array | None) -> Any:
        rest = () if moments is None else jnp.moveaxis(moments, -1, 0)
        return self.kind(counts, means, *rest)

    def start(
        self, space: ArmContext, problem: Problem, tables: tuple, rewards: Array
    ) -> ArmStatistics:
        t = jnp.full(rewards.shape[1:], rewards.shape[0], jnp.int32)
        n, means, *rest = (x for x in self.first(rewards) if x is not None)
        return self.statistics(t=t, counts=n, means=means, reward_sums=rewards, rest=tuple(rest))

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> ArmStatistics:
        stats: Any = seen.stats
        chosen = (index_like(stats.means) == arm) & go
        counts = stats.counts + chosen.astype(stats.means.dtype)
        sums = stats.reward_sums + jnp.where(chosen, reward, 0)
        if type(self).more is ArmModel.more:
            new = (sums / counts,)
        else:
            _, *new = (x for x in self.more(self.stat(stats), reward) if x is not None)
        old = stats.means, *stats.rest
        means, *rest = (jnp.where(chosen, x, y) for x, y in zip(new, old, strict=True))
        return dataclasses.replace(
            stats, t=stats.t + go.astype(jnp.int32), counts=counts, means=means, reward_sums=sums,
            rest=tuple(rest),
        )  # fmt: skip

    def with_pending(
        self, space: ArmContext, entered: Statistics, ahead: Statistics, pull: Any = None
    ) -> Statistics:
        """The rest, which is sums over rewards, grows with the counts."""
        now: Any = super().with_pending(space, entered, ahead, pull)
        more = now.counts / jnp.maximum(entered.counts, 1)
        return dataclasses.replace(now, rest=tuple(x * more for x in now.rest))

    def evidence(self, space: ArmContext, stats: Statistics, shape: Pieces) -> "ArmEvidence":
        stat, one = self.stat(stats), self.per_pull(stats.means)
        costs = None if one is None else 1 / one
        return ArmEvidence(self, space, shape, stat, self.weight(stat), costs, stats.used_up)

    def interval(self, seen: View, means: Array, beta: Array) -> Interval:
        """The means u with weight loss(u) <= beta, of every arm."""
        at: Any = seen.evidence
        radius = beta / at.weight
        down, up = (self.reach(at.stat, radius, side) for side in (False, True))
        return Interval(at.means - down, at.means + up)

    def overlap(self, seen: View, beta: Array) -> Array:
        """As of `Family`. One end of each arm is found."""
        at: Any = seen.evidence
        p, arm = at.pieces, index_like(at.means)
        if p.signs:
            lower = p.above
        elif p.several:
            lower = jnp.any(arm[:, None] == p.first[None], 1)
        else:
            lower = arm == p.first
        lower = jnp.broadcast_to(lower, at.means.shape)
        by = self.reach(at.stat, beta / at.weight, ~lower)
        end = jnp.where(lower, at.means - by, at.means + by)
        return p.overlap(at.space.lanes, Interval(end, end))

    def share(self, seen: View, i: Array, k: Array) -> Array:
        """As of `Family`: W_k/(W_i + W_k) at equal means. (You, Qin, Wang & Yang 2023.)"""
        at: Any = seen.evidence
        lanes, own = at.space.lanes, End(at.stat, at.weight)
        a, b = (own.taken(lanes, j) for j in (i, k))
        ahead = a.stat.mean >= b.stat.mean
        upper, lower = where(ahead, a, b), where(ahead, b, a)
        loss = losses(self, upper, lower, 0.0)
        parts = upper.weight * loss[0], lower.weight * loss[1]
        total, rest = parts[0] + parts[1], a.weight + b.weight
        apart = (a.stat.mean != b.stat.mean) & (total > 0)
        part = jnp.where(apart, jnp.where(ahead, *parts), b.weight)
        return part / jnp.where(apart, total, rest)

    def check(self, instance: "Instance") -> None:
        means, low, high = instance.means, max(self.low, self.least), min(self.high, self.most)
        bad = means[(means < low) | (means > high)]
        if bad.size:
            allowed = f"means from {low:g} to {high:g} for {self!r}"
            raise ArgumentError("theta", means, allowed, f"{bad[0]:g} is not")

    def nature(self, instance: "Instance") -> Any:
        """The means: [I, K]."""
        return instance.means.reshape(-1, instance.K)

    def scales(self, means: Array, source: Any = None) -> Any:
        """Statistics of one pull at a truth with these means, its weight in place of n: [K]."""
        one, weight = self.first(means), self.per_pull(means)
        return one if weight is None else one._replace(n=weight)

    def truth(self, features: Any, theta: Array, scales: Any, pieces: Pieces) -> Evidence:
        space, stat = ArmContext(PLAIN, theta), scales._replace(mean=theta)
        return ArmEvidence(self, space, pieces, stat, stat.n, 1 / stat.n).with_derivatives()


class End(NamedTuple):
    """One end of each pair."""

    stat: Any
    weight: Array
    still: Array | None = None  # bool: whether it never moves; None: nowhere

    def taken(self, lanes: LaneOps, i: Array) -> "End":
        return jax.tree.map(lambda x: lanes.take(x, i), self)


@pytree
class ArmEvidence(Evidence):
    """The evidence about pieces of one answer, at given estimates, under counts or weights."""

    model: ArmModel = dataclasses.field(metadata={"static": True})
    space: ArmContext
    shape: Pieces
    stat: Any  # [K] each
    weight: Array  # [K], not negative
    costs: Array | None = None  # [K] what a unit of weight costs, positive; None: 1
    known: Array | None = None  # [K] bool: arms of known means; None: there are none

    def about(self, shape: Pieces) -> "ArmEvidence":
        return dataclasses.replace(self, shape=shape)

    @property
    def closed_form(self) -> bool:  # type: ignore[override]
        return self.model.exponential and not self.pieces.refers

    @property
    def pieces(self) -> Pairs:
        return pairs_of(self.shape)

    @property
    def means(self) -> Array:  # type: ignore[override]
        return self.stat.mean

    def weighted(self, weights: Array) -> "ArmEvidence":
        return dataclasses.replace(self, weight=self.per_cost(weights))

    def _candidates(self) -> End:
        """All candidates: [C] each. A reference has the statistics of an arm at its mean."""
        p = self.pieces
        if p.level is None:
            return End(self.stat, self.weight, self.known)
        stat = jax.tree.map(lambda x: jnp.concatenate([x, x[:1]]), self.stat)
        weight = p.with_reference(self.weight, 0)
        still = jnp.broadcast_to(index_like(weight) == weight.shape[0] - 1, weight.shape)
        still = still if self.known is None else p.with_reference(self.known, True)
        return End(stat._replace(mean=p.with_reference(self.means, p.level)), weight, still)

    def values(self) -> Array:
        p, model = self.pieces, self.model
        if p.signs:
            return self.weight * self._of_level()
        leaves, tree = jax.tree.flatten(self._candidates())
        sides = zip(*(p.ends(self.space.lanes, x) for x in leaves), strict=True)
        a, b = (jax.tree.unflatten(tree, x) for x in sides)

        def least(a: End, b: End) -> Array:
            at_a, at_b = losses(model, a, b, p.slack)
            return a.weight * at_a + b.weight * at_b

        return p.flat(self.space.lanes.materialize(least, a, b))

    def _of_level(self) -> Array:
        """The loss of moving each arm to its piece, where its mean is outside: [K]."""
        by = jnp.where(self.outside() > 0, self.pieces.edge - self.means, 0)
        return self.model.loss(self.stat, by)

    def gradient(self, piece: Array) -> Array:
        p, lanes, arm = self.pieces, self.space.lanes, index_like(self.means)
        if p.signs:
            return self.per_cost(jnp.where(arm == piece, self._of_level(), 0))
        i, k = p.pair(lanes, piece)
        a, b = (self._candidates().taken(lanes, j) for j in (i, k))
        at_i, at_k = lanes.materialize(lambda a, b: losses(self.model, a, b, p.slack), a, b)
        return self.per_cost(jnp.where(arm == i, at_i, jnp.where(arm == k, at_k, 0)))

    # Of one run: H_p with two derivatives.

    def with_derivatives(self) -> "ArmEvidence":
        even = jnp.full_like(self.means, 1 / self.means.shape[0])
        stat = self.model.bending(self.stat)
        return dataclasses.replace(self, stat=stat, weight=self.per_cost(even))

    def derivatives(self) -> Bent:
        model, count, (i, k) = self.model, self.means.shape[0], self.pieces.places()
        a, b = (jax.tree.map(lambda x, j=j: x[j], self._candidates()) for j in (i, k))
        off = jnp.where(i == k, 0, self.outside())
        down, up = shifts(model, a, b, off, self.pieces.slack)
        jets = [
            roots.jet(lambda by, stat=end.stat: model.loss(stat, by), by)
            for end, by in ((a, down), (b, up))
        ]
        value = a.weight * jets[0][0] + b.weight * jets[1][0]
        curve = a.weight * jets[0][2] + b.weight * jets[1][2]
        bent = (off > 0) & (i < count) & (k < count) & (curve > 0) & jnp.isfinite(curve)
        size = jnp.where(bent, jnp.sqrt(1 / jnp.where(bent, curve, 1)), 0)

        def placed(x: Array, y: Array) -> Array:
            arm = jnp.arange(count, dtype=jnp.int32)[:, None]
            return jnp.where(arm == i[None], x[None], 0) + jnp.where(arm == k[None], y[None], 0)

        gradient = placed(jets[0][0], jets[1][0])
        bend = placed(*(jnp.where(bent, size * x[1], 0) for x in jets))
        return Bent(value, gradient, bend).by(self.costs)


def shifts(
    model: ArmModel, a: End, b: End, off: Array, slack: float | Array
) -> tuple[Array, Array]:
    """How far both ends move to the closest point: a by at most 0, b by at least 0."""
    apart = off > 0
    still = None if a.still is None else a.still | b.still  # type: ignore[operator]
    free = jnp.where(apart if still is None else apart & ~still, off, 0)
    if model.square or (model.exponential and not slack):
        total = a.weight + b.weight
        down = free * (b.weight / jnp.where(total > 0, total, 1))
    else:
        down = model.meet(a.weight, a.stat, b.weight, b.stat, free)
    up = free - down
    if still is not None:
        down = jnp.where(apart & b.still, off, down)  # type: ignore[operator]
        up = jnp.where(apart & a.still, off, up)  # type: ignore[operator]
    if np.isfinite(model.low):
        down = jnp.minimum(down, (a.stat.mean - model.low) * _ALMOST)
    if np.isfinite(model.high):
        up = jnp.minimum(up, (model.high - b.stat.mean) * _ALMOST)
    return -down, up


def losses(model: ArmModel, a: End, b: End, slack: float) -> tuple[Array, Array]:
    """The losses of both ends at the closest point of {mu_b >= mu_a + slack}."""
    off = a.stat.mean - b.stat.mean
    down, up = shifts(model, a, b, off + slack if slack else off, slack)
    return model.loss(a.stat, down), model.loss(b.stat, up)
