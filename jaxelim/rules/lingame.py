"""LinGame, and its form with optimistic gains."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import SamplingRule, Traits
from jaxelim.contracts.views import Evidence, View
from jaxelim.lanes import pytree, settings
from jaxelim.rules.parts import tracking
from jaxelim.rules.parts.indices import of_pairs_alone

_FLOOR = 1e-12  # least weight inside H


@pytree
class LinGameState:
    """AdaHedge over arms, and the target of C-tracking.

    Exponential weights with a rate that adapts to the mixability gap: eta = ln K/gap; the gap
    starts at 0.01. Losses enter as differences from the smallest, so nothing overflows. (de Rooij
    et al. 2014)
    """

    losses: Array  # [K], summed
    gap: Array  # [], summed mixability gap
    target: Array  # [K] the sum of all weights, plus the counts after the initial pulls


@settings
class LinGame(SamplingRule):
    """Play a game of AdaHedge over arms against the closest alternative.

    w from the learner;
    p = argmin_{p active} H_p(w), lambda its closest point to the estimates;
    gain g_k = dH_p/dw_k; the learner suffers -g; C-tracking of w.

    Linear Gaussian rewards: g_k = (phi_k . (theta_hat - lambda))^2/2. Other families:
    g_k = d(m_k, lambda_k)/c_k, c_k the arm's cost.

    Also known as MisLid in top-m identification and k-Learner in unstructured problems.
    Degenne, Koolen & Menard 2019; Degenne, Menard, Shang & Valko 2020; Reda, Tirinzoni
    & Degenne 2021 (top m).

    The weights of AdaHedge can underflow, and V_w with them. So inside H each is at least 1e-12:
    V_w is then invertible if the arms span R^d, and the gain of a mean at the end of its range
    finite.

    With costs of pulls w is a share of the cost: H_p is at w/c, the gain is that of a pull
    over its cost, and the shares w_k/c_k of the pulls are tracked: the plain extension.
    """

    traits: ClassVar[Traits] = Traits(
        families=None, costs=True, reads=("pieces",), lanes_last=True, basis_free=True,
        source="Degenne et al. 2020; Reda et al. 2021", name="lingame",
    )  # fmt: skip

    def needs(self, family, problem):
        return ("truth",) if of_pairs_alone(family) else ()

    def init(self, view):
        gap = jnp.full_like(view.means[0], 0.01)
        return LinGameState(jnp.zeros_like(view.means), gap, view.counts)

    def choose(self, view, state):
        lanes = view.lanes
        rate = float(np.log(state.losses.shape[0])) / state.gap
        raw = jnp.exp(-rate * (state.losses - lanes.min(state.losses)))
        weights = raw / lanes.sum(raw)
        evidence = view.evidence.weighted(view.per_price(jnp.maximum(weights, _FLOOR)))
        closest = lanes.argmin(jnp.where(view.active, evidence.values(), jnp.inf))
        loss = -view.per_price(self.gain(view, evidence, closest))
        target = state.target + tracking.shares_of_pulls(view, weights)
        arm = tracking.cumulative(lanes, view.counts, target)
        least = lanes.min(loss)
        mixed = least - jnp.log(lanes.sum(weights * jnp.exp(-rate * (loss - least)))) / rate
        gap = state.gap + (lanes.sum(weights * loss) - mixed)
        return arm, LinGameState(state.losses + loss, gap, target)

    def gain(self, view: View, evidence: Evidence, piece: Array) -> Array:
        """What a pull of each arm gains against the closest point of a piece []: [K]."""
        return evidence.gradient(piece)


@settings
class OptimisticLinGame(LinGame):
    """`LinGame` with the largest gain of each arm over its confidence interval at level log t.

    g_k = (|phi_k . (theta_hat - lambda)| + c_k)^2/2, c_k = sqrt(2 log(t) ||phi_k||^2_{V^-1});
    the learner suffers -g. For Gaussian rewards of one standard deviation. The paper's
    experiments use the greedy rule.

    Degenne, Menard, Shang & Valko 2020.
    """

    traits: ClassVar[Traits] = dataclasses.replace(
        LinGame.traits, families=("gaussian",), source="Degenne et al. 2020",
        name="optimistic-lingame",
    )  # fmt: skip

    def gain(self, view, evidence, piece):
        bonus = jnp.sqrt(2 * jnp.log(view.time) * view.linear.design.g)
        return (jnp.sqrt(2 * super().gain(view, evidence, piece)) + bonus) ** 2 / 2
