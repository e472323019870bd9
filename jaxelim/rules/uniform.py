"""Uniform sampling. The shortest complete rule: copy this file to write your own."""

import dataclasses
from typing import ClassVar

import jax

from jaxelim.contracts import SamplingRule, Traits


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Uniform(SamplingRule):
    """Pull the arms in turn.

    arm = (t - 1) mod K, t the index of the next sample, from 1 on. Costs are ignored.
    """

    traits: ClassVar[Traits] = Traits(
        families=None, elimination=False, slack=True, costs=True, reads=(), lanes_last=True,
        basis_free=True, source="round robin",
    )  # fmt: skip

    def choose(self, view, state):
        return (view.t - 1) % view.means.shape[0], state
