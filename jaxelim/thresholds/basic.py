"""Thresholds beta(t, delta) of the stopping and elimination tests.

A threshold is any callable of (t, delta) made of jax.numpy operations. The number t of
samples so far (float) and the error probability delta may both have lanes last. A
threshold must not decrease in t, nor increase in delta. (Paper, section on Assumption
"beta bounds".) A method `proof(call)` says whether its proof covers a call; see
`jaxelim.contracts.proofs`.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import integer, real
from jaxelim.errors import UnsupportedError

if TYPE_CHECKING:
    from jaxelim.contracts.proofs import Call
    from jaxelim.instances.instance import Instance

_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class Heuristic:
    """beta = log((1 + t)/delta), the threshold of all experiments of the paper."""

    def __call__(self, t: Array, delta: Array) -> Array:
        return jnp.log(1 + t) - jnp.log(delta)

    def proof(self, call: "Call") -> str:
        """That it has none."""
        return "it is known from experience alone"

    def constants(self, delta: float) -> tuple[float, float, float]:
        """c1, c2, x0 of the theory's bounds on beta (paper, Assumption "beta bounds")."""
        return 1.0, math.log(3) / math.log(2), 1.0


@dataclasses.dataclass(frozen=True)
class GK16:
    """beta = log((1 + log t)/delta). (Garivier & Kaufmann 2016)

    It has no proof and can have none: exp(-beta) = delta/(1 + log t) falls so slowly that
    the LLR of two equal arms exceeds beta at some t almost surely, for every delta.
    """

    def __call__(self, t: Array, delta: Array) -> Array:
        return jnp.log(1 + jnp.log(t)) - jnp.log(delta)

    def proof(self, call: "Call") -> str:
        """That it has none."""
        return "it is known from experience alone, and near-equal arms cross it almost surely"


@dataclasses.dataclass(frozen=True)
class LinearThreshold:
    """The threshold of a self-normalised bound; it covers the bias of a ridge.

    ::

        beta = (sqrt(log(1/delta) + (d/2) log(1 + t L^2/(ridge d))) + S sqrt(ridge/2))^2.
        (Abbasi-Yadkori et al. 2011)

    Args:
        dimension: d, the dimension of the features.
        feature_bound: L >= max_k ||phi_k||.
        theta_bound: S >= ||theta||.
        ridge: the regularisation lambda > 0 of the design matrix.
    """

    dimension: int
    feature_bound: float
    theta_bound: float
    ridge: float = 1.0

    @classmethod
    def of(cls, instance: "Instance", ridge: float = 1.0) -> "LinearThreshold":
        """The threshold with d, L = max_k ||phi_k|| and S = ||theta||/noise_std of an instance.

        A batch gives the largest L and S.
        """
        longest = float(np.linalg.norm(instance.arms, axis=-1).max())
        norm = float(np.linalg.norm(instance.theta, axis=-1).max()) / instance.noise_std
        return cls(instance.d, longest, norm, ridge)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", integer("dimension", self.dimension, low=1))
        for name in ("feature_bound", "ridge"):
            object.__setattr__(self, name, real(name, getattr(self, name), low=0, open=True))
        object.__setattr__(self, "theta_bound", real("theta_bound", self.theta_bound, low=0))

    def __call__(self, t: Array, delta: Array) -> Array:
        volume = (
            self.dimension
            / 2
            * jnp.log(1 + t * (self.feature_bound**2 / (self.ridge * self.dimension)))
        )
        return (jnp.sqrt(volume - jnp.log(delta)) + self.theta_bound * (self.ridge / 2) ** 0.5) ** 2

    def proof(self, call: "Call") -> bool | str:
        """True for Gaussian rewards, LLR, selective and full stops, and every rule.

        The instance's d, L and S must not exceed the threshold's, which a live run trusts.
        """
        if call.law != "gaussian":
            return call.other_law("Gaussian rewards")
        asked = (("dimension", call.dimension), ("feature_bound", call.longest))
        asked += (("theta_bound", call.theta_norm or 0.0), ("ridge", call.ridge or 0.0))
        for name, least in asked:
            own = getattr(self, name)
            if least > own * (1 + _ROUNDING) or (name == "ridge" and least != own):
                return f"its {name} is {own:g}, and that of the call {least:g}"
        stops = ("llr", "selective", "full")
        return call.uncovered(stops, "LLR, selective and full stops") or True


def refuse_linear(threshold: Any, family: Any) -> None:
    """Refuse a `LinearThreshold` for a family that has no ridge.

    Raises:
        UnsupportedError: it is one.
    """
    if isinstance(threshold, LinearThreshold):
        allowed = f"a threshold without a ridge for {family!r}, such as Heuristic() or GK16()"
        raise UnsupportedError("threshold", threshold, allowed)
