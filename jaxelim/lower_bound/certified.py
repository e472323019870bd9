"""Solves and values of H_p whose bounds hold for the instance as it is given; on the host.

A float64 solve comes first, and bounds of its rounding. Where these are too wide, the
instance moves to exact coordinates, is solved there, and its bounds are computed there.
"""

from typing import Any

import numpy as np

from jaxelim.errors import TieError
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound.certificate import Bounds, bounds, exact_space, rounded_space
from jaxelim.lower_bound.exact import ExactInstance
from jaxelim.lower_bound.pieces import Pieces, combinations
from jaxelim.lower_bound.solver import Solution
from jaxelim.lower_bound.solves import scaled, solve_many


def exact_instance(instance: Instance, problem: Any, pieces: Pieces, i: int) -> ExactInstance:
    """Instance i of a batch, with its valid pieces, in exact coordinates.

    Raises:
        TieError: theta is in a piece or on its boundary, without rounding.
    """
    arms, theta = (x[i] for x in _stacked(instance))
    valid = pieces.valid[i]
    directions, offsets = pieces.directions[i][valid], pieces.offsets[i][valid]
    rows = combinations(problem, arms, theta)
    found = ExactInstance.of(arms, theta, directions, offsets, rows)
    if (found.margins <= 0).any():
        label = f"instance {i}: " if instance.batched else ""
        note = f"{label}a tie, H* = 0: theta is in piece {int(np.argmin(found.margins))}"
        allowed = "an instance with one correct answer, off the boundary of every piece"
        raise TieError("instance", instance, allowed, note)
    return found


def _stacked(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Arms [I, K, d] and theta [I, d]."""
    arms = instance.arms.reshape(-1, instance.K, instance.d)
    return arms, instance.theta.reshape(-1, instance.d)


def rounded_instance(
    exact: ExactInstance, d: int, most: int, noise_std: float
) -> tuple[np.ndarray, np.ndarray, Pieces]:
    """Arms [K, d], theta [d] and pieces of unit noise of an exact instance, rounded.

    theta is 0, and offsets are minus the margins.

    Args:
        exact: the instance, in coordinates where its features are well conditioned.
        d: number of coordinates, at least those of the instance; the others are 0.
        most: number of pieces, with padding.
        noise_std: standard deviation of the noise.
    """
    arms, y = exact.arms.rounded(), exact.directions.rounded()
    idle, padding = d - arms.shape[1], most - len(y)
    offsets = np.pad(-exact.margins / noise_std, (0, padding))
    pieces = Pieces(np.pad(y, ((0, padding), (0, idle))), offsets, np.arange(most) < len(y))
    return np.pad(arms, ((0, 0), (0, idle))), np.zeros(d), pieces


def certified(
    instance: Instance, problem: Any, pieces: Pieces, bonus: np.ndarray | None, gap: float
) -> tuple[Solution, np.ndarray]:
    """Solve I instances of Gaussian rewards, with a certificate that bounds all rounding.

    Args:
        instance: one instance or a batch.
        problem: what to identify.
        pieces: of I instances.
        bonus: [I, K], or None.
        gap: relative duality gap.

    Returns:
        The solutions, with value <= H* <= (1 + gap) value, and H_p at the allocations:
        [I, P], inf on padding.

    Raises:
        TieError: theta is in a piece or on its boundary, without rounding.
    """
    found = solve_many(*scaled(instance, pieces), bonus, gap)
    w, q, std = np.array(found.allocation), np.array(found.mixture), instance.noise_std
    sure = bounds(rounded_space(*_stacked(instance), pieces, w), pieces.valid, w, q, bonus, std)
    sure = Bounds(*(np.array(x) for x in sure))
    iterations = np.array(found.iterations)
    again = np.flatnonzero(~(sure.upper - sure.lower <= gap * sure.lower))
    if again.size:
        exact = [exact_instance(instance, problem, pieces, int(i)) for i in again]
        P = pieces.valid.shape[1]
        given = [rounded_instance(one, instance.d, P, std) for one in exact]
        arms, theta = (np.stack([one[n] for one in given]) for n in (0, 1))
        unit = Pieces(*(np.stack(x) for x in zip(*(one[2] for one in given), strict=True)))
        extra = None if bonus is None else bonus[again]
        new = solve_many(arms, theta, unit, extra, gap / 2, like=len(w))
        for n, i in enumerate(again):
            count = len(exact[n].margins)
            pair = np.asarray(new.allocation)[n : n + 1], np.asarray(new.mixture)[n : n + 1]
            own = None if bonus is None else bonus[i : i + 1]
            space = exact_space(exact[n], pair[0][0])
            valid = np.ones((1, count), bool)
            better = bounds(space, valid, pair[0], pair[1][:, :count], own, std)
            if (better.upper / better.lower)[0] > (sure.upper / sure.lower)[i]:
                continue
            w[i], q[i], iterations[i] = pair[0][0], pair[1][0], new.iterations[n]
            sure.lower[i], sure.upper[i] = better.lower[0], better.upper[0]
            sure.low[i, :count], sure.high[i, :count] = better.low[0], better.high[0]
    known = (sure.lower > 0) & np.isfinite(sure.upper)
    reached = np.where(known, sure.upper / np.where(known, sure.lower, 1) - 1, np.inf)
    # A sum 1 + gap, and its product with the value, round as well.
    reached = reached + 4 * np.finfo(np.float64).eps
    return Solution(w, q, sure.lower, reached, iterations, reached <= gap), sure.information
