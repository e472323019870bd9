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

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.bounds.pieces import Truth, half_spaces_of
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.views import Estimate
from jaxelim.errors import ArgumentError, SetupError, UnsupportedError
from jaxelim.families import Gaussian
from jaxelim.lanes import PLAIN
from jaxelim.matrices import product
from jaxelim.saddle.solver import climb

_UNIT = Gaussian()
_STEPS = 100  # about 12 to 30 are needed


class Optimum(NamedTuple):
    """The saddle point of one instance. Derivatives of gap and information are set to 0."""

    value: Array  # [] H* per sample
    allocation: Array  # [K] w*
    mixture: Array  # [P] q*
    gap: Array  # [] relative duality gap: H* <= (1 + gap) value
    information: Array  # [P] H_p(w*); inf where there is no piece


def optimum(
    arms: Any, theta: Any, problem: Problem, family: Family = _UNIT, costs: Any = None,
    gap: float = 1e-11,
) -> Optimum:  # fmt: skip
    """The saddle point as a pure function, for one instance; `complexity` has checks and batches.

    Differentiable in arms, theta and costs, forward and reverse, any number of times. Pieces
    are locally constant: where the correct answer changes H* is 0, its least value, and all
    derivatives are 0 there. Where w* is not unique, or its active set changes, w* has no
    derivative. The derivative of H* is then an element of the generalised gradient, at the
    pair found.

    Args:
        arms: [K, d] features; None: independent arms, theta holds their means.
        theta: [d] parameter. For `Logistic` and arms=None it holds the scores.
        problem: what to identify; one answer is right.
        family: of the rewards: one unknown an arm, as `Gaussian`, `Bernoulli` or `Logistic`.
        costs: [K] of the pulls, positive; then w* is in shares of the cost. None: samples.
        gap: relative duality gap of the solve; derivatives are about as exact.

    Raises:
        SetupError: JAX computes in float32; see `jax.enable_x64`.
        ArgumentError: another family, or shapes that do not fit.
        UnsupportedError: an object that is no `Problem`, or several right answers.

    Reference: Danskin's theorem and the implicit function theorem at the saddle point of
        Tirinzoni & Degenne (2022), section 2.
    """
    known = isinstance(family, Family) and family.has("truth")
    if not (known and (family.linear or getattr(family, "exponential", False))):
        raise ArgumentError("family", family, "a family such as Bernoulli(): one unknown an arm")
    if arms is not None and not family.linear:
        raise ArgumentError("arms", arms, f"None, for independent arms, with family={family!r}")
    gap = checks.real("gap", gap, low=0, open=True)
    refuse_float32()
    theta = jnp.asarray(theta, np.float64)
    arms = jnp.eye(theta.shape[-1]) if arms is None else jnp.asarray(arms, np.float64)
    if arms.ndim != 2 or theta.shape != arms.shape[1:]:
        note = f"theta has shape {theta.shape}"
        raise ArgumentError("arms", arms.shape, "features [K, d] and theta [d]", note)
    if costs is not None:
        costs = jnp.asarray(costs, np.float64)
        if costs.shape != arms.shape[:1]:
            raise ArgumentError("costs", costs.shape, f"shape {arms.shape[:1]}")
    if not isinstance(problem, Problem):
        raise UnsupportedError("problem", problem, "a jaxelim.contracts.Problem")
    features, point = jax.lax.stop_gradient((arms, theta))  # which pieces exist is locally constant
    constants = jax.tree.map(lambda x: jnp.asarray(x, arms.dtype), problem.constants())
    means: Any = family.mean(product(features, point))  # type: ignore[arg-type]
    seen = Estimate(PLAIN, means, point, constants)
    shape = problem.shape(seen, problem.answer(seen))
    if shape.slack:
        allowed = "epsilon=0: this is not defined where several answers may be right"
        raise UnsupportedError("problem", problem, allowed)
    if family.linear:
        scale, ones = family.scale, jnp.ones(arms.shape[0])
        pieces = half_spaces_of(family, arms, constants, shape, scale)
        truth = Truth(family.plain(), arms, theta / scale, ones, pieces, costs)
    else:
        scales = family.scales(jax.lax.stop_gradient(theta), None)
        truth = Truth(family.plain(), None, theta, scales, shape, costs)
    return _jitted(truth, arms.shape[0], gap)


def refuse_float32() -> None:
    """Refuse to trace H* where JAX computes in float32."""
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        note = "H* is computed in float64, and JAX is set to float32"
        raise SetupError(note, "call it within `with jax.enable_x64(True):`")


def solved(truth: Truth, arms: int, gap: Any) -> Optimum:
    """The saddle point of a truth of so many arms: the interior-point method. Pure."""
    even = jnp.full(arms, 1 / arms, np.float64)
    evidence, exists = truth.evidence(), truth.pieces.exists
    found = climb(evidence, exists, jnp.zeros_like(even), gap, even, most=_STEPS)
    q, total = found.pair.q, jnp.sum(found.pair.q)
    q = q / jnp.where(total > 0, total, 1)
    return Optimum(found.value, found.pair.w, q, found.gap, found.levels)


_optimum = jax.custom_jvp(solved, nondiff_argnums=(1, 2))


@_optimum.defjvp
def _(arms, gap, primals, tangents):
    truth: Truth = primals[0]
    best = _optimum(truth, arms, gap)
    w, q = best.allocation, best.mixture
    matrix, support, active = _conditions(truth, w, q)
    K, P = support.shape[0], active.shape[0]

    def fixed(x: Truth):
        """What the truth enters: slopes in w [K], levels [P], and H* at the fixed pair."""
        at = x.at(w)
        return product(at.gradient, q), at.value, product(q, at.value)

    def change(tangent):
        slope, level, value = jax.jvp(fixed, (truth,), (tangent,))[1]
        rest = jnp.where(support, -slope, 0), jnp.where(active, -level, 0), jnp.zeros(2)
        moved = _solve(matrix, jnp.concatenate(rest))
        none = jnp.zeros_like(best.gap), jnp.zeros_like(q)
        return Optimum(value, moved[:K], moved[K : K + P], *none)

    def here(tangent):
        """0 at a tie of the answer, in reverse too; indices have none."""
        none, real = jax.dtypes.float0, jnp.isfinite(best.gap)
        return jax.tree.map(lambda x: x if x.dtype == none else jnp.where(real, x, 0), tangent)

    return best, here(change(here(tangents[0])))


# Jitted: a transformation without jit would dispatch the operations of the rule one by one.
_jitted = jax.jit(_optimum, static_argnums=(1, 2))


def _conditions(truth: Truth, w: Array, q: Array) -> tuple[Array, Array, Array]:
    """The system of the implicit function theorem at an optimal pair, and its active set.

    Returns:
        A symmetric matrix [K + P + 2, K + P + 2] for (w, q, s, nu), the identity off the
        active set; S, [K] bool; and A, [P] bool.
    """
    at, valid = truth.at(w), truth.pieces.exists
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
