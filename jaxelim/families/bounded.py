"""Rewards in an interval, of any distribution."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Problem, Source
from jaxelim.contracts.proofs import BOUNDED
from jaxelim.contracts.shapes import Interval, Levels, Rows, Shape
from jaxelim.contracts.sides import Sides
from jaxelim.contracts.slack import SlackRows
from jaxelim.contracts.views import ArmContext, Evidence, Snapshot, Statistics, View
from jaxelim.errors import ArgumentError
from jaxelim.evidence import betting
from jaxelim.evidence.betting import BettingEvidence, Wins
from jaxelim.evidence.discrete import DiscreteEvidence
from jaxelim.evidence.references import evidence_about
from jaxelim.families.mean_mixtures import both_sides
from jaxelim.families.sources import BETAS, Betas
from jaxelim.lanes import LaneOps, index_like
from jaxelim.mixtures.grid import Grid

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_BISECTIONS = 50


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundedStatistics(Statistics):
    """The statistics of bounded rewards: 88 bytes an arm."""

    powers: tuple[Array, ...]  # [K] each, as of `Wins`

    @property
    def moments(self) -> Array:
        """The powers: [K, P]."""
        return jnp.stack(self.powers, -1)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Bounded(Family):
    """Rewards from `low` to `high` of any distribution; each arm has its own mean.

    Nothing but the interval is assumed. The evidence is what the best bets against a mean
    have won, N KL_inf in the limit; `Mixture` tests what the mean of all bets has won. See
    `jaxelim.evidence.betting`. Without a source rewards are one of the two ends, the widest
    distribution of their mean.

    (Honda & Takemura 2010; Waudby-Smith & Ramdas 2024.)

    Args:
        low: the lower end of the interval, in the units of the rewards.
        high: the upper end.

    Raises:
        ArgumentError: an end is not finite, or high is not above low.
    """

    low: float = 0.0
    high: float = 1.0
    name: ClassVar[str] = "bounded"
    shapes: ClassVar[tuple[type[Shape], ...]] = (Rows, Levels, SlackRows)
    any_law: ClassVar[bool] = True

    def __post_init__(self) -> None:
        low, high = (checks.real(name, getattr(self, name)) for name in ("low", "high"))
        if not low < high or not np.isfinite(high - low):
            raise ArgumentError("high", self.high, f"a finite number above low = {low:g}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    def law(self) -> str:
        return BOUNDED

    # Checks.

    def check(self, instance: "Instance") -> None:
        means = instance.means
        bad = means[(means < self.low) | (means > self.high)]
        if bad.size:
            allowed = f"means from {self.low:g} to {self.high:g} for {self!r}"
            raise ArgumentError("theta", means, allowed, f"{bad[0]:g} is not")

    def check_shape(self, problem: Problem, shape: Shape) -> None:
        super().check_shape(problem, shape)
        if shape.level is not None and not self.low < shape.level < self.high:
            allowed = f"a number inside ({self.low:g}, {self.high:g}) for {self!r}"
            raise ArgumentError("level", shape.level, allowed)
        if shape.slack and not shape.slack < self.width:
            allowed = f"a number below {self.width:g} for {self!r}"
            raise ArgumentError("epsilon", problem.epsilon, allowed, "else every arm is right")

    def estimated(
        self, counts: np.ndarray, means: np.ndarray, moments: np.ndarray | None
    ) -> Betas:
        """Beta distributions with the means and variances of the rewards."""
        assert moments is not None
        m = np.clip((means - self.low) / self.width, 1e-6, 1 - 1e-6)
        first, second = (moments[:, power] / counts for power in (0, 1))
        variance = np.clip(second - first**2, 1e-9, 0.999 * m * (1 - m))
        total = m * (1 - m) / variance - 1
        table = np.clip(np.stack([m * total, (1 - m) * total], 1), *BETAS)
        return Betas(table, self.low, self.high)

    def nature(self, instance: "Instance") -> np.ndarray:
        """The probabilities of `low`: [I, K]."""
        means = instance.means.reshape(-1, instance.K)
        return 1 - (means - self.low) / self.width

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """`high` where the noise is at least the probability of `low`."""
        return jnp.where(noise >= lanes.take(nature, arm), self.high, self.low).astype(noise.dtype)

    def start(
        self, space: ArmContext, problem: Problem, tables: Any, rewards: Array
    ) -> BoundedStatistics:
        zero = jnp.zeros_like(rewards)
        empty = BoundedStatistics(
            t=jnp.full(rewards.shape[1:], rewards.shape[0], jnp.int32),
            counts=zero, means=zero, reward_sums=zero,
            powers=(zero,) * (2 * betting.POWERS),
        )  # fmt: skip
        return self._with(empty, rewards, jnp.ones_like(rewards, bool))

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> BoundedStatistics:
        stats = seen.stats
        assert isinstance(stats, BoundedStatistics)
        chosen = (index_like(stats.means) == arm) & go
        return dataclasses.replace(
            self._with(stats, reward, chosen), t=stats.t + go.astype(jnp.int32)
        )

    def with_pending(
        self, space: ArmContext, entered: Statistics, ahead: Statistics, pull: Any = None
    ) -> BoundedStatistics:
        """What bets win grows with the counts: the sums of powers are scaled as sums are."""
        now: Any = super().with_pending(space, entered, ahead, pull)
        more = now.counts / jnp.maximum(entered.counts, 1)
        return dataclasses.replace(now, powers=tuple(power * more for power in now.powers))

    def _with(self, stats: BoundedStatistics, reward: Array, chosen: Array) -> BoundedStatistics:
        """The statistics with one more reward of the arms that are chosen."""
        assert stats.reward_sums is not None
        counts = stats.counts + chosen.astype(stats.means.dtype)
        sums = stats.reward_sums + jnp.where(chosen, reward, 0)
        x, rest = (reward - self.low) / self.width, (self.high - reward) / self.width
        powers = tuple(
            before + jnp.where(chosen, term, 0)
            for before, term in zip(stats.powers, betting.terms(x, rest), strict=True)
        )
        means = jnp.where(chosen, sums / jnp.maximum(counts, 1), stats.means)
        return dataclasses.replace(
            stats, counts=counts, means=means, reward_sums=sums, powers=powers
        )

    def log_mixture(
        self, counts: Array, means: Array, moments: Array, at: Array, grid: Grid
    ) -> Array:
        """The logarithms of the stakes of all bets on both sides of the means `at`: [.., 2 J].

        Bets that have lost, as the estimate is on the other side, count as 0. So the mean of
        the others falls up to the estimate, and rises from there.

        `moments` [.., P] as of `BoundedStatistics`; the others [..].
        """
        powers = tuple(moments[..., i] for i in range(moments.shape[-1]))
        wins = Wins(counts, jnp.clip((means - self.low) / self.width, 0, 1), powers)
        u = (at - self.low) / self.width
        sides = [
            jnp.where(on, betting.stakes(wins, u, up), -jnp.inf)
            for on, up in ((at <= means, True), (at >= means, False))
        ]
        return jnp.moveaxis(jnp.concatenate(sides), 0, -1)

    def _wins(self, stats: Statistics) -> Wins:
        """What the rewards say, scaled to [0, 1]."""
        assert isinstance(stats, BoundedStatistics)
        means = jnp.clip((stats.means - self.low) / self.width, 0, 1)
        return Wins(stats.counts, means, stats.powers)

    def evidence(self, space: ArmContext, stats: Statistics, shape: Shape) -> Evidence:
        own = stats.means, stats.counts, self._wins(stats), self.low, self.width
        return evidence_about(shape, lambda plain: BettingEvidence(space, plain, *own))

    def log_e(self, space: ArmContext, stats: Statistics, shape: Shape, grid: Grid) -> Array:
        """What the mean of all bets has won; bets take the place of priors."""
        if grid != Grid():
            allowed = f"the default for {self!r}, whose mixture is one of bets"
            raise ArgumentError("strengths", grid.strengths, allowed)
        return self._log_e(space, stats, shape, betting.log_e_of_pairs)

    def log_e_above(self, space: ArmContext, stats: Statistics, shape: Shape, grid: Grid) -> Array:
        return self._log_e(space, stats, shape, betting.log_e_above)

    def _log_e(
        self, space: ArmContext, stats: Statistics, shape: Shape, of_pair: Callable
    ) -> Array:
        """`of_pair` of the two arms of each pair, one pair after the other; log e of levels."""
        wins = self._wins(stats)
        if isinstance(shape, Levels):
            level = jnp.full_like(wins.means, (shape.level - self.low) / self.width)
            sides = (betting.mixed(wins, level, up) for up in (True, False))
            return jnp.where(shape.exists, jnp.where(shape.above, *sides), -jnp.inf)
        rows = Rows.of(shape)
        leaves, tree = jax.tree.flatten(wins)
        sides = [both_sides(rows, space.lanes, leaf) for leaf in leaves]
        a, b = (tree.unflatten([side[end] for side in sides]) for end in (0, 1))
        none = jnp.asarray(-jnp.inf, stats.means.dtype)

        def value(piece: tuple[Array, Wins, Wins]) -> Array:
            exists, a, b = piece
            return jax.lax.cond(
                exists, lambda: of_pair(a, b, shape.slack / self.width), lambda: none
            )

        return jax.lax.map(value, (shape.exists, a, b))

    def interval(self, seen: View, means: Array, beta: Array) -> Interval:
        """The means against which no bet has won more than beta."""
        evidence = seen.evidence.of_arms
        assert isinstance(evidence, BettingEvidence)
        wins, ends = evidence.wins, []
        for up in (True, False):
            outer = jnp.zeros_like(wins.means) if up else jnp.ones_like(wins.means)

            def halved(_: int, ends: tuple[Array, Array], up: bool = up) -> tuple[Array, Array]:
                inner, outer = ends
                middle = (inner + outer) / 2
                inside = betting.best(wins, middle, up) <= beta
                return jnp.where(inside, middle, inner), jnp.where(inside, outer, middle)

            far = betting.best(wins, outer, up) <= beta
            _, bound = jax.lax.fori_loop(0, _BISECTIONS, halved, (wins.means, outer))
            ends.append(jnp.where(far, outer, bound) * self.width + self.low)
        return Interval(*ends)

    def share(self, seen: View, i: Array, k: Array) -> Array:
        """The share of arm i's bet in what both win; N_k/(N_i + N_k) where neither wins.

        It is that of the pair whose first arm has the larger mean.
        """
        evidence = seen.evidence.of_arms
        assert isinstance(evidence, BettingEvidence)
        take = seen.lanes.take
        swapped = take(evidence.means, i) < take(evidence.means, k)
        a, b = jnp.where(swapped, k, i), jnp.where(swapped, i, k)
        common = evidence.common(a, b)
        of_i = jnp.where(swapped, common.of_b, common.of_a)
        total = common.of_a + common.of_b
        n_i, n_k = take(seen.counts, i), take(seen.counts, k)
        return jnp.where(total > 0, of_i / jnp.where(total > 0, total, 1), n_k / (n_i + n_k))

    # The truth.

    def scales(self, means: Array, source: Source | None) -> Array:
        """Points and probabilities of every arm, scaled to [0, 1]: [K, 2 S]."""
        if source is not None:
            points, probabilities = source.points()
            return jnp.concatenate([(points - self.low) / self.width, probabilities], -1)
        share = (means - self.low) / self.width
        return jnp.stack([jnp.zeros_like(share), jnp.ones_like(share), 1 - share, share], -1)

    def truth(
        self, features: Array | None, theta: Array, scales: Array, directions: Array,
        offsets: Array, slack: bool,
    ) -> DiscreteEvidence:  # fmt: skip
        shape = Sides.of(directions, offsets, slack)
        return DiscreteEvidence.of(shape, theta, scales, self.low, self.width)
