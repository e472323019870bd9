"""Rewards in an interval, of any distribution."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.proofs import BOUNDED
from jaxelim.contracts.shapes import Interval, Levels, Rows, Shape
from jaxelim.contracts.sides import Sides
from jaxelim.contracts.slack import SlackRows
from jaxelim.contracts.views import ArmContext, Evidence, Snapshot, Statistics, View
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.evidence import betting
from jaxelim.evidence.betting import BettingEvidence, Wins
from jaxelim.evidence.discrete import DiscreteEvidence
from jaxelim.evidence.references import evidence_about
from jaxelim.families import distributions
from jaxelim.lanes import LaneOps, index_like
from jaxelim.mixtures.grid import Grid

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms
    from jaxelim.instances.instance import Instance

LARGEST_STEP = 4.0
"""The largest q = n/(n - N) at which rewards without replacement still enter the bets."""
_BISECTIONS = 50


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundedStatistics(Statistics):
    """The statistics of bounded rewards: 88 bytes an arm, 264 without replacement."""

    powers: tuple[Array, ...]  # [K] each, as of `Wins`
    most: Array | None = None  # [K], as of `Wins`
    sizes: Array | None = None  # [K] the numbers n of rewards that are drawn from

    @property
    def moments(self) -> Array:
        """The powers, and the largest q where there is one: [K, P]."""
        return jnp.stack([*self.powers, *([] if self.most is None else [self.most])], -1)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Bounded(Family):
    """Rewards from `low` to `high` of any distribution; each arm has its own mean.

    Nothing but the interval is assumed. The evidence is what the best bets against a mean
    have won, N KL_inf in the limit; `Mixture` tests what the mean of all bets has won. See
    `jaxelim.evidence.betting`. A live run needs no more than the interval. A simulation
    draws from a distribution: given points, a Beta, `Recorded` rewards; without any of
    these from the two ends, the widest distribution of its mean.

    (Honda & Takemura 2010; Waudby-Smith & Ramdas 2024.)

    Args:
        low: the lower end of the interval, in the units of the rewards.
        high: the upper end.
        support: the points that rewards may be: [S] for all arms, or [K, S].
        probabilities: [K, S], of each arm's points; with `support` alone.
        beta: [K, 2] the numbers (a, b) of each arm's Beta distribution on [low, high],
            each above 0. Rewards are drawn uniformly from cells between 4096 quantiles.

    Raises:
        ArgumentError: an argument is out of range, or probabilities do not sum to 1.

    Example:
        >>> stars = Bounded(1, 5, support=[1, 3, 5], probabilities=[[0, .5, .5], [.5, .5, 0]])
        >>> stars.means.tolist()
        [4.0, 2.0]
    """

    low: float = 0.0
    high: float = 1.0
    support: Any = None
    probabilities: Any = None
    beta: Any = None
    name: ClassVar[str] = "bounded"
    shapes: ClassVar[tuple[type[Shape], ...]] = (Rows, Levels, SlackRows)
    convex_in: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        low, high = (checks.real(name, getattr(self, name)) for name in ("low", "high"))
        if not low < high or not np.isfinite(high - low):
            raise ArgumentError("high", self.high, f"a finite number above low = {low:g}")
        own: dict[str, Any] = {"low": low, "high": high}
        if (self.support is None) != (self.probabilities is None):
            name = "probabilities" if self.support is None else "support"
            raise ArgumentError(name, getattr(self, name), "support and probabilities together")
        if self.support is not None and self.beta is not None:
            raise ArgumentError("beta", self.beta, "None where support is given")
        if self.support is not None:
            own["support"], own["probabilities"] = distributions.points(self, low, high)
        if self.beta is not None:
            own["beta"] = distributions.betas(self.beta)
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    @property
    def means(self) -> np.ndarray:
        """The means of the given distributions: [K].

        Raises:
            ArgumentError: none were given.
        """
        if self.support is not None:
            return np.sum(np.asarray(self.support) * np.asarray(self.probabilities), 1)
        if self.beta is None:
            raise ArgumentError("support", None, "points, or beta: else an instance has the means")
        edges = distributions.quantiles(np.asarray(self.beta))
        return self.low + self.width * ((edges[:, 1:] + edges[:, :-1]) / 2).mean(1)

    def for_arms(self, arms: int) -> "Bounded":
        own = {
            name: tuple(getattr(self, name)[i % len(getattr(self, name))] for i in range(arms))
            for name in ("support", "probabilities", "beta")
            if getattr(self, name) is not None
        }
        return dataclasses.replace(self, **own)

    def law(self) -> str:
        return BOUNDED

    def recorded_law(self, order: str) -> str:
        """Draws from stacks are bounded; without replacement bets are against what is left."""
        return BOUNDED if order != "given" else super().recorded_law(order)

    # Checks.

    def check_arms(self, arms: "Arms") -> None:
        for name in ("probabilities", "beta"):
            own = getattr(self, name)
            if own is not None and len(own) != arms.K:
                allowed = f"one row for each of the {arms.K} arms"
                raise ArgumentError(name, own, allowed, f"it has {len(own)}")

    def check(self, instance: "Instance") -> None:
        means = instance.means
        bad = means[(means < self.low) | (means > self.high)]
        if bad.size:
            allowed = f"means from {self.low:g} to {self.high:g} for {self!r}"
            raise ArgumentError("theta", means, allowed, f"{bad[0]:g} is not")
        if self.support is None and self.beta is None:
            return
        if not np.allclose(means, self.means, rtol=0, atol=distributions.SUM * self.width):
            allowed = f"the means of the distributions, {self.means.tolist()}: `family.means`"
            raise ArgumentError("theta", means, allowed)
        if self.beta is not None and instance.batched:
            raise ArgumentError("beta", self.beta, "None for a batch: one instance has these means")

    def check_shape(self, problem: Problem, shape: Shape) -> None:
        super().check_shape(problem, shape)
        if shape.level is not None and not self.low < shape.level < self.high:
            allowed = f"a number inside ({self.low:g}, {self.high:g}) for {self!r}"
            raise ArgumentError("level", shape.level, allowed)
        if shape.slack and not shape.slack < self.width:
            allowed = f"a number below {self.width:g} for {self!r}"
            raise ArgumentError("epsilon", problem.epsilon, allowed, "else every arm is right")

    def check_noise(self, noise: np.ndarray) -> None:
        bad = noise[(noise < 0) | (noise >= 1)]
        if bad.size:
            allowed = f"uniforms, at least 0 and below 1, for {self!r}"
            raise ArgumentError("noise", noise, allowed, f"{bad[0]:g} is not")

    def estimated(
        self, counts: np.ndarray, means: np.ndarray, moments: np.ndarray | None
    ) -> "Bounded":
        """Beta distributions with the means and variances of the rewards."""
        assert moments is not None
        m = np.clip((means - self.low) / self.width, 1e-6, 1 - 1e-6)
        first, second = (moments[:, power] / counts for power in (0, 1))
        variance = np.clip(second - first**2, 1e-9, 0.999 * m * (1 - m))
        total = m * (1 - m) / variance - 1
        table = np.clip(np.stack([m * total, (1 - m) * total], 1), *distributions.BETAS)
        return Bounded(self.low, self.high, beta=table.tolist())

    def own_means(self, means: np.ndarray) -> np.ndarray:
        return means if self.support is None and self.beta is None else self.means

    def settled(self, **job: Any) -> "Bounded":
        """The family without its distributions, which are nature's."""
        return Bounded(self.low, self.high)

    def nature(self, instance: "Instance") -> dict[str, np.ndarray]:
        """Points and distribution functions [I, K, S], or quantiles [1, K, 4097]."""
        own, means = instance.family, instance.means.reshape(-1, instance.K)
        assert isinstance(own, Bounded)
        if own.beta is not None:
            quantiles = distributions.quantiles(np.asarray(own.beta))[None]
            return {"quantiles": self.low + self.width * quantiles}
        support, probabilities = own._distribution(means)
        below = np.minimum(np.cumsum(probabilities, -1), 1.0)
        below[..., -1] = 1.0
        return {"support": support, "below": below}

    def _distribution(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points and probabilities of arms with these means [..]: [.., S] each."""
        if self.support is not None:
            shape = (*means.shape, len(self.support[0]))
            return tuple(  # type: ignore[return-value]
                np.broadcast_to(np.asarray(x), shape).copy()
                for x in (self.support, self.probabilities)
            )
        share = (means - self.low) / self.width
        ends = np.broadcast_to([self.low, self.high], (*means.shape, 2)).copy()
        return ends, np.stack([1 - share, share], -1)

    def draw(self, lanes: LaneOps, nature: dict, arm: Array, pull: Array, noise: Array) -> Array:
        """The inverse of the distribution function at the noise, uniform on [0, 1)."""
        if "quantiles" in nature:
            along = noise * distributions.CELLS
            place = jnp.minimum(jnp.floor(along), distributions.CELLS - 1)
            edges, cell = nature["quantiles"], place.astype(jnp.int32)
            lower, upper = edges[arm, cell], edges[arm, cell + 1]
            return lower + (upper - lower) * (along - place)
        support, below = (lanes.row(nature[name], arm) for name in ("support", "below"))
        reached = jnp.concatenate([jnp.ones_like(below[:1], bool), noise >= below[:-1]])
        place = jnp.sum(reached, 0, dtype=jnp.int32) - 1
        return jnp.sum(jnp.where(index_like(support) == place, support, 0), 0)

    def tables(self, instance: "Arms") -> Any:
        """The sizes of stacks that are drawn from without replacement: [1, K]; else nothing."""
        sizes = getattr(instance.family, "sizes", None)
        return () if sizes is None else np.asarray(sizes, float)[None]

    def start(
        self, space: ArmContext, problem: Problem, tables: Any, rewards: Array
    ) -> BoundedStatistics:
        zero = jnp.zeros_like(rewards)
        sizes = None
        if not isinstance(tables, tuple):
            sizes = jnp.broadcast_to(
                tables.reshape((-1,) + (1,) * (rewards.ndim - 1)), rewards.shape
            )
        empty = BoundedStatistics(
            t=jnp.full(rewards.shape[1:], rewards.shape[0], jnp.int32),
            counts=zero, means=zero, reward_sums=zero,
            powers=tuple(zero for _ in betting.terms(zero, zero, sizes)),
            most=None if sizes is None else zero,
            sizes=sizes,
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
        most, takes, q = stats.most, chosen, None
        if stats.sizes is not None:
            q = stats.sizes / jnp.maximum(stats.sizes - stats.counts, 1)
            drawn = (stats.reward_sums - self.low * stats.counts) / self.width
            x = x / q + drawn / stats.sizes
            rest = rest / q + (stats.counts - drawn) / stats.sizes
            takes = chosen & (q <= LARGEST_STEP)
            assert most is not None
            most = jnp.where(takes, jnp.maximum(most, q), most)
        powers = tuple(
            before + jnp.where(takes, term, 0)
            for before, term in zip(stats.powers, betting.terms(x, rest, q), strict=True)
        )
        means = jnp.where(chosen, sums / jnp.maximum(counts, 1), stats.means)
        return dataclasses.replace(
            stats, counts=counts, means=means, reward_sums=sums, powers=powers, most=most
        )

    def stat(self, counts: Array, means: Array, moments: Array | None) -> betting.Stat:
        assert moments is not None
        powers = tuple(moments[..., i] for i in range(moments.shape[-1]))
        if len(powers) > 2 * betting.POWERS:
            return betting.Stat(counts, means, powers[:-1], powers[-1])
        return betting.Stat(counts, means, powers, None)

    def log_mixture(self, stat: betting.Stat, at: Array, c: Array) -> Array:
        """The logarithm of the stake of the bet |c|: that the mean is above `at`, where c > 0.

        It is -inf where the bet has lost, as the estimate is on the other side, and where it
        is not made. So the stakes fall up to the estimate, and rise from there.
        """
        wins = Wins(stat.n, stat.mean, stat.powers, stat.most)
        value = betting.stake(wins, (at - self.low) / self.width, jnp.abs(c), c > 0)
        return jnp.where((stat.mean - at) * c >= 0, value, -jnp.inf)

    def priors(self, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
        """Bets take the place of strengths."""
        if grid != Grid():
            allowed = f"the default for {self!r}, whose mixture is one of bets"
            raise ArgumentError("strengths", grid.strengths, allowed)
        return betting.BETS, -betting.BETS

    def together(self, a: Array, b: Array) -> Array:
        return betting.together(a, b)

    def _wins(self, stats: Statistics) -> Wins:
        """What the rewards say, scaled to [0, 1]."""
        assert isinstance(stats, BoundedStatistics)
        means = jnp.clip((stats.means - self.low) / self.width, 0, 1)
        return Wins(stats.counts, means, stats.powers, stats.most)

    def evidence(self, space: ArmContext, stats: Statistics, shape: Shape) -> Evidence:
        own = stats.means, stats.counts, self._wins(stats), self.low, self.width
        return evidence_about(shape, lambda plain: BettingEvidence(space, plain, *own))

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

    def scales(self, means: Array) -> Array:
        """Points and probabilities of every arm, scaled to [0, 1]: [K, 2 S]."""
        if self.beta is not None:
            allowed = "support and probabilities: H* is that of distributions of given points"
            raise UnsupportedError("instance", self, allowed)
        support, probabilities = self._distribution(np.asarray(means))
        return jnp.concatenate([(support - self.low) / self.width, probabilities], -1)

    def recorded_scales(self, stacks: tuple[np.ndarray, ...], means: Array) -> Array:
        """Those of the rewards in the stacks, each as often as it is there: [K, 2 S]."""
        points, probabilities = distributions.of_stacks(self, stacks)
        return jnp.concatenate([(points - self.low) / self.width, probabilities], -1)

    def plain(self) -> "Bounded":
        return Bounded(self.low, self.high)

    def truth(
        self, features: Array | None, theta: Array, scales: Array, directions: Array,
        offsets: Array, slack: bool,
    ) -> DiscreteEvidence:  # fmt: skip
        shape = Sides.of(directions, offsets, slack)
        return DiscreteEvidence.of(shape, theta, scales, self.low, self.width)
