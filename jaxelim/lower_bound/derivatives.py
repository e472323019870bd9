"""Derivatives of H* and w*, without differentiating the solver's iterations.

H*(x) is the value of the saddle point max_w min_q sum_p q_p H_p(w, x) + c . w. By
Danskin's theorem its derivative is that of the Lagrangian with the optimal pair
(w*, q*) fixed.

The pair solves the optimality conditions on its active set S = {k : w*_k > 0} and
A = {p : q*_p > 0}:

    sum_p q_p dH_p/dw_k + c_k = nu  (k in S),    H_p(w) + c . w = s  (p in A),
    sum_k w_k = 1,    sum_p q_p = 1.

The implicit function theorem gives its derivatives from one linear system. Where w* is
not unique, or the active set changes, w* has no derivative: see `Gradients.stable`. Where
the system is singular its solution of least norm stands there. At a tie of the answer,
where H* = 0 is its least value, all derivatives are 0.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Family
from jaxelim.contracts.views import Derivatives, Evidence
from jaxelim.evidence.derivatives import product
from jaxelim.families import Gaussian
from jaxelim.saddle.closed import optimum as optimum_of
from jaxelim.saddle.solver import Solution

# Relative gap of the solves: derivatives are about as exact as the pair (w*, q*).
GAP = 1e-11
GAUSSIAN = Gaussian()
_TIED = 1e-12  # relative distance of tied values; XLA may compute one of them twice


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Inputs:
    """The arguments of H* for one instance, in the units of the family's `truth`."""

    family: Family = dataclasses.field(metadata={"static": True})
    features: Array | None  # [K, d]; None: independent arms
    theta: Array  # [d], or the means [K]
    scales: Array  # [K]
    directions: Array  # [P, d]
    offsets: Array  # [P]
    bonus: Array  # [K]; read for the kind "any" only
    kind: str = dataclasses.field(default="any", metadata={"static": True})  # of `kind_of`

    @staticmethod
    def linear(arms, theta, directions, offsets, bonus, family: Family = GAUSSIAN) -> "Inputs":
        """Of linear features, in units of the family's scale."""
        return Inputs(family, arms, theta, jnp.ones_like(bonus), directions, offsets, bonus)

    def _evidence(self) -> Evidence:
        arrays = self.features, self.theta, self.scales, self.directions, self.offsets
        return self.family.truth(*arrays, False)

    def solve(self, valid, gap: float) -> Solution:
        """Solve for the saddle point."""
        return optimum_of(self._evidence(), self.kind, valid, self.bonus, gap)

    def at(self, weights) -> Derivatives:
        """H_p and its derivatives at weights [K], differentiable in the inputs."""
        return self._evidence().weighted(weights).derivatives()


class Optimum(NamedTuple):
    """The saddle point at some inputs."""

    allocation: jax.Array | np.ndarray  # [K] w*
    mixture: jax.Array | np.ndarray  # [P] q*
    gap: jax.Array | np.ndarray  # [] relative duality gap; its derivative is set to 0


class Conditions(NamedTuple):
    """The symmetric system of the implicit function theorem; the identity off the active set."""

    matrix: jax.Array  # [K + P + 2, K + P + 2] for (w, q, s, nu)
    support: jax.Array  # [K] bool, S
    active: jax.Array  # [P] bool, A
    margin: jax.Array  # [] strict complementarity of S and A, in [0, 1]; 0: none


def lagrangian(inputs: Inputs, weights, mixture):
    """sum_p q_p H_p(w) + c . w; at the optimal pair, fixed, its derivative is that of H*."""
    return product(mixture, inputs.at(weights).value) + product(inputs.bonus, weights)


def _residuals(inputs: Inputs, weights, mixture):
    """Left-hand sides of the optimality conditions that the inputs enter.

    Slopes in w, [K], and levels, [P].
    """
    at = inputs.at(weights)
    slopes = product(at.gradient, mixture) + inputs.bonus
    return slopes, at.value + product(inputs.bonus, weights)


