"""The statistics of linear Gaussian rewards, in units of std.

V = lambda I + sum_k N_k phi_k phi_k', lambda the ridge; V^-1 is diagonal or kept whole.
"""

import dataclasses
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are imported on first use
from jax import Array

from jaxelim.contracts.views import Statistics
from jaxelim.evidence.designs import Design, LinearContext
from jaxelim.numerics.jacobi import svd

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CrossCache:
    """A cache of phi_j' V^-1 phi_i, for the arms i that `linear.cached` names, in its order.

    The answer changes rarely. While it stays, a pull changes these products by rank one, as
    it changes g. In a lane whose answer changes they are recomputed. Arrays must have the axis
    of lanes; their rank then separates one arm [] from several [m].
    """

    arms: Array  # [] or [m] int32; -1 where the entry is invalid
    cross: Array  # [K] or [K, m]

    @staticmethod
    def nothing(arms: Array, means: Array) -> "CrossCache":
        """An invalid cache for as many arms as `arms` [] or [m]; means [K] give its K and dtype."""
        cross = jnp.zeros(means.shape[:1] + arms.shape, means.dtype)
        return CrossCache(jnp.full_like(arms, -1), cross)

    def of(self, space: LinearContext, design: Design, arms: Array) -> "CrossCache":
        """The cache for `arms`: recompute the entries that hold another arm."""
        stale = self.arms != arms

        def renewed(cross: Array) -> Array:
            return jnp.where(stale, design.cross(space, arms), cross)

        return CrossCache(arms, jax.lax.cond(jnp.any(stale), renewed, lambda x: x, self.cross))

    def after(self, space: LinearContext, gain: Array, arm: Array) -> "CrossCache":
        """Update by rank one after a pull of `arm`; `gain` [K] is that of `Design.add`."""
        lanes, several = space.lanes, self.arms.ndim > 1
        along = lanes.row(self.cross, arm) if several else lanes.take(self.cross, arm)
        step = (gain[:, None] if several else gain) * along
        return dataclasses.replace(self, cross=self.cross - step)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearStatistics(Statistics):
    """The statistics of linear Gaussian rewards."""

    design: Design  # V^-1
    products: CrossCache | None  # of the last snapshot, updated by the sample since; None: no cache

    def of_one_run(self) -> "LinearStatistics":
        return dataclasses.replace(self, products=None)


def may_cancel(instance: "Arms", ridge: float, max_samples: int) -> bool:
    """Whether some ||phi_i - phi_j||^2_{V^-1} may fall below 1e-10 (g_i + g_j).

    Then distances must be formed from phi_i - phi_j. The bound covers runs of up to
    `max_samples` samples. Identical arms do not count, as their distance is 0 in both
    forms. Identity features never cancel.
    """
    if instance.structure == "unstructured":
        return False
    for features in np.reshape(instance.arms, (-1, instance.K, instance.d)):
        largest = np.sum(features**2, 1).max()
        smallest = svd(features)[1][-1] if len(features) >= instance.d else 0.0
        condition = (ridge + max_samples * largest) / max(smallest**2 + ridge, 1e-300)
        # Pulls rarely reach the worst conditioning, so its square root is taken.
        least = 1e-10 * np.sqrt(condition) * 2 * largest
        different = np.unique(features, axis=0)
        tree = scipy.spatial.cKDTree(different)
        if tree.count_neighbors(tree, np.sqrt(least)) > len(different):
            return True
    return False
