"""Evidence from linear Gaussian rewards: margins y . theta_hat - c and norms ||y||^2_{V^-1}.

The LLR of a piece is max(margin, 0)^2/(2 norm). (Paper, appendix) V_w = sum_k w_k phi_k phi_k'
in place of V gives H_p(w), with dH_p/dw_k = (phi_k . (theta - lambda_p))^2/2, lambda_p the point
of the piece closest to theta. (Tirinzoni & Degenne 2022, section 2)

V = ridge I + sum_k N_k phi_k phi_k' of a run has two forms. `SquareDesign` holds V^-1,
`DiagonalDesign` its diagonal, for features that are the identity. Both hold
g_k = ||phi_k||^2_{V^-1}. `cross` and `distances` take one arm i [] or several, [m], whose axis
follows that of the result; `cross` takes an `ArmBlock` too.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.pieces import HalfSpaces, Pairs, Pieces, pairs_of
from jaxelim.contracts.views import Evidence
from jaxelim.evidence.half_spaces import LinearContext
from jaxelim.lanes import ArmBlock, index_like, pytree

Tree = Any
CANCELLATION = 1e-10  # share of g_i + g_j, below which the Gram form of a distance has cancelled


def _beside(x: Array, i: Array) -> Array:
    """x [K], with an axis to broadcast along where i is several arms [m]."""
    return x if i.ndim < x.ndim else x[:, None]


@pytree
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
            rows = (self.distances(space, cross_i[:, r], i[r]) for r in range(i.shape[0]))
            return jnp.stack(list(rows), 1)
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
        new = SquareDesign(self.g - along**2 * q, self.v_inv - u[:, None] * (u * q)[None])
        return new, along * q, u * q

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


@pytree
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


def cached(pieces: Any) -> Array | None:
    """The arms i, [] or [m], whose products Phi V^-1 phi_i are `LinearEvidence.cross`; or None."""
    plain = isinstance(pieces, Pairs) and not (pieces.items or pieces.refers)
    return pieces.first if plain else None


def refutes(margin: Array, norm: Array, beta: Array) -> Array:
    """Whether max(margin, 0)^2/(2 norm) > beta, tested without a division."""
    return (margin > 0) & (norm > 0) & (margin**2 > 2 * beta * norm)


@pytree
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
            margin = space.margin(shape, means, theta_hat)
        about = LinearEvidence(space, shape, design, means, theta_hat, margin, None, cross)
        if isinstance(shape, HalfSpaces):
            norm = design.squares(space, shape.y)
        elif shape.signs:
            norm = design.g
        else:
            pairs = pairs_of(shape)
            if cross is None and pairs.items:
                cross = design.images(space, space.constants)
            elif cross is None:
                cross = about.toward(pairs.first)
            about = dataclasses.replace(about, cross=cross)
            norm = about.distances(pairs.first, cross)
            norm = pairs.flat(jnp.swapaxes(norm, 0, 1)) if pairs.several else norm
        return dataclasses.replace(about, norm=norm)

    @property
    def _whole(self) -> tuple[LinearContext, Design]:
        """The context and the design with the reference among the arms, where there is one."""
        if not self.shape.refers:
            return self.space, self.design
        g = self.shape.with_reference(self.design.g, 0)
        return self.space.of_candidates(self.shape), dataclasses.replace(self.design, g=g)

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
        return self.space.lanes.dot(self.space.constants, self.theta_hat)

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
        y = self.space.of_candidates(self.shape).differences(i, moved.ndim == 3)
        return jnp.maximum(jnp.sum(y * moved, 1), 0)

    def along_pair(self, i: Array, j: Array, toward: Array | None = None) -> Array:
        """phi_k' V^-1 (z_i - z_j) for every k: [K]; `toward(i)`, if it is known."""
        if self.shape.items:
            row, z = self.space.lanes.row, self.space.constants
            return self.design.along(self.space, row(z, i) - row(z, j))
        space, design = self._whole
        along = design.difference(space, self.toward(i) if toward is None else toward, i, j)
        return along[:-1] if self.shape.refers else along

    def margins(self, i: Array) -> Array:
        """(z_i - z_k) . theta_hat for every candidate k: [C]."""
        return self.space.margins(self.shape, self.means, self.theta_hat, i)

    def pairs(self, arms: ArmBlock) -> list[tuple[Array, Array, Array]]:
        """For each candidate of a block: i, `margins(i)` [C] and `distances(i)` [C]."""
        indices = [arms.first + r for r in range(arms.m)]
        if self.shape.items:
            return [(i, self.margins(i), self.distances(i)) for i in indices]
        cross = self.toward(arms)  # type: ignore[arg-type]  # one product for the whole block
        return [(i, self.margins(i), self.distances(i, cross[:, r])) for r, i in enumerate(indices)]
