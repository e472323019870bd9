"""Thresholds beta(t, delta) of the stopping and elimination tests.

A threshold is any callable of (t, delta) made of jax.numpy operations. The number t of samples
so far (float) and the error probability delta may both have lanes last. It must not decrease in
t, nor increase in delta. (Paper, section on Assumption "beta bounds".) For `proof(call)` see
`jaxelim.contracts.proofs`.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.cache import jitted
from jaxelim.checks import integer, real
from jaxelim.contracts.proofs import GAUSSIAN, STOPS

if TYPE_CHECKING:
    from jaxelim.contracts.proofs import Call

POINTS = 200  # times of every call of `values`, so that one program serves a threshold
_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class Heuristic:
    """beta = log((1 + t)/delta), the threshold of all experiments of the paper."""

    def __call__(self, t: Array, delta: Array) -> Array:
        return jnp.log(1 + t) - jnp.log(delta)

    def proof(self, call: "Call") -> str:
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
        return "it is known from experience alone, and near-equal arms cross it almost surely"


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
        for name in ("feature_bound", "theta_bound", "ridge"):
            number = real(name, getattr(self, name), low=0, open=name != "theta_bound")
            object.__setattr__(self, name, number)

    def __call__(self, t: Array, delta: Array) -> Array:
        d, share = self.dimension, self.feature_bound**2 / (self.ridge * self.dimension)
        volume = d / 2 * jnp.log(1 + t * share)
        return (jnp.sqrt(volume - jnp.log(delta)) + self.theta_bound * (self.ridge / 2) ** 0.5) ** 2

    def proof(self, call: "Call") -> bool | str:
        """True for Gaussian rewards of d, L and S at most these, for `STOPS` and every rule.

        A live run trusts S.
        """
        if call.law != GAUSSIAN:
            return call.other_law("Gaussian rewards")
        asked = (("dimension", call.dimension), ("feature_bound", call.longest))
        asked += (("theta_bound", call.theta_norm or 0.0), ("ridge", call.ridge or 0.0))
        for name, least in asked:
            own = getattr(self, name)
            if least > own * (1 + _ROUNDING) or (name == "ridge" and least != own):
                return f"its {name} is {own:g}, and that of the call {least:g}"
        return call.uncovered(STOPS, "LLR, selective and full stops") or True


_compiled = jitted(lambda threshold, t, delta: threshold(t, delta))


def values(threshold: Callable, t: np.ndarray, delta: float) -> np.ndarray:
    """beta(t, delta) at up to `POINTS` times t [n]: [n], if the threshold keeps to its contract."""
    found = np.asarray(_compiled(threshold, np.resize(t, POINTS), np.full(POINTS, delta)))
    return found[: len(t)] if found.ndim and len(t) < POINTS else found
