"""Online learners over the simplex."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.lanes import LaneOps


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AdaHedge:
    """Exponential weights with a rate that adapts to the mixability gap.

    eta = ln K/gap; the gap starts at 0.01. Losses enter as differences from the
    smallest, so nothing overflows. (de Rooij et al. 2014)
    """

    losses: Array  # [K], summed
    gap: Array  # [], summed mixability gap

    @staticmethod
    def start(like: Array) -> "AdaHedge":
        """The learner with K equal weights; `like` [K] gives shape and dtype."""
        return AdaHedge(jnp.zeros_like(like), jnp.full_like(like[0], 0.01))

    def _rate(self) -> Array:
        return float(np.log(self.losses.shape[0])) / self.gap

    def weights(self, lanes: LaneOps) -> Array:
        """w_k proportional to exp(-eta (L_k - min L)): [K], on the simplex."""
        raw = jnp.exp(-self._rate() * (self.losses - lanes.min(self.losses)))
        return raw / lanes.sum(raw)

    def learn(self, lanes: LaneOps, weights: Array, loss: Array) -> "AdaHedge":
        """The learner after it played `weights` [K] and suffered `loss` [K]."""
        rate = self._rate()
        least = lanes.min(loss)
        mixed = least - jnp.log(lanes.sum(weights * jnp.exp(-rate * (loss - least)))) / rate
        return AdaHedge(self.losses + loss, self.gap + (lanes.sum(weights * loss) - mixed))
