"""LinGIFA."""

from typing import ClassVar

import jax.numpy as jnp

from jaxelim.contracts import SamplingRule, Traits
from jaxelim.lanes import index_like, settings
from jaxelim.rules.parts.indices import ambiguous_pair, rank


@settings
class LinGIFA(SamplingRule):
    """Guess the top m from gap indices; pull the most informative arm for the most ambiguous pair.

    ::

        B_ij = (phi_i - phi_j) . theta_hat
               + sqrt(2 beta(t, delta)) ||phi_i - phi_j||_{V^-1};
        J = the m arms j with the smallest m-th largest B_ij over i != j;
        b = argmax_{j in J} max_{i not in J} B_ij,   c = argmax_{i not in J} B_ib;
        arm = argmin_k ||phi_b - phi_c||_{(V + phi_k phi_k')^-1}.

    Of items, z takes the place of phi in the differences, and m = 1.

    Reda, Tirinzoni & Degenne 2021. As in the authors' program, but exact ties go to the
    lowest index. It reads every pair of arms and no active pieces: elimination may stop
    it, but does not change its choices.
    """

    traits: ClassVar[Traits] = Traits(
        problems=("best-arm", "best-item", "top-m"), elimination=False, reads=("delta",),
        lanes_last=True, basis_free=True, source="Reda et al. 2021", name="lingifa",
    )  # fmt: skip

    def choose(self, view, state):
        linear, m = view.linear, view.problem.m
        estimates = linear.candidates
        arms = estimates.shape[0]
        width = jnp.sqrt(2 * view.beta)

        def rows(some):
            bounds = ((i, gap + width * jnp.sqrt(norm)) for i, gap, norm in linear.pairs(some))
            return [jnp.where(index_like(bound) == i, -jnp.inf, bound) for i, bound in bounds]

        def column(j):
            return width * jnp.sqrt(linear.distances(j)) - linear.margins(j)

        _, b, c = ambiguous_pair(view.lanes, rank(view.lanes, rows, arms, m, estimates), column, m)
        return linear.most_informative_arm(linear.along_pair(b, c)), state
