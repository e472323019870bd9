"""Online sign identification, also called thresholding bandits."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.base import Problem
from jaxelim.checks import real
from jaxelim.errors import TieError


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SignTimes:
    """When each arm was dropped, and the sign found then."""

    dropped: Array  # [K] int32: 0 while active; then that time, its sign the one found
    left: Array  # [] int32: how many are active


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Thresholding(Problem):
    """Which arms have a mean at or above the level. Piece k: y = s_k phi_k, c = s_k level, s_k the empirical sign; K of them.

    (Paper, section 2 and appendix "Identification Problems"; there the level is 0. The ridge is not recentred on the level.)

    Args:
        level: the threshold on the means, in the units of the rewards.
    """

    level: float = 0.0
    name: ClassVar[str] = "thresholding"
    full_is_selective: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "level", real("level", self.level))

    def scaled(self, noise_std):
        return Thresholding(self.level / noise_std)

    def check(self, arms, theta):
        on = np.flatnonzero(arms @ theta == self.level)
        if on.size:
            raise TieError("instance", f"arms {on.tolist()} with their mean on the level {self.level}", "no mean on it")

    def half_spaces(self, arms, theta):
        sign = np.where(arms @ theta >= self.level, 1.0, -1.0)
        return sign[:, None] * arms, sign * self.level

    def answer(self, space, means, theta_hat):
        return means >= self.level

    def mask(self, answer, means):
        return answer

    def gap(self, space, means, theta_hat, answer):
        return jnp.abs(means - self.level)

    def exists(self, answer, means):
        return jnp.ones_like(answer)

    def measure(self, space, design, answer):
        return design.g, ()

    def along(self, space, design, answer, cross, piece):
        along = design.cross(space, piece)
        return jnp.where(space.lanes.take(answer, piece), along, -along)

    def total(self, exists):
        return jnp.full(exists.shape[1:], exists.shape[0], jnp.int32)

    def start(self, means, pair_times=False):
        left = jnp.full(means.shape[1:], means.shape[0], jnp.int32)
        return SignTimes(jnp.zeros(means.shape, jnp.int32), left)

    def reading(self, lanes, pieces, answer):
        return pieces.left

    def active(self, lanes, pieces, answer):
        return pieces.dropped == 0

    def drop(self, lanes, pieces, answer, refuted, t):
        dropped = jnp.where(refuted & (pieces.dropped == 0), jnp.where(answer, t, -t), pieces.dropped)
        return SignTimes(dropped, lanes.zeros(dropped))

    def tests(self, lanes, pieces, answer, full):
        return pieces.left

    def settled(self, lanes, pieces, answer, full):
        return pieces.left == 0

    def verdict(self, lanes, pieces, answer, means, full):
        return pieces.dropped > 0

    def everything(self, means):
        return jnp.ones((means.shape[0], 2, *means.shape[1:]), bool)

    def within(self, lanes, pieces, answer):
        return jnp.where(answer, pieces[:, 1], pieces[:, 0])

    def without(self, lanes, pieces, answer, refuted):
        return jnp.stack([pieces[:, 0] & ~(refuted & ~answer), pieces[:, 1] & ~(refuted & answer)], 1)

    def times(self, pieces):
        return jnp.abs(pieces.dropped)

    def remaining(self, lanes, pieces):
        return pieces.left
