"""The threshold of a self-normalised bound."""

import dataclasses
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array

from jaxelim.checks import integer, real
from jaxelim.contracts.proofs import FULL, GAUSSIAN, LLR, SELECTIVE

if TYPE_CHECKING:
    from jaxelim.contracts.proofs import Call

_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class LinearThreshold:
    """The threshold of a self-normalised bound; it covers the bias of a ridge.

    beta = (sqrt(log(1/delta) + (d/2) log(1 + t L^2/(ridge d))) + S sqrt(ridge/2))^2.
    (Abbasi-Yadkori et al. 2011)

    Args:
        dimension: d, the dimension of the features.
        feature_bound: L >= max_k ||phi_k||.
        theta_bound: S >= ||theta||/noise_std.
        ridge: the regularisation lambda > 0 of the design matrix, which the call has too.
    """

    dimension: int
    feature_bound: float
    theta_bound: float
    ridge: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", integer("dimension", self.dimension, low=1))
        for name in ("feature_bound", "ridge"):
            object.__setattr__(self, name, real(name, getattr(self, name), low=0, open=True))
        object.__setattr__(self, "theta_bound", real("theta_bound", self.theta_bound, low=0))

    def __call__(self, t: Array, delta: Array) -> Array:
        d, share = self.dimension, self.feature_bound**2 / (self.ridge * self.dimension)
        volume = d / 2 * jnp.log(1 + t * share)
        return (jnp.sqrt(volume - jnp.log(delta)) + self.theta_bound * (self.ridge / 2) ** 0.5) ** 2

    def proof(self, call: "Call") -> bool | str:
        """True for Gaussian rewards, LLR, selective and full stops, and every rule.

        The instance's d, L and S must not exceed the threshold's, which a live run trusts.
        """
        if call.law != GAUSSIAN:
            return call.other_law("Gaussian rewards")
        asked = (("dimension", call.dimension), ("feature_bound", call.longest))
        asked += (("theta_bound", call.theta_norm or 0.0), ("ridge", call.ridge or 0.0))
        for name, least in asked:
            own = getattr(self, name)
            if least > own * (1 + _ROUNDING) or (name == "ridge" and least != own):
                return f"its {name} is {own:g}, and that of the call {least:g}"
        return call.uncovered((LLR, SELECTIVE, FULL), "LLR, selective and full stops") or True
