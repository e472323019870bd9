"""Cache of phi_j' V^-1 phi_i for the arms i of the empirical answer.

The answer changes rarely. While it stays, a pull changes these products by rank one, as
it changes g. In a lane whose answer changes they are recomputed.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.evidence.designs import Design, LinearContext


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CrossCache:
    """The products of the arms that `directions.cached` names, in its order.

    Arrays must have the axis of lanes; their rank then separates one arm [] from
    several [m].
    """

    arms: Array  # [] or [m] int32; -1 where the entry is invalid
    cross: Array  # [K] or [K, m]

    @staticmethod
    def nothing(arms: Array, means: Array) -> "CrossCache":
        """An invalid cache for as many arms as `arms` [] or [m]; means [K] give its K and dtype."""
        return CrossCache(arms, jnp.zeros(means.shape[:1] + arms.shape, means.dtype)).forgotten()

    def forgotten(self) -> "CrossCache":
        """Invalidate all entries."""
        return dataclasses.replace(self, arms=jnp.full_like(self.arms, -1))

    def of(self, space: LinearContext, design: Design, arms: Array) -> "CrossCache":
        """The cache for `arms`: recompute the entries that hold another arm."""
        stale = self.arms != arms

        def renewed(cross: Array) -> Array:
            return jnp.where(stale, design.cross(space, arms), cross)

        return CrossCache(arms, jax.lax.cond(jnp.any(stale), renewed, lambda x: x, self.cross))

    def after(self, space: LinearContext, gain: Array, arm: Array) -> "CrossCache":
        """Update by rank one after a pull of `arm`; `gain` [K] is that of `Design.add`."""
        along = (
            space.lanes.row(self.cross, arm)
            if self.arms.ndim > 1
            else space.lanes.take(self.cross, arm)
        )
        gain = gain if self.arms.ndim == 1 else gain[:, None]
        return dataclasses.replace(self, cross=self.cross - gain * along)
