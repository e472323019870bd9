"""Distributions that bounded rewards are drawn from: of points, Betas, and those of stacks."""

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its parts are imported on first use

from jaxelim import checks
from jaxelim.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from jaxelim.families.bounded import Bounded

MOST_POINTS = 1000
"""The largest number of points of a distribution: a draw compares with every one."""
CELLS = 4096
"""Cells of equal probability that a Beta distribution is drawn from."""
BETAS = (0.01, 1e6)
"""The range of the numbers of a Beta distribution."""
SUM = 1e-9
"""How far probabilities may sum from 1, and means be from those of the distribution."""


def points(family: "Bounded", low: float, high: float) -> tuple[tuple, tuple]:
    """The support and the probabilities as tuples [K][S], checked."""
    allowed = "[K, S] numbers of at least 0 that sum to 1 for each of two or more arms"
    table = checks.real_array("probabilities", family.probabilities, ndim=2)
    if len(table) < 2 or table.min(initial=0) < 0:
        raise ArgumentError("probabilities", family.probabilities, allowed)
    off = np.abs(table.sum(1) - 1)
    if not off.max() <= SUM:
        note = f"those of arm {int(off.argmax())} sum to {table.sum(1)[off.argmax()]:.12g}"
        raise ArgumentError("probabilities", family.probabilities, allowed, note)
    places = checks.real_array("support", family.support, ndim=(1, 2))
    if places.shape not in (table.shape, table.shape[1:]) or table.shape[1] > MOST_POINTS:
        allowed = f"[S] or [K, S] numbers, S as of probabilities, at most {MOST_POINTS}"
        raise ArgumentError("support", family.support, allowed)
    bad = places[(places < low) | (places > high)]
    if bad.size:
        allowed = f"numbers from {low:g} to {high:g}"
        raise ArgumentError("support", family.support, allowed, f"{bad[0]:g} is not")
    places = np.broadcast_to(places, table.shape)
    table = table / table.sum(1, keepdims=True)
    return tuple(map(tuple, places.tolist())), tuple(map(tuple, table.tolist()))


def betas(beta: Any) -> tuple:
    """The numbers of Beta distributions as tuples [K][2], checked."""
    least, most = BETAS
    allowed = f"two numbers from {least:g} to {most:g} for each of two or more arms"
    table = checks.real_array("beta", beta, ndim=2)
    if len(table) < 2 or table.shape[1] != 2 or table.min() < least or table.max() > most:
        raise ArgumentError("beta", beta, allowed)
    return tuple(map(tuple, table.tolist()))


def quantiles(beta: np.ndarray) -> np.ndarray:
    """Quantiles at 0, 1/CELLS, .., 1 of Beta(a, b), rows (a, b) [K, 2]: [K, CELLS + 1]."""
    places = np.arange(CELLS + 1) / CELLS
    return scipy.special.betaincinv(beta[:, :1], beta[:, 1:], places[None])


def of_stacks(family: "Bounded", stacks: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The different rewards of each stack and how often each is there: [K, S] each.

    Raises:
        UnsupportedError: a stack has too many.
    """
    found = [np.unique(stack, return_counts=True) for stack in stacks]
    size = max(len(values) for values, _ in found)
    if size > MOST_POINTS:
        allowed = f"stacks of at most {MOST_POINTS} different rewards: H* is that of points"
        raise UnsupportedError("instance", family, f"{allowed}; one has {size}")
    places = np.full((len(stacks), size), family.low)
    shares = np.zeros((len(stacks), size))
    for k, (values, counts) in enumerate(found):
        places[k, : len(values)] = values
        shares[k, : len(values)] = counts / counts.sum()
    return places, shares
