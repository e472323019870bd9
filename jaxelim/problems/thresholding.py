"""Thresholding bandits, also called online sign identification."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.checks import real
from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.sets import SignSet
from jaxelim.errors import ArgumentError
from jaxelim.problems.best_arm import LARGEST, refuse_slack_of_features, rounded_up, scaled_slack


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Thresholding(Problem):
    """Identify the arms with a mean at or above the level.

    Piece k: y = s_k phi_k, c = s_k level, with s_k = 1 for empirical means at or above
    the level, else -1; K of them. The ridge is not recentred on the level. (Paper,
    section 2 and appendix "Identification Problems", where the level is 0.)

    With epsilon above 0 an arm within epsilon of the level is right on either side, up to
    rounding. Pieces: {mu_k <= level - epsilon} of an arm k said to be above, else
    {mu_k >= level + epsilon}. Unstructured arms only.

    Args:
        level: the threshold on the means, in the units of the rewards.
        epsilon: the slack, from 0 to 1e15, in the units of the rewards.

    Raises:
        ArgumentError: level or epsilon is no such number.
    """

    level: float = 0.0
    epsilon: float = dataclasses.field(default=0.0, kw_only=True)
    name: ClassVar[str] = "thresholding"
    lanes_last: ClassVar[bool] = True

    def __post_init__(self):
        level, most = real("level", self.level), LARGEST
        vars(self).update(level=level, epsilon=real("epsilon", self.epsilon, low=0, high=most))

    def __repr__(self):
        slack = f", epsilon={self.epsilon}" if self.epsilon else ""
        return f"Thresholding(level={self.level}{slack})"

    def scaled(self, scale):
        return Thresholding(self.level / scale, epsilon=scaled_slack(self.epsilon, scale))

    def check_arms(self, arms):
        refuse_slack_of_features(self, arms)

    def check(self, arms, theta):
        if self.epsilon:
            return
        on = np.flatnonzero(arms @ theta == self.level)
        if on.size:
            tied = f"arms {on.tolist()} with their mean on the level {self.level}"
            raise ArgumentError("instance", tied, "no mean on it")

    def _either(self, means: np.ndarray) -> np.ndarray:
        """Host: the arms that are right on either side: [K] bool."""
        near = np.abs(means - self.level) <= rounded_up(self.epsilon, self.level)
        return near & bool(self.epsilon)

    def right_answers(self, means):
        return 2 ** int(self._either(means).sum())

    def correct(self, answers, truth, means):
        return np.all((answers == truth) | self._either(means), -1)

    def answer(self, seen):
        return seen.means >= self.level

    def public(self, seen, answer):
        return answer

    def shape(self, seen, answer):
        return Pairs(None, jnp.ones_like(answer), answer, slack=self.epsilon, level=self.level,
                     count=answer.shape[0])  # fmt: skip

    def wrong_answers(self, arms):
        return arms

    def pieces(self, seen, pair_times=False):
        return SignSet.full(seen.means)
