"""Track-and-Stop, and its optimistic form."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp

from jaxelim import checks
from jaxelim.contracts import Traits
from jaxelim.errors import ArgumentError
from jaxelim.lanes import settings
from jaxelim.rules.parts import allocation, arm_allocation, tracking
from jaxelim.rules.parts.allocation import Frame


@settings
class TrackAndStop(tracking.Solving):
    """Track the optimal allocation at the estimates, with forced exploration.

    w_t = argmax_w min_{p active} H_p(w), whenever it is due;
    D-tracking: arm = argmin_k N_k - (t - 1) w_k;
    C-tracking: W += w, arm = argmin_k N_k - W_k. Garivier & Kaufmann's first moves w to
    the nearest weights that are all at least 1/(2 sqrt(K^2 + t)). This one sums the weights
    after the replacement below, so an arm that needs exploration is not always pulled.

    Where some arms have N_k <= sqrt(t - 1) - K/2, uniform weights over them replace w;
    D-tracking then pulls the least pulled of them. (The paper has <.) The stop is the call's
    stopping rule, by default LLR.

    Garivier & Kaufmann 2016; Tirinzoni & Degenne 2022, section 2. Any mixture q over
    pieces certifies H* <= max_k sum_p q_p dH_p/dw_k. The pair (w, q) of the last solve
    is certified at the new estimates first. A primal-dual interior-point method goes on
    from there where the gap is above min(c, max(1e-6, c sqrt(2/Z_t))), Z_t the least LLR of
    the active pieces. H*(theta_hat) itself has a relative error of about sqrt(2/Z_t).

    Theory: answers are right with probability 1 - delta for any gap, since that is the
    stopping rule's. A gap e costs a factor of at most 1 + e in E[tau]/log(1/delta).

    Independent arms, whose solves are exact at every due sample: best arm by the equations of
    Garivier & Kaufmann 2016, Theorem 5, from the last solution (for Gaussian rewards one scalar
    equation: w_a/w_best = 1/(u gap_a^2 - 1), the squares of these ratios sum to 1); signs
    w_k ~ c_k/d(m_k, level), c_k the arm's cost. A ridge shrinks the estimates; no H_p contains
    it. Arms that tie for the best, or lie on the level, share all weight evenly. These weights
    are multiples of 2^-30. Top m is solved by the interior-point method. Unknown variances are
    refused.

    With costs c_k of pulls, w maximises H_p(w/c) and is a share of the cost. The shares
    w_k/c_k, to sum 1, are tracked as above; exploration counts pulls. That is the plain
    extension, as T* of costs is that of Gaussian arms with variances c_k.

    `BestArm(epsilon=)`: the answer of largest H*. It is not Sticky Track-and-Stop (Degenne &
    Koolen 2019): where several answers have the same H*, the weights may alternate between them.

    Args:
        tracking: "D" or "C".
        schedule: n, to solve at the first and each n-th choice.
        gap_share: c, in (0, 1), the share of the estimate's error that a solve may add. Only
            the interior-point method reads it.
    """

    tracking: str = "D"
    schedule: int = 1
    gap_share: float = 0.1
    traits: ClassVar[Traits] = Traits(
        families=None, slack=True, costs=True, reads=("pieces",), lanes_last=True, basis_free=True,
        source="Garivier & Kaufmann 2016", name="tas",
    )  # fmt: skip

    def __post_init__(self):
        checks.choice("tracking", self.tracking, ("D", "C"))
        super().__post_init__()

    def needs(self, family, problem):
        return ("truth",)  # the method: the family's H_p

    def prepare(self, instance, problem, ridge):
        """Coordinates with Phi' Phi = identity, where the interior-point method needs them."""
        if not instance.family.design or arm_allocation.exact(instance, problem):
            return ()
        return allocation.frames(instance)

    def init(self, view):
        kind = arm_allocation if _by_arms(view) else allocation
        return tracking.Tracked(kind.start(view), view.counts)

    def choose(self, view, state, rarely):
        now, goal = tracking.due(self.schedule, view), tracking.gap(self.gap_share, view)
        kind = arm_allocation if _by_arms(view) else allocation
        found = kind.solve(view, state.found, goal, now, rarely)
        lanes, counts, time = view.lanes, view.counts, view.time
        weights = tracking.shares_of_pulls(view, found.weights)
        weights = tracking.force_exploration(lanes, counts, time, weights)
        target = state.target + weights
        if self.tracking == "C":
            arm = tracking.cumulative(lanes, counts, target)
        else:
            arm = tracking.direct(lanes, counts, time, weights)
        return arm, tracking.Tracked(found, target)


def _by_arms(view):
    """Whether `arm_allocation` solves: `prepare` has made no frame."""
    return not isinstance(view.prepared, Frame)


@settings
class OptimisticTaS(tracking.Solving):
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
        super().__post_init__()

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
