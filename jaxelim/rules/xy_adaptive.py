"""XY-Adaptive."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import integer, real
from jaxelim.contracts import SamplingRule, Traits
from jaxelim.contracts.proofs import LLR_OF_PAIRS
from jaxelim.evidence.linear import LinearEvidence
from jaxelim.lanes import index_like, pytree, settings, where
from jaxelim.rules.parts.indices import dominated


@pytree
class XYState:
    """The active arms, the terms of the phase test, and the choice that is repeated."""

    active: Array  # [K] bool; of items [P]
    rho: Array  # []: at the last choice
    old_rho: Array  # []: at the last phase change
    old_t: Array  # []: likewise
    arm: Array  # [] int32
    left: Array  # [] int32: remaining pulls of `arm`


@settings
class XYAdaptive(SamplingRule):
    """Design greedily for the differences of the active arms; recompute these in phases.

    Every `every` steps: if rho/t < alpha rho_old/t_old, begin a phase:
    (rho_old, t_old) = (rho, t), and active are the arms i that no arm j dominates by
    (phi_j - phi_i) . theta_hat >= sqrt(2 beta(t, delta) ||phi_j - phi_i||^2_{V^-1}).
    arm = argmin_k max over active i, j of ||phi_i - phi_j||^2 in (V + phi_k phi_k')^-1;
    rho = that minimum.
    Stop at one active arm. rho, rho_old and t_old start at 1, 1 and n K, n the number of
    initial pulls of each arm.

    Exact ties are broken at random: where arms come in orthogonal groups, no single pull
    lowers the maximum, all arms tie, and the lowest index would be pulled for ever. Of items,
    z takes the place of phi in the differences and in the test.

    Soare, Lazaric & Munos 2014; as in the authors' program.

    Args:
        alpha: the factor by which a design must improve before a new phase.
        every: how often each chosen arm is pulled.
    """

    alpha: float = 0.1
    every: int = 10
    traits: ClassVar[Traits] = Traits(
        problems=("best-arm", "best-item"), native="only", elimination=False,
        reads=("delta", "chance"), lanes_last=True, basis_free=True, source="Soare et al. 2014",
        name="xy-adaptive",
    )  # fmt: skip
    native_test: ClassVar[str] = LLR_OF_PAIRS

    def __post_init__(self):
        object.__setattr__(self, "alpha", real("alpha", self.alpha, low=0))
        object.__setattr__(self, "every", integer("every", self.every, low=1))

    def init(self, view):
        unit, zero = jnp.ones_like(view.beta), jnp.zeros_like(view.t)
        active = jnp.ones_like(view.linear.candidates, bool)
        return XYState(active, unit, unit, unit * view.start, zero, zero)

    def choose(self, view, state, rarely):
        again = dataclasses.replace(state, left=state.left - 1)
        state = rarely(~(state.left > 0), lambda: self._chosen(view, state), again)
        return state.arm, state

    def _chosen(self, view, state):
        """The state with a new arm."""
        changes = state.rho / view.time < self.alpha * state.old_rho / state.old_t
        changes = changes & (view.lanes.sum(state.active) > 1)  # one arm is an end
        unbeaten = ~dominated(view, jnp.ones_like(state.active), 2 * view.beta)
        active = jnp.where(changes, unbeaten, state.active)
        old_rho, old_t = where(changes, (state.rho, view.time), (state.old_rho, state.old_t))
        worst = _farthest_after_pulls(view.linear, active)
        rho = view.lanes.min(worst)
        tied = worst == rho
        assert view.chance is not None  # drawn, as `reads` says
        place = jnp.floor(view.chance * view.lanes.sum(tied.astype(worst.dtype))).astype(jnp.int32)
        chosen = tied & (jnp.cumsum(tied, 0, dtype=jnp.int32) == place + 1)
        arm = view.lanes.argmax(chosen.astype(worst.dtype))
        left = jnp.full_like(state.left, self.every - 1)
        return XYState(active, rho, old_rho, old_t, arm, left)

    def native(self, view, state):
        return view.lanes.sum(state.active) == 1, state.active


def _farthest_after_pulls(linear: LinearEvidence, active: Array) -> Array:
    """max over active i < j of ||phi_i - phi_j||^2_{(V + phi_k phi_k')^-1}, for every k: [K].

    Active arms come first in every lane: the loop is as long as the most of them need.
    """
    space, lanes, index = linear.space, linear.space.lanes, index_like(active)
    # The index of the n-th active arm; the inactive arms follow.
    order = jnp.argsort(~active, axis=0, stable=True).astype(jnp.int32)
    held = index < lanes.sum(active)
    norm = 1 / (1 + linear.design.g)
    along = jax.lax.map(linear.toward, order)  # [n, k]: phi_k' V^-1 phi_n
    apart = jax.lax.map(lambda c: linear.distances(*c), (order, along))

    def pair(n, m, worst):
        if space.cancellation_safe:
            fall = linear.along_pair(order[n], order[m], along[n])
        else:
            fall = along[n] - along[m]
        left = lanes.take(apart[n], order[m]) - fall**2 * norm
        return jnp.where(held[m] & (left > worst), left, worst)

    def body(n, worst):
        return jax.lax.fori_loop(n + 1, count, lambda m, worst: pair(n, m, worst), worst)

    count = jnp.max(lanes.sum(active))
    return jax.lax.fori_loop(np.int32(0), count - 1, body, jnp.full_like(norm, -jnp.inf))
