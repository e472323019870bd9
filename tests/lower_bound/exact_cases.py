"""Badly conditioned instances, and their H_p and dual bounds in rational numbers."""

from fractions import Fraction

import numpy as np

from jaxelim.problems import BestArm, Thresholding, TopM

SHAPES = [
    (2, 2, BestArm()),
    (5, 3, BestArm()),
    (5, 3, TopM(2)),
    (5, 3, Thresholding(0.125)),
    (8, 4, BestArm()),
]
KINDS = ("singular values", "scales of arms", "scales of coordinates", "near arms", "near ties")


def draw(rng, K, d, kind, condition):
    """Features [K, d] and theta [d] of about that condition number."""
    arms, theta = rng.standard_normal((K, d)), rng.standard_normal(d)
    spread = condition ** -np.linspace(0, 1, d)
    if kind == "singular values":
        u, _, vt = np.linalg.svd(arms, full_matrices=False)
        arms = (u * spread) @ vt
        return arms, vt.T @ ((vt @ theta) / spread ** rng.uniform(0, 1))
    if kind == "scales of arms":
        return arms * condition ** -rng.uniform(0, 1, (K, 1)), theta
    if kind == "scales of coordinates":
        return arms * spread, theta / spread ** rng.uniform(0, 1)
    if kind == "near arms":
        arms[1] = arms[0] * rng.uniform(0.5, 2) + rng.standard_normal(d) / condition
        return arms, theta
    means = arms @ theta
    first, second = np.argsort(-means)[:2]
    arms[second] += theta * (means[first] - means[second]) / (theta @ theta) * (1 - 3 / condition)
    return arms, theta


def _matrix(numbers):
    return [[Fraction(float(x)) for x in row] for row in numbers]


def _inner(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _solve(matrix, sides):
    """Solutions of a symmetric system for several right sides, by elimination."""
    n = len(matrix)
    rows = [list(row) + [side[i] for side in sides] for i, row in enumerate(matrix)]
    for i in range(n):
        first = next(j for j in range(i, n) if rows[j][i])
        rows[i], rows[first] = rows[first], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(n):
            if j != i and rows[j][i]:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return [[rows[i][n + s] for i in range(n)] for s in range(len(sides))]


def pieces(problem, arms, theta):
    """Directions and margins of the answer's pieces, without rounding."""
    phi, point = _matrix(arms), [Fraction(float(x)) for x in theta]
    rows, offsets = problem.half_spaces(np.eye(len(arms)), arms @ theta)
    rows = _matrix(rows)
    y = [[_inner(row, column) for column in zip(*phi, strict=True)] for row in rows]
    margins = [_inner(a, point) - Fraction(float(c)) for a, c in zip(y, offsets, strict=True)]
    assert min(margins) > 0
    return y, margins


def bracket(problem, arms, theta, weights, mixture):
    """min_p H_p(w), and the upper bound of the mixture on H*, as rational numbers."""
    phi, w = _matrix(arms), [Fraction(float(x)) for x in weights]
    q = [Fraction(float(x)) for x in mixture]
    y, margins = pieces(problem, arms, theta)
    d = len(phi[0])
    design = [
        [sum((w[k] * row[i] * row[j] for k, row in enumerate(phi)), Fraction(0)) for j in range(d)]
        for i in range(d)
    ]
    images = _solve(design, y)
    norms = [_inner(a, b) for a, b in zip(y, images, strict=True)]
    low = min(g * g / (2 * n) for g, n in zip(margins, norms, strict=True)) / sum(w)
    slopes = [
        sum(
            (
                share * (g / n * _inner(row, image)) ** 2 / 2
                for share, g, n, image in zip(q, margins, norms, images, strict=True)
                if share
            ),
            Fraction(0),
        )
        for row in phi
    ]
    return low, max(slopes) / sum(q)
