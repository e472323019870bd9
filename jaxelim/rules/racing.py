"""Racing."""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import SamplingRule, Traits
from jaxelim.contracts.proofs import INTERVALS
from jaxelim.contracts.sets import largest
from jaxelim.lanes import index_like, pytree, settings, where
from jaxelim.rules.parts.indices import observed


@pytree
class RacingState:
    """Accepted and remaining arms (all others are discarded), and the arm pulled last."""

    accepted: Array  # [K] bool
    remaining: Array  # [K] bool
    last: Array  # [] int32


@settings
class Racing(SamplingRule):
    """Pull every remaining arm once a round; accept or discard at most one before each round.

    ::

        mu_k = R_k/N_k with bounds L_k and U_k at level beta(t, delta);
        T = the m best means of all arms, less the accepted.
        Accept the best remaining arm a if
        max over the remaining outside T of U_i <= L_a.
        Discard the worst remaining arm w if U_w <= min over T of L_i.
        Where both hold, take the one with the larger margin (ties: accept).
        Stop when m are accepted or K - m discarded.
        The answer is the accepted arms; in the second case the remaining arms too.

    Gaussian rewards have bounds mu_k -+ sqrt(2 beta/N_k). Other families have KL
    bounds, which makes this KL-Racing. Rounds go in index order.

    Kaufmann & Kalyanakrishnan 2013. The authors' program also discards an arm where only an
    acceptance holds: shorter runs, but no test has separated the arms that it discards.
    """

    traits: ClassVar[Traits] = Traits(
        problems=("best-arm", "top-m"), structures=("unstructured",), families=None, native="only",
        elimination=False, reads=("delta", "rewards"), lanes_last=True,
        source="Kaufmann & Kalyanakrishnan 2013",
    )  # fmt: skip
    native_test: ClassVar[str] = INTERVALS

    def needs(self, family, problem):
        return ("interval",)

    def init(self, view):
        every = jnp.ones_like(view.means, bool)
        return RacingState(~every, every, jnp.full_like(view.t, view.means.shape[0] - 1))

    def _changed(self, view, state):
        """The accepted and the remaining arms after the tests at the end of a round."""
        lanes = view.lanes
        means, interval = observed(view)
        upper, lower = interval.upper, interval.lower
        leading = largest(lanes, means, view.problem.m).member & ~state.accepted
        best = lanes.argmax(jnp.where(state.remaining, means, -jnp.inf))
        worst = lanes.argmin(jnp.where(state.remaining, means, jnp.inf))
        rivals = lanes.max(jnp.where(state.remaining & ~leading, upper, -jnp.inf))
        accept = lanes.take(lower, best) - rivals
        discard = lanes.min(jnp.where(leading, lower, jnp.inf)) - lanes.take(upper, worst)
        accepts = (accept >= 0) & (accept >= discard)
        discards = (discard >= 0) & ~accepts
        here = index_like(means)
        taken = accepts & (here == best)
        return state.accepted | taken, state.remaining & ~taken & ~(discards & (here == worst))

    def choose(self, view, state):
        lanes, arms = view.lanes, index_like(view.means)
        over = ~lanes.any(state.remaining & (arms > state.last))
        tests = over & ~self.native(view, state)[0]  # an end stays, until it is asked for
        old = state.accepted, state.remaining
        accepted, remaining = where(tests, self._changed(view, state), old)
        waiting = remaining & (over | (arms > state.last))
        arm = lanes.argmax(waiting.astype(view.means.dtype))
        return arm, RacingState(accepted, remaining, arm)

    def native(self, view, state):
        accepted, remaining = view.lanes.sum(state.accepted), view.lanes.sum(state.remaining)
        full = accepted == view.problem.m
        ends = full | (accepted + remaining == view.problem.m)
        return ends, state.accepted | (state.remaining & ~full)
