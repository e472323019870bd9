"""Solves and values of H_p for many instances, on the host in float64."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.contracts import Family
from jaxelim.contracts.views import Derivatives
from jaxelim.evidence.gaussian import HalfSpaceEvidence
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound.pieces import Pieces, has_slack
from jaxelim.saddle import closed
from jaxelim.saddle.cuts import cutting_planes
from jaxelim.saddle.solver import Solution
from jaxelim.saddle.solver import solve as solve_evidence

# Solves a call. On a CPU few, since finished solves wait for the slowest.
_LANES_CPU, _LANES_OTHER = 8, 256
_MAX_ITERATIONS = 100


def solve(
    arms, theta, directions, offsets, *, valid=None, bonus=None, gap=1e-6,
    max_iterations: int = _MAX_ITERATIONS,
) -> Solution:  # fmt: skip
    """Maximise over allocations the least information over pieces, for linear features.

    Pure, for jit and vmap; computes in the dtype of `arms`.

    Args:
        arms: [K, d] features; rows of zeros are allowed, as padding.
        theta: [d] the parameter, in units of the noise.
        directions: [P, d], y of the pieces {lambda : y . lambda <= c} of the answer.
        offsets: [P], c of these pieces.
        valid: [P] bool, False on padding; None: all valid.
        bonus: [K] per-arm bonus c of the optimistic form; None: 0.
        gap, max_iterations: as of `jaxelim.saddle.solver.solve`; Returns too.
    """
    valid = jnp.ones(directions.shape[0], bool) if valid is None else valid
    bonus = jnp.zeros(arms.shape[0], arms.dtype) if bonus is None else bonus
    evidence = HalfSpaceEvidence.of(arms, theta, directions, offsets)
    return solve_evidence(evidence, valid, bonus, gap, max_iterations)


class Truth(NamedTuple):
    """I instances as arrays, in the units of the family's `truth`; NumPy, or on the device."""

    features: Any  # [I, K, d]; None: independent arms
    theta: Any  # [I, d], or the means [I, K]; in units of the family's scale
    scales: Any  # [I, K] costs, or variances
    directions: Any  # [I, P, d]
    offsets: Any  # [I, P]
    costs: Any = None  # [I, K] of pulls; None: samples are counted

    @staticmethod
    def of(instance: Instance, pieces: Pieces) -> "Truth":
        """The arrays of instances and their pieces."""
        if instance.family.linear:
            arms, theta, unit = scaled(instance, pieces)
            scales = np.ones(arms.shape[:2])
            return Truth(arms, theta, scales, unit.directions, unit.offsets, costs_of(instance))
        means = instance.means.reshape(-1, instance.K)
        with scope.float64():
            scales = [instance.family.scales(jnp.asarray(row)) for row in means]
        scales = np.stack(jax.device_get(scales))
        own = means, scales, pieces.directions, pieces.offsets
        return Truth(None, *own, costs_of(instance))

    def at(self, index) -> "Truth":
        """Some of the instances, or one of them, on the device."""
        return jax.tree.map(lambda x: jnp.asarray(x[index]), self)

    def evidence(self, family: Family, slack: bool) -> Any:
        """The evidence of one of the instances, whose weights are shares of cost."""
        about = family.truth(*self[:5], slack)
        return about if self.costs is None else about.priced(self.costs)


def costs_of(instance: Instance) -> np.ndarray | None:
    """The costs of pulls of I instances, [I, K]; None: samples are counted."""
    if instance.costs is None:
        return None
    return np.broadcast_to(instance.costs, (instance.size, instance.K))


def kind_of(instance: Instance, pieces: Pieces, bonus: np.ndarray | None) -> str:
    """The kind of the pieces where all instances have one with a closed form, else "any"."""
    if not instance.family.has("divergence") or bonus is not None or has_slack(pieces):
        return "any"
    answers = zip(pieces.directions, pieces.valid, strict=True)
    kinds = {closed.kind_of(y[valid]) for y, valid in answers}
    return kinds.pop() if len(kinds) == 1 else "any"


