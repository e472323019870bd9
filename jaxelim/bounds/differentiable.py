"""H*, w* and q* as one function of features and parameter, for grad, jit and vmap.

H*(x) is the value of the saddle point max_w min_q sum_p q_p H_p(w, x). By Danskin's theorem
its derivative is that of the sum with the optimal pair (w*, q*) fixed.

The pair solves the optimality conditions on its active set S = {k : w*_k > 0} and
A = {p : q*_p > 0}:

    sum_p q_p dH_p/dw_k = nu  (k in S),    H_p(w) = s  (p in A),
    sum_k w_k = 1,    sum_p q_p = 1.

The implicit function theorem gives its derivatives from one linear system. No iteration of
the solver is differentiated.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.bounds.pieces import half_spaces_of
from jaxelim.bounds.solves import Truth, derivatives_at
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.pieces import Pieces
from jaxelim.contracts.views import Derivatives, Estimate
from jaxelim.errors import ArgumentError, SetupError, UnsupportedError
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance
from jaxelim.lanes import PLAIN
from jaxelim.matrices import product
from jaxelim.saddle import closed

_UNIT = Gaussian()
_RAISED = 1e-12  # added to traced weights, so that V_w has an inverse where some are 0
_TIED = 1e-12  # relative distance of tied values; XLA may compute one of them twice
_FLOAT64 = "H* is computed in float64, and JAX is set to float32"


class Optimum(NamedTuple):
    """The saddle point of one instance."""

    value: Array  # [] H* per sample
    allocation: Array  # [K] w*
    mixture: Array  # [P] q*
    gap: Array  # [] relative duality gap; its derivative is set to 0


def optimum(
    arms: Any, theta: Any, problem: Problem, family: Family = _UNIT, gap: float = 1e-11
) -> Optimum:
    """The saddle point as a pure function, for one instance; `complexity` has checks and batches.

    Differentiable in arms and theta, forward and reverse, any number of times. Pieces are
    locally constant: where the correct answer changes H* is 0, its least value, and all
    derivatives are 0 there. Where w* is not unique, or its active set changes, w* has no
    derivative. The derivative of H* is then an element of the generalised gradient, at the
    pair found.

    Args:
        arms: [K, d] features; None: independent arms, theta holds their means.
        theta: [d] parameter. For `Logistic` and arms=None it holds the scores.
        problem: what to identify; one answer is right.
        family: of the rewards: one unknown an arm, as `Gaussian`, `Bernoulli` or `Logistic`.
        gap: relative duality gap of the solve; derivatives are about as exact.

    Raises:
        SetupError: JAX computes in float32; see `jax.enable_x64`.
        ArgumentError: another family, or shapes that do not fit.
        UnsupportedError: an object that is no `Problem`, or several right answers.

    Reference: Danskin's theorem and the implicit function theorem at the saddle point of
        Tirinzoni & Degenne (2022), section 2.
    """
    if not (isinstance(family, Family) and differentiable(family)):
        raise ArgumentError("family", family, "a family such as Bernoulli(): one unknown an arm")
    if arms is not None and not family.linear:
        raise ArgumentError("arms", arms, f"None, for independent arms, with family={family!r}")
    gap = checks.real("gap", gap, low=0, open=True)
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise SetupError(_FLOAT64, "call it within `with jax.enable_x64(True):`")
    theta = jnp.asarray(theta, np.float64)
    arms = jnp.eye(theta.shape[-1]) if arms is None else jnp.asarray(arms, np.float64)
    if arms.ndim != 2 or theta.shape != arms.shape[1:]:
        note = f"theta has shape {theta.shape}"
        raise ArgumentError("arms", arms.shape, "features [K, d] and theta [d]", note)
    shape, constants = _shape_at(problem, arms, theta, family)
    marks = shape.exists.astype(theta.dtype)
    if family.linear:
        scale, ones = family.scale, jnp.ones(arms.shape[0])
        pieces = half_spaces_of(family, arms, constants, shape, scale)
        inputs = _Inputs(family.plain(), arms, theta / scale, ones, pieces)
    else:
        scales = family.scales(jax.lax.stop_gradient(theta), None)
        inputs = _Inputs(family.plain(), None, theta, scales, shape, closed.kind_of(shape))
    return _jitted(inputs, marks, gap)


def differentiable(family: Family) -> bool:
    """Whether H* has derivatives: an arm has one unknown, or a theta is the only one."""
    return family.has("truth") and (family.linear or getattr(family, "exponential", False))


def _shape_at(problem: Any, arms, theta, family: Family) -> tuple[Pieces, Any]:
    """The pieces, and the problem's constants. Which pieces exist is locally constant."""
    if not isinstance(problem, Problem):
        raise UnsupportedError("problem", problem, "a jaxelim.contracts.Problem")
    features, point = jax.lax.stop_gradient((arms, theta))
    constants = jax.tree.map(lambda x: jnp.asarray(x, arms.dtype), problem.constants())
    means: Any = family.mean(product(features, point))  # type: ignore[arg-type]
    seen = Estimate(PLAIN, means, point, constants)
    shape = problem.shape(seen, problem.answer(seen))
    if shape.slack:
        allowed = "epsilon=0: this is not defined where several answers may be right"
        raise UnsupportedError("problem", problem, allowed)
    return shape, constants


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Inputs:
    """What H* depends on, in the units of the family's `truth`."""

    family: Family = dataclasses.field(metadata={"static": True})
    features: Array | None  # [K, d]; None: independent arms
    theta: Array  # [d], or the means [K]
    scales: Any  # [K] each
    pieces: Pieces  # of the units of theta
    kind: str = dataclasses.field(default="any", metadata={"static": True})  # of `closed.kind_of`

    def evidence(self):
        return self.family.truth(self.features, self.theta, self.scales, self.pieces)

    def at(self, weights) -> Derivatives:
        """H_p and its derivatives at weights [K], differentiable in the inputs."""
        return self.evidence().weighted(weights).derivatives()


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _optimum(inputs: _Inputs, marks: Array, gap: float) -> Optimum:
    """The saddle point; marks [P] are 1 on pieces, 0 on padding."""
    bonus = jnp.zeros(jax.tree.leaves(inputs.scales)[0].shape[0])
    found: Any = closed.optimum(inputs.evidence(), inputs.kind, marks > 0, bonus, gap)
    return Optimum(found.value, found.allocation, found.mixture, found.gap)


