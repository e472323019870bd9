"""Evidence from linear Gaussian rewards: margins y . theta_hat - c and norms ||y||^2_{V^-1}.

The LLR of a piece is max(margin, 0)^2/(2 norm). (Paper, appendix: the infimum LLR of
a half-space in linear Gaussian models.) V_w = sum_k w_k phi_k phi_k' in place of V
gives H_p(w), with

    dH_p/dw_k = (phi_k . (theta - lambda_p))^2/2,

lambda_p the point of the piece closest to theta. (Tirinzoni & Degenne 2022, section 2.)
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import items
from jaxelim.contracts.items import Items
from jaxelim.contracts.shapes import Shape
from jaxelim.contracts.views import Evidence
from jaxelim.evidence.derivatives import Crossed
from jaxelim.evidence.designs import Design, DiagonalDesign, LinearContext, weighted
from jaxelim.lanes import PLAIN, ArmBlock, LaneOps
from jaxelim.matrices import product
from jaxelim.numerics import jacobi

Tree = Any


def refutes(margin: Array, norm: Array, beta: Array) -> Array:
    """Whether `likelihood_ratio(margin, norm)` > beta, tested without a division."""
    return (margin > 0) & (norm > 0) & (margin**2 > 2 * beta * norm)


def likelihood_ratio(margin: Array, norm: Array) -> Array:
    """max(margin, 0)^2/(2 norm); 0 where the norm is 0."""
    exists = norm > 0
    return jnp.where(exists, jnp.maximum(margin, 0) ** 2 / (2 * jnp.where(exists, norm, 1)), 0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LinearEvidence(Evidence):
    """The evidence about pieces of one shape, at theta_hat, in the metric of one design."""

    space: LinearContext
    shape: Shape
    design: Design
    means: Array  # [K] phi_k . theta_hat
    theta_hat: Array | None  # [d]; kept where the problem or near-equal arms need it
    margin: Array  # [Q] y_p . theta_hat - c_p
    norm: Array  # [Q] ||y_p||^2 in the design's metric
    cross: Tree  # the shape's `products`, reused by `along`
    costs: Array | None = None  # [K] of weights, positive; None: all are 1

    square = True

    @property
    def has_matrix(self) -> bool:  # type: ignore[override]
        return not isinstance(self.design, DiagonalDesign)

    @staticmethod
    def of(
        space: LinearContext, shape: Shape, design: Design, means: Array, theta_hat: Array | None,
        cross: Tree = None,
    ) -> "LinearEvidence":  # fmt: skip
        """The evidence under a design; `cross`: the products of `shape.rows()`, if cached."""
        margin = shape.margin(space, means, theta_hat)
        return _measured(space, shape, design, means, theta_hat, margin, cross)

    def values(self) -> Array:
        return likelihood_ratio(self.margin, self.norm)

    def outside(self) -> Array:
        return self.margin

    def refuted(self, beta: Array) -> Array:
        return refutes(self.margin, self.norm, beta)

    def gradient(self, piece: Array) -> Array:
        """(phi_k . (theta_hat - lambda))^2/2, lambda the piece's closest point: [K]."""
        lanes = self.space.lanes
        norm = lanes.take(self.norm, piece)
        step = jnp.where(norm > 0, lanes.take(self.margin, piece) / jnp.where(norm > 0, norm, 1), 0)
        return self.per_cost((step * self.along(piece)) ** 2 / 2)

    def along(self, piece: Array) -> Array:
        """phi_k' V^-1 y_piece for every arm k: [K]."""
        return self.shape.along(self.space, self.design, self.cross, piece)

    def most_informative_arm(self, along: Array) -> Array:
        """argmin_k ||y||_{(V + phi_k phi_k')^-1}, given along = Phi V^-1 y [K]: [] int32."""
        return self.space.lanes.argmax(along**2 / (1 + self.design.g))

    def loosened(self, margins: Array) -> Array:
        """Margins of pairs, with the slack of the shape."""
        return margins + self.shape.slack if self.shape.slack else margins

    def about(self, shape: Shape) -> "LinearEvidence":
        return self.of(self.space, shape, self.design, self.means, self.theta_hat)

    def under(self, design: Design) -> "LinearEvidence":
        """The same pieces in the metric of another design."""
        kept = self.space, self.shape, design, self.means, self.theta_hat, self.margin
        under = _measured(*kept, None)
        return under if self.costs is None else dataclasses.replace(under, costs=self.costs)

    def weighted(self, weights: Array) -> "LinearEvidence":
        """The same pieces in the metric of V_w (no ridge), weights [K]."""
        weights = self.per_cost(weights)
        if isinstance(self.design, DiagonalDesign):
            return self.under(DiagonalDesign(1 / weights))
        return self.under(weighted(self.space, weights))

    # Any pairs of candidates, whether or not they are pieces of the answer.

    @property
    def candidates(self) -> Array:
        """The estimates of what may be an answer: of the arms [K], or of the items [P]."""
        return self.means

    def toward(self, i: Array) -> Array:
        """phi_k' V^-1 phi_i for every k: [K]."""
        return self.design.cross(self.space, i)

    def distances_from(self, toward: Array, i: Array) -> Array:
        """`distances(i)`, given `toward(i)`: [K]."""
        return self.design.distances(self.space, toward, i)

    def difference(self, toward: Array, i: Array, j: Array) -> Array:
        """`along_pair(i, j)`, given `toward(i)`: [K]."""
        return self.design.difference(self.space, toward, i, j)

    def distances(self, i: Array) -> Array:
        """||phi_i - phi_k||^2_{V^-1} for every k: [K]."""
        return self.distances_from(self.toward(i), i)

    def margins(self, i: Array) -> Array:
        """(phi_i - phi_k) . theta_hat for every k: [K]."""
        return self.space.margins(self.means, self.theta_hat, i)

    def along_pair(self, i: Array, j: Array) -> Array:
        """phi_k' V^-1 (phi_i - phi_j) for every k: [K]."""
        return self.difference(self.toward(i), i, j)

    def pairs(self, arms: ArmBlock) -> list[tuple[Array, Array, Array]]:
        """For each arm of a block: i, `margins(i)` [K] and `distances(i)` [K]."""
        rows, cross = [], self.design.cross(self.space, arms)  # one product for the whole block
        for r in range(arms.m):
            i = arms.first + r
            norm = self.design.distances(self.space, cross[:, r], i)
            rows.append((i, self.margins(i), norm))
        return rows


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ItemEvidence(LinearEvidence):
    """The evidence about pieces of items z [P, d]; candidates are the items.

    `cross` is V^-1 z_p of all items, [P, d].
    """

    @property
    def candidates(self) -> Array:
        assert self.theta_hat is not None  # kept, as the problem's `uses_theta` is on
        return self.space.lanes.dot(items.items_of(self.space), self.theta_hat)

    def toward(self, i: Array) -> Array:
        """phi_k' V^-1 z_i for every arm k: [K]."""
        lanes = self.space.lanes
        return self.space.over_arms(lanes.row(self.cross, i))

    def distances_from(self, toward: Array, i: Array) -> Array:
        """||z_i - z_p||^2_{V^-1} for every item p: [P]."""
        return items.distances(self.space, self.cross, i)

    def difference(self, toward: Array, i: Array, j: Array) -> Array:
        """phi_k' V^-1 (z_i - z_j) for every arm k: [K]."""
        lanes, z = self.space.lanes, items.items_of(self.space)
        return self.design.along(self.space, lanes.row(z, i) - lanes.row(z, j))

    def margins(self, i: Array) -> Array:
        """(z_i - z_p) . theta_hat for every item p: [P]."""
        return items.margins(self.space, self.theta_hat, i)

    def pairs(self, arms: ArmBlock) -> list[tuple[Array, Array, Array]]:
        """For each item of a block: i, `margins(i)` [P] and `distances(i)` [P]."""
        indices = [arms.first + r for r in range(arms.m)]
        return [(i, self.margins(i), self.distances(i)) for i in indices]


