"""Gaussian rewards whose means and variances are unknown."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.proofs import UNKNOWN_VARIANCE
from jaxelim.contracts.shapes import Levels, Rows, Shape, SymmetricInterval
from jaxelim.contracts.views import ArmContext, Evidence, Snapshot, Statistics, View
from jaxelim.evidence.student import StudentEvidence, pair
from jaxelim.families.mean_mixtures import both_sides
from jaxelim.families.sources import Normal
from jaxelim.lanes import ArmBlock, LaneOps, index_like
from jaxelim.mixtures import student
from jaxelim.mixtures.grid import Grid

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_DEGREES = ("free", "glr")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class StudentStatistics(Statistics):
    """The statistics of Gaussian rewards of unknown variance."""

    squares: Array  # [K] M2 = sum of (x - m)^2 over an arm's rewards, by Welford's recurrence

    @property
    def variances(self) -> Array:
        """v = M2/N: [K]; 0 for one pull, or rewards that are all equal."""
        return self.squares / self.counts

    @property
    def moments(self) -> Array:
        return self.variances


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class GaussianUnknownVariance(Family):
    """Gaussian rewards whose means and variances are both unknown; each arm has its own.

    With N_k pulls, mean m_k, v_k = sum (x - m_k)^2/N_k and f_k degrees of freedom:
    a level costs f_k log(1 + (m_k - level)^2/v_k)/2, and a pair {mu_a <= mu_b} the least
    sum of two such numbers at a common mean u in [m_b, m_a]. An arm with one pull, or
    with equal rewards (v_k = 0), is never told apart. So every arm has at least two
    initial pulls.

    f_k = N_k - 1 keeps P(L > x) <= exp(-x) for one arm at every N_k >= 2, as a known
    variance does. f_k = N_k is the likelihood ratio itself. With few pulls it exceeds
    such a threshold too often.

    Without a source rewards have the standard deviation 1. No rule and no test reads it.

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
    low: ClassVar[float] = -np.inf  # the range of means
    high: ClassVar[float] = np.inf

    def __post_init__(self) -> None:
        checks.choice("degrees", self.degrees, _DEGREES)

    def check(self, instance: "Instance") -> None:
        if instance.source is None:
            Normal().check(instance)

    def law(self) -> str:
        return UNKNOWN_VARIANCE

    def estimated(
        self, counts: np.ndarray, means: np.ndarray, moments: np.ndarray | None
    ) -> Normal:
        """The arms' estimated variances; where an arm's rewards are equal, that of the others.

        Where all are equal the standard deviation is a thousandth of the largest mean, or 1.
        """
        assert moments is not None
        spread = moments[moments > 0]
        other = spread.mean() if spread.size else (1e-3 * np.abs(means).max()) ** 2 or 1.0
        variances = np.where(moments > 0, moments, other)
        return Normal(tuple(np.sqrt(variances).tolist()))

    def nature(self, instance: "Instance") -> np.ndarray:
        """The means: [I, K]."""
        return instance.means.reshape(-1, instance.K)

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """mean + noise, with standard normal noise."""
        return lanes.take(nature, arm) + noise

    def start(
        self, space: ArmContext, problem: Problem, tables: tuple, rewards: Array
    ) -> StudentStatistics:
        return StudentStatistics(
            t=jnp.full(rewards.shape[1:], rewards.shape[0], jnp.int32),
            counts=jnp.ones_like(rewards),
            means=rewards,
            reward_sums=rewards,
            squares=jnp.zeros_like(rewards),
        )

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> StudentStatistics:
        """Welford's recurrence: M2 never falls, and stays 0 while rewards are equal."""
        stats: StudentStatistics = seen.stats  # type: ignore[assignment]
        assert stats.reward_sums is not None
        chosen = (index_like(stats.means) == arm) & go
        counts = stats.counts + chosen.astype(stats.means.dtype)
        off = reward - stats.means
        means = stats.means + off / counts
        return StudentStatistics(
            t=stats.t + go.astype(jnp.int32),
            counts=counts,
            means=jnp.where(chosen, means, stats.means),
            reward_sums=jnp.where(chosen, means * counts, stats.reward_sums),
            squares=stats.squares + jnp.where(chosen, off * (reward - means), 0),
        )

    def pooled(
        self, space: ArmContext, stats: Statistics, pulls: Array, means: Array, squares: Array
    ) -> StudentStatistics:
        """M2 of both, and what their means are apart."""
        assert isinstance(stats, StudentStatistics)
        counts, off = stats.counts + pulls, means - stats.means
        now, between = stats.means + off * (pulls / counts), stats.counts * (pulls / counts)
        return dataclasses.replace(
            stats, counts=counts, means=now, reward_sums=now * counts,
            squares=stats.squares + squares + off**2 * between,
        )  # fmt: skip

    def with_pending(
        self, space: ArmContext, entered: Statistics, ahead: Statistics, pull: Any = None
    ) -> StudentStatistics:
        """Variances are those of the rewards that have entered."""
        now: Any = super().with_pending(space, entered, ahead, pull)
        more = now.counts / jnp.maximum(entered.counts, 1)
        return dataclasses.replace(now, squares=now.squares * more)

    def degenerate(self, stats: Statistics) -> Array:
        """1 + the first arm with three or more rewards that are all equal, else 0."""
        assert isinstance(stats, StudentStatistics)
        equal = (stats.squares == 0) & (stats.counts >= 3)
        return jnp.where(jnp.any(equal, 0), 1 + jnp.argmax(equal, 0), 0).astype(jnp.int32)

    def freedom(self, counts: Array) -> Array:
        """Degrees of freedom f at counts [K]: [K]."""
        return counts - 1 if self.degrees == "free" else counts

    def evidence(self, space: ArmContext, stats: Statistics, shape: Shape) -> Evidence:
        assert isinstance(stats, StudentStatistics)
        numbers = stats.means, stats.variances, self.freedom(stats.counts)
        return StudentEvidence.of(space, shape, *numbers)

    def log_mixture(
        self, counts: Array, means: Array, variances: Array, at: Array, grid: Grid
    ) -> Array:
        """log M_j at the means `at`: [.., J]; 0 where v = 0 or N < 2. Arguments [..]."""
        known = (variances > 0) & (counts >= 2)
        ratio = jnp.abs(means - at) * jnp.sqrt(1 / jnp.where(known, variances, 1))
        components = student.components(counts, jnp.where(known, ratio, 0), grid)
        return jnp.where(known[..., None], components, 0)

    def log_e(self, space: ArmContext, stats: Statistics, shape: Shape, grid: Grid) -> Array:
        """Levels: of the arm's mixture. Pairs: y - log(1 + y), y of `student.pair`."""
        return self._of_pieces(space, stats, shape, grid, student.pair)

    def log_e_above(self, space: ArmContext, stats: Statistics, shape: Shape, grid: Grid) -> Array:
        """The same at common means that share the distance by variance over count, for pairs."""
        return self._of_pieces(space, stats, shape, grid, student.pair_above)

    def _of_pieces(
        self, space: ArmContext, stats: Statistics, shape: Shape, grid: Grid, pair: Callable
    ) -> Array:
        assert isinstance(stats, StudentStatistics)
        n, m, v = stats.counts, stats.means, stats.variances
        if isinstance(shape, Levels):
            known = (v > 0) & (n >= 2) & shape.exists
            far = jnp.where(shape.above, m - shape.level, shape.level - m)
            known = known & (far > 0)
            ratio = jnp.where(known, far, 0) * jnp.sqrt(1 / jnp.where(known, v, 1))
            return jnp.where(known, student.log_arm(n, ratio, grid), -jnp.inf)
        rows = Rows.of(shape)
        n, m, v = (jnp.stack(both_sides(rows, space.lanes, x)) for x in (n, m, v))
        known = jnp.all((v > 0) & (n >= 2), 0) & (m[0] > m[1]) & shape.exists
        gap, v = jnp.where(known, m[0] - m[1], 1), jnp.where(known[None], v, 1)
        y = pair(grid, n, gap[None] * jnp.sqrt(1 / v))
        return jnp.where(known, student.converted(y), -jnp.inf)

    def refuted_pairs(
        self, seen: Snapshot, arms: ArmBlock, beta: Array
    ) -> list[tuple[Array, Array]]:
        evidence: StudentEvidence = seen.evidence.of_arms  # type: ignore[assignment]
        lanes, out = seen.lanes, []
        numbers = evidence.freedom, evidence.means, evidence.variances
        for r in range(arms.m):
            i = arms.first + r
            own = [lanes.take(x, i) for x in numbers]
            out.append((i, pair(*own, *numbers) > beta))  # type: ignore[call-arg]
        return out

    def interval(self, seen: View | Snapshot, means: Array, beta: Array) -> SymmetricInterval:
        """means -+ sqrt(v (exp(2 beta/f) - 1)); infinite where f = 0 or v = 0."""
        evidence: StudentEvidence = seen.evidence.of_arms  # type: ignore[assignment]
        freedom, variances = evidence.freedom, evidence.variances
        known = (freedom > 0) & (variances > 0)
        wide = jnp.expm1(2 * beta / jnp.where(known, freedom, 1))
        radius = jnp.where(known, jnp.sqrt(variances * wide), jnp.inf)
        return SymmetricInterval.of(means, radius)
