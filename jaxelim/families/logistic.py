"""Rewards that are 0 or 1, with features: a logistic regression of each arm's mean."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.pieces import HalfSpaces, Pieces
from jaxelim.contracts.views import Snapshot, Statistics
from jaxelim.errors import ArgumentError
from jaxelim.evidence.designs import LinearContext
from jaxelim.evidence.logistic import LogisticEvidence, fitted, sides
from jaxelim.families.one_parameter import Bernoulli
from jaxelim.lanes import LaneOps, index_like

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_LARGEST_SCORE = 30.0  # |phi . theta|, beyond which hardly any reward differs from the others


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Logistic(Family):
    r"""Rewards that are 1 with probability 1/(1 + exp(-phi_k . theta)), else 0.

    The estimate maximises the penalised log-likelihood

    $$
    \ell(\theta) = \sum_k S_k s_k - N_k \log(1 + \exp(s_k)) - \mathrm{ridge}\, \frac{\lVert \theta
      \rVert^2}{2}
    $$

    s_k = phi_k . theta, S_k the number of ones among N_k rewards. The LLR of a piece is the
    maximum of ell less its maximum over the piece. A level beta tests what a level
    beta - ridge ||theta||^2/2 tests without a ridge. No threshold is proven for these LLRs.

    An arm's estimated mean is 1/(1 + exp(-phi_k . theta_hat)), not the average of its
    rewards. Means and levels are those of rewards, from 0 to 1. Directions of `HalfSpaces`
    and items are compared by y . theta.

    Args:
        ridge: of the penalty, above 0.

    Raises:
        ArgumentError: ridge is no such number.
    """

    ridge: float = 1e-3
    name: ClassVar[str] = "logistic"
    structures: ClassVar[tuple[str, ...]] = ("linear", "unstructured")
    slack: ClassVar[bool] = False
    low: ClassVar[float] = 0.0  # the range of means
    high: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        ridge = checks.real("ridge", self.ridge, low=0, open=True)
        object.__setattr__(self, "ridge", ridge)

    def law(self) -> str:
        return "no threshold is proven for the likelihood ratios of logistic rewards"

    def mean(self, scores: np.ndarray) -> np.ndarray:
        """1/(1 + exp(-scores))."""
        numbers: Any = jnp if isinstance(scores, Array) else np
        small = numbers.exp(-numbers.abs(scores))
        return numbers.where(scores >= 0, 1, small) / (1 + small)

    def link(self, means: np.ndarray) -> np.ndarray:
        """log(means/(1 - means))."""
        if np.any((means <= 0) | (means >= 1)):
            raise ArgumentError("theta", means, "means above 0 and below 1")
        return np.log(means) - np.log1p(-means)

    def check(self, instance: "Instance") -> None:
        scores = np.sum(instance.arms * instance.theta[..., None, :], -1)
        if np.any(np.abs(scores) > _LARGEST_SCORE):
            allowed = f"a theta with phi_k . theta from -{_LARGEST_SCORE:g} to {_LARGEST_SCORE:g}"
            raise ArgumentError("theta", instance.theta, allowed)

    def check_shape(self, problem: Problem, shape: Pieces) -> None:
        super().check_shape(problem, shape)
        if shape.level is not None and not 0 < shape.level < 1:
            raise ArgumentError("level", shape.level, f"a mean above 0 and below 1 for {self!r}")

    check_rewards = Bernoulli.check_rewards  # type: ignore[assignment]
    draw = Bernoulli.draw  # type: ignore[assignment]

    def nature(self, instance: "Instance") -> np.ndarray:
        """The means, [I, K]."""
        return np.atleast_2d(instance.means)

    def space(self, lanes: LaneOps, features: Array, constants: Any) -> LinearContext:
        return LinearContext(lanes, features, constants)

    def start(
        self, space: LinearContext, problem: Problem, tables: tuple, rewards: Array
    ) -> Statistics:
        b = rewards.shape[1:]
        t = jnp.full(b, rewards.shape[0], jnp.int32)
        theta = jnp.zeros((space.features.shape[1], *b), rewards.dtype)
        counts, go = jnp.ones_like(rewards), jnp.ones(b, bool)
        return self._fitted(space, t, counts, rewards, theta, go)

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> Statistics:
        """Newton steps go on from the last estimate."""
        stats, space = seen.stats, seen.space
        assert stats.reward_sums is not None and stats.theta_hat is not None
        chosen = (index_like(stats.means) == arm) & go
        t, counts = stats.t + go.astype(jnp.int32), stats.counts + chosen.astype(stats.means.dtype)
        ones = stats.reward_sums + jnp.where(chosen, reward, 0)
        return self._fitted(space, t, counts, ones, stats.theta_hat, go)

    def _fitted(
        self, space: Any, t: Array, counts: Array, ones: Array, theta: Array, go: Array
    ) -> Statistics:
        """The statistics of these counts and sums, fitted from theta [d] on where `go` holds."""
        theta = fitted(space, ones, counts - ones, self.ridge, theta, go)
        means = sides(space.over_arms(theta))[0]
        return Statistics(t=t, counts=counts, means=means, reward_sums=ones, theta_hat=theta)

    def with_pending(
        self, space: LinearContext, entered: Statistics, ahead: Statistics, pull: Any = None
    ) -> Statistics:
        """theta_hat stays; of pending rewards the fit's own means are counted."""
        now: Any = super().with_pending(space, entered, ahead, pull)
        assert entered.reward_sums is not None
        waits = jnp.any(now.counts != entered.counts, 0)
        sums = jnp.where(waits, now.counts * now.means, entered.reward_sums)
        return dataclasses.replace(now, reward_sums=sums)

    def evidence(self, space: LinearContext, stats: Statistics, shape: Pieces) -> LogisticEvidence:
        assert stats.theta_hat is not None and stats.reward_sums is not None
        theta, ones = stats.theta_hat, stats.reward_sums
        p, q = sides(space.over_arms(theta))
        slopes = ones * q - (stats.counts - ones) * p
        transposed = jnp.swapaxes(space.features, 0, 1)
        slope = space.lanes.dot(transposed, slopes, space.features) - self.ridge * theta
        return LogisticEvidence(space, shape, theta, stats.counts, slope, self.ridge)

    def truth(
        self, features: Array | None, theta: Array, scales: Array, pieces: Pieces
    ) -> LogisticEvidence:
        assert features is not None and isinstance(pieces, HalfSpaces)
        return LogisticEvidence.at_truth(features, theta, pieces)
