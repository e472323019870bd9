"""Gaussian rewards whose means and variances are unknown."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.proofs import UNKNOWN_VARIANCE
from jaxelim.contracts.shapes import Shape, SymmetricInterval
from jaxelim.contracts.views import ArmContext, Evidence, Snapshot, Statistics, View
from jaxelim.errors import ArgumentError
from jaxelim.evidence.student import StudentEvidence, pair
from jaxelim.families.noise import refuse_large
from jaxelim.lanes import ArmBlock, LaneOps, index_like
from jaxelim.mixtures import student

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms
    from jaxelim.instances.instance import Instance

_DEGREES = ("free", "glr")
_LEAST_STD, _LARGEST_STD = 1e-100, 1e100  # squares of rewards are finite and positive
_LARGEST_RATIO = 1e12
"""Largest |mean|/std. Beyond it rewards round to few distinct numbers."""


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

    Source: Jourdan, Degenne & Kaufmann 2023.

    Args:
        std: the standard deviation of the noise, > 0, in the units of the rewards: a
            number, or [K] numbers. No rule and no test reads it.
        degrees: "free" for f = N - 1, or "glr" for f = N.

    Raises:
        ArgumentError: std is neither, or degrees is another word.
    """

    std: float | tuple[float, ...] = 1.0
    degrees: str = "free"
    name: ClassVar[str] = "gaussian-unknown-variance"
    noise: ClassVar[str] = "normal"
    initial_pulls: ClassVar[int] = 2
    sufficient: ClassVar[int] = 2
    low: ClassVar[float] = -np.inf  # the range of means
    high: ClassVar[float] = np.inf
    convex_in: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", _standard_deviations(self.std))
        checks.choice("degrees", self.degrees, _DEGREES)

    def check_arms(self, arms: "Arms") -> None:
        """Refuse a std of another length than K."""
        std = np.asarray(self.std)
        if std.ndim and std.size != arms.K:
            allowed = f"a number, or K = {arms.K} numbers"
            raise ArgumentError("std", self.std, allowed, f"it has {std.size}")

    def check(self, instance: "Instance") -> None:
        """Refuse means whose rewards would all be equal."""
        bad = np.abs(instance.means) > _LARGEST_RATIO * np.asarray(self.std)
        if bad.any():
            allowed = f"means of at most {_LARGEST_RATIO:g} std, as rewards are rounded"
            raise ArgumentError("theta", instance.means, allowed)

    def check_noise(self, noise: np.ndarray) -> None:
        refuse_large(noise)

    def law(self) -> str:
        return UNKNOWN_VARIANCE

    def estimated(
        self, counts: np.ndarray, means: np.ndarray, moments: np.ndarray | None
    ) -> "GaussianUnknownVariance":
        """With the arms' estimated variances; where an arm's rewards are equal, that of the others.

        Where all are equal the standard deviation is a thousandth of the largest mean, or 1.
        """
        assert moments is not None
        spread = moments[moments > 0]
        other = spread.mean() if spread.size else (1e-3 * np.abs(means).max()) ** 2 or 1.0
        variances = np.where(moments > 0, moments, other)
        return dataclasses.replace(self, std=tuple(np.sqrt(variances).tolist()))

    def settled(self, **job: Any) -> "GaussianUnknownVariance":
        """The family without its std, which is nature's: programs do not depend on it."""
        return dataclasses.replace(self, std=1.0)

    def nature(self, instance: "Instance") -> dict[str, np.ndarray]:
        """Means and standard deviations: [I, K] each."""
        means = instance.means.reshape(-1, instance.K)
        own = instance.family
        std = np.asarray(own.std if isinstance(own, GaussianUnknownVariance) else self.std)
        return {"mean": means, "std": np.broadcast_to(std, means.shape)}

    def draw(self, lanes: LaneOps, nature: dict, arm: Array, pull: Array, noise: Array) -> Array:
        """mean + std noise, with standard normal noise."""
        return lanes.take(nature["mean"], arm) + lanes.take(nature["std"], arm) * noise

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

    def stat(self, counts: Array, means: Array, moments: Array | None) -> student.Stat:
        assert moments is not None
        return student.Stat(counts, means, moments)

    def log_mixture(self, stat: student.Stat, at: Array, c: Array) -> Array:
        """As of `student.log_mixture`; 0 where v = 0 or N < 2."""
        return student.log_mixture(stat, at, c)

    def together(self, a: Array, b: Array) -> Array:
        return student.together(a, b)

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


def _standard_deviations(std: Any) -> float | tuple[float, ...]:
    """std as a number, or as a tuple of K numbers."""
    low, high = _LEAST_STD, _LARGEST_STD
    allowed = f"a number, or K numbers, from {low:g} to {high:g}"
    stds = checks.real_array("std", std, ndim=(0, 1))
    bad = stds[(stds < low) | (stds > high)]
    if bad.size:
        raise ArgumentError("std", std, allowed, f"{bad.flat[0]:g} is not")
    if stds.ndim == 0:
        return float(stds)
    return tuple(stds.tolist())
