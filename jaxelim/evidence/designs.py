"""The design matrix V = ridge I + sum_k N_k phi_k phi_k' of a run, in two forms.

`SquareDesign` holds V^-1. `DiagonalDesign` holds its diagonal, for features that are the
identity. Both hold g_k = ||phi_k||^2_{V^-1}. `cross` and `distances` take one arm i [] or
several, [m], whose axis follows that of the result; `cross` takes an `ArmBlock` too. Shapes
leave the lanes out (see `jaxelim.lanes`): K arms, d dimensions.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.views import ArmContext
from jaxelim.lanes import ArmBlock, index_like

CANCELLATION = 1e-10  # share of g_i + g_j, below which the Gram form of a distance has cancelled


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LinearContext(ArmContext):
    """The context of linear Gaussian rewards."""

    cancellation_safe: bool = dataclasses.field(default=False, metadata={"static": True})
    """Whether distances come from phi_i - phi_j, as some arms are too close for the Gram form."""

    def feature(self, k: Array | ArmBlock) -> Array:
        """phi_k, [d]."""
        return self.lanes.row(self.features, k)

    def differences(self, i: Array, many: bool) -> Array:
        """phi_i - phi_k for every k: [K, d].

        With `many` it has an axis of lanes, of length 1 if they share the differences.
        """
        y, features = self.feature(i), self.features
        if many:
            y, features = (x if x.ndim == n else x[..., None] for x, n in ((y, 2), (features, 3)))
        return y[None] - features

    def margins(self, means: Array, theta_hat: Array | None, i: Array) -> Array:
        """(phi_i - phi_k) . theta_hat for every k: [K], or [m, K] for arms i [m]."""
        if not self.cancellation_safe or theta_hat is None:
            mean = self.lanes.take(means, i)
            return (mean if i.ndim < means.ndim else mean[:, None]) - means
        if i.ndim == means.ndim:
            return jnp.stack([self.margins(means, theta_hat, i[r]) for r in range(i.shape[0])])
        return jnp.sum(self.differences(i, means.ndim == 2) * theta_hat[None], 1)


def _beside(x: Array, i: Array) -> Array:
    """x [K], with an axis to broadcast along where i is several arms [m]."""
    return x if i.ndim < x.ndim else x[:, None]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SquareDesign:
    """V^-1, stored whole. It forms y = phi_i - phi_j before it multiplies."""

    g: Array  # [K]
    v_inv: Array  # [d, d]

    def along(self, space: LinearContext, y: Array) -> Array:
        """phi_k' V^-1 y for every k, y [d]: [K]."""
        return space.over_arms(space.lanes.symmetric_dot(self.v_inv, y))

    def cross(self, space: LinearContext, k: Array | ArmBlock) -> Array:
        """phi_j' V^-1 phi_k for every j: [K]."""
        y = space.feature(k)
        return self.along(
            space, y[..., None] if isinstance(k, ArmBlock) and y.ndim < self.v_inv.ndim else y
        )

    def difference(self, space: LinearContext, cross_i: Array, i: Array, j: Array) -> Array:
        """phi_k' V^-1 (phi_i - phi_j) for every k: [K]."""
        return self.along(space, space.feature(i) - space.feature(j))

    def distances(self, space: LinearContext, cross_i: Array, i: Array) -> Array:
        """||phi_i - phi_k||^2_{V^-1} = g_i + g_k - 2 cross_k for every k, given `cross(i)`: [K]."""
        total = space.lanes.take(self.g, i) + _beside(self.g, i)
        gram = jnp.maximum(total - 2 * cross_i, 0)
        if not space.cancellation_safe:
            return gram
        if gram.ndim > self.g.ndim:
            return jnp.stack(
                [self.distances(space, cross_i[:, r], i[r]) for r in range(i.shape[0])], 1
            )
        y = space.differences(i, gram.ndim == 2)
        return jnp.where(gram < CANCELLATION * total, self.squares(space, y), gram)

    def squares(self, space: LinearContext, y: Array) -> Array:
        """||y_p||^2_{V^-1} for directions y [P, d]: [P]."""
        if y.ndim == 2:
            return jnp.sum(y * jnp.matmul(y, self.v_inv, precision="highest"), 1)
        y = jnp.broadcast_to(y, y.shape[:2] + self.v_inv.shape[2:])
        return jnp.einsum("pdb,deb,peb->pb", y, self.v_inv, y, precision="highest")

    def images(self, space: LinearContext, y: Array) -> Array:
        """V^-1 y_p for directions y [P, d] that all lanes share: [P, d]."""
        v_inv = self.v_inv
        flat = v_inv.reshape(v_inv.shape[0], -1)  # one product for all lanes
        return jnp.matmul(y, flat, precision="highest").reshape(y.shape[:1] + v_inv.shape[1:])

    def add(
        self, space: LinearContext, k: Array, weight: Array | float = 1.0
    ) -> tuple["SquareDesign", Array, Array]:
        """The design after `weight` more pulls of k, and the gains of means [K] and theta_hat [d].

        A gain times (reward - means_k) is the step of the estimate. Weight 0 changes no bit.
        """
        u = space.lanes.symmetric_dot(self.v_inv, space.feature(k))
        along = space.over_arms(u)
        q = weight / (1 + weight * space.lanes.take(self.g, k))
        return (
            SquareDesign(self.g - along**2 * q, self.v_inv - u[:, None] * (u * q)[None]),
            along * q,
            u * q,
        )

    def mixed(self, space: LinearContext, k: Array, keep: Array, new: Array) -> "SquareDesign":
        """The design of keep V + new phi_k phi_k', keep and new []."""
        u = space.lanes.symmetric_dot(self.v_inv, space.feature(k))
        along = space.over_arms(u)

        def factors(g, u, along, k):
            q = new / (keep * (keep + new * space.lanes.take(g, k)))
            return 1 / keep, u * q, g / keep - along**2 * q

        scale, fraction, g = space.lanes.materialize(factors, self.g, u, along, k)
        change = space.lanes.rounded(u[:, None] * fraction[None])
        return SquareDesign(g, self.v_inv * scale - change)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DiagonalDesign:
    """The inverse g of a diagonal V, for identity features. Methods are as of `SquareDesign`."""

    g: Array  # [K]

    def cross(self, space: LinearContext, k: Array | ArmBlock) -> Array:
        if isinstance(k, ArmBlock):
            g = self.g[:, None]
            return jnp.where(index_like(g) == k.like(g), g, 0)
        g = _beside(self.g, k)
        return jnp.where(index_like(g) == k, g, 0)

    def difference(self, space: LinearContext, cross_i: Array, i: Array, j: Array) -> Array:
        return cross_i - self.cross(space, j)

    def distances(self, space: LinearContext, cross_i: Array, i: Array) -> Array:
        g = _beside(self.g, i)
        return jnp.where(index_like(g) == i, 0, space.lanes.take(self.g, i) + g)

    def along(self, space: LinearContext, y: Array) -> Array:
        return self.g * y

    def squares(self, space: LinearContext, y: Array) -> Array:
        return jnp.sum(y**2 * self.g[None], 1)

    def images(self, space: LinearContext, y: Array) -> Array:
        return (y if self.g.ndim == 1 else y[..., None]) * self.g[None]

    def add(
        self, space: LinearContext, k: Array, weight: Array | float = 1.0
    ) -> tuple["DiagonalDesign", Array, Array]:
        chosen = index_like(self.g) == k
        shrunk = jnp.where(chosen, self.g * (1 / (1 + weight * space.lanes.take(self.g, k))), 0)
        gain = weight * shrunk
        return DiagonalDesign(jnp.where(chosen, shrunk, self.g)), gain, gain


