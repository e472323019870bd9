"""Solves and values of H_p whose bounds hold for the instance as it is given; on the host.

A float64 solve comes first, and bounds of its rounding. Where these are too wide, the
instance moves to exact coordinates, is solved there, and its bounds are computed there.
"""

from typing import Any

import numpy as np

from jaxelim.errors import ArgumentError, TieError
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound.certificate import Bounds, bounds, exact_space, rounded_space
from jaxelim.lower_bound.exact import CLEAR, EPS, ExactInstance, Integers, reached
from jaxelim.lower_bound.pieces import Pieces, combinations
from jaxelim.lower_bound.solves import costs_of, information_of, scaled, solve_many
from jaxelim.saddle.solver import Solution

_LOST = 1e-11  # relative error of a product of features that is no loss
_SPAN = "weights on arms that span, or clearly do not span, each direction"
_WIDTH = 1e-10  # most relative width of the bounds of a value that is returned without them


def exact_instance(instance: Instance, problem: Any, pieces: Pieces, i: int) -> ExactInstance:
    """Instance i of a batch, with its valid pieces, in exact coordinates.

    Raises:
        ArgumentError: rounding decides the rank of the features.
        TieError: theta is in a piece or on its boundary, without rounding.
    """
    arms, theta = (x[i] for x in _stacked(instance))
    label = f"instance {i}: " if instance.batched else ""
    if reached(arms) is None:
        note = f"{label}some coordinates depend on others but for rounding"
        raise ArgumentError("instance", instance, CLEAR, note)
    valid = pieces.valid[i]
    directions, offsets = pieces.directions[i][valid], pieces.offsets[i][valid]
    rows = combinations(problem, arms, theta)
    exact = ExactInstance.of(arms, theta, directions, offsets, rows)
    if (exact.margins <= 0).any():
        note = f"{label}a tie, H* = 0: theta is in piece {int(np.argmin(exact.margins))}"
        allowed = "an instance with one correct answer, off the boundary of every piece"
        raise TieError("instance", instance, allowed, note)
    return exact


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
        ArgumentError: rounding decides the rank of the features.
        TieError: theta is in a piece or on its boundary, without rounding.
    """
    costs = costs_of(instance)
    solution = solve_many(*scaled(instance, pieces), bonus, gap, costs=costs)
    w, q, std = np.array(solution.allocation), np.array(solution.mixture), instance.noise_std
    pulls = w if costs is None else w / costs  # that a unit of cost buys
    space = rounded_space(*_stacked(instance), pieces, pulls)
    sure = bounds(space, pieces.valid, pulls, q, bonus, std, costs)
    sure = Bounds(*(np.array(x) for x in sure))
    iterations = np.array(solution.iterations)
    again = np.flatnonzero(~(sure.upper - sure.lower <= gap * sure.lower))
    if again.size:
        exact = [exact_instance(instance, problem, pieces, int(i)) for i in again]
        P = pieces.valid.shape[1]
        rounded = [rounded_instance(case, instance.d, P, std) for case in exact]
        arms, theta = (np.stack([case[n] for case in rounded]) for n in (0, 1))
        unit = Pieces(*(np.stack(x) for x in zip(*(case[2] for case in rounded), strict=True)))
        extra = None if bonus is None else bonus[again]
        of_costs = None if costs is None else costs[again]
        new = solve_many(arms, theta, unit, extra, gap / 2, like=len(w), costs=of_costs)
        for n, i in enumerate(again):
            count = len(exact[n].margins)
            pair = np.asarray(new.allocation)[n : n + 1], np.asarray(new.mixture)[n : n + 1]
            own = None if bonus is None else bonus[i : i + 1]
            prices = None if costs is None else costs[i : i + 1]
            bought = pair[0] if prices is None else pair[0] / prices
            space = exact_space(exact[n], bought[0])
            valid = np.ones((1, count), bool)
            better = bounds(space, valid, bought, pair[1][:, :count], own, std, prices)
            if (better.upper / better.lower)[0] > (sure.upper / sure.lower)[i]:
                continue
            w[i], q[i], iterations[i] = pair[0][0], pair[1][0], new.iterations[n]
            sure.lower[i], sure.upper[i] = better.lower[0], better.upper[0]
            sure.low[i, :count], sure.high[i, :count] = better.low[0], better.high[0]
    known = (sure.lower > 0) & np.isfinite(sure.upper)
    reached = np.where(known, sure.upper / np.where(known, sure.lower, 1) - 1, np.inf)
    # A sum 1 + gap, and its product with the value, round as well.
    reached = reached + 4 * EPS
    return Solution(w, q, sure.lower, reached, iterations, reached <= gap), sure.information


def ill_posed(instance: Instance, pieces: Pieces) -> np.ndarray:
    """The instances for which float64 products of features lose digits: [I] bool."""
    arms, theta = _stacked(instance)
    even = np.full(arms.shape[:2], 1 / instance.K)
    space = rounded_space(arms, theta, pieces, even)
    with np.errstate(all="ignore"):
        size = np.linalg.norm(space.directions, axis=2)
        error = np.linalg.norm(space.directions_error, axis=2)
        lost = ~(error <= _LOST * size) | ~(space.gaps_error <= _LOST * np.abs(space.gaps))
    spread = np.linalg.norm(space.design_error, axis=(1, 2)) > _LOST
    return ~space.whole | spread | (lost & pieces.valid).any(1)


def conditioned(
    instance: Instance, problem: Any, pieces: Pieces
) -> tuple[np.ndarray, np.ndarray, Pieces]:
    """`scaled`, with instances that lose digits in coordinates where they do not."""
    arms, theta, unit = scaled(instance, pieces)
    ill = np.flatnonzero(ill_posed(instance, pieces))
    if not ill.size:
        return arms, theta, unit
    arms, unit = np.array(arms), Pieces(*(np.array(x) for x in unit))
    for i in ill:
        exact = exact_instance(instance, problem, pieces, int(i))
        P = pieces.valid.shape[1]
        arms[i], theta[i], own = rounded_instance(exact, instance.d, P, instance.noise_std)
        for old, new in zip(unit, own, strict=True):
            old[i] = new
    return arms, theta, unit


def least_values(
    instance: Instance, problem: Any, pieces: Pieces, weights: np.ndarray
) -> np.ndarray:
    """min_p H_p(w) of I instances of Gaussian rewards, [I], to 10 digits or more.

    Args:
        instance: one instance or a batch.
        problem: what to identify.
        pieces: of I instances.
        weights: [I, K] of pulls, of any sum.

    Raises:
        ArgumentError: rounding decides which directions the arms with weight span.
        TieError: theta is in a piece or on its boundary, without rounding.
    """
    space = rounded_space(*_stacked(instance), pieces, weights)
    limits = bounds(space, pieces.valid, weights, noise_std=instance.noise_std)
    low, high = limits.low.min(1), np.min(np.where(pieces.valid, limits.high, np.inf), 1)
    arms, theta, unit = scaled(instance, pieces)
    values = np.zeros(len(low))
    for i, w in enumerate(weights):
        if high[i] - low[i] <= _WIDTH * low[i]:
            own = Pieces(*(x[i] for x in unit))
            values[i] = information_of(w, arms[i], theta[i], own).min()
            continue
        exact = exact_instance(instance, problem, pieces, i)
        if reached(arms[i][w > 0]) is None:
            raise ArgumentError("weights", weights, _SPAN)
        values[i] = _least_value(exact, w, instance.noise_std)
    return values


def _least_value(exact: ExactInstance, weights: np.ndarray, noise_std: float) -> float:
    some = weights > 0
    phi, y = exact.arms.rounded()[some], exact.directions.rounded()
    _, s, vt = np.linalg.svd(phi, full_matrices=False)
    basis = vt[s > 1e-10 * s[0]]
    left = np.linalg.norm(y - y @ basis.T @ basis, axis=1)
    if (left > 1e-6 * np.linalg.norm(y, axis=1)).any():
        return 0.0  # some direction is clearly outside the span
    if len(basis) < y.shape[1]:
        if exact.unspanned(some).any():
            raise ArgumentError("weights", weights, _SPAN)
        exact = exact.moved(Integers.of(basis.T))
    valid, w = np.ones((1, len(y)), bool), weights[some]
    limits = bounds(exact_space(exact.among(some), w), valid, w[None], noise_std=noise_std)
    low, high = limits.low.min(), limits.high.min()
    if not high - low <= _WIDTH * low:
        raise ArgumentError("weights", weights, "weights for which V_w can be inverted")
    return float(low + (high - low) / 2)
