"""Best-arm identification."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.base import Problem, Statistics, View, refutes
from jaxelim.design import Space
from jaxelim.errors import TieError
from jaxelim.lanes import Several, by_several, index_like


def pairwise_gap(space: Space, means: Array, theta_hat: Array | None, i: Array) -> Array:
    """(phi_i - phi_k) . theta_hat for every k: [K]; from the difference of the features where arms nearly coincide."""
    if space.careful and theta_hat is not None:
        return jnp.sum(space.differences(i, means.ndim == 2) * theta_hat[None], 1)
    return space.lanes.take(means, i) - means


def pair_rows(space: Space, seen: Statistics | View, arms: Several) -> list[tuple[Array, Array, Array]]:
    """For each of some arms: i, (phi_i - phi_k) . theta_hat and ||phi_i - phi_k||^2_{V^-1} for every k, [K]."""
    design, rows = seen.design, []
    cross = design.cross(space, arms)  # one product for all of them
    for r in range(arms.m):
        i = arms.first + r
        rows.append((i, pairwise_gap(space, seen.means, seen.theta_hat, i), design.distances(space, cross[:, r], i)))
    return rows


def refuted_rows(space: Space, stats: Statistics, arms: Several, beta: Array) -> list[tuple[Array, Array]]:
    """For each of some arms: i, and which of the pieces "k is better than i", y = phi_i - phi_k, are refuted, [K] bool."""
    return [(i, refutes(gap, norm, beta)) for i, gap, norm in pair_rows(space, stats, arms)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ArmTimes:
    """One mask over the arms, kept as the times at which they were dropped."""

    dropped: Array  # [K] int32, 0 while active
    left: Array  # [] int32: how many are active


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class BestArm(Problem):
    """Which arm has the largest mean. Pieces: y = phi_i - phi_p for the best arm i and every other p; K - 1 of them.

    (Paper, section 2 and appendix "Identification Problems"; the set of pieces is one mask over the arms.)
    """

    name: ClassVar[str] = "best-arm"

    def check(self, arms, theta):
        means = arms @ theta
        best = np.flatnonzero(means == means.max())
        if best.size > 1:
            raise TieError("instance", f"arms {best.tolist()} with the same largest mean", "one best arm")

    def half_spaces(self, arms, theta):
        best = int(np.argmax(arms @ theta))
        directions = np.delete(arms[best] - arms, best, 0)
        return directions, np.zeros(len(directions))

    def answer(self, space, means, theta_hat):
        return space.lanes.argmax(means)

    def mask(self, answer, means):
        return index_like(means) == answer

    def gap(self, space, means, theta_hat, answer):
        return pairwise_gap(space, means, theta_hat, answer)

    def exists(self, answer, means):
        return index_like(means) != answer

    def rows(self, answer):
        return answer

    def measure(self, space, design, answer, cross=None):
        cross = design.cross(space, answer) if cross is None else cross
        return design.distances(space, cross, answer), cross

    def along(self, space, design, answer, cross, piece):
        return design.difference(space, cross, answer, piece)

    def total(self, exists):
        return jnp.full(exists.shape[1:], exists.shape[0] - 1, jnp.int32)

    def start(self, means, pair_times=False):
        return ArmTimes(jnp.zeros(means.shape, jnp.int32), jnp.full(means.shape[1:], means.shape[0], jnp.int32))

    def active(self, lanes, pieces, answer):
        return (pieces.dropped == 0) & (index_like(pieces.dropped) != answer)

    def reading(self, lanes, pieces, answer):
        return pieces.left - (lanes.take(pieces.dropped, answer) == 0).astype(jnp.int32)

    def drop(self, lanes, pieces, answer, refuted, t):
        dropped = jnp.where(refuted & (pieces.dropped == 0), t, pieces.dropped)
        return ArmTimes(dropped, lanes.zeros(dropped))

    def all_refuted(self, space, stats, beta):
        """Against which arms some piece is refuted, over all other arms, dropped ones too: [K]."""
        def more(fallen, arms):
            for _, row in refuted_rows(space, stats, arms, beta):
                fallen = jnp.where(row, 1, fallen)
            return fallen

        # 0 or 1 in the floating type: mixed with booleans the loop is not vectorised on a CPU (three times slower).
        return by_several(stats.means.shape[0], more, jnp.zeros_like(stats.means)) > 0

    def drop_all(self, lanes, pieces, refuted, t):
        return self.drop(lanes, pieces, None, refuted, t)

    def tests(self, lanes, pieces, answer, full):
        if full:
            return pieces.left * (pieces.dropped.shape[0] - 1)
        return self.reading(lanes, pieces, answer)

    def settled(self, lanes, pieces, answer, full):
        return pieces.left <= 1

    def verdict(self, lanes, pieces, answer, means, full):
        return jnp.where(pieces.left == 0, self.mask(answer, means), pieces.dropped == 0)

    def everything(self, means):
        return jnp.ones(means.shape, bool)

    def within(self, lanes, pieces, answer):
        return pieces & (index_like(pieces) != answer)

    def without(self, lanes, pieces, answer, refuted):
        return pieces & ~refuted

    def times(self, pieces):
        return pieces.dropped

    def remaining(self, lanes, pieces):
        return pieces.left