def conditions(inputs: Inputs, weights, mixture, valid) -> Conditions:
    """Build the system at an optimal pair, with the margin of its active set."""
    at = inputs.at(weights)
    K, P = at.gradient.shape
    slopes = at.gradient + inputs.bonus[:, None]
    slope = product(slopes, mixture)
    levels = jnp.where(valid, at.value + product(inputs.bonus, weights), jnp.inf)
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
    block = -at.curvature(mixture) * on_w[:, None] * on_w[None, :] + jnp.diag(1 - on_w)
    coupling = slopes * on_w[:, None] * on_q[None, :]
    zero = jnp.zeros
    matrix = jnp.block(
        [
            [block, coupling, zero((K, 1), dtype), -on_w[:, None]],
            [coupling.T, jnp.diag(1 - on_q), -on_q[:, None], zero((P, 1), dtype)],
            [zero((1, K), dtype), -on_q[None, :], zero((1, 2), dtype)],
            [-on_w[None, :], zero((1, P), dtype), zero((1, 2), dtype)],
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
    """The solution; where the system is singular, as for equal arms, that of least norm."""
    size = _equilibration(matrix)
    inverse = jnp.linalg.pinv(matrix * size[:, None] * size[None, :], hermitian=True)
    return size * product(inverse, size * rhs)


def _unless_tied(best: Optimum, rule: Callable, tangents):
    """What a linear rule gives of tangents; 0 at a tie of the answer, in reverse too."""
    here = functools.partial(jax.tree.map, lambda x: jnp.where(jnp.isfinite(best.gap), x, 0))
    return here(rule(here(tangents)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def optimum(inputs: Inputs, marks, gap: float = GAP) -> Optimum:
    """The saddle point, differentiable forward and reverse by the implicit function theorem.

    Args:
        inputs: the arguments of H*.
        marks: [P] 1 on pieces, 0 on padding, in the dtype of the inputs.
        gap: relative duality gap of the solve.
    """
    solution = inputs.solve(marks > 0, gap)
    return Optimum(solution.allocation, solution.mixture, solution.gap)


@optimum.defjvp
def _(gap, primals, tangents):
    inputs, marks = primals
    best = optimum(inputs, marks, gap)
    system = conditions(inputs, best.allocation, best.mixture, marks > 0)

    def moved(x):
        return _residuals(x, best.allocation, best.mixture)

    def change(tangent):
        _, (slope, level) = jax.jvp(moved, (inputs,), (tangent,))
        slope = jnp.where(system.support, -slope, 0)
        level = jnp.where(system.active, -level, 0)
        right = jnp.concatenate([slope, level, jnp.zeros(2, slope.dtype)])
        return _equilibrated_solve(system.matrix, right)

    K, P = system.support.shape[0], system.active.shape[0]
    solved = _unless_tied(best, change, tangents[0])
    return best, Optimum(solved[:K], solved[K : K + P], jnp.zeros_like(best.gap))


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def value(inputs: Inputs, marks, gap: float = GAP):
    """H* [], differentiable any number of times.

    The first derivative follows Danskin's theorem, higher ones the rule of `optimum`.

    Args: inputs, marks, gap: as `optimum`.
    """
    best = optimum(inputs, marks, gap)
    levels = inputs.at(best.allocation).value + product(inputs.bonus, best.allocation)
    return jnp.min(jnp.where(marks > 0, levels, jnp.inf))


@value.defjvp
def _(gap, primals, tangents):
    inputs, marks = primals
    best = optimum(inputs, marks, gap)

    def fixed(x):
        return lagrangian(x, best.allocation, best.mixture)

    def change(tangent):
        return jax.jvp(fixed, (inputs,), (tangent,))[1]

    return value(inputs, marks, gap), _unless_tied(best, change, tangents[0])


def least(at: Callable[[Array], Derivatives], valid: np.ndarray, weights: Array) -> Array:
    """min_p H_p(w) [], differentiable twice in the weights [K].

    H_p of some families is itself a minimum, found by loops, which no derivative enters.

    Args:
        at: H_p and its derivatives at weights.
        valid: [P] bool, False on padding.
        weights: [K].
    """

    def levels(w):
        value = at(w).value
        return jnp.where(np.resize(valid, value.shape), value, jnp.inf)  # once for each part

    @jax.custom_jvp
    def slope(w, share):
        return product(at(w).gradient, share)

    @slope.defjvp
    def _(primals, tangents):
        return slope(*primals), -product(at(primals[0]).curvature(primals[1]), tangents[0])

    @jax.custom_jvp
    def smallest(w):
        return jnp.min(levels(w))

    @smallest.defjvp
    def _(primals, tangents):
        level = levels(*primals)
        low = jnp.min(level)
        tied = (level <= low * (1 + _TIED)).astype(level.dtype)
        return low, product(slope(*primals, tied / jnp.sum(tied)), *tangents)

    return smallest(weights)
