"""Derivatives of H* and w*, without differentiating the solver's iterations.

H*(x) is the value of the saddle point max_w min_q sum_p q_p H_p(w, x) + c . w. By
Danskin's theorem its derivative is that of the Lagrangian with the optimal pair
(w*, q*) fixed.

The pair solves the optimality conditions on its active set S = {k : w*_k > 0} and
A = {p : q*_p > 0}:

    sum_p q_p dH_p/dw_k + c_k = nu  (k in S),    H_p(w) + c . w = s  (p in A),
    sum_k w_k = 1,    sum_p q_p = 1.

The implicit function theorem gives its derivatives from one linear system. Where w* is
not unique, or the active set changes, w* has no derivative: see `Gradients.stable`.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxelim.lower_bound.information import Coordinates, coordinates, product
from jaxelim.lower_bound.solver import Array, Solution, solve

# Relative gap of the solves: derivatives are about as exact as the pair (w*, q*).
GAP = 1e-11


class Inputs(NamedTuple):
    """The arguments of H*, in units where the noise has standard deviation 1."""

    arms: jax.Array  # [K, d]
    theta: jax.Array  # [d]
    directions: jax.Array  # [P, d]
    offsets: jax.Array  # [P]
    bonus: jax.Array  # [K]

    def solve(self, valid, gap: float) -> Solution:
        """Solve for the saddle point."""
        return solve(*self[:4], valid=valid, bonus=self.bonus, gap=gap)

    def fixed(self) -> Coordinates:
        """What `at` needs and no derivative passes through."""
        arms, directions = jax.lax.stop_gradient((self.arms, self.directions))
        return coordinates(arms, directions)

    def at(self, weights, valid, where: Coordinates):
        """Information at weights and the gaps [P], differentiable in the inputs.

        The linear map of the coordinates is a constant.
        """
        margin = product(self.directions, self.theta) - self.offsets
        gaps = jnp.where(valid, jnp.maximum(margin, 0), 0)
        phi, y = product(self.arms, where.map), product(self.directions, where.map)
        moved = where._replace(phi=phi, y=y)
        return moved.information(weights, gaps), gaps


class Optimum(NamedTuple):
    """The saddle point at some inputs."""

    allocation: Array  # [K] w*
    mixture: Array  # [P] q*
    gap: Array  # [] relative duality gap; its derivative is set to 0


class Conditions(NamedTuple):
    """The linear system of the implicit function theorem; the identity off the active set."""

    matrix: jax.Array  # [K + P + 2, K + P + 2] for (w, q, s, nu)
    support: jax.Array  # [K] bool, S
    active: jax.Array  # [P] bool, A
    margin: jax.Array  # [] strict complementarity of S and A, in [0, 1]; 0: none


def lagrangian(inputs: Any, weights, mixture, valid, where):
    """sum_p q_p H_p(w) + c . w; at the optimal pair, fixed, its derivative is that of H*."""
    info, _ = inputs.at(weights, valid, where)
    return product(mixture, info.value) + product(inputs.bonus, weights)


def _residuals(inputs: Any, weights, mixture, valid, where):
    """Left-hand sides of the optimality conditions that the inputs enter.

    Slopes in w, [K], and levels, [P].
    """
    info, _ = inputs.at(weights, valid, where)
    slopes = product(info.gradient, mixture) + inputs.bonus
    return slopes, info.value + product(inputs.bonus, weights)


def conditions(inputs: Any, weights, mixture, valid) -> Conditions:
    """Build the system at an optimal pair, with the margin of its active set."""
    where = inputs.fixed()
    info, gaps = inputs.at(weights, valid, where)
    K, P = info.gradient.shape
    slopes = info.gradient + inputs.bonus[:, None]
    slope = product(slopes, mixture)
    levels = jnp.where(valid, info.value + product(inputs.bonus, weights), jnp.inf)
    value = jnp.min(levels)
    # Relative slacks: of an arm's slope below the best, and of a piece's level above the least.
    short = jnp.maximum(1 - slope / jnp.max(slope), 0)
    excess = jnp.where(valid, 1 - value / levels, 1)
    support, active = weights > short, valid & (mixture > excess)
    # Strict complementarity: one of each pair is clearly positive. Their products are of the
    # order of the gap.
    told = jnp.concatenate(
        [jnp.maximum(weights, short), jnp.where(valid, jnp.maximum(mixture, excess), 1)]
    )
    margin = jnp.min(told)

    dtype = weights.dtype
    on_w, on_q = support.astype(dtype), active.astype(dtype)
    block = -info.curvature(gaps, mixture) * on_w[:, None] * on_w[None, :] + jnp.diag(1 - on_w)
    coupling = slopes * on_w[:, None] * on_q[None, :]
    zero = jnp.zeros
    matrix = jnp.block(
        [
            [block, coupling, zero((K, 1), dtype), -on_w[:, None]],
            [coupling.T, jnp.diag(1 - on_q), -on_q[:, None], zero((P, 1), dtype)],
            [zero((1, K), dtype), on_q[None, :], zero((1, 2), dtype)],
            [on_w[None, :], zero((1, P), dtype), zero((1, 2), dtype)],
        ]
    )
    return Conditions(matrix, support, active, margin)


def _equilibration(matrix):
    """Factors [n] that scale rows and columns to comparable size.

    Curvature spans many orders of magnitude.
    """
    size = jnp.sqrt(jnp.max(jnp.abs(matrix), axis=1))
    return 1 / jnp.where(size > 0, size, 1)


def condition(matrix):
    """The condition number of the equilibrated system, []; large where w* is not unique."""
    size = _equilibration(matrix)
    return jnp.linalg.cond(matrix * size[:, None] * size[None, :])


def _equilibrated_solve(matrix, rhs):
    size = _equilibration(matrix)
    return size * jnp.linalg.solve(matrix * size[:, None] * size[None, :], size * rhs)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def optimum(inputs: Any, marks, gap: float = GAP) -> Optimum:
    """The saddle point, differentiable forward and reverse by the implicit function theorem.

    Args:
        inputs: the arguments of H*: `Inputs`, or `ArmInputs` of `jaxelim.lower_bound.arms`.
        marks: [P] 1 on pieces, 0 on padding, in the dtype of the inputs.
        gap: relative duality gap of the solve.
    """
    found = inputs.solve(marks > 0, gap)
    return Optimum(found.allocation, found.mixture, found.gap)


@optimum.defjvp
def _(gap, primals, tangents):
    inputs, marks = primals
    best = optimum(inputs, marks, gap)
    where = inputs.fixed()
    system = conditions(inputs, best.allocation, best.mixture, marks > 0)

    def moved(x):
        return _residuals(x, best.allocation, best.mixture, marks > 0, where)

    _, (slope, level) = jax.jvp(moved, (inputs,), (tangents[0],))
    slope = jnp.where(system.support, -slope, 0)
    level = jnp.where(system.active, -level, 0)
    change = _equilibrated_solve(
        system.matrix, jnp.concatenate([slope, level, jnp.zeros(2, slope.dtype)])
    )
    K, P = slope.shape[0], level.shape[0]
    return best, Optimum(change[:K], change[K : K + P], jnp.zeros_like(best.gap))


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def value(inputs: Any, marks, gap: float = GAP):
    """H* [], differentiable any number of times.

    The first derivative follows Danskin's theorem, higher ones the rule of `optimum`.

    Args: inputs, marks, gap: as `optimum`.
    """
    best = optimum(inputs, marks, gap)
    info, _ = inputs.at(best.allocation, marks > 0, inputs.fixed())
    levels = info.value + product(inputs.bonus, best.allocation)
    return jnp.min(jnp.where(marks > 0, levels, jnp.inf))


@value.defjvp
def _(gap, primals, tangents):
    inputs, marks = primals
    best = optimum(inputs, marks, gap)
    where = inputs.fixed()

    def fixed(x):
        return lagrangian(x, best.allocation, best.mixture, marks > 0, where)

    _, change = jax.jvp(fixed, (inputs,), (tangents[0],))
    return value(inputs, marks, gap), change
