"""The certificate of a small instance without rounding, in rational numbers."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from jaxelim.bounds.pieces import pieces_of, shape_at
from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.errors import UnsupportedError
from jaxelim.instances.instance import Instance
from jaxelim.lanes import PLAIN

Row = Sequence[Fraction]


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
    phi, theta = _matrix(instance.arms), _row(instance.theta)
    columns, scale = list(zip(*phi, strict=True)), Fraction(instance.noise_std)
    y, offsets = _half_spaces(instance, problem)
    gaps = [(_inner(a, theta) - c) / scale for a, c in zip(y, offsets, strict=True)]
    spent, q = _row(allocation), _row(mixture)
    costs = [Fraction(1)] * len(phi) if instance.costs is None else _row(instance.costs)
    w = [share / cost for share, cost in zip(spent, costs, strict=True)]
    design = [[_inner([w_k * x for w_k, x in zip(w, a, strict=True)], b) for b in columns]
              for a in columns]  # fmt: skip
    images = _solved(design, y)
    norms = [_inner(a, x) for a, x in zip(y, images, strict=True)]
    low = min(g * g / (2 * n) for g, n in zip(gaps, norms, strict=True)) / sum(spent)
    slopes = []
    for row, cost in zip(phi, costs, strict=True):
        each = zip(q, gaps, norms, images, strict=True)
        parts = [share * (g / n * _inner(row, x)) ** 2 / 2 for share, g, n, x in each if share]
        slopes.append(sum(parts, Fraction(0)) / cost)
    return low, max(slopes) / sum(q)


def _half_spaces(instance: Instance, problem: Any) -> tuple[list[list[Fraction]], list[Fraction]]:
    """The directions and offsets of the pieces that exist."""
    shape: Any = shape_at(problem, instance.family, instance.arms, instance.theta)
    places = np.flatnonzero(shape.exists)
    if isinstance(shape, HalfSpaces):
        return _matrix(shape.y[places]), _row(shape.c[places])
    z = _matrix(problem.constants() if shape.items else instance.arms)
    z, level = [*z, [Fraction(0)] * instance.d], Fraction(float(shape.level or 0))
    if shape.signs:
        signs = [1 if shape.above[k] else -1 for k in places]
        return [[s * x for x in z[k]] for s, k in zip(signs, places, strict=True)], [
            s * level for s in signs
        ]
    means = [Fraction(0)] * (len(z) - 1) + [level]  # offsets are of the reference, and slack
    pairs = [shape.pair(PLAIN, place) for place in places]
    y = [[a - b for a, b in zip(z[i], z[k], strict=True)] for i, k in pairs]
    return y, [means[k] - means[i] - Fraction(float(shape.slack)) for i, k in pairs]


def _row(numbers: Any) -> list[Fraction]:
    return [Fraction(float(x)) for x in numbers]


def _matrix(numbers: Any) -> list[list[Fraction]]:
    return [_row(row) for row in numbers]


def _inner(a: Row, b: Row) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _solved(matrix: Sequence[Row], sides: Sequence[Row]) -> list[list[Fraction]]:
    """The solutions of a system for several right sides, by elimination."""
    n = len(matrix)
    rows = [[*row, *(side[i] for side in sides)] for i, row in enumerate(matrix)]
    for i in range(n):
        first = next(j for j in range(i, n) if rows[j][i])
        rows[i], rows[first] = rows[first], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(n):
            if j != i and rows[j][i]:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return [[rows[i][n + s] for i in range(n)] for s in range(len(sides))]
