"""H*, w* and q*: of instances, certified; and as one pure function, for grad, jit and vmap.

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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from jaxelim import checks, scope
from jaxelim.bounds.pieces import Truth, each, half_spaces_of, information_of, pieces_of
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.pieces import Pieces
from jaxelim.contracts.views import Estimate
from jaxelim.errors import ArgumentError, SetupError, UnsupportedError
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance
from jaxelim.lanes import PLAIN
from jaxelim.matrices import product
from jaxelim.saddle.solver import climb

_UNIT = Gaussian()
_STEPS = 100  # about 12 to 30 are needed
_RAISED = 1e-12  # added to traced weights, so that V_w has an inverse where some are 0
_TIED = 1e-12  # relative distance of tied values; XLA may compute one of them twice


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
    pieces = half_spaces_of(family, arms, constants, shape) if family.linear else shape
    return _jitted(Truth.of(family, arms, theta, pieces, costs), arms.shape[0], gap)


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
        # Scaled; where the system is singular, as for equal arms, the solution of least norm.
        size = jnp.sqrt(jnp.max(jnp.abs(matrix), axis=1))
        size = 1 / jnp.where(size > 0, size, 1)
        inverse = jnp.linalg.pinv(matrix * size[:, None] * size[None, :], hermitian=True)
        moved = size * product(inverse, size * jnp.concatenate(rest))
        none = jnp.zeros_like(best.gap), jnp.zeros_like(q)
        return Optimum(value, moved[:K], moved[K : K + P], *none)

    def here(tangent):
        """0 at a tie of the answer, in reverse too; indices have none."""
        none, real = jax.dtypes.float0, jnp.isfinite(best.gap)
        return jax.tree.map(lambda x: x if x.dtype == none else jnp.where(real, x, 0), tangent)

    return best, here(change(here(tangents[0])))


# One instance after the other: side by side XLA would take other products of matrices.
_solved = jax.jit(solved, static_argnums=1)
# Jitted: a transformation without jit would dispatch the operations of the rule one by one.
_jitted = jax.jit(_optimum, static_argnums=(1, 2))


def _conditions(truth: Truth, w: Array, q: Array) -> tuple[Array, Array, Array]:
    """The system of the implicit function theorem at an optimal pair, and its active set.

    A symmetric matrix [K + P + 2, K + P + 2] for (w, q, s, nu), the identity off the active
    set; S, [K] bool; and A, [P] bool.
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


@dataclasses.dataclass(frozen=True, eq=False)
class Complexity:
    """The complexity of one instance, or of a batch of I with a leading axis [I] on every field.

    H* = max over allocations w of min over pieces p of H_p(w, theta), and T* = 1/H*. No
    delta-correct procedure needs fewer than log(1/(2.4 delta)) T* samples on average.
    (Paper, section 2.) Where several answers are right H* is the largest over them, and
    allocation, mixture, information and pieces are of the answer that has it. Where several
    are right the bound holds as delta tends to 0. (Degenne & Koolen 2019)

    For an instance with costs all is by cost: the allocation w is in shares of the cost, H_p
    is that of w_k/c_k pulls, H* is per unit of cost, and T* in units of cost, as the bound is.

    Attributes:
        value: float64 [], H* per sample, from below: value <= H* <= (1 + gap) value, up to
            rounding.
        allocation: float64 [K] on the simplex, an optimal w.
        mixture: float64 [Q] on the simplex, the optimal q over the places of `pieces`; 0 where
            there is no piece.
        gap: float64 [], the relative duality gap, of allocation and mixture alone.
        converged: bool [], whether the gap is at most the one that was asked for.
        information: float64 [Q], H_p at the allocation, per sample; inf where there is no piece.
        pieces: of `jaxelim.contracts.pieces`, in the units of theta, with arrays [I, ..]; I = 1
            without a batch. `HalfSpaces` of scores for families whose arms may have features,
            those of the problem's `shape` that exist; else its `Pairs`.
        costs: float64 [K] of the pulls, without a leading axis; None: H* is by samples.
    """

    value: np.ndarray
    allocation: np.ndarray
    mixture: np.ndarray
    gap: np.ndarray
    converged: np.ndarray
    information: np.ndarray
    pieces: Pieces
    costs: np.ndarray | None = None

    @property
    def unit(self) -> str:
        """What T* counts, and H* is per: "sample", or "unit of cost"."""
        return "sample" if self.costs is None else "unit of cost"

    @property
    def pulls(self) -> np.ndarray:
        """The shares of the pulls, float64 [K]: the allocation, or w_k/c_k to sum 1."""
        if self.costs is None:
            return self.allocation
        pulls = self.allocation / self.costs
        return pulls / pulls.sum(-1, keepdims=True)

    @property
    def time(self) -> np.ndarray:
        """T* = 1/H*, in samples, or in units of cost, per unit of log(1/delta), float64 []."""
        return 1 / self.value

    def __repr__(self) -> str:
        if np.ndim(self.value):
            low, high, gap = self.value.min(), self.value.max(), np.max(self.gap)
            several = f"<Complexity of {len(self.value)} instances: H* {low:.6g} to "
            return several + f"{high:.6g}, gap <= {gap:.1e}>"
        by = "" if self.costs is None else " per unit of cost"
        return f"<Complexity: H* {self.value:.6g}{by}, T* {self.time:.6g}, gap {self.gap:.1e}>"


