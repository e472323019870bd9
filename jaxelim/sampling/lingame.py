"""LinGame."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import SamplingRule
from jaxelim.contracts.traits import Traits
from jaxelim.errors import ArgumentError
from jaxelim.sampling.parts import tracking
from jaxelim.sampling.parts.learners import AdaHedge


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LinGameState:
    """The learner over arms, and the target of C-tracking."""

    learner: AdaHedge
    target: Array  # [K] the sum of all weights, plus the counts after the initial pulls


_FLOOR = 1e-12  # least weight inside V_w


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LinGame(SamplingRule):
    """Play a game of AdaHedge over arms against the closest alternative.

    w from the learner;
    lambda = closest point to theta_hat among active pieces in the metric of V_w;
    gain g_k = (phi_k . (theta_hat - lambda))^2/2;
    the learner suffers -g; C-tracking of w.
    Optimistic: add c_k = sqrt(2 log(t) ||phi_k||^2_{V^-1}) to the gain,
    g_k = (|phi_k . (theta_hat - lambda)| + c_k)^2/2.

    Also known as MisLid in top-m identification and k-Learner in unstructured problems.
    Degenne, Menard, Shang & Valko 2020; Reda, Tirinzoni & Degenne 2021 (top m).

    The weights of AdaHedge can underflow, and V_w with them. So inside V_w each is at
    least 1e-12, which keeps V_w invertible if the arms span R^d. This changes nothing
    while V_w is well conditioned.

    Args:
        optimistic: add the bonus; the paper's experiments use the greedy rule.
    """

    optimistic: bool = False
    traits: ClassVar[Traits] = Traits(
        uses_delta=False,
        uses_rewards=False,
        lanes_last=True,
        source="Degenne et al. 2020; Reda et al. 2021",
        name="lingame",
        aliases=("k-learner", "mislid"),
    )

    def __post_init__(self):
        if not isinstance(self.optimistic, bool):
            raise ArgumentError("optimistic", self.optimistic, "True or False")

    def init(self, view):
        return LinGameState(AdaHedge.start(view.means), view.counts)

    def choose(self, view, state):
        lanes = view.lanes
        weights = state.learner.weights(lanes)
        evidence = view.linear.weighted(jnp.maximum(weights, _FLOOR))
        closest = lanes.argmin(jnp.where(view.active, evidence.values(), jnp.inf))
        gain = evidence.gradient(closest)
        if self.optimistic:
            bonus = jnp.sqrt(2 * jnp.log(view.time) * view.linear.design.g)
            gain = (jnp.sqrt(2 * gain) + bonus) ** 2 / 2
        target = state.target + weights
        arm = tracking.cumulative(lanes, view.counts, target)
        return arm, LinGameState(state.learner.learn(lanes, weights, -gain), target)