Design = SquareDesign | DiagonalDesign


def weighted(space: LinearContext, weights: Array, ridge: Array | float = 0.0) -> SquareDesign:
    """The design ridge I + sum_k weights_k phi_k phi_k'; weights [K], ridge []."""
    features = space.features
    d = features.shape[1]
    row, column = (x.astype(np.int32) for x in np.triu_indices(d))  # of each packed entry
    place = np.zeros((d, d), np.int32)  # in the packed form, of each entry of a matrix
    place[row, column] = place[column, row] = np.arange(row.size)
    outer = features[:, row] * features[:, column]  # [K, d (d + 1) / 2]
    shape = (d, d) + (1,) * (weights.ndim - 1)
    eye = ridge * jnp.eye(d, dtype=weights.dtype).reshape(shape)
    columns = None
    if outer.ndim == 2:
        # Else XLA transposes it in some programs, where the product below rounds otherwise.
        outer = space.lanes.materialize(lambda x: x, outer)
        # Built in this order: on a CPU a product with the transpose of `outer` costs more.
        columns = features.T if space.transposed is None else space.transposed
        columns = columns[row] * columns[column]
        packed = space.lanes.dot(columns, weights, outer)
    else:
        packed = jnp.einsum("kqb,kb->qb", outer, weights, precision="highest")

    def at(x: Array, places: np.ndarray) -> Array:
        return x.at[places].get(mode="promise_in_bounds")

    v_inv = space.lanes.inverse(at(packed, place) + eye)
    doubled = np.where(row == column, 1.0, 2.0).reshape((-1,) + (1,) * (weights.ndim - 1))
    flat = v_inv.reshape((-1, *v_inv.shape[2:]))
    if space.transposed is not None:
        flat = space.lanes.materialize(lambda x: x.reshape(-1, 1), v_inv)
    half = at(flat, row * np.int32(d) + column) * jnp.asarray(doubled, v_inv.dtype)
    return SquareDesign(space.lanes.dot(outer, half, columns), v_inv)
