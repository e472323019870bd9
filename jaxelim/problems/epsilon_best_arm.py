"""Best arm with slack: `BestArm(epsilon=..)`."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.contracts import Problem
from jaxelim.contracts.shapes import Rows
from jaxelim.contracts.slack import SlackRows
from jaxelim.errors import UnsupportedError
from jaxelim.lanes import index_like
from jaxelim.problems.top_m import PairMask, PairSet, TopAnswer

LARGEST = 1e15
"""The largest epsilon, in the units of the rewards and of a run."""
_ROUNDING = 8 * np.finfo(np.float64).eps


def _as_top(seen: Any) -> Any:
    """What is seen, with the answer and the pieces in the form of top m, m = 1."""
    shape = Rows.of(seen.shape)
    shape = dataclasses.replace(shape, first=shape.first[None])
    return dataclasses.replace(seen, answer=TopAnswer(shape.first, seen.public), shape=shape)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SlackSet(PairSet):
    """The ordered pairs (i, k) whose piece {mu_k >= mu_i + epsilon} is refuted.

    Arm i is found when all its K - 1 pieces are. One mask over the arms would not do: an
    arm may fall to an arm that is itself epsilon worse than a third.
    """

    def active(self, seen):
        return super().active(_as_top(seen))

    def drop(self, seen, refuted):
        return super().drop(_as_top(seen), refuted)

    def tests(self, seen, full):
        return super().tests(_as_top(seen), full)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SlackMask(PairMask):
    """The same mask without times and found arms."""

    def active(self, seen):
        return super().active(_as_top(seen))

    def drop(self, seen, refuted):
        return SlackMask(super().drop(_as_top(seen), refuted).left)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, repr=False)
class EpsilonBestArm(Problem):
    """Identify an arm whose mean is within epsilon of the largest; made by `BestArm(epsilon=)`.

    Right answers: all arms i with mu_i >= max mu - epsilon, up to rounding. The empirical
    answer is the arm of largest estimate. Pieces: {mu_k >= mu_i + epsilon} for the answer i
    and every other arm k. The set of pieces is a K x K mask of ordered pairs; a run stops
    when all pieces of some arm are eliminated. Unstructured arms only. (Garivier & Kaufmann
    2021; Jourdan, Degenne & Kaufmann 2023)

    Args:
        epsilon: a number above 0, at most 1e15, in the units of the rewards.
    """

    epsilon: float
    name: ClassVar[str] = "best-arm"
    lanes_last: ClassVar[bool] = True
    times_axes: ClassVar[tuple[str, ...]] = ("better", "worse")

    def __repr__(self):
        return f"BestArm(epsilon={self.epsilon})"

    def check_arms(self, arms):
        if not np.array_equal(arms, np.eye(len(arms))):
            allowed = f"unstructured arms: {self!r} is not defined for others"
            raise UnsupportedError("instance", "linear", allowed)

    def scaled(self, scale):
        return EpsilonBestArm(float(np.clip(self.epsilon / scale, 1 / LARGEST**10, LARGEST)))

    def right(self, means: np.ndarray) -> np.ndarray:
        """Host: the right answers, by decreasing mean (ties: lowest index first)."""
        best = means.max()
        slack = self.epsilon + _ROUNDING * (abs(best) + self.epsilon)
        order = np.argsort(-means, kind="stable")
        return order[means[order] >= best - slack]

    def correct(self, answers, truth, means):
        return answers[..., self.right(means)].any(-1)

    def half_spaces(self, arms, theta):
        return self.half_spaces_of(int(np.argmax(arms @ theta)), arms)

    def half_spaces_of(self, answer: int, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Host: directions [K - 1, d] and offsets [K - 1] of the pieces of one answer."""
        directions = np.delete(arms[answer] - arms, answer, 0)
        return directions, np.full(len(directions), -self.epsilon)

    def answer(self, seen):
        return seen.lanes.argmax(seen.means)

    def public(self, seen, answer):
        return index_like(seen.means) == answer

    def shape(self, seen, answer):
        means = seen.means
        exists = index_like(means) != answer
        return SlackRows(answer, exists, means.shape[0] - 1, self.epsilon)

    def wrong_answers(self, arms):
        return arms - 1

    def pieces(self, seen, pair_times=False):
        return SlackSet.full(seen.means, 1, pair_times)

    def plain_pieces(self, seen):
        means = seen.means
        return SlackMask(jnp.ones((means.shape[0], *means.shape), bool))
