"""The shape of the pieces of items, which need not be arms."""

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.shapes import Shape

if TYPE_CHECKING:
    from jaxelim.evidence.designs import Design, LinearContext

Tree = Any


def differences(space: "LinearContext", i: Array) -> Array:
    """z_i - z_p for every item p: [P, d], or [P, d, B] for items i [B]."""
    z = items_of(space)
    own = space.lanes.row(z, i)
    return own[None] - (z if own.ndim == 1 else z[..., None])


def items_of(space: "LinearContext") -> Array:
    """The features of the items, which all lanes share: [P, d]."""
    return space.constants


def margins(space: "LinearContext", theta_hat: Array | None, i: Array) -> Array:
    """(z_i - z_p) . theta_hat for every item p: [P]."""
    assert theta_hat is not None  # kept, as the problem's `uses_theta` is on
    y = differences(space, i)
    return jnp.sum((y if y.ndim > theta_hat.ndim else y[..., None]) * theta_hat[None], 1)


def distances(space: "LinearContext", images: Array, i: Array) -> Array:
    """||z_i - z_p||^2_{V^-1} for every item p, given V^-1 z_p of all, [P, d]: [P].

    The product of two differences. It loses half as many digits as the Gram form where
    items are near each other.
    """
    y, moved = differences(space, i), space.lanes.row(images, i)[None] - images
    return jnp.maximum(jnp.sum((y if y.ndim == moved.ndim else y[..., None]) * moved, 1), 0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Items(Shape):
    """Pairs y = z_i - z_p, c = 0, of one item i with every item p.

    The items z [P, d] are the problem's constants.

    Args:
        first: the item i, [] int32.
        exists: which places hold a piece, [P] bool.
        count: the number of pieces.
    """

    first: Array
    exists: Array
    count: int = dataclasses.field(metadata={"static": True})

    def products(self, space: "LinearContext", design: "Design") -> Array:
        """V^-1 z_p for every item: [P, d]."""
        return design.images(space, items_of(space))

    def margin(self, space: "LinearContext", means: Array, theta_hat: Array | None) -> Array:
        return margins(space, theta_hat, self.first)

    def norm(self, space: "LinearContext", design: "Design", cross: Tree) -> Array:
        return distances(space, cross, self.first)

    def along(self, space: "LinearContext", design: "Design", cross: Tree, piece: Array) -> Array:
        return design.along(space, self.side(space, piece)[0])

    def side(self, space: "LinearContext", piece: Array) -> tuple[Array, float]:
        z, lanes = items_of(space), space.lanes
        return lanes.row(z, self.first) - lanes.row(z, piece), 0.0

    def directions(self, space: "LinearContext") -> Array:
        return differences(space, self.first)

    def half_spaces(self, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise TypeError("Items: the problem itself gives its half-spaces")
