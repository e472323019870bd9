"""Scores of arms on common items, and the evidence of their differences.

X_i(j) is the score of arm i on item j, and D_j = X_i(j) - X_k(j). Against {mu_i <= mu_k - slack}
a bet f in (0, 1) on the pair (i, k) multiplies its stake by 1 + f (D_j + slack)/(w - slack), w =
high - low, at each item j that both arms have seen. The e-value of the pair is the mean of all
stakes, a supermartingale in the number of common items. Without replacement the largest mean of
what is left takes the place of -slack. See docs/reference/definitions.md, "Paired items".

(Ville 1939; Waudby-Smith & Ramdas 2024)
"""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.pieces import Pieces, pairs_of
from jaxelim.contracts.proofs import BOUNDED
from jaxelim.contracts.views import ArmContext, Evidence, Snapshot, Statistics, View
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.families.bounded import LARGEST_EDGE, Bounded
from jaxelim.families.sources import set_interval
from jaxelim.lanes import LaneOps, index_like, named_pytree, pytree, settings
from jaxelim.numerics.logarithm import log, log1p

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

BETS = LARGEST_EDGE * 2.0 ** (-np.arange(18) / 2)
"""The bets f of a pair, of equal weight: the shares of a stake that one item may lose."""
_ROUNDING = 1e-9  # the share of w below which a difference is taken to be one of rounding


@named_pytree
class PairedStatistics(Statistics):
    """Scores by item, and the logarithms of the stakes of each pair."""

    scores: Array | None  # [M, K], NaN where an arm has not seen an item; None: not to be updated
    stakes: Array  # [K, J, K]: of arm i above arm k, by bet
    size: Array | None = None  # [] N of items that are drawn without replacement; None: with
    common: Array | None = None  # [K, K] n and
    sums: Array | None = None  # [K, K] S of each pair

    def of_one_run(self) -> "PairedStatistics":
        return dataclasses.replace(self, scores=None)


@pytree
class PairedEvidence(Evidence):
    """log e of pairs, in place of a likelihood ratio."""

    space: ArmContext
    shape: Pieces
    stats: PairedStatistics

    def about(self, shape: Pieces) -> "PairedEvidence":
        return dataclasses.replace(self, shape=shape)

    @property
    def means(self) -> Array:  # type: ignore[override]
        return self.stats.means

    def values(self) -> Array:
        pieces, lanes, stakes = pairs_of(self.shape), self.space.lanes, self.stats.stakes
        assert pieces.first is not None
        k, j = stakes.shape[:2]
        rows = lanes.row(stakes.reshape(k, j * k, *stakes.shape[3:]), pieces.first)
        rows = rows.reshape(j, k, *rows.shape[1:])  # [J, K], or [J, K, m] of several arms i

        def log_mean(rows: Array) -> Array:
            most = jnp.max(rows, 0)
            return most + log(jnp.sum(jnp.exp(rows - most), 0) / j)

        value = lanes.materialize(log_mean, rows)
        return pieces.flat(jnp.swapaxes(value, 0, 1) if pieces.several else value)

    def gradient(self, piece: Array) -> Array:
        """What a pull of each arm adds to the log of the number of common items, [K]."""
        counts, lanes = self.stats.counts, self.space.lanes
        i, k = pairs_of(self.shape).pair(lanes, piece)
        least = jnp.minimum(lanes.take(counts, i), lanes.take(counts, k))
        own = (index_like(counts) == i) | (index_like(counts) == k)
        return jnp.where(own & (counts == least), 1 / counts, 0)


