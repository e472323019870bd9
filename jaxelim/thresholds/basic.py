"""Thresholds beta(t, delta) of the stopping and elimination tests.

A threshold is any callable of (t, delta) made of jax.numpy operations. The number t of
samples so far (float) and the error probability delta may both have lanes last. A
threshold must not decrease in t, nor increase in delta. (Paper, section on Assumption
"beta bounds".) A method `proof(call)` says whether its proof covers a call; see
`jaxelim.contracts.proofs`.
"""

import dataclasses
import math
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array

if TYPE_CHECKING:
    from jaxelim.contracts.proofs import Call


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
