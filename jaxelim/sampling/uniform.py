"""Uniform sampling. The shortest complete rule: copy this file to write one of your own."""

import dataclasses
from typing import ClassVar

import jax

from jaxelim.base import SamplingRule


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Uniform(SamplingRule):
    """Pull the arms in turn.

    arm = (t - 1) mod K, t the index of the sample about to be drawn, counted from 1.
    """

    elimination: ClassVar[bool] = False
    uses_delta: ClassVar[bool] = False
    uses_rewards: ClassVar[bool] = False
    reads_pieces: ClassVar[bool] = False
    lanes_last: ClassVar[bool] = True
    source: ClassVar[str] = "round robin"

    def choose(self, view, state):
        return (view.t - 1) % view.means.shape[0], state
