"""Optimistic Track-and-Stop."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp

from jaxelim.contracts import SamplingRule, Traits
from jaxelim.errors import ArgumentError
from jaxelim.lanes import settings
from jaxelim.rules.parts import allocation, tracking


@settings
class OptimisticTaS(SamplingRule):
    """Track the optimal allocation for optimistic gains, without forced exploration.

    ::

        w_t = argmax_w min_{p active} H_p(w, theta_hat) + w . c, whenever it is due;
        c_k = sqrt(2 log t) ||phi_k||_{V^-1};
        C-tracking: W += w, arm = argmin_k N_k - W_k.

    Degenne, Koolen & Menard 2019; Tirinzoni & Degenne 2022, appendix "Optimistic
    Track-and-Stop". Solved as in `TrackAndStop`, by the certificate that the optimum is at
    most max_k sum_p q_p dH_p/dw_k + c_k. For Gaussian rewards of one standard deviation.

    With costs of pulls w is a share of the cost, H_p(w/c) and c_k over the arm's cost take
    their places, and the shares w_k/c_k of the pulls are tracked: the plain extension.

    Args:
        bonus: a function of (t [], ||phi_k||_{V^-1} [K]) that gives c, [K] and
            non-negative; None: the one above.
        schedule: n, to solve at the first and each n-th choice.
        gap_share: as of `TrackAndStop`.
    """

    bonus: Callable[[Any, Any], Any] | None = None
    schedule: int = 1
    gap_share: float = 0.1
    traits: ClassVar[Traits] = Traits(
        costs=True, reads=("pieces",), lanes_last=True, basis_free=True,
        source="Degenne et al. 2019", name="optimistic-tas",
    )  # fmt: skip

    def __post_init__(self):
        if self.bonus is not None and not callable(self.bonus):
            raise ArgumentError("bonus", self.bonus, "None, or a callable of (t, norms)")
        tracking.check_settings(self)

    def prepare(self, instance, problem, ridge):
        """Coordinates with Phi' Phi = identity; see `allocation.frames`."""
        return allocation.frames(instance)

    def init(self, view):
        return tracking.Tracked(allocation.start(view), view.counts)

    def choose(self, view, state, rarely):
        now, goal = tracking.due(self.schedule, view), tracking.gap(self.gap_share, view)
        norms = jnp.sqrt(view.linear.design.g)
        c = self.bonus(view.time, norms) if self.bonus else jnp.sqrt(2 * jnp.log(view.time)) * norms
        bonus = view.per_price(jnp.asarray(c))
        found = allocation.solve(view, state.found, goal, now, rarely, bonus)
        target = state.target + tracking.shares_of_pulls(view, found.weights)
        arm = tracking.cumulative(view.lanes, view.counts, target)
        return arm, tracking.Tracked(found, target)

    def work(self, view, state):
        return state.found.evaluations * view.active_count, state.found.solves
