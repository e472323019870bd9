"""LUCB."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from jaxelim.checks import integer
from jaxelim.contracts import SamplingRule, Traits
from jaxelim.contracts.proofs import INTERVALS
from jaxelim.lanes import pytree, settings
from jaxelim.rules.parts.indices import less_pulled, of_pairs_alone


@pytree
class LUCBState:
    """The results of the last choice."""

    stop: Array  # [] bool: the native test holds
    mask: Array  # [K] bool: its answer
    piece_tests: Array  # [] int32: how many pieces it tested
    second: Array  # [] int32: the arm to pull next without new tests; -1: none


@settings
class LUCB(SamplingRule):
    """Pull the two arms whose confidence intervals overlap most across the answer's boundary.

    ::

        mu_k = R_k/N_k with bounds L_k and U_k at level beta(t, delta);
        (b, c) = argmax over the active pieces of these means' answer of U_c - L_b;
        arm = the less pulled of b and c (ties: c).
        Thresholding: arm = the active one with the largest level - L_k (above the level) or
        U_k - level (below).
        Stop once that maximum is not positive.

    Gaussian rewards have bounds mu_k -+ sqrt(2 beta/N_k). Other families have KL
    bounds, which makes this KL-LUCB. Of paired items the overlap is what log e lacks of beta.
    Kalyanakrishnan, Tewari, Auer & Stone 2012; Kaufmann & Kalyanakrishnan 2013. As in
    the authors' program, but exact ties go to the lowest index. Its native test always
    ends a run; with pulls=2 it runs before the first of the two pulls only.

    Args:
        pulls: 1; or 2 to pull b and then c before it tests again, as in the papers.
    """

    pulls: int = 1
    traits: ClassVar[Traits] = Traits(
        problems=("best-arm", "top-m", "thresholding"), structures=("unstructured",), families=None,
        native="always", slack=True, lanes_last=True,
        source="Kalyanakrishnan et al. 2012; Kaufmann & Kalyanakrishnan 2013",
    )  # fmt: skip
    native_test: ClassVar[str] = INTERVALS

    def __post_init__(self):
        object.__setattr__(self, "pulls", integer("pulls", self.pulls, low=1, high=2))

    def __repr__(self):
        return "LUCB()" if self.pulls == 1 else f"LUCB(pulls={self.pulls})"

    def needs(self, family, problem):
        return () if of_pairs_alone(family) else ("interval",)

    def init(self, view):
        none = jnp.zeros_like(view.t)
        return LUCBState(none > 0, jnp.zeros_like(view.means, bool), none, none - 1)

    def choose(self, view, state):
        lanes = view.lanes
        if view.family.design:  # other families' means are R_k/N_k
            assert view.reward_sums is not None  # kept, as `reads` says
            view = _at(view, view.reward_sums / view.counts)
        overlap = jnp.where(view.active, view.family.overlap(view, view.beta), -jnp.inf)
        piece = lanes.argmax(overlap)
        b, c = view.shape.arms(lanes, piece)
        stop, pairs = lanes.take(overlap, piece) <= 0, self.pulls == 2
        again = (state.second >= 0) & pairs
        tests = jnp.where(again, 0, view.active_count)
        second = jnp.where(again | (b == c) | (not pairs), -1, c)
        arm = jnp.where(again, state.second, b if pairs else less_pulled(view, b, c))
        return arm, LUCBState(stop & ~again, view.public, tests, second)

    def work(self, view, state):
        return state.piece_tests

    def native(self, view, state):
        return state.stop, state.mask


def _at(view, means):
    """The view for other means [K]: their answer, its pieces, and which are active."""
    stats: Any = view.stats
    view = dataclasses.replace(view, stats=dataclasses.replace(stats, means=means))
    answer = view.problem.answer(view.estimate)
    shape = view.problem.shape(view.estimate, answer)
    view = dataclasses.replace(view, answer=answer, shape=shape)
    active, count = view.reduced.active(view)
    return dataclasses.replace(view, active=active, active_count=count)
