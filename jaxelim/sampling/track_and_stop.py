"""Track-and-Stop."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim import checks
from jaxelim.contracts import ASK, OK, SamplingRule
from jaxelim.contracts.traits import Traits
from jaxelim.families.linear_evidence import LinearEvidence
from jaxelim.sampling.parts import allocation, arm_allocation, tracking
from jaxelim.sampling.parts.allocation import Allocation
from jaxelim.sampling.parts.arm_allocation import ArmAllocation


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrackState:
    """The last allocation, and the target of C-tracking."""

    found: Allocation | ArmAllocation
    target: Array  # [K] the sum of the tracked weights, plus the counts after the initial pulls


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class TrackAndStop(SamplingRule):
    """Track the optimal allocation at the estimates, with forced exploration.

    w_t = argmax_w min_{p active} H_p(w), whenever it is due;
    D-tracking: arm = argmin_k N_k - (t - 1) w_k;
    C-tracking: W += w, arm = argmin_k N_k - W_k.

    Exploration "wrapper": where some arms have N_k <= sqrt(t - 1) - K/2, uniform
    weights over them replace w. Exploration "paper": where some N_k < sqrt(t), pull
    argmin_k N_k, with W += w as before.

    Garivier & Kaufmann 2016; Tirinzoni & Degenne 2022, section 2. A primal-dual
    interior-point method solves it from the last solution. Any mixture q over pieces
    certifies H* <= max_k sum_p q_p dH_p/dw_k.

    Families without a design: best arm by Newton's method on the equations of Garivier &
    Kaufmann 2016, Theorem 5, from the last solution; signs w_k ~ c_k/d(m_k, level), c_k
    the arm's cost. Arms that tie for the best, or lie on the level, share all weight
    evenly. These weights are multiples of 2^-30.

    Args:
        tracking: "D" or "C".
        schedule: when to solve. "always". An integer n: at the first and each n-th
            choice. "powers": at the first choice and where t is a power of two.
        gap: relative duality gap that the interior-point method solves to, in (0, 1).
        exploration: "wrapper" or "paper".
    """

    tracking: str = "D"
    schedule: str | int = "always"
    gap: float = 1e-6
    exploration: str = "wrapper"
    traits: ClassVar[Traits] = Traits(
        families=None,
        slack=True,
        uses_delta=False,
        uses_rewards=False,
        lanes_last=True,
        batch=16,
        patience=1 / 16,
        source="Garivier & Kaufmann 2016",
        name="tas",
    )

    def __post_init__(self):
        checks.choice("tracking", self.tracking, ("D", "C"))
        object.__setattr__(self, "schedule", allocation.checked_schedule(self.schedule))
        object.__setattr__(self, "gap", checks.real("gap", self.gap, low=0, high=1, open=True))
        checks.choice("exploration", self.exploration, ("wrapper", "paper"))

    def needs(self, family, problem):
        if family.has("design") or problem.name == "thresholding":
            return ()
        return ("divergence", "variance")

    def prepare(self, instance, problem, ridge):
        """Coordinates with Phi' Phi = identity; see `allocation.frames`."""
        return allocation.frames(instance) if instance.family.has("design") else ()

    def init(self, view):
        kind = allocation if isinstance(view.evidence, LinearEvidence) else arm_allocation
        return TrackState(kind.start(view), view.counts)

    def fast(self, view, state):
        due = allocation.due(self.schedule, view)
        if not isinstance(view.evidence, LinearEvidence):
            found, solved = arm_allocation.solve(view, state.found, self.gap, due, quick=True)
            return *self._track(view, state, found), jnp.where(solved, OK, ASK)
        idle = dataclasses.replace(state.found, evaluations=jnp.zeros_like(view.t))
        return *self._track(view, state, idle), jnp.where(due, ASK, OK)

    def choose(self, view, state):
        due = allocation.due(self.schedule, view)
        if not isinstance(view.evidence, LinearEvidence):
            found, _ = arm_allocation.solve(view, state.found, self.gap, due)
            return self._track(view, state, found)
        return self._track(view, state, allocation.solve(view, state.found, self.gap, due))

    def piece_tests(self, view, state):
        return state.found.evaluations * view.active_count

    def _track(self, view, state, found):
        lanes, counts, time, weights = view.lanes, view.counts, view.time, found.weights
        if self.exploration == "wrapper":
            weights = tracking.force_exploration(lanes, counts, time, weights)
        target = state.target + weights
        if self.tracking == "C":
            arm = tracking.cumulative(lanes, counts, target)
        else:
            arm = tracking.direct(lanes, counts, time, weights)
        if self.exploration == "paper":
            arm = jnp.where(lanes.min(counts) < jnp.sqrt(time), lanes.argmin(counts), arm)
        return arm, TrackState(found, target)
