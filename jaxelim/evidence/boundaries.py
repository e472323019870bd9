"""H_p of logistic rewards with two derivatives: the closest point on each boundary.

Let D(theta) = sum_k w_k d(phi_k . theta_hat, phi_k . theta). H_p(w) is its least value
where y . theta = c. Newton steps stay on that boundary; see `jaxelim.evidence.logistic`
for their length.

The value is D less nu^2 where the steps end, nu the Newton decrement there. In exact
arithmetic that is at most H_p if nu r <= 1/2, r the largest change of a score by a move
of length 1 (Bach 2010, Lemma 1). So the steps need not be trusted. Long moves that hardly
change the scores leave the boundary by rounding. The value is 0 there, so no gap is reached.

The steps are of constants. One more step, with a constant matrix, gives the closest
point its derivatives in theta, features and half-spaces.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.evidence.derivatives import Bent
from jaxelim.evidence.scores import divergence, forces, ratio, sides
from jaxelim.matrices import factor_inverse, product

_STEPS = 100
LEAST_CURVATURE = 1e-13
"""Added to the matrix of a step, as a share of its trace: arms need not span R^d."""
NO_PART = 1e-20
"""The share of the features' squares below which they have no part along a boundary."""
_LONGEST = 1e3
"""The longest move that is trusted, as a multiple of the change of the scores."""


class Boundaries(NamedTuple):
    """The boundaries of Q half-spaces, each with the theta on it that is nearest to theta_hat."""

    unit: Array  # [Q, r] y/||y||; 0 where there is no piece
    along: Array  # [Q, K, r] the parts of the features along the boundary
    base: Array  # [Q, K] scores at that theta
    hat: Array  # [Q, K] scores at theta_hat, the same for all
    weights: Array  # [K]
    outside: Array  # [Q] bool: theta_hat is outside the half-space

    @staticmethod
    def of(
        y: Array, outside: Array, features: Array, theta_hat: Array, weights: Array
    ) -> "Boundaries":
        """The boundaries, for one run.

        Args:
            y: [Q, r] directions.
            outside: [Q] y . theta_hat - c.
            features: [K, r].
            theta_hat: [r].
            weights: [K].
        """
        square = jnp.sum(y * y, 1, keepdims=True)
        over = jnp.sqrt(1 / jnp.where(square > 0, square, 1))
        unit = y * over
        base = theta_hat[None] - unit * (jnp.maximum(outside, 0)[:, None] * over)
        along = features[None] - product(unit, features.T)[..., None] * unit[:, None]
        # Where all features are along y the rest is rounding, by which steps would divide.
        some = jnp.sum(along * along, (1, 2)) > NO_PART * jnp.sum(features * features)
        along = jnp.where(some[:, None, None], along, 0)
        base = product(base, features.T)
        hat = jnp.broadcast_to(product(features, theta_hat), base.shape)
        return Boundaries(unit, along, base, hat, weights, outside > 0)

    def scores(self, moves: Array) -> Array:
        """The scores [Q, K] after moves [Q, r], of which only the part along counts."""
        return self.base + jnp.sum(self.along * moves[:, None], 2)

    def forces(self, moves: Array) -> Array:
        """dd/ds of each arm after moves [Q, r]: [Q, K]."""
        return forces(*sides(self.scores(moves)), *sides(self.hat))

    def pull(self, moves: Array) -> Array:
        """The slope of D along the boundary: [Q, r]."""
        return jnp.sum(self.along * (self.weights[None] * self.forces(moves))[..., None], 1)

    def solver(self, moves: Array) -> Callable[..., Array]:
        """How to apply L^-1, and its transpose; L L' is the curvature along the boundary."""
        p, q = sides(self.scores(moves))
        root = jnp.sqrt(self.weights[None] * p * q)[..., None] * self.along
        curvature = jnp.einsum("qkr,qks->qrs", root, root, precision="highest")
        size = jnp.trace(curvature, axis1=1, axis2=2)[:, None, None]
        rest = self.unit[:, :, None] * self.unit[:, None]
        rest = rest + LEAST_CURVATURE * jnp.eye(rest.shape[1], dtype=rest.dtype)[None]
        factors = jax.vmap(factor_inverse)(curvature + jnp.where(size > 0, size, 1) * rest)

        def inverse(x: Array, transposed: bool = False) -> Array:
            """L^-1 x or L'^-1 x, of x [Q, r] or [Q, r, K]."""
            rows = jnp.swapaxes(factors, 1, 2) if transposed else factors
            return product(rows, x.reshape(*self.unit.shape, -1)).reshape(x.shape)

        return inverse

    def closest(self) -> Array:
        """The moves to the closest points: [Q, r]."""
        enough = float(jnp.finfo(self.weights.dtype).eps) ** 0.375

        def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            n, moves, left = carry
            inverse = self.solver(moves)
            full = -inverse(inverse(self.pull(moves)), transposed=True)
            far = jnp.max(jnp.abs(jnp.sum(self.along * full[:, None], 2)), 1)
            share = jnp.where(left, ratio(jnp.log1p(far), far), 0)
            return n + 1, moves + share[:, None] * full, left & (far > enough)

        def more(carry: tuple[Array, Array, Array]) -> Array:
            return (carry[0] < _STEPS) & jnp.any(carry[2])

        first = jnp.int32(0), jnp.zeros_like(self.unit), self.outside
        return jax.lax.while_loop(more, step, first)[1]

    def bent(self) -> Bent:
        """H_p(w) of each half-space, and its derivatives."""
        constant = jax.lax.stop_gradient(self)
        start = constant.closest()
        inverse = constant.solver(start)
        moves = start - inverse(inverse(self.pull(start)), transposed=True)
        slopes = divergence(self.hat, self.scores(moves))
        standard = inverse(jnp.swapaxes(constant.along, 1, 2))  # [Q, r, K]
        bend = jax.lax.stop_gradient(standard * self.forces(moves)[:, None])
        decrement = jnp.sum(product(bend, constant.weights) ** 2, 1)
        value = jnp.maximum(product(slopes, self.weights) - decrement, 0)
        # Features have Phi' Phi = identity, so a move is no longer than its change of the scores.
        changes = jnp.sum((self.scores(moves) - self.hat) ** 2, 1)
        trusted = jnp.sum(moves * moves, 1) <= _LONGEST**2 * changes
        return Bent(jnp.where(self.outside & trusted, value, 0), slopes.T, jnp.moveaxis(bend, 2, 0))
