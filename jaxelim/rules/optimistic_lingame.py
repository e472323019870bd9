"""LinGame with optimistic gains."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxelim.contracts.traits import Traits
from jaxelim.rules.lingame import LinGame


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
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
