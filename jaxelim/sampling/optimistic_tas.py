"""Optimistic Track-and-Stop."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import ASK, OK, SamplingRule
from jaxelim.contracts.traits import Traits
from jaxelim.errors import ArgumentError
from jaxelim.saddle.tolerance import EvidenceGap, checked, tolerance
from jaxelim.sampling.parts import allocation, arm_allocation, tracking
from jaxelim.sampling.parts.allocation import Allocation
from jaxelim.sampling.parts.arm_allocation import ArmAllocation


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OptimisticState:
    """The last allocation, and the target of C-tracking."""

    found: Allocation | ArmAllocation
    target: Array  # [K] the sum of all weights, plus the counts after the initial pulls


def elliptical(time: Array, norm: Array) -> Array:
    """c_k = sqrt(2 log t) ||phi_k||_{V^-1}: [K], for t [] and the norms [K]."""
    return jnp.sqrt(2 * jnp.log(time)) * norm


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class OptimisticTaS(SamplingRule):
    """Track the optimal allocation for optimistic gains, without forced exploration.

    ::

        w_t = argmax_w min_{p active} H_p(w, theta_hat) + w . c, whenever it is due;
        c_k = sqrt(2 log t) ||phi_k||_{V^-1};
        C-tracking: W += w, arm = argmin_k N_k - W_k.

    Degenne, Koolen & Menard 2019; Tirinzoni & Degenne 2022, appendix "Optimistic
    Track-and-Stop". Any mixture q over pieces certifies that the optimum is at most
    max_k sum_p q_p dH_p/dw_k + c_k. The pair (w, q) of the last solve is certified at the
    new estimates and c first; a primal-dual interior-point method goes on from there. As
    for `TrackAndStop`, asymptotic optimality needs a gap that tends to 0.

    Families without a design, best arm alone: w_t is the optimal allocation of the means
    with the largest H* in the box of all [L_k, U_k], bounds at level log t. These are one
    arm at its U, the others at L, for an arm with U_k > max L; ties go to the lowest
    index. Arms without an active piece have weight 0. Unknown variances are refused: a
    box of means does not say which variances belong to the means in it.

    With costs of pulls w is a share of the cost, H_p(w/c) and c_k over the arm's cost take
    their places, and the shares w_k/c_k of the pulls are tracked: the plain extension.

    Args:
        bonus: a function of (t [], ||phi_k||_{V^-1} [K]) that gives c, [K] and
            non-negative; None: the one above. For Gaussian rewards.
        schedule: when to solve. "always". An integer n: at the first and each n-th
            choice. "powers": at the first choice and where t is a power of two.
        gap: relative duality gap of w_t: an `EvidenceGap`, or a number in (0, 1).
    """

    bonus: Callable[[Any, Any], Any] | None = None
    schedule: str | int = "always"
    gap: float | EvidenceGap = EvidenceGap()
    traits: ClassVar[Traits] = Traits(
        families=None,
        costs=True,
        uses_delta=False,
        uses_rewards=False,
        counts_solves=True,
        lanes_last=True,
        basis_free=True,
        source="Degenne et al. 2019",
        name="optimistic-tas",
    )

    def __post_init__(self):
        if self.bonus is not None and not callable(self.bonus):
            raise ArgumentError("bonus", self.bonus, "None, or a callable of (t, norms)")
        object.__setattr__(self, "schedule", allocation.checked_schedule(self.schedule))
        object.__setattr__(self, "gap", checked(self.gap))

    def needs(self, family, problem):
        if family.has("design"):
            return ()
        if problem.name != "best-arm" or self.bonus is not None:
            return ("design",)
        return ("divergence", "variance", "interval")

    def prepare(self, instance, problem, ridge):
        """Coordinates with Phi' Phi = identity; see `allocation.frames`."""
        return allocation.frames(instance) if instance.family.has("design") else ()

    def init(self, view):
        kind = allocation if view.family.has("design") else arm_allocation
        return OptimisticState(kind.start(view), view.counts)

    def fast(self, view, state):
        now = allocation.due(self.schedule, view)
        if view.family.has("design"):
            allocated, holds = allocation.look(view, state.found, *self._wanted(view, now))
        else:
            none = jnp.zeros_like(view.t)
            allocated = dataclasses.replace(state.found, evaluations=none, solves=none)
            holds = ~now
        return *self._track(view, state, allocated), jnp.where(holds, OK, ASK)

    def choose(self, view, state):
        now = allocation.due(self.schedule, view)
        if view.family.has("design"):
            allocated = allocation.solve(view, state.found, *self._wanted(view, now))
        else:
            allocated = arm_allocation.over_box(view, state.found, now)
        return self._track(view, state, allocated)

    def piece_tests(self, view, state):
        return state.found.evaluations * view.active_count

    def solves(self, view, state):
        return state.found.solves

    def _wanted(self, view, now):
        bonus = (self.bonus or elliptical)(view.time, jnp.sqrt(view.linear.design.g))
        return tolerance(self.gap, view), now, view.per_price(jnp.asarray(bonus))

    def _track(self, view, state, allocated):
        target = state.target + view.shares_of_pulls(allocated.weights)
        return tracking.cumulative(view.lanes, view.counts, target), OptimisticState(
            allocated, target
        )
