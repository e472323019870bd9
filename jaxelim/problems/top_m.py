"""Top-m identification."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.sets import PairSet, largest
from jaxelim.errors import ArgumentError


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class TopM(Problem):
    """Identify the m arms with the largest means.

    Pieces: y = phi_j - phi_k, c = 0, for j in the answer and k outside it; m (K - m) of
    them. The set of pieces is a K x K mask of ordered pairs. (Paper, section 2 and
    appendix "Identification Problems".)

    Args:
        m: number of arms to identify, 1 .. K - 1.
    """

    m: int = 1
    name: ClassVar[str] = "top-m"
    times_axes: ClassVar[tuple[str, ...]] = ("better", "worse")
    lanes_last: ClassVar[bool] = True

    def __post_init__(self):
        whole = isinstance(self.m, int | np.integer) and not isinstance(self.m, bool)
        if not whole or self.m < 1:
            raise ArgumentError("m", self.m, "an integer from 1 to K - 1")
        object.__setattr__(self, "m", int(self.m))

    def check_arms(self, arms):
        if self.m >= len(arms):
            raise ArgumentError("m", self.m, f"an integer from 1 to K - 1 = {len(arms) - 1}")

    def check(self, arms, theta):
        means = arms @ theta
        last, other = np.sort(means)[::-1][self.m - 1 : self.m + 1]
        if last == other:
            tied = np.flatnonzero(means == other).tolist()
            where = f"arms {tied} tied across the top-{self.m} boundary"
            raise ArgumentError("instance", where, "one top-m set")

    def answer(self, seen):
        return largest(seen.lanes, seen.means, self.m)

    def public(self, seen, answer):
        return answer.member

    def shape(self, seen, answer):
        exists = jnp.broadcast_to(~answer.member, (self.m, *answer.member.shape))
        exists = exists.reshape((-1, *exists.shape[2:]))
        return Pairs(answer.top, exists, count=self.wrong_answers(answer.member.shape[0]))

    def wrong_answers(self, arms):
        return self.m * (arms - self.m)

    def pieces(self, seen, pair_times=False):
        return PairSet.full(seen.means, self.m, pair_times)
