"""Pieces by their definition, and the certificate of a small instance in rational numbers."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import numpy as np

from jaxelim.bounds.pieces import pieces_of, shape_at
from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.errors import UnsupportedError
from jaxelim.instances.instance import Instance
from jaxelim.lanes import PLAIN

_exact = np.vectorize(lambda x: Fraction(float(x)), otypes=[object])
"""Arrays of floats as arrays of fractions."""


def half_spaces(z: Any, shape: Any, number: Callable = np.asarray) -> tuple[Any, Any]:
    """The pieces that exist, y . theta <= c: y [P, d] and c [P], of candidates z [C, d]."""
    shape = jax.tree.map(np.asarray, shape)
    places = np.flatnonzero(shape.exists)
    if isinstance(shape, HalfSpaces):
        return number(shape.y[places]), number(shape.c[places])
    z, last = number(np.vstack([z, np.zeros(np.shape(z)[1])])), len(z)
    if shape.signs:
        i, k = np.where(shape.above, places, last), np.where(shape.above, last, places)
    else:
        i, k = (np.broadcast_to(x, places.shape) for x in shape.pair(PLAIN, places))
    side = (k == last).astype(int) - (i == last)
    return z[i] - z[k], side * number(shape.level or 0.0) - number(shape.slack)


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
    y, offsets = half_spaces(problem.constants() if shape.items else instance.arms, shape, _exact)
    phi, w, q = _exact(instance.arms), _exact(allocation), _exact(mixture)
    costs = _exact(np.ones(len(phi)) if instance.costs is None else instance.costs)
    gaps = (y @ _exact(instance.theta) - offsets) / Fraction(instance.noise_std)
    rows = np.hstack([phi.T @ ((w / costs)[:, None] * phi), y.T])  # [V, y] becomes [I, V^-1 y]
    for i in range(len(rows)):
        first = i + np.flatnonzero(rows[i:, i])[0]
        rows[[i, first]] = rows[[first, i]]
        rows[i] = rows[i] / rows[i, i]
        for j in range(len(rows)):
            if j != i:
                rows[j] = rows[j] - rows[j, i] * rows[i]
    images = rows[:, len(rows) :]
    norms = (y * images.T).sum(1)
    slopes = (phi @ images) ** 2 @ (q * (gaps / norms) ** 2) / (2 * costs)
    return min(gaps**2 / (2 * norms)) / w.sum(), max(slopes) / q.sum()