@functools.partial(jax.jit, static_argnames=("family", "kind", "slack", "max_iterations"))
def _solve_lanes(family, kind, slack, truth, valid, bonus, gap, max_iterations) -> Solution:
    def of_instance(truth, valid, bonus):
        evidence = truth.evidence(family, slack)
        return closed.optimum(evidence, kind, valid, bonus, gap, max_iterations)

    return jax.vmap(of_instance)(truth, valid, bonus)


def solve_truth(
    family: Family, truth: Truth, valid: np.ndarray, bonus: np.ndarray | None, gap: float,
    *, kind: str = "any", slack: bool = False, like: int | None = None,
    max_iterations: int = _MAX_ITERATIONS,
) -> Solution:  # fmt: skip
    """Solve I instances, in calls of one compiled shape; float64 NumPy.

    Args:
        family: without `scales`.
        truth: of I instances.
        valid: [I, P] bool.
        bonus: [I, K] or None.
        gap: relative duality gap.
        kind: as of `kind_of`.
        slack: whether all pieces are pairs with slack.
        like: solve in the program that a call of so many instances has; None: of I.
        max_iterations: bound on the interior-point steps of each solve.
    """
    size, K = truth.scales.shape[:2]
    lanes = (
        1 if (like or size) == 1 else _LANES_CPU if jax.default_backend() == "cpu" else _LANES_OTHER
    )
    bonus = np.zeros((size, K)) if bonus is None else bonus
    parts = []
    with scope.float64():
        for start in range(0, size, lanes):
            index = np.minimum(np.arange(start, start + lanes), size - 1)
            arrays = truth.at(index), jnp.asarray(valid[index]), jnp.asarray(bonus[index])
            unit = jnp.asarray(gap, jnp.float64)
            parts.append(_solve_lanes(family, kind, slack, *arrays, unit, max_iterations))
        parts = jax.device_get(parts)
    return Solution(
        *(
            np.concatenate([np.asarray(x) for x in field])[:size]
            for field in zip(*parts, strict=True)
        )
    )


def solve_many(
    arms, theta, pieces: Pieces, bonus=None, gap=1e-6, like: int | None = None, costs=None
) -> Solution:
    """`solve_truth` for linear features of unit noise.

    Args:
        arms: [I, K, d].
        theta: [I, d].
        pieces: of I instances.
        bonus, gap, like: as of `solve_truth`.
        costs: [I, K] or None, as of `Truth`.
    """
    truth = Truth(arms, theta, np.ones(arms.shape[:2]), pieces.directions, pieces.offsets, costs)
    return solve_truth(Gaussian(), truth, pieces.valid, bonus, gap, like=like)


def solve_arms(instance: Instance, pieces: Pieces, bonus=None, gap: float = 1e-6) -> Solution:
    """Solve I instances of rewards without a design; float64 NumPy. A gap leaves out rounding.

    Args:
        instance: one instance or a batch, of a family without a design.
        pieces: of I instances.
        bonus: [I, K] or None.
        gap: relative duality gap.
    """
    truth, family, slack = Truth.of(instance, pieces), instance.family.plain(), has_slack(pieces)
    kind, valid = kind_of(instance, pieces, bonus), pieces.valid
    solution = solve_truth(family, truth, valid, bonus, gap, kind=kind, slack=slack)
    if family.has("divergence"):
        return solution
    # Where a piece has several smooth parts, steps may cycle between two of them.
    for i in np.flatnonzero(~solution.converged & (solution.value > 0)):
        _finish(solution, int(i), family, truth, valid[i], bonus, gap)
    return solution


@functools.partial(jax.jit, static_argnames=("family", "slack"))
def derivatives_at(family, slack, truth, weights) -> Derivatives:
    """H_p of one instance of a `Truth` at weights [K], with its derivatives."""
    return truth.evidence(family, slack).weighted(weights).derivatives()


