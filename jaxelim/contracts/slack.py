"""The shape of pieces with slack: {mu_k >= mu_i + slack}."""

import dataclasses
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax import Array

from jaxelim.contracts.shapes import Interval, Rows
from jaxelim.lanes import LaneOps

if TYPE_CHECKING:
    from jaxelim.evidence.designs import LinearContext


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SlackRows(Rows):
    """Pairs y = phi_i - phi_k, c = -slack: a piece says that mu_k is at least mu_i + slack.

    A family lists this shape in `shapes` if its evidence knows it.

    Args:
        first, exists, count: as in `Rows`.
        slack: a number above 0, in the units of the means.
    """

    slack: float = dataclasses.field(default=0.0, metadata={"static": True})

    def separation(self, lanes: LaneOps, means: Array) -> Array:
        return super().separation(lanes, means) + self.slack

    def overlap(self, lanes: LaneOps, interval: Interval) -> Array:
        return super().overlap(lanes, interval) - self.slack

    def margin(self, space: "LinearContext", means: Array, theta_hat: Array | None) -> Array:
        return super().margin(space, means, theta_hat) + self.slack

    def half_spaces(self, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        directions, offsets = super().half_spaces(arms)
        return directions, offsets - self.slack