def _measured(space, shape, design, means, theta_hat, margin, cross) -> LinearEvidence:
    if cross is None:
        cross = shape.products(space, design)
    norm = shape.norm(space, design, cross)
    kind = ItemEvidence if isinstance(shape, Items) else LinearEvidence
    return kind(
        space=space, shape=shape, design=design, means=means, theta_hat=theta_hat,
        margin=margin, norm=norm, cross=cross,
    )  # fmt: skip


class Standard(NamedTuple):
    """H_p with its derivatives, in coordinates where V_w is the identity."""

    phi: Array  # [K, r] features
    y: Array  # [P, r] directions
    norm: Array  # [P] n_p, ||y_p||^2 in V_w^-1
    gaps: Array  # [P] g_p

    @property
    def value(self) -> Array:
        return self.gaps * self.gaps / (2 * self.norm)

    @property
    def gradient(self) -> Array:
        return self.among(None).gradient

    def curvature(self, mixture: Array, pull: Array | None = None) -> Array:
        return self.among(None).curvature(mixture, pull)

    def over(self, unit: Array) -> "Standard":
        return self._replace(gaps=self.gaps * jnp.sqrt(1 / unit))

    def among(self, pieces: Array | None) -> Crossed:
        """Two products, [K, r] [r, n] and [K, r] [r, K], for n pieces."""
        some = (self.y, self.norm, self.gaps)
        y, norm, gaps = some if pieces is None else (x[pieces] for x in some)
        cross, push = product(self.phi, y.T), (gaps / norm) ** 2
        gram = product(self.phi, self.phi.T)
        return Crossed(gaps * gaps / (2 * norm), push[None] * cross * cross / 2, cross, gram, push)


