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

from jaxelim.contracts.views import Snapshot, Statistics
from jaxelim.evidence.designs import Design, DiagonalDesign, LinearContext, SquareDesign
from jaxelim.evidence.linear import LinearEvidence, cached
from jaxelim.lanes import index_like
from jaxelim.numerics import host
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


def initial_tables(instance: "Arms", form: str, ridge: float) -> dict[str, np.ndarray]:
    """What `started` reads, after one pull of each arm: NumPy arrays [I, ..].

    g [I, K]; `matrix`, which is V^-1 [I, d, d], or [I, 0] for the form "diagonal"; and
    `estimator` [I, d, K]: theta_hat = estimator @ rewards.
    """
    arms = np.reshape(instance.arms, (-1, instance.K, instance.d))
    v_inv = host.inverse(ridge * np.eye(instance.d) + np.einsum("ikd,ike->ide", arms, arms))
    estimator = host.product(v_inv, np.swapaxes(arms, 1, 2))
    matrix = v_inv if form == "square" else np.zeros((len(arms), 0))
    g = np.einsum("ikd,idk->ik", arms, estimator)
    return {"g": g, "matrix": matrix, "estimator": estimator}


def started(
    space: LinearContext, tables: dict, rewards: Array, form: str, theta: bool, sums: bool
) -> LinearStatistics:
    """The statistics as of `Family.start`, without cached products.

    `theta`: whether theta_hat is kept; `sums`: whether the sums of rewards are.
    """
    k, b = rewards.shape
    owned = space.features.ndim == 3  # lanes have features of their own

    def of_lanes(table: Array) -> Array:
        return table if owned else jnp.broadcast_to(table[..., None], (*table.shape, b))

    if owned:
        theta_hat = jnp.einsum("dkb,kb->db", tables["estimator"], rewards, precision="highest")
    else:
        theta_hat = jnp.matmul(tables["estimator"], rewards, precision="highest")
    means, g = space.over_arms(theta_hat), of_lanes(tables["g"])
    square = form == "square"
    return LinearStatistics(
        t=jnp.full((b,), k, jnp.int32), counts=jnp.ones_like(means), means=means,
        design=SquareDesign(g, of_lanes(tables["matrix"])) if square else DiagonalDesign(g),
        theta_hat=theta_hat if theta else None, reward_sums=rewards if sums else None,
        products=None,
    )  # fmt: skip


def updated(seen: Snapshot, arm: Array, reward: Array, go: Array) -> LinearStatistics:
    """The statistics after one more sample.

    Where `go` does not hold the sample has weight 0, which leaves every number as
    it is. That is cheaper than a `where` over the entries of two designs.
    """
    stats: LinearStatistics = seen.stats  # type: ignore[assignment]
    evidence: LinearEvidence = seen.evidence  # type: ignore[assignment]
    space, lanes = evidence.space, seen.lanes
    design, along, toward = stats.design.add(space, arm, go.astype(stats.means.dtype))
    surprise = reward - lanes.take(stats.means, arm)
    chosen = (index_like(stats.means) == arm) & go
    theta_hat = None if stats.theta_hat is None else stats.theta_hat + toward * surprise
    sums, products = stats.reward_sums, stats.products
    if sums is not None:
        sums = sums + jnp.where(chosen, reward, 0)
    if products is not None:
        rows = cached(seen.shape)
        assert rows is not None
        products = CrossCache(rows, evidence.cross).after(space, along, arm)
    return LinearStatistics(
        t=stats.t + go.astype(jnp.int32),
        counts=stats.counts + chosen.astype(stats.means.dtype),
        means=stats.means + along * surprise,
        design=design,
        theta_hat=theta_hat,
        reward_sums=sums,
        products=products,
    )
