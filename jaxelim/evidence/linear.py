"""Evidence from linear Gaussian rewards: margins y . theta_hat - c and norms ||y||^2_{V^-1}.

The LLR of a piece is max(margin, 0)^2/(2 norm). (Paper, appendix: the infimum LLR of
a half-space in linear Gaussian models.) V_w = sum_k w_k phi_k phi_k' in place of V
gives H_p(w), with

    dH_p/dw_k = (phi_k . (theta - lambda_p))^2/2,

lambda_p the point of the piece closest to theta. (Tirinzoni & Degenne 2022, section 2.)
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.pieces import Pieces
from jaxelim.contracts.views import Evidence
from jaxelim.evidence.designs import Design, DiagonalDesign, LinearContext, weighted
from jaxelim.evidence.directions import Directions
from jaxelim.lanes import ArmBlock

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
    """The evidence about pieces, at theta_hat, in the metric of one design."""

    space: LinearContext
    shape: Pieces
    design: Design
    means: Array  # [K] phi_k . theta_hat
    theta_hat: Array | None  # [d]; kept where the problem or near-equal arms need it
    margin: Array  # [Q] y_p . theta_hat - c_p
    norm: Array  # [Q] ||y_p||^2 in the design's metric
    cross: Tree  # `Directions.products`
    costs: Array | None = None  # [K] of weights, positive; None: all are 1

    square = True

    @property
    def has_matrix(self) -> bool:  # type: ignore[override]
        return not isinstance(self.design, DiagonalDesign)

    @staticmethod
    def of(
        space: LinearContext, shape: Pieces, design: Design, means: Array,
        theta_hat: Array | None, cross: Tree = None, margin: Array | None = None,
    ) -> "LinearEvidence":  # fmt: skip
        """The evidence under a design; `cross` and `margin`, if they are known."""
        about = Directions(space, shape)
        if margin is None:
            margin = about.margin(means, theta_hat)
        if cross is None:
            cross = about.products(design)
        norm = about.norm(design, cross)
        return LinearEvidence(space, shape, design, means, theta_hat, margin, norm, cross)

    @property
    def directions(self) -> Directions:
        """The pieces as half-spaces."""
        return Directions(self.space, self.shape)

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
        return self.directions.along(self.design, self.cross, piece)

    def most_informative_arm(self, along: Array) -> Array:
        """argmin_k ||y||_{(V + phi_k phi_k')^-1}, given along = Phi V^-1 y [K]: [] int32."""
        return self.space.lanes.argmax(along**2 / (1 + self.design.g))

    def about(self, shape: Pieces) -> "LinearEvidence":
        return self.of(self.space, shape, self.design, self.means, self.theta_hat)

    def under(self, design: Design) -> "LinearEvidence":
        """The same pieces in the metric of another design."""
        of_pieces = self.space, self.shape, design, self.means, self.theta_hat, None, self.margin
        return dataclasses.replace(self.of(*of_pieces), costs=self.costs)

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
        if not self.shape.items:
            return self.means
        assert self.theta_hat is not None  # kept, as the problem's `uses_theta` is on
        return self.space.lanes.dot(self.directions.features, self.theta_hat)

    def toward(self, i: Array) -> Array:
        """phi_k' V^-1 z_i for every arm k: [K]."""
        if self.shape.items:
            return self.space.over_arms(self.space.lanes.row(self.cross, i))
        return self.directions.toward(self.design, i)

    def distances_from(self, toward: Array, i: Array) -> Array:
        """`distances(i)`, given `toward(i)`: [C]."""
        cross = self.cross if self.shape.items else toward
        return self.directions.distances(self.design, cross, i)

    def difference(self, toward: Array, i: Array, j: Array) -> Array:
        """`along_pair(i, j)`, given `toward(i)`: [K]."""
        return self.directions.difference(self.design, toward, i, j)

    def distances(self, i: Array) -> Array:
        """||z_i - z_k||^2_{V^-1} for every candidate k: [C]."""
        return self.distances_from(self.toward(i), i)

    def margins(self, i: Array) -> Array:
        """(z_i - z_k) . theta_hat for every candidate k: [C]."""
        return self.directions.margins(self.means, self.theta_hat, i)

    def along_pair(self, i: Array, j: Array) -> Array:
        """phi_k' V^-1 (z_i - z_j) for every k: [K]."""
        return self.difference(self.toward(i), i, j)

    def pairs(self, arms: ArmBlock) -> list[tuple[Array, Array, Array]]:
        """For each candidate of a block: i, `margins(i)` [C] and `distances(i)` [C]."""
        indices = [arms.first + r for r in range(arms.m)]
        if self.shape.items:
            return [(i, self.margins(i), self.distances(i)) for i in indices]
        cross = self.toward(arms)  # type: ignore[arg-type]  # one product for the whole block
        return [
            (i, self.margins(i), self.distances_from(cross[:, r], i))
            for r, i in enumerate(indices)
        ]
