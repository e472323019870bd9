"""Solves and values of H_p for linear features and Gaussian rewards, on the host in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound.pieces import Pieces
from jaxelim.lower_bound.solver import Solution, solve

# Solves a call. On a CPU few, since finished solves wait for the slowest.
_LANES_CPU, _LANES_OTHER = 8, 256
_MAX_ITERATIONS = 100


@functools.partial(jax.jit, static_argnames="max_iterations")
def _solve_lanes(arms, theta, directions, offsets, valid, bonus, gap, max_iterations) -> Solution:
    return jax.vmap(
        lambda a, t, y, c, v, b: solve(
            a, t, y, c, valid=v, bonus=b, gap=gap, max_iterations=max_iterations
        )
    )(arms, theta, directions, offsets, valid, bonus)


def solve_many(
    arms, theta, pieces: Pieces, bonus=None, gap=1e-6, max_iterations=_MAX_ITERATIONS,
    like: int | None = None,
) -> Solution:  # fmt: skip
    """`solve` for I instances of unit noise, in calls of one compiled shape; float64 NumPy.

    Args:
        arms: [I, K, d].
        theta: [I, d].
        pieces: of I instances.
        bonus: [I, K] or None.
        gap: relative duality gap.
        max_iterations: bound on the interior-point steps of each solve.
        like: solve in the program that a call of so many instances has; None: of I.
    """
    size, K = arms.shape[:2]
    lanes = (
        1 if (like or size) == 1 else _LANES_CPU if jax.default_backend() == "cpu" else _LANES_OTHER
    )
    bonus = np.zeros((size, K)) if bonus is None else bonus
    given = (arms, theta, *pieces, bonus)
    parts = []
    with scope.float64():
        for start in range(0, size, lanes):
            index = np.minimum(np.arange(start, start + lanes), size - 1)
            arrays = [jnp.asarray(array[index]) for array in given]
            parts.append(_solve_lanes(*arrays, jnp.asarray(gap, jnp.float64), max_iterations))
        parts = jax.device_get(parts)
    return Solution(
        *(
            np.concatenate([np.asarray(x) for x in field])[:size]
            for field in zip(*parts, strict=True)
        )
    )


def scaled(instance: Instance, pieces: Pieces) -> tuple[np.ndarray, np.ndarray, Pieces]:
    """Arms [I, K, d], theta [I, d] and pieces of the same instances, scaled to unit noise."""
    arms = instance.arms.reshape(-1, instance.K, instance.d)
    theta = instance.theta.reshape(-1, instance.d) / instance.noise_std
    return arms, theta, pieces._replace(offsets=pieces.offsets / instance.noise_std)


def information_of(
    weights: np.ndarray, arms: np.ndarray, theta: np.ndarray, pieces: Pieces
) -> np.ndarray:
    """H_p(w) [..., P] of weights [..., K], for one instance of unit noise (host, NumPy).

    Weights need not sum to 1. H_p is 0 for a direction outside the span of the arms
    with weight.
    """
    directions, offsets = pieces.directions, pieces.offsets
    gaps = np.maximum(directions @ theta - offsets, 0)
    flat = weights.reshape(-1, weights.shape[-1])
    out = np.zeros((len(flat), len(offsets)))
    for index, w in enumerate(flat):
        # The condition of sqrt(w) phi is the square root of that of V_w.
        _, s, vt = np.linalg.svd(np.sqrt(w)[:, None] * arms, full_matrices=False)
        kept = s > max(arms.shape) * np.finfo(np.float64).eps * s[0]
        inside = directions @ vt[kept].T
        norm = np.sum((inside / s[kept]) ** 2, axis=1)
        left = np.linalg.norm(directions - inside @ vt[kept], axis=1)
        reached = (left <= 1e-8 * np.linalg.norm(directions, axis=1)) & (norm > 0)
        out[index] = np.where(reached, gaps**2 / (2 * np.where(reached, norm, 1)), 0)
    return np.where(pieces.valid, out, np.inf).reshape(*weights.shape[:-1], -1)
