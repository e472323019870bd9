"""Gaussian rewards whose means and variances are unknown."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts.proofs import UNKNOWN_VARIANCE
from jaxelim.contracts.views import Statistics
from jaxelim.evidence import student
from jaxelim.evidence.student import Spread
from jaxelim.families.arm import ArmModel, ArmStatistics
from jaxelim.families.sources import Normal
from jaxelim.lanes import LaneOps
from jaxelim.mixtures import student as mixture

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_DEGREES = ("free", "glr")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class StudentStatistics(ArmStatistics):
    """The statistics of Gaussian rewards of unknown variance: M2 too."""

    @property
    def variances(self) -> Array:
        """v = M2/N: [K]; 0 for one pull, or rewards that are all equal."""
        return self.rest[0] / self.counts


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class GaussianUnknownVariance(ArmModel):
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
    smooth: ClassVar[bool] = False
    slack: ClassVar[bool] = False
    kind: ClassVar[Callable[..., Any]] = Spread
    statistics: ClassVar[Callable[..., Any]] = StudentStatistics
    convex_in: ClassVar[str | None] = None

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
        variances = moments[:, 0] / counts
        spread = variances[variances > 0]
        other = spread.mean() if spread.size else (1e-3 * np.abs(means).max()) ** 2 or 1.0
        variances = np.where(variances > 0, variances, other)
        return Normal(tuple(np.sqrt(variances).tolist()))

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """mean + noise, with standard normal noise."""
        return lanes.take(nature, arm) + noise

    def first(self, x: Array) -> Spread:
        return Spread(jnp.ones_like(x), x, jnp.zeros_like(x))

    def more(self, stat: Spread, x: Array) -> Spread:
        return student.more(stat, x)

    def loss(self, stat: Spread, by: Array) -> Array:
        return student.loss(stat, by)

    def weight(self, stat: Spread) -> Array:
        """Degrees of freedom."""
        return stat.n - 1 if self.degrees == "free" else stat.n

    def meet(self, w_a: Array, a: Spread, w_b: Array, b: Spread, off: Array) -> Array:
        return student.meet(w_a, a, w_b, b, off)

    def reach(self, stat: Spread, radius: Array, up: Array | bool) -> Array:
        return student.reach(stat, radius)

    def degenerate(self, stats: Statistics) -> Array:
        """1 + the first arm with three or more rewards that are all equal, else 0."""
        equal = (self.stat(stats).squares == 0) & (stats.counts >= 3)
        return jnp.where(jnp.any(equal, 0), 1 + jnp.argmax(equal, 0), 0).astype(jnp.int32)

    def log_mixture(self, stat: Spread, at: Array, c: Array) -> Array:
        """As of `mixture.log_mixture`; 0 where v = 0 or N < 2."""
        return mixture.log_mixture(stat, at, c)

    def together(self, a: Array, b: Array) -> Array:
        return mixture.together(a, b)