class Coordinates(NamedTuple):
    """Coordinates of one instance in which Phi' Phi is the identity; r = min(K, d)."""

    map: Array  # [d, r]: features @ map are the features in these coordinates
    sizes: Array  # [r] singular values of the features
    basis: Array  # [r, d] orthonormal rows; 0 where no arm reaches
    reached: Array  # [r] bool: some arm reaches the coordinate
    tolerance: Array  # [] of the singular values

    @staticmethod
    def of(arms: Array) -> "Coordinates":
        """The coordinates of features [K, d] of any rank; constants to a derivative."""
        _, s, vt = jacobi.svd(jax.lax.stop_gradient(arms))
        tol = max(arms.shape) * jnp.finfo(arms.dtype).eps * jnp.max(s)
        reached = s > tol
        scale = jnp.where(reached, 1 / jnp.where(reached, s, 1), 0)
        basis = vt * reached[:, None].astype(vt.dtype)
        return Coordinates((basis * scale[:, None]).T, s, basis, reached, tol)

    def parameter(self, theta: Array) -> Array:
        """theta [d] in these coordinates, [r]: scores of features stay."""
        return self.sizes * product(self.basis, theta)

    def spanned(self, directions: Array) -> Array:
        """Which directions [P, d] lie in the span of the features: [P] bool."""
        pieces, basis = jax.lax.stop_gradient(directions), self.basis
        inside = product(product(pieces, basis.T), basis)
        size, off = (jnp.linalg.norm(x, axis=1) for x in (pieces, pieces - inside))
        return off <= 1e4 * self.tolerance / jnp.maximum(jnp.max(self.sizes), self.tolerance) * size


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HalfSpaceEvidence(Evidence):
    """The evidence about any half-spaces under weights, with its derivatives; of one run.

    It is in coordinates with Phi' Phi = identity. Information does not change under a
    linear map of the features. In these coordinates it is computed stably, and directions
    that no arm reaches have separate coordinates.
    """

    phi: Array  # [K, r] features
    y: Array  # [P, r] directions of the pieces
    idle: Array  # [r] 1 on coordinates that no arm reaches, else 0
    gaps: Array  # [P] y_p . theta - c_p; 0 inside a piece, and where no arms reach y_p
    weights: Array  # [K] positive
    lanes: LaneOps = PLAIN

    @staticmethod
    def of(arms: Array, theta: Array, directions: Array, offsets: Array) -> "HalfSpaceEvidence":
        """The evidence at theta [d] of features [K, d] of any rank, under uniform weights.

        r = min(K, d). No derivative passes through the map to the coordinates.
        """
        frame = Coordinates.of(arms)
        margin = product(directions, theta) - offsets
        gaps = jnp.where((margin > 0) & frame.spanned(directions), margin, 0)
        even = jnp.full(arms.shape[0], 1 / arms.shape[0], arms.dtype)
        phi, y = product(arms, frame.map), product(directions, frame.map)
        return HalfSpaceEvidence(phi, y, (~frame.reached).astype(phi.dtype), gaps, even)

    def outside(self) -> Array:
        return self.gaps

    def priced(self, prices: Array) -> "HalfSpaceEvidence":
        """With features phi_k/sqrt(prices_k): V_w is that of w_k/prices_k pulls."""
        return dataclasses.replace(self, phi=self.phi * jnp.sqrt(1 / prices)[:, None])

    def weighted(self, weights: Array) -> "HalfSpaceEvidence":
        return dataclasses.replace(self, weights=weights)

    def values(self) -> Array:
        return self.derivatives().value

    def derivatives(self) -> Standard:
        design = product(self.phi.T * self.weights[None], self.phi) + jnp.diag(self.idle)
        inverse = self.lanes.inverse_factor(design)
        phi, y = product(self.phi, inverse.T), product(self.y, inverse.T)
        norm = jnp.sum(y * y, 1)
        # XLA:CPU would compute the norms again in each of their consumers.
        phi, y, norm = jax.lax.optimization_barrier((phi, y, jnp.where(norm > 0, norm, 1)))
        return Standard(phi, y, norm, self.gaps)
