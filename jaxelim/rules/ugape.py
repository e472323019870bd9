"""UGapE."""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import SamplingRule, Traits
from jaxelim.contracts.proofs import INTERVALS
from jaxelim.contracts.sets import largest
from jaxelim.lanes import pytree, settings
from jaxelim.rules.parts.indices import ambiguous_pair, less_pulled, observed


@pytree
class UGapEState:
    """The results of the last choice."""

    stop: Array  # [] bool: its own test holds
    guess: Array  # [K] bool: J


@settings
class UGapE(SamplingRule):
    """Guess the top m from gap indices; pull the less pulled arm of the most ambiguous pair.

    ::

        mu_k = R_k/N_k with bounds L_k and U_k at level beta(t, delta);
        B_ij = U_i - L_j;
        J = the m arms j with the smallest m-th largest B_ij over i != j;
        b = argmax_{j in J} max_{i not in J} B_ij,   c = argmax_{i not in J} B_ib;
        arm = the less pulled of b and c (ties: c).
        Stop, with the answer J, once no arm of J has a positive m-th largest B_ij.

    Gaussian rewards have bounds mu_k -+ sqrt(2 beta/N_k). Other families have KL bounds, which
    makes this KL-UGapE. Gabillon, Ghavamzadeh & Lazaric 2012. As in the authors' program, but
    exact ties go to the lowest index. Its native test always ends a run. It reads no active pieces.
    """

    traits: ClassVar[Traits] = Traits(
        problems=("best-arm", "top-m"), structures=("unstructured",), families=None,
        native="always", elimination=False, reads=("delta", "rewards"), lanes_last=True,
        source="Gabillon et al. 2012", name="ugape",
    )  # fmt: skip
    native_test: ClassVar[str] = INTERVALS

    def needs(self, family, problem):
        return ("interval",)

    def init(self, view):
        return UGapEState(jnp.zeros_like(view.t, bool), jnp.zeros_like(view.means, bool))

    def choose(self, view, state):
        lanes, m = view.lanes, view.problem.m
        interval = observed(view)[1]
        upper, lower = interval.upper, interval.lower
        # The m-th largest upper bound among the others. For each of the top m arms that is the
        # (m + 1)-th largest of all.
        high = largest(lanes, upper, m)
        nth = lanes.take(upper, high.top[-1])
        after = lanes.max(jnp.where(high.member, -jnp.inf, upper))
        bounds = jnp.where(high.member, after, nth) - lower
        guess, b, c = ambiguous_pair(lanes, bounds, lambda j: upper - lanes.take(lower, j), m)
        stop = lanes.max(jnp.where(guess, bounds, -jnp.inf)) <= 0
        return less_pulled(view, b, c), UGapEState(stop, guess)

    def native(self, view, state):
        return state.stop, state.guess
