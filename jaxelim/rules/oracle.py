"""The oracle, which knows the optimal allocation."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from jaxelim.bounds import complexity
from jaxelim.checks import real_array, refuse_off_simplex
from jaxelim.contracts import SamplingRule, Traits
from jaxelim.errors import ArgumentError
from jaxelim.rules.parts import tracking


@functools.lru_cache(maxsize=16)
def _solved(instance, problem):
    """w* of an instance or a batch, as shares of the pulls."""
    return complexity(instance, problem, 1e-8).pulls


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Oracle(SamplingRule):
    """D-tracking of the optimal allocation at the true theta: arm = argmin_k N_k - (t - 1) w_k.

    With costs w* is the optimal allocation of the cost, and shares w*_k/c_k of the pulls are
    tracked.

    Args:
        weights: the allocation of the pulls to track, [K] or [instance, K], on the simplex
            within 1e-9; None: solve for w*, the maximiser of min_p H_p(w, theta), to a relative
            duality gap of 1e-8.
    """

    weights: Any = None
    traits: ClassVar[Traits] = Traits(
        families=None, elimination=False, slack=True, costs=True, reads=(), lanes_last=True,
        basis_free=True, source="Tirinzoni & Degenne 2022",
    )  # fmt: skip

    def __post_init__(self):
        if self.weights is None:
            traits = dataclasses.replace(type(self).traits, reads=("truth",))
            object.__setattr__(self, "traits", traits)
            return
        weights = real_array("weights", self.weights, ndim=(1, 2))
        refuse_off_simplex("weights", self.weights, weights)
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)

    def __repr__(self):
        return "Oracle()" if self.weights is None else f"Oracle(weights={self.weights.tolist()})"

    def __eq__(self, other):
        return type(other) is type(self) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))

    def static_part(self):
        return Oracle()

    def prepare(self, instance, problem, ridge):
        """w of each instance, [K] or [instance, K]."""
        if self.weights is None:
            return _solved(instance, problem)
        shape = (instance.size, instance.K) if instance.batched else (instance.K,)
        if self.weights.shape not in (shape, shape[-1:]):
            allowed = f"shape {shape}, or {shape[-1:]} for all instances"
            raise ArgumentError("weights", self.weights.shape, allowed)
        return np.broadcast_to(self.weights, shape)

    def choose(self, view, state):
        return tracking.direct(view.lanes, view.counts, view.time, view.prepared), state
