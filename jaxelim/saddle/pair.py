"""Pairs of linear Gaussian rewards from sample to sample: a certificate at new gaps.

H_p(w) = g_p^2/(2 n_p), n_p = ||y_p||^2 in the inverse of V_w. At fixed w the norms n_p
stay. With q'_p = 2 pull_p (n_p/g'_p)^2 in place of q_p, every product q_p dH_p/dw_k =
pull_p (phi_k' V_w^-1 y_p)^2 stays too. So at new gaps g'

    H* <= max_k slope_k / sum_p q'_p + c_k,   slope_k = sum_p pull_p (phi_k' V_w^-1 y_p)^2,

which costs O(pieces + arms) and touches no matrix.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.lanes import LaneOps
from jaxelim.saddle.solver import Saddle, State


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Pair:
    """A primal-dual pair, and what certifies it later; of one run, or with lanes."""

    state: State
    norm: Array  # [P] n_p at its weights
    pull: Array  # [P] q_p (g_p/n_p)^2/2, q on the simplex; all 0: there is no pair
    slope: Array  # [K] sum_p pull_p (phi_k' V_w^-1 y_p)^2

    @staticmethod
    def none(arms: Array, pieces: Array) -> "Pair":
        """Uniform weights; arms [K] and pieces [P] give the shapes, in float64."""
        zero = jnp.zeros_like(pieces)
        return Pair(State.none(arms, pieces), zero + 1, zero, jnp.ones_like(arms))

    @staticmethod
    def of(solved: Saddle, gaps: Array, live: Array) -> "Pair":
        """The pair of a solve at gaps [P], positive where `live` [P]."""
        state = solved.pair
        norm = jnp.where(live, gaps * gaps / (2 * solved.levels), 1)
        pull = state.q / jnp.sum(state.q) * jnp.where(live, gaps / norm, 0) ** 2 / 2
        return Pair(state, norm, pull, solved.slope)

    def at(self, gaps: Array) -> State:
        """The pair at new gaps [P]."""
        return dataclasses.replace(self.state, q=2 * self.pull * (self.norm / gaps) ** 2)

    def certificate(
        self, lanes: LaneOps, gaps: Array, live: Array, bonus: Array | None = None
    ) -> Array:
        """The relative gap at new gaps of the same pieces: []; inf without a pair.

        Pieces that have been eliminated since drop out of the sum.
        """
        ratio = self.norm / jnp.where(live, gaps * gaps, 1)
        top = lanes.max(jnp.where(live, ratio, 0))
        mass = lanes.sum(jnp.where(live, self.pull * self.norm * ratio, 0))
        known = mass > 0
        mass = jnp.where(known, mass, 1)
        if bonus is None:
            reached = lanes.max(self.slope) * top / mass - 1
        else:
            low = 1 / (2 * jnp.where(top > 0, top, 1)) + lanes.sum(bonus * self.state.w)
            reached = lanes.max(self.slope / (2 * mass) + bonus) / low - 1
        return jnp.where(known, reached, jnp.inf)
