"""LinGapE."""

import math
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxelim.checks import real
from jaxelim.contracts import SamplingRule, Traits
from jaxelim.lanes import settings

_ENOUGH = 6.0
"""The rate from which runs on linear arms stop under `Mixture`."""
_MORE = 2.0
"""How much a test may ask for beyond log(1/delta), in units of rate log(t + 1)."""


@settings
class LinGapE(SamplingRule):
    """Pull the most informative arm for the most ambiguous active piece.

    ::

        p_t = argmax_{p active} -gap_p + sqrt(2 C_t) ||y_p||_{V^-1},
        C_t = log(1/delta) + rate log(t + 1);
        arm = argmin_k ||y_{p_t}||_{(V + phi_k phi_k')^-1}.

    Also known as m-LinGapE in top-m identification.

    Xu, Honda & Sugiyama 2018 (best arm); Reda, Tirinzoni & Degenne 2021 (top m);
    Tirinzoni & Degenne 2022 (thresholding). Differs from the authors' program: exact
    ties go to the lowest index, not the highest.

    Args:
        rate: the weight of log(t + 1) in the exploration rate; 2 in the
            authors' program.
    """

    rate: float = 2.0
    traits: ClassVar[Traits] = Traits(
        reads=("delta", "pieces"), lanes_last=True, basis_free=True,
        source="Xu et al. 2018; Reda et al. 2021", name="lingape",
    )  # fmt: skip

    def __post_init__(self):
        object.__setattr__(self, "rate", real("rate", self.rate, low=0))

    def caution(self, instance, threshold, times, levels, delta):
        asked = levels + math.log(delta)
        explored = self.rate * np.log(times + 1)
        if instance.structure != "linear" or not np.any(asked > _MORE * explored):
            return None
        others = "LinGame() and TrackAndStop() stop."
        if self.rate < _ENOUGH:
            others = f"LinGapE(rate={_ENOUGH:g}), {others}"
        return (
            f"LinGapE(rate={self.rate:g}) explores less than {threshold!r} asks for on linear "
            f"arms, so that its runs may take far longer, or never stop. {others}"
        )

    def choose(self, view, state):
        width = jnp.sqrt(2 * (self.rate * jnp.log(view.time + 1) - jnp.log(view.delta)))
        linear = view.linear
        index = width * jnp.sqrt(linear.norm) - linear.margin
        piece = view.lanes.argmax(jnp.where(view.active, index, -jnp.inf))
        return linear.most_informative_arm(linear.along(piece)), state
