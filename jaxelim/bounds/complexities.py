"""`complexity`: H*, T* and the optimal allocation of an instance or a batch, in float64."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxelim import checks, scope
from jaxelim.bounds.optimal import Optimum, refuse_float32, solved
from jaxelim.bounds.pieces import Truth, each, information_of, pieces_of
from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import Pieces
from jaxelim.errors import ArgumentError
from jaxelim.instances.instance import Instance
from jaxelim.matrices import product

_RAISED = 1e-12  # added to traced weights, so that V_w has an inverse where some are 0
_TIED = 1e-12  # relative distance of tied values; XLA may compute one of them twice


@dataclass(frozen=True, eq=False)
class Complexity:
    """The complexity of one instance, or of a batch of I with a leading axis [I] on every field.

    H* = max over allocations w of min over pieces p of H_p(w, theta), and T* = 1/H*. No
    delta-correct procedure needs fewer than log(1/(2.4 delta)) T* samples on average.
    (Paper, section 2.) Where several answers are right H* is the largest over them, and
    allocation, mixture, information and pieces are of the answer that has it. Where several
    are right the bound holds as delta tends to 0. (Degenne & Koolen 2019)

    For an instance with costs all is by cost: the allocation w is in shares of the cost, H_p
    is that of w_k/c_k pulls, H* is per unit of cost, and T* in units of cost. No
    delta-correct procedure costs less than log(1/(2.4 delta)) T* on average. `pulls` has the
    shares of the pulls.

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
        with scope.float64():
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


@functools.partial(jax.jit, static_argnums=1)
def _solved(truth: Truth, arms: int, gap: Any) -> Optimum:
    """One instance after the other: side by side XLA would take other products of matrices."""
    return solved(truth, arms, gap)


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
