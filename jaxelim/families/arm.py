"""Rewards of independent arms: statistics of each arm, and one function `loss` of them.

`loss(stat, by)` is the least log-likelihood ratio of moving an arm's mean by `by`, for each
unit of the arm's weight, which is its number of pulls in most families. All evidence follows
from it (see `jaxelim.evidence.arms`).
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Family, Problem
from jaxelim.contracts.pieces import Interval, Pieces
from jaxelim.contracts.views import ArmContext, Snapshot, Statistics, View
from jaxelim.errors import ArgumentError, undefined
from jaxelim.evidence.arms import ArmEvidence
from jaxelim.lanes import PLAIN, index_like
from jaxelim.mixtures.pieces import Stat
from jaxelim.numerics import roots

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
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

    low: ClassVar[float] = -np.inf  # the range of means
    high: ClassVar[float] = np.inf
    least: ClassVar[float] = -np.inf  # of the means that rewards are drawn at, and the largest
    most: ClassVar[float] = np.inf
    kind: ClassVar[Callable[..., Any]] = Stat
    statistics: ClassVar[Callable[..., Any]] = ArmStatistics
    exponential: ClassVar[bool] = False
    """Whether w_a loss_a + w_b loss_b is least at the weighted mean of the two means."""
    smooth: ClassVar[bool] = True
    """Whether the least sum of a pair has second derivatives, as H* and shares need."""

    def has(self, method: str) -> bool:
        return super().has(method) and (self.smooth or method not in ("truth", "share"))

    def first(self, x: Array) -> Any:
        """The statistics after one reward."""
        return self.kind(jnp.ones_like(x), x)

    def more(self, stat: Any, x: Array) -> Any:
        """The statistics after one more reward. A model without it keeps exact sums."""
        raise undefined(self, "more(stat, x)")

    def loss(self, stat: Any, by: Array) -> Array:
        """The least log-likelihood ratio of moving the mean by `by`, by unit of weight.

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
        shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in (w_a, a.mean, w_b, b.mean, off)))
        off = jnp.broadcast_to(off, shape)
        total = w_a + w_b
        p = jnp.broadcast_to(jnp.where(total > 0, w_a / jnp.where(total > 0, total, 1), 0.5), shape)
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

    def evidence(self, space: ArmContext, stats: Statistics, shape: Pieces) -> ArmEvidence:
        stat = self.stat(stats)
        return ArmEvidence.of(self, space, shape, stat, self.weight(stat), stats.used_up)

    def interval(self, seen: View, means: Array, beta: Array) -> Interval:
        return seen.evidence.spread(beta)  # type: ignore[attr-defined]

    def overlap(self, seen: View, beta: Array) -> Array:
        return seen.evidence.overlap(beta)  # type: ignore[attr-defined]

    def share(self, seen: View, i: Array, k: Array) -> Array:
        return seen.evidence.share(i, k)  # type: ignore[attr-defined]

    # Checks, and the truth.

    def check(self, instance: "Instance") -> None:
        means, low, high = instance.means, max(self.low, self.least), min(self.high, self.most)
        bad = means[(means < low) | (means > high)]
        if bad.size:
            allowed = f"means from {low:g} to {high:g} for {self!r}"
            raise ArgumentError("theta", means, allowed, f"{bad[0]:g} is not")

    def check_shape(self, problem: Problem, shape: Pieces) -> None:
        super().check_shape(problem, shape)
        most, level = self.high - self.low, shape.level
        if level is not None:
            most = min(level - self.low, self.high - level)
            if not most > 0:
                allowed = f"a number inside ({self.low:g}, {self.high:g}) for {self!r}"
                raise ArgumentError("level", level, allowed)
        if shape.slack and not shape.slack < most:
            allowed = f"a number below {most:g} for {self!r}"
            raise ArgumentError("epsilon", problem.epsilon, allowed, "else every arm is right")

    def nature(self, instance: "Instance") -> Any:
        """The means: [I, K]."""
        return instance.means.reshape(-1, instance.K)

    def scales(self, means: Array, source: Any = None) -> Any:
        """Statistics of one pull at a truth with these means, whose loss is the truth's: [K]."""
        return self.first(means)

    def truth(
        self, features: Array | None, theta: Array, scales: Any, pieces: Pieces
    ) -> ArmEvidence:
        space, stat = ArmContext(PLAIN, theta), scales._replace(mean=theta)
        return ArmEvidence(self, space, pieces, stat, stat.n, 1 / stat.n).with_derivatives()