@_optimum.defjvp
def _(gap, primals, tangents):
    inputs, marks = primals
    best = _optimum(inputs, marks, gap)
    w, q = best.allocation, best.mixture
    matrix, support, active = _conditions(inputs, w, q, marks > 0)
    K, P = support.shape[0], active.shape[0]

    def fixed(x: _Inputs):
        """What the inputs enter: slopes in w [K], levels [P], and H* at the fixed pair."""
        at = x.at(w)
        return product(at.gradient, q), at.value, product(q, at.value)

    def change(tangent):
        slope, level, value = jax.jvp(fixed, (inputs,), (tangent,))[1]
        slope, level = jnp.where(support, -slope, 0), jnp.where(active, -level, 0)
        moved = _solve(matrix, jnp.concatenate([slope, level, jnp.zeros(2)]))
        return Optimum(value, moved[:K], moved[K : K + P], jnp.zeros_like(best.gap))

    def here(tangent):
        """0 at a tie of the answer, in reverse too; indices have none."""
        none, real = jax.dtypes.float0, jnp.isfinite(best.gap)
        return jax.tree.map(lambda x: x if x.dtype == none else jnp.where(real, x, 0), tangent)

    return best, here(change(here(tangents[0])))


# Jitted: a transformation without jit would dispatch the operations of the rule one by one.
_jitted = jax.jit(_optimum, static_argnums=2)


def _conditions(inputs: _Inputs, w: Array, q: Array, valid: Array) -> tuple[Array, Array, Array]:
    """The system of the implicit function theorem at an optimal pair, and its active set.

    Returns:
        A symmetric matrix [K + P + 2, K + P + 2] for (w, q, s, nu), the identity off the
        active set; S, [K] bool; and A, [P] bool.
    """
    at = inputs.at(w)
    K, P = at.gradient.shape
    slope, level = product(at.gradient, q), jnp.where(valid, at.value, jnp.inf)
    # Of each pair, a weight and its slack, one is clearly positive.
    support = w > jnp.maximum(1 - slope / jnp.max(slope), 0)
    active = valid & (q > jnp.where(valid, 1 - jnp.min(level) / level, 1))
    on_w, on_q, zero = support.astype(w.dtype), active.astype(w.dtype), jnp.zeros
    block = -at.curvature(q) * on_w[:, None] * on_w[None, :] + jnp.diag(1 - on_w)
    coupling = at.gradient * on_w[:, None] * on_q[None, :]
    matrix = jnp.block([
        [block, coupling, zero((K, 1)), -on_w[:, None]],
        [coupling.T, jnp.diag(1 - on_q), -on_q[:, None], zero((P, 1))],
        [zero((1, K)), -on_q[None, :], zero((1, 2))],
        [-on_w[None, :], zero((1, P)), zero((1, 2))],
    ])  # fmt: skip
    return matrix, support, active


def _solve(matrix: Array, right: Array) -> Array:
    """The solution; where the system is singular, as for equal arms, that of least norm.

    Rows and columns are scaled to comparable size: curvature spans many orders of magnitude.
    """
    size = jnp.sqrt(jnp.max(jnp.abs(matrix), axis=1))
    size = 1 / jnp.where(size > 0, size, 1)
    inverse = jnp.linalg.pinv(matrix * size[:, None] * size[None, :], hermitian=True)
    return size * product(inverse, size * right)


def traced_value(instance: Instance, pieces: Pieces, weights: Array) -> Array:
    """min_p H_p(w) of traced weights [K] or [I, K], differentiable twice in them: [I].

    Raises:
        SetupError: JAX computes in float32.
        ArgumentError: weights of another shape or type.
    """
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise SetupError(_FLOAT64, "call it within `with jax.enable_x64(True):`")
    shapes = [(instance.K,)] + [(instance.size, instance.K)] * instance.batched
    if weights.shape not in shapes or weights.dtype != np.float64:
        allowed = f"float64 weights of shape {' or '.join(map(str, shapes))}"
        raise ArgumentError("weights", weights, allowed, "jax.vmap takes many")
    with jax.ensure_compile_time_eval():  # else jit would trace what is on the host
        truth = Truth.of(instance, pieces)
    family = instance.family.plain()
    wide = jnp.broadcast_to(weights, (instance.size, instance.K)) + _RAISED
    every = [
        _least(lambda w, i=i: derivatives_at(family, truth.at(i), w), pieces.exists[i], wide[i])
        for i in range(instance.size)
    ]
    return jnp.stack(every)


def _least(at: Callable[[Array], Derivatives], valid: Any, weights: Array) -> Array:
    """min_p H_p(w) [], differentiable twice in the weights [K].

    H_p of some families is itself a minimum, found by loops, which no derivative enters.

    Args:
        at: H_p and its derivatives at weights.
        valid: [P] bool, False on padding.
        weights: [K].
    """

    def levels(w):
        return jnp.where(valid, at(w).value, jnp.inf)

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
