"""Evidence from linear Gaussian rewards: margins y . theta_hat - c and norms ||y||^2_{V^-1}.

The LLR of a piece is max(margin, 0)^2/(2 norm). (Paper, appendix) V_w = sum_k w_k phi_k phi_k'
in place of V gives H_p(w), with dH_p/dw_k = (phi_k . (theta - lambda_p))^2/2, lambda_p the point
of the piece closest to theta. (Tirinzoni & Degenne 2022, section 2)
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.pieces import HalfSpaces, Pairs, Pieces, pairs_of
from jaxelim.contracts.views import Evidence
from jaxelim.evidence.designs import Design, DiagonalDesign, LinearContext, weighted
from jaxelim.evidence.half_spaces import Directions
from jaxelim.lanes import ArmBlock

Tree = Any


def cached(pieces: Any) -> Array | None:
    """The arms i, [] or [m], whose products Phi V^-1 phi_i are `LinearEvidence.cross`; or None."""
    plain = isinstance(pieces, Pairs) and not (pieces.items or pieces.refers)
    return pieces.first if plain else None


def refutes(margin: Array, norm: Array, beta: Array) -> Array:
    """Whether max(margin, 0)^2/(2 norm) > beta, tested without a division."""
    return (margin > 0) & (norm > 0) & (margin**2 > 2 * beta * norm)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LinearEvidence(Evidence):
    """The evidence about pieces, at theta_hat, in the metric of one design."""

    space: LinearContext
    shape: Any  # Pairs | HalfSpaces
    design: Design
    means: Array  # [K] phi_k . theta_hat
    theta_hat: Array | None  # [d]; kept where the problem or near-equal arms need it
    margin: Any = None  # [Q] y_p . theta_hat - c_p
    norm: Any = None  # [Q] ||y_p||^2 in the design's metric
    cross: Tree = None
    """Of norms: Phi V^-1 z_i of pairs, [C] or [C, m]; V^-1 z_p of all items, [P, d]; or None."""
    costs: Array | None = None  # [K] of weights, positive; None: all are 1

    @property
    def has_matrix(self) -> bool:  # type: ignore[override]
        return not isinstance(self.design, DiagonalDesign)

    @staticmethod
    def of(
        space: LinearContext, shape: Pieces, design: Design, means: Array,
        theta_hat: Array | None, cross: Tree = None, margin: Array | None = None,
    ) -> "LinearEvidence":  # fmt: skip
        """The evidence under a design; `cross` and `margin`, if they are known."""
        if margin is None:
            margin = Directions(space, shape).margin(means, theta_hat)
        about = LinearEvidence(space, shape, design, means, theta_hat, margin, None, cross)
        if isinstance(shape, HalfSpaces):
            norm = design.squares(space, shape.y)
        elif shape.signs:
            norm = design.g
        else:
            pairs = pairs_of(shape)
            if cross is None and pairs.items:
                cross = design.images(space, about.directions.candidates.features)
            elif cross is None:
                cross = about.toward(pairs.first)
            about = dataclasses.replace(about, cross=cross)
            norm = about.distances(pairs.first, cross)
            norm = pairs.flat(jnp.swapaxes(norm, 0, 1)) if pairs.several else norm
        return dataclasses.replace(about, norm=norm)

    @property
    def directions(self) -> Directions:
        return Directions(self.space, self.shape)

    @property
    def _whole(self) -> tuple[LinearContext, Design]:
        """The context and the design with the reference among the arms, where there is one."""
        if not self.shape.refers:
            return self.space, self.design
        g = self.shape.with_reference(self.design.g, 0)
        return self.directions.candidates, dataclasses.replace(self.design, g=g)

    def values(self) -> Array:
        """max(margin, 0)^2/(2 norm); 0 where the norm is 0."""
        exists = self.norm > 0
        norm = 2 * jnp.where(exists, self.norm, 1)
        return jnp.where(exists, jnp.maximum(self.margin, 0) ** 2 / norm, 0)

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
        space, shape, lanes = self.space, self.shape, self.space.lanes
        if isinstance(shape, HalfSpaces):
            return self.design.along(space, lanes.row(shape.y, piece))
        if shape.signs:
            along = self.design.cross(space, piece)
            return jnp.where(lanes.take(shape.above, piece), along, -along)
        if not shape.several:
            return self.along_pair(shape.first, piece, self.cross)
        i, k = shape.pair(lanes, piece)
        row = self.cross[:, 0]
        r = jax.lax.div(piece, np.asarray(shape.candidates, piece.dtype))
        for other in range(1, shape.first.shape[0]):  # a gather would go entry by entry
            row = jnp.where(r == other, self.cross[:, other], row)
        return self.along_pair(i, k, row)

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
        return self.space.lanes.dot(self.directions.candidates.features, self.theta_hat)

    def toward(self, i: Array) -> Array:
        """phi_k' V^-1 z_i for every arm k: [K]; with an entry for the reference: [C]."""
        if self.shape.items:
            return self.space.over_arms(self.space.lanes.row(self.cross, i))
        space, design = self._whole
        return design.cross(space, i)

    def distances(self, i: Array, toward: Array | None = None) -> Array:
        """||z_i - z_k||^2_{V^-1} for every candidate k: [C]; `toward(i)`, if it is known."""
        space, design = self._whole
        if not self.shape.items:
            return design.distances(space, self.toward(i) if toward is None else toward, i)
        moved = space.lanes.row(self.cross, i)[None] - self.cross  # a product of two differences
        y = self.directions.candidates.differences(i, moved.ndim == 3)
        return jnp.maximum(jnp.sum(y * moved, 1), 0)

    def along_pair(self, i: Array, j: Array, toward: Array | None = None) -> Array:
        """phi_k' V^-1 (z_i - z_j) for every k: [K]; `toward(i)`, if it is known."""
        if self.shape.items:
            row, z = self.space.lanes.row, self.directions.candidates.features
            return self.design.along(self.space, row(z, i) - row(z, j))
        space, design = self._whole
        along = design.difference(space, self.toward(i) if toward is None else toward, i, j)
        return along[:-1] if self.shape.refers else along

    def margins(self, i: Array) -> Array:
        """(z_i - z_k) . theta_hat for every candidate k: [C]."""
        return self.directions.margins(self.means, self.theta_hat, i)

    def pairs(self, arms: ArmBlock) -> list[tuple[Array, Array, Array]]:
        """For each candidate of a block: i, `margins(i)` [C] and `distances(i)` [C]."""
        indices = [arms.first + r for r in range(arms.m)]
        if self.shape.items:
            return [(i, self.margins(i), self.distances(i)) for i in indices]
        cross = self.toward(arms)  # type: ignore[arg-type]  # one product for the whole block
        return [(i, self.margins(i), self.distances(i, cross[:, r])) for r, i in enumerate(indices)]