def complexity(instance: Instance, problem: Problem, gap: float = 1e-6) -> Complexity:
    """Compute the complexity H*, T* = 1/H*, and an optimal allocation, with a certificate.

    An interior-point method solves it. The certificate holds for any allocation w and any
    mixture q, whatever found them::

        min_p H_p(w) <= H* <= max_k sum_p q_p dH_p/dw_k (w).

    Both sides are computed in float64, in coordinates in which the features are orthogonal.
    Their rounding is not bounded; features of condition number above 1e8 are refused.
    `jaxelim.testing.exact_bracket` computes both sides without rounding.

    For `BestArm(epsilon=)` each right answer is solved, and the one of largest H* taken. For
    `Thresholding(epsilon=)` that one has each arm on the side whose piece is farther.

    Args:
        instance: one instance or a batch (one compile serves the batch).
        problem: what to identify. Families of independent arms alone take pairs of arms and
            levels. The items of `BestArm(items=..)` stay as they are where features change, as
            in derivatives.
        gap: the relative duality gap to reach, > 0; 1e-10 is within reach.

    Costs of the instance make H*, T* and w those of the cost; see `Complexity`.

    Returns:
        A `Complexity`. Its `gap` holds whether or not `converged`, and can be checked
        from the fields alone.

    Raises:
        ArgumentError: the correct answer is not unique (H* = 0); the message names the arms.
        ArgumentError: no pieces, features that do not span a direction of a piece, or of
            condition number above 1e8, a level out of the family's range, or an argument
            out of range.
        UnsupportedError: a family without divergence, or pieces it has no evidence about;
            slack with linear arms.

    Reference: Tirinzoni & Degenne (2022), section 2 (lower bound) and the appendix on
        identification problems; Garivier & Kaufmann (2016), Theorem 5.
    """
    gap = checks.real("gap", gap, low=0, open=True)
    answers, found = pieces_of(instance, problem), []
    for pieces in answers:
        with scope.engine():
            own = jax.device_get([_solved(one, instance.K, gap) for one in each(instance, pieces)])
        found.append(jax.tree.map(lambda *x: np.stack(x), *own))
    best, pieces = found[0], answers[0]
    if len(found) > 1:  # of each instance the answer of largest H*; so is the bound on H*
        at = np.argmax([one.value for one in found], axis=0), np.arange(instance.size)
        upper = np.max([one.value * (1 + one.gap) for one in found], axis=0)
        choose = functools.partial(jax.tree.map, lambda *x: np.stack(x)[at])
        best, pieces = choose(*found), choose(*answers)
        best = best._replace(gap=upper / best.value - 1)
    if not instance.batched:
        best = jax.tree.map(lambda x: x[0], best)
    numbers: dict[str, Any] = best._asdict()
    return Complexity(**numbers, converged=best.gap <= gap, pieces=pieces, costs=instance.costs)


def information(instance: Instance, problem: Problem, weights) -> Any:
    """min_p H_p(w) of a fixed allocation w, per sample: float64 [], a batch [I].

    Where several answers are right it is the largest over them. A delta-correct procedure
    that pulls in proportions w needs at least log(1/(2.4 delta)) over this many samples on
    average: H* over it is the price of w.

    Args:
        instance: one instance or a batch.
        problem: as for `complexity`.
        weights: [K], or [I, K] for a batch, on the simplex within 1e-9; of the cost, where
            the instance has costs. Traced by jit, grad or vmap: non-negative, of any sum.

    Returns:
        float64 NumPy from a plain call. Of traced weights a traced array, differentiable
        once, of weights that are raised by 1e-12: so it is finite where some are 0. Where
        pieces tie for the minimum its gradient is the mean of theirs, a supergradient:
        min_p H_p is concave in w.

    Raises:
        ArgumentError: weights off the simplex, and as `complexity`.
        SetupError: weights traced in float32.
    """
    shapes = [(instance.K,)] + [(instance.size, instance.K)] * instance.batched
    if isinstance(weights, Tracer):
        refuse_float32()
        if weights.shape not in shapes or weights.dtype != np.float64:
            allowed = f"float64 weights of shape {' or '.join(map(str, shapes))}"
            raise ArgumentError("weights", weights, allowed, "jax.vmap takes many")
        with jax.ensure_compile_time_eval():  # else jit would trace what is on the host
            answers = jax.tree.map(jnp.asarray, _truths(instance, problem))
        xp, least, array = jnp, _least, weights
    else:
        answers = _truths(instance, problem)
        shape = shapes[-1 if np.ndim(weights) == 2 else 0]
        array = checks.real_array("weights", weights, shape=shape)
        checks.refuse_off_simplex("weights", weights, array)
        xp, least, array = np, lambda *x: np.min(information_of(*x)), np.maximum(array, 0)
    own: Any = xp.broadcast_to(array, (instance.size, instance.K))
    values = [xp.stack(list(map(least, truths, own))) for truths in answers]
    largest = xp.max(xp.stack(values), 0)
    return largest if instance.batched else largest[0]


def _truths(instance: Instance, problem: Problem) -> list[list[Truth]]:
    """The truth of each instance with the pieces of each right answer."""
    return [list(each(instance, pieces)) for pieces in pieces_of(instance, problem)]


def _least(truth: Truth, weights: Any) -> Any:
    """min_p H_p of traced weights [K], with a derivative."""

    @jax.custom_jvp
    def least(w):
        return jnp.min(jnp.where(truth.pieces.exists, truth.at(w + _RAISED).value, jnp.inf))

    @least.defjvp
    def _(primals, tangents):
        at = truth.at(primals[0] + _RAISED)
        level = jnp.where(truth.pieces.exists, at.value, jnp.inf)
        low = jnp.min(level)
        tied = (level <= low * (1 + _TIED)).astype(level.dtype)
        return low, product(product(at.gradient, tied / jnp.sum(tied)), *tangents)

    return least(weights)
