"""The least eigenvalue of V from pull to pull, recomputed only where bounds do not decide."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.traits import Rarely
from jaxelim.contracts.views import View


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LeastEigenvalue:
    """Bounds on lambda_min(V), V with the family's ridge."""

    low: Array  # []: the last exact value, as V only grows
    high: Array  # []: u' V u, u the unit eigenvector of that value
    toward: Array  # [K]: (phi_k . u)^2, which one more pull of k adds to `high`

    def decided(self, view: View, need: Array, rarely: Rarely) -> "LeastEigenvalue":
        """Bounds of which both lie on one side of `need` []."""
        unsure = (self.low < need) & (self.high >= need)
        return rarely(unsure, lambda: _exact(view), self)

    def pulled(self, view: View, arm: Array) -> "LeastEigenvalue":
        """After one more pull of an arm []."""
        return dataclasses.replace(self, high=self.high + view.lanes.take(self.toward, arm))


def _exact(view: View) -> LeastEigenvalue:
    """Both bounds at the present V."""
    def of_run(features, counts):
        v = jnp.matmul(features.T, counts[:, None] * features, precision="highest")
        least, u = view.lanes.least_eigenpair(
            v + view.family.ridge * jnp.eye(features.shape[1], dtype=features.dtype)
        )
        toward = jnp.matmul(features, u, precision="highest") ** 2
        return LeastEigenvalue(least, least, toward)

    if view.means.ndim == 1:
        return of_run(view.features, view.counts)
    shared = view.features.ndim == 2
    return jax.vmap(of_run, in_axes=(None if shared else -1, -1), out_axes=-1)(
        view.features, view.counts
    )
