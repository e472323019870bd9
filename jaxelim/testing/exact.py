"""The certificate of a small instance without rounding, in rational numbers."""

from fractions import Fraction
from typing import Any

import numpy as np

from jaxelim.bounds.pieces import pieces_of, shape_at
from jaxelim.errors import UnsupportedError
from jaxelim.instances.instance import Instance
from jaxelim.testing.problems import half_spaces

_exact = np.vectorize(lambda x: Fraction(float(x)), otypes=[object])
"""Arrays of floats as arrays of fractions."""


def exact_bracket(
    instance: Instance, problem: Any, allocation: Any, mixture: Any
) -> tuple[Fraction, Fraction]:
    """min_p H_p(w) <= H* <= max_k sum_p q_p dH_p/dw_k (w), both sides without rounding.

    It takes about K d^2 + d^3 operations on long integers, so it is for small instances.

    Args:
        instance: one instance of `Gaussian` rewards of one standard deviation; arms, theta
            and costs count as they are in float64.
        problem: what to identify.
        allocation: w, [K], of sum 1 within rounding.
        mixture: q over the pieces that exist, [P].

    Raises:
        UnsupportedError: a batch, or rewards of another family.
        ArgumentError: as `complexity`.
    """
    if instance.batched or not instance.family.design:
        allowed = "one instance of gaussian rewards of one standard deviation"
        raise UnsupportedError("instance", instance, allowed)
    pieces_of(instance, problem)  # refuses ties, and what has no pieces
    shape: Any = shape_at(problem, instance.family, instance.arms, instance.theta)
    z = problem.constants() if shape.items else instance.arms
    y, offsets = half_spaces(z, shape, _exact)
    phi, w, q = _exact(instance.arms), _exact(allocation), _exact(mixture)
    costs = _exact(np.ones(len(phi)) if instance.costs is None else instance.costs)
    gaps = (y @ _exact(instance.theta) - offsets) / Fraction(instance.noise_std)
    images = _solved(phi.T @ ((w / costs)[:, None] * phi), y.T)
    norms = (y * images.T).sum(1)
    low = min(gaps**2 / (2 * norms)) / w.sum()
    slopes = (phi @ images) ** 2 @ (q * (gaps / norms) ** 2) / (2 * costs)
    return low, max(slopes) / q.sum()


def _solved(matrix: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """The X with matrix X = sides, by elimination."""
    n = len(matrix)
    rows = np.hstack([matrix, sides])
    for i in range(n):
        first = i + np.flatnonzero(rows[i:, i])[0]
        rows[[i, first]] = rows[[first, i]]
        rows[i] = rows[i] / rows[i, i]
        for j in range(n):
            if j != i:
                rows[j] = rows[j] - rows[j, i] * rows[i]
    return rows[:, n:]