def _finish(solution, i: int, family: Family, truth: Truth, valid, bonus, gap: float) -> None:
    """Solve instance i of a batch by cutting planes, in place."""
    start = np.asarray(solution.allocation[i])
    own = np.zeros(len(start)) if bonus is None else bonus[i]

    def cuts(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = derivatives_at(family, False, single, jnp.asarray(weights))
        values, slopes = jax.device_get((at.value, at.gradient))
        known = np.resize(valid, len(values))
        return values[known], slopes.T[known] + own

    with scope.float64():
        single = truth.at(i)
        weights, mixture, value, reached = cutting_planes(cuts, own, start, gap)
    if reached < solution.gap[i]:
        parts = mixture.reshape(-1, valid.sum()).sum(0)
        solution.mixture[i][valid] = parts
        solution.allocation[i], solution.value[i], solution.gap[i] = weights, value, reached
        solution.converged[i] = reached <= gap


@functools.partial(jax.jit, static_argnames=("family", "slack"))
def _information_lanes(family, slack, truth, weights):
    evidence = truth.evidence(family, slack)
    return jax.vmap(lambda w: evidence.weighted(w).values())(weights)


def arm_information(instance: Instance, pieces: Pieces, weights: np.ndarray) -> np.ndarray:
    """H_p(w) of rewards without a design, inf on padding, float64 NumPy: [I, n, P].

    Args:
        instance: one instance or a batch.
        pieces: of I instances.
        weights: [I, n, K], not negative, of any sum.
    """
    truth, family, out = Truth.of(instance, pieces), instance.family.plain(), []
    with scope.float64():
        for i, w in enumerate(weights):
            arrays = truth.at(i), jnp.asarray(w)
            values = jax.device_get(_information_lanes(family, has_slack(pieces), *arrays))
            if truth.features is not None:  # 0 for directions that no arm with weight tells
                features, y = truth.features[i], truth.directions[i]
                values = values * np.array([standard(x, features, y)[2] for x in w])
            out.append(values)
    return np.where(pieces.valid[:, None], np.stack(out), np.inf)


def scaled(instance: Instance, pieces: Pieces) -> tuple[np.ndarray, np.ndarray, Pieces]:
    """Arms [I, K, d], theta [I, d] and pieces of the same instances, in units of the scale."""
    arms, scale = instance.arms.reshape(-1, instance.K, instance.d), instance.family.scale
    theta = instance.theta.reshape(-1, instance.d) / scale
    return arms, theta, pieces._replace(offsets=pieces.offsets / scale)


def standard(
    weights: np.ndarray, arms: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates where V_w is the identity, for weights [K] that may be 0 (host, NumPy).

    Returns:
        The map to them, [d, r]; the directions in them, [P, r], of which a squared norm is
        that in V_w^-1; and whether each lies in the span of the arms with weight, [P].
    """
    # The condition of sqrt(w) phi is the square root of that of V_w.
    _, s, vt = np.linalg.svd(np.sqrt(weights)[:, None] * arms, full_matrices=False)
    kept = s > max(arms.shape) * np.finfo(np.float64).eps * s[0]
    inside = directions @ vt[kept].T
    left = np.linalg.norm(directions - inside @ vt[kept], axis=1)
    return vt[kept].T / s[kept], inside / s[kept], left <= 1e-8 * np.linalg.norm(directions, axis=1)


def information_of(
    weights: np.ndarray, arms: np.ndarray, theta: np.ndarray, pieces: Pieces
) -> np.ndarray:
    """H_p(w) [..., P] of weights [..., K], for one instance of unit noise (host, NumPy).

    Weights need not sum to 1. H_p is 0 for a direction outside the span of the arms
    with weight.
    """
    gaps = np.maximum(pieces.directions @ theta - pieces.offsets, 0)
    flat = weights.reshape(-1, weights.shape[-1])
    out = np.zeros((len(flat), len(gaps)))
    for index, w in enumerate(flat):
        _, inside, reached = standard(w, arms, pieces.directions)
        norm = np.sum(inside**2, axis=1)
        reached = reached & (norm > 0)
        out[index] = np.where(reached, gaps**2 / (2 * np.where(reached, norm, 1)), 0)
    return np.where(pieces.valid, out, np.inf).reshape(*weights.shape[:-1], -1)
