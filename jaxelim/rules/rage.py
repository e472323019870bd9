"""RAGE."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.checks import integer, real
from jaxelim.contracts import SamplingRule
from jaxelim.contracts.traits import Traits
from jaxelim.lanes import index_like
from jaxelim.rules.parts.indices import dominated
from jaxelim.rules.parts.xy_design import efficiently_rounded, xy_design

_LONGEST = 2**30  # most samples of a phase, whose counts must fit int32; above any cap


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RAGEState:
    """The phase, the active arms, and the remaining pulls of the phase."""

    phase: Array  # [] int32
    active: Array  # [K] bool; of items [P]
    left: Array  # [K] int32


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class RAGE(SamplingRule):
    """Sample in phases: design for the differences of active arms, pull it, discard arms.

    Of items, z_i takes the place of phi_i in the differences, and their number P that of
    K in L_l. Pulls are of arms.

    ::

        Phase l = 1, 2, ..., with delta_l = delta/l^2 and L_l = log(2 K^2/delta_l):
        w = argmin_w rho(w), rho(w) = max over active i < j of ||phi_i - phi_j||^2_{V_w^-1};
        samples = max(ceil(8 4^(l-1) rho (1 + slack) L_{max(l-1, 1)}), 20 |supp w|),
        rounded efficiently; pull the arm with most pulls left;
        at the end discard arm i if for some active arm j
        sqrt(2 ||phi_j - phi_i||^2_{V^-1} L_l) <= (phi_j - phi_i) . theta_hat.
        Stop at one active arm.

    Frank-Wolfe computes w from uniform weights, by steps 2/(n + 2), until
    one is at most `accuracy` times as long as w. Entries below 1e-5 are dropped.

    Fiez, Jain, Jamieson & Ratliff 2019. As in the authors' program: V and theta_hat are
    those of all samples so far, not of the phase. rho belongs to the weights from which
    the last step started. L_{l-1} sizes phase l. Fiez et al.'s own program takes each
    phase by itself, and discards items with the K of the arms in L_l.

    Args:
        slack: epsilon of the rounding, which lengthens a phase by the factor 1 + slack.
        accuracy: the relative step length at which Frank-Wolfe ends.
        steps: the largest number of Frank-Wolfe steps.
    """

    slack: float = 0.1
    accuracy: float = 0.01
    steps: int = 5000
    traits: ClassVar[Traits] = Traits(
        problems=("best-arm", "best-item"),
        native="only",
        elimination=False,
        reads=("delta",),
        lanes_last=True,
        basis_free=True,
        source="Fiez et al. 2019",
    )
    native_test: ClassVar[str] = (
        "no proof covers the native test of RAGE here: it pools phases whose designs depend on "
        "earlier rewards, and its bound holds for a design fixed beforehand"
    )

    def __post_init__(self):
        object.__setattr__(self, "slack", real("slack", self.slack, low=0))
        object.__setattr__(self, "accuracy", real("accuracy", self.accuracy, low=0))
        object.__setattr__(self, "steps", integer("steps", self.steps, low=1))

    def init(self, view):
        none = jnp.zeros(view.means.shape, jnp.int32)
        phase = jnp.zeros_like(view.t)
        return RAGEState(phase, jnp.ones_like(view.linear.candidates, bool), none)

    def choose(self, view, state, rarely):
        over = ~view.lanes.any(state.left > 0)
        state = rarely(over, lambda: self._next_phase(view, state, over), state)
        arm = view.lanes.argmax(state.left.astype(view.means.dtype))
        left = jnp.where(index_like(state.left) == arm, state.left - 1, state.left)
        return arm, dataclasses.replace(state, left=left)

    def _next_phase(self, view, state, over):
        """Discard arms, and design the next phase where the last is `over` [] bool."""
        active = state.active & ~(
            dominated(view, state.active, self._width(view, state)) & (state.phase > 0)
        )
        # With one active arm no phase follows, and the run ends.
        begins = over & (view.lanes.sum(active) > 1)
        weights, rho = xy_design(view, active, begins, self.accuracy, self.steps)
        support = view.lanes.sum(weights > 0)
        scale = jnp.ldexp(8 * rho, 2 * state.phase) * (1 + self.slack)
        samples = jnp.ceil(scale * (self._width(view, state) / 2))
        samples = jnp.maximum(
            jnp.where(begins, jnp.minimum(samples, _LONGEST), 0).astype(jnp.int32), 20 * support
        )
        left = efficiently_rounded(view.lanes, weights, samples, support, begins)
        return RAGEState(state.phase + 1, active, jnp.where(begins, left, 0))

    def _width(self, view, state):
        """2 log(2 K^2/delta_l), with delta_0 = delta_1."""
        level = view.delta / jnp.maximum(state.phase, 1).astype(view.delta.dtype) ** 2
        return 2 * jnp.log(2 * state.active.shape[0] ** 2 / level)

    def native(self, view, state):
        return view.lanes.sum(state.active) == 1, state.active
