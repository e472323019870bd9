"""LUCB."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.checks import integer
from jaxelim.contracts import SamplingRule
from jaxelim.contracts.traits import Traits
from jaxelim.sampling.parts.indices import less_pulled


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LUCBState:
    """What the last choice found."""

    stop: Array  # [] bool: its own test holds
    mask: Array  # [K] bool: its answer
    piece_tests: Array  # [] int32: how many pieces it looked at
    second: Array  # [] int32: the arm to be pulled next without a look; -1: none


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LUCB(SamplingRule):
    """Pull the two arms whose confidence intervals overlap most across the answer's boundary.

    mu_k = R_k/N_k with bounds L_k and U_k at level beta(t, delta), the answer by these means;
    (b, c) = argmax over its active pieces of U_c - L_b; pull the less pulled of the two (ties: c).
    Signs: the active arm with the largest level - L_k (above the level) or U_k - level (below).
    It stops once that maximum is not positive.

    Gaussian rewards: bounds mu_k -+ sqrt(2 beta/N_k). Others: KL bounds, so that this is KL-LUCB.

    Kalyanakrishnan, Tewari, Auer & Stone 2012; Kaufmann & Kalyanakrishnan 2013. As in the authors'
    program, but that exact ties go to the lowest index. Its own test stays in force whatever else
    is observed; with two pulls a look it is asked before the first of them only.

    Args:
        pulls: 1; or 2 to pull b and then c before it looks again, as in the papers.
    """

    pulls: int = dataclasses.field(default=1, metadata={"omitted_at_default": True})
    traits: ClassVar[Traits] = Traits(
        problems=("best-arm", "top-m", "thresholding"),
        structures=("unstructured",),
        families=None,
        stopping=("llr", "selective", "full", "native"),
        always_native=True,
        lanes_last=True,
        source="Kalyanakrishnan et al. 2012",
    )

    def __post_init__(self):
        object.__setattr__(self, "pulls", integer("pulls", self.pulls, low=1, high=2))

    def __repr__(self):
        return "LUCB()" if self.pulls == 1 else f"LUCB(pulls={self.pulls})"

    def init(self, view):
        none = jnp.zeros_like(view.t)
        return LUCBState(none > 0, jnp.zeros_like(view.means, bool), none, none - 1)

    def choose(self, view, state):
        lanes = view.lanes
        assert view.reward_sums is not None  # kept, as the traits say
        view = view.at(view.reward_sums / view.counts)
        interval = view.family.interval(view.means, view.counts, view.beta)
        overlap = jnp.where(view.active, view.shape.overlap(lanes, interval), -jnp.inf)
        piece = lanes.argmax(overlap)
        b, c = view.shape.pair(lanes, piece)
        stop = lanes.take(overlap, piece) <= 0
        none = jnp.full_like(state.second, -1)
        if self.pulls == 1:
            found = LUCBState(stop, view.public, view.active_count, none)
            return less_pulled(view, b, c), found
        again = state.second >= 0
        found = LUCBState(
            stop & ~again,
            view.public,
            jnp.where(again, 0, view.active_count),
            jnp.where(again | (b == c), none, c),
        )
        return jnp.where(again, state.second, b), found

    def piece_tests(self, view, state):
        return state.piece_tests

    def native(self, view, state):
        return state.stop, state.mask