@settings
class Paired(Family):
    """Scores from `low` to `high` of all arms on the same items; each arm has its own mean.

    The evidence about two arms is the e-value of their differences on the items that both have
    seen. Items are independent draws, or all of a stack in a random order. All arms have one
    order, that no score has a part in. Simulated rewards are those of
    `Recorded(.., common=True)`; in a live run `tell(arm, reward, item=)` names the item.

    Args:
        low: the lower end of the scores, in their units.
        high: the upper end.
        items: the most items of a run whose scores are kept as evidence: at least 2. Later
            scores of an arm count for its estimate alone.

    Raises:
        ArgumentError: an end is not finite, high is not above low, or items is no such number.
    """

    low: float = 0.0
    high: float = 1.0
    items: int = 1000
    name: ClassVar[str] = "paired"
    noise: ClassVar[str] = "run"
    any_law: ClassVar[bool] = True
    without_replacement: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_interval(self)
        object.__setattr__(self, "items", checks.integer("items", self.items, low=2, high=10**7))

    def law(self) -> str:
        return BOUNDED

    def check(self, instance: "Instance") -> None:
        if not getattr(instance.source, "common", False):
            allowed = f"scores on common items, Recorded(.., common=True), for {self!r}"
            raise ArgumentError("source", instance.source, allowed)

    def check_shape(self, problem: Problem, shape: Pieces) -> None:
        if shape.level is not None:
            allowed = f"pairs of arms for {self!r}: a mean beside a number is no difference"
            raise UnsupportedError("problem", problem, allowed)
        super().check_shape(problem, shape)

    tables = Bounded.tables  # type: ignore[assignment]

    def empty(self, like: Array, size: Array | None = None) -> PairedStatistics:
        """The statistics before the first score, for arms as `like` [K]; `size` as theirs."""
        (k, *lanes), none = like.shape, jnp.zeros_like(like)
        pairs = None if size is None else jnp.zeros((k, k, *lanes))
        return PairedStatistics(
            t=jnp.zeros(lanes, jnp.int32), counts=none, means=none, reward_sums=none,
            scores=jnp.full((self.items, k, *lanes), jnp.nan),
            stakes=jnp.zeros((k, len(BETS), k, *lanes)), size=size, common=pairs, sums=pairs,
        )  # fmt: skip

    def start(
        self, space: ArmContext, problem: Problem, tables: Any, rewards: Array
    ) -> PairedStatistics:
        def enter(k: Array, stats: PairedStatistics) -> PairedStatistics:
            arm = jnp.full(rewards.shape[1:], k, jnp.int32)
            return self._entered(space.lanes, problem.epsilon, stats, arm, rewards[k], arm >= 0)

        size = None
        if not isinstance(tables, tuple):
            size = tables.reshape(len(rewards), -1)[0].astype(rewards.dtype)
            size = jnp.broadcast_to(size, rewards.shape[1:])
        return jax.lax.fori_loop(0, rewards.shape[0], enter, self.empty(rewards, size))

    def update(
        self, seen: Snapshot, arm: Array, reward: Array, go: Array, item: Array | None = None
    ) -> PairedStatistics:
        """As of `Family`. `item` [] int32: which one; None: the next one of the arm."""
        return self._entered(seen.lanes, seen.problem.epsilon, seen.stats, arm, reward, go, item)

    def _entered(
        self, lanes: LaneOps, slack: float, stats: Any, arm: Array, reward: Array, go: Array,
        item: Array | None = None,
    ) -> PairedStatistics:  # fmt: skip
        k, scores, index = stats.counts.shape[0], stats.scores, index_like(stats.counts)
        chosen, arm = index == arm, jnp.clip(arm, 0, k - 1)
        item = lanes.take(stats.counts, arm).astype(jnp.int32) if item is None else item
        kept, item = go & (item < self.items), jnp.minimum(item, self.items - 1)
        chosen = chosen & go
        others = lanes.row(scores, item)  # [K]
        known = kept & ~jnp.isnan(others) & ~chosen
        flat = scores.reshape(-1, *scores.shape[2:])
        own = jnp.where(kept, reward, lanes.take(others, arm))
        flat = lanes.put(flat, item * k + arm, own)
        bets, width, more = BETS.reshape(-1, *[1] * others.ndim), self.high - self.low, {}
        off = jnp.where(known, reward - others, 0)
        nulls: Any = (-slack, -slack)  # the largest mean of what is left, above and below
        if stats.size is not None:
            n, total = (lanes.row(x, arm) for x in (stats.common, stats.sums))  # [K]
            left = jnp.maximum(stats.size - n, 1)
            nulls = [-(stats.size * slack + sign * total) / left for sign in (1, -1)]
            above, below = chosen[:, None] & known, known[:, None] & chosen
            more["common"] = stats.common + jnp.where(above | below, 1.0, 0.0)
            more["sums"] = stats.sums + jnp.where(above, off, jnp.where(below, -off[:, None], 0))

        def gains(off: Array, null: Any) -> Array:  # [J, K]
            gain, unit, little = off - null, width + null, _ROUNDING * width
            if stats.size is not None:  # no bet where what is left can hardly fall below its mean
                gain = jnp.where(gain > little, gain, jnp.minimum(gain, 0))
                gain = jnp.where(unit > little, gain, 0)
                unit = jnp.maximum(unit, little)
            return jnp.where(known, log1p(bets / unit * gain), 0)

        above, below = (lanes.materialize(gains, sign * off, one)
                        for sign, one in zip((1, -1), nulls, strict=True))  # fmt: skip
        below = jnp.swapaxes(below, 0, 1)[:, :, None]
        stakes = jnp.where(chosen[:, None, None], above, jnp.where(chosen, below, 0))
        counts = stats.counts + chosen.astype(stats.counts.dtype)
        sums = stats.reward_sums + jnp.where(chosen, reward, 0)
        return dataclasses.replace(
            stats, t=stats.t + go.astype(jnp.int32), counts=counts, reward_sums=sums,
            means=sums / jnp.maximum(counts, 1), scores=flat.reshape(scores.shape),
            stakes=stats.stakes + stakes, **more,
        )  # fmt: skip

    def evidence(self, space: ArmContext, stats: Any, shape: Pieces) -> PairedEvidence:
        return PairedEvidence(space, shape, stats)

    def log_e(self, space: ArmContext, stats: Any, shape: Pieces, _: Any) -> Array:
        """log e of pieces, as `Mixture.log_e`: [Q]."""
        value = self.evidence(space, stats, shape).values()
        return jnp.where(shape.exists & (value > 0), value, -jnp.inf)

    priors = Bounded.priors  # type: ignore[assignment]

    def overlap(self, seen: View, beta: Array) -> Array:
        """What the evidence about each piece lacks of beta: [Q]."""
        return beta - seen.evidence.values()

    def share(self, seen: View, i: Array, k: Array) -> Array:
        """1 for the arm with fewer items, whose pull adds a common one; 0 for the other, or 1/2."""
        own, other = (seen.lanes.take(seen.counts, arm) for arm in (i, k))
        return jnp.where(own < other, 1.0, jnp.where(own > other, 0.0, 0.5))
