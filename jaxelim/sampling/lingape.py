"""LinGapE."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxelim.base import SamplingRule
from jaxelim.checks import real


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LinGapE(SamplingRule):
    """Pull the arm that most narrows the most ambiguous active piece. Known as m-LinGapE in top-m identification.

    p_t = argmax_{p active} -gap_p + sqrt(2 C_t) ||y_p||_{V^-1},   C_t = log(1/delta) + rate log(t + 1);
    arm = argmin_k ||y_{p_t}||_{(V + phi_k phi_k')^-1}.

    Xu, Honda & Sugiyama 2018 (best arm); Reda, Tirinzoni & Degenne 2021 (top m); Tirinzoni & Degenne 2022 (signs).
    Differs from the authors' program: exact ties go to the lowest index, not the highest.

    Args:
        rate: the weight of log(t + 1) in the exploration rate; 2 in the authors' program.
    """

    rate: float = 2.0
    uses_rewards: ClassVar[bool] = False
    lanes_last: ClassVar[bool] = True
    source: ClassVar[str] = "Xu et al. 2018; Reda et al. 2021"

    def __post_init__(self):
        object.__setattr__(self, "rate", real("rate", self.rate, low=0))

    def choose(self, view, state):
        width = jnp.sqrt(2 * (self.rate * jnp.log(view.time + 1) - jnp.log(view.delta)))
        index = width * jnp.sqrt(view.norm) - view.gap
        piece = view.lanes.argmax(jnp.where(view.active, index, -jnp.inf))
        return view.narrowing(view.along(piece)), state
