"""Singular values by Jacobi's rotations of columns; products and inverses of NumPy arrays.

A library's routine rounds otherwise on other processors, and runs would part there.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_SWEEPS = 30
_REACH = 1e-10  # of a direction may be orthogonal to a span, by rounding
_EPS = float(np.finfo(np.float64).eps)


def svd(a: Any) -> tuple[Any, Any, Any]:
    """Left vectors [n, r], singular values [r], the largest first, right vectors [r, d] of [n, d].

    r = min(n, d). A NumPy array gives NumPy arrays. Of a singular value 0 one vector is 0.
    """
    on_host = isinstance(a, np.ndarray)
    xp: Any = np if on_host else jnp
    wide = a.shape[0] < a.shape[1]
    columns = a.T if wide else a
    n, r = columns.shape
    half = (r + 1) // 2
    x = xp.concatenate([columns, xp.eye(r, dtype=a.dtype)])
    x = xp.pad(x, ((0, 0), (0, 2 * half - r)))
    if on_host:
        for _ in range(_SWEEPS):
            if not _apart(np, x[:n]):
                break
            for _ in range(2 * half - 1):
                x = _rotated(np, x, n)
    else:

        def swept(carry: Any) -> Any:
            sweeps, x = carry
            return sweeps + 1, jax.lax.fori_loop(
                0, 2 * half - 1, lambda _, x: _rotated(jnp, x, n), x
            )

        def going(carry: Any) -> Any:
            return (carry[0] < _SWEEPS) & _apart(jnp, carry[1][:n])

        x = jax.lax.while_loop(going, swept, (jnp.int32(0), x))[1]
    left, right = x[:n, :r], x[n:, :r]
    s = xp.sqrt(xp.sum(left * left, 0))
    order = xp.argsort(-s)
    left, right = (left / xp.where(s > 0, s, 1)[None])[:, order], right[:, order]
    return (right, s[order], left.T) if wide else (left, s[order], right.T)


def orthonormal(arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, d] mapped to orthonormal columns, or 0 beyond their rank; the map [d, d]."""
    unit, s, vectors = svd(arms)
    reached = s > max(arms.shape) * _EPS * s[0]
    map = vectors.T * (reached / np.where(reached, s, 1))
    rest = (0, 0), (0, arms.shape[1] - s.size)
    return np.pad(unit * reached, rest), np.pad(map, rest)


def least_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The x [d] of least norm that minimises ||a x - b||; a [n, d], b [n]."""
    unit, map = orthonormal(a)
    return np.sum(map * np.sum(unit * b[:, None], 0), 1)


def _apart(xp: Any, x: Any) -> Any:
    """Whether two columns [n, q] are not orthogonal to rounding: []."""
    size = xp.sqrt(xp.sum(x * x, 0))
    unit = x / xp.where(size > 0, size, 1)[None]
    gram = xp.einsum("ni,nj->ij", unit, unit, **({} if xp is np else {"precision": "highest"}))
    off = xp.abs(gram) * (1 - xp.eye(x.shape[1], dtype=x.dtype))
    return xp.max(off) > 8 * _EPS * x.shape[0] ** 0.5


def _rotated(xp: Any, x: Any, n: int) -> Any:
    """x [.., q] with columns i, i + q/2 orthogonal in n rows, in the order of the next pairs.

    After q - 1 of these each column has met each other, and is back in its place.
    """
    half = x.shape[1] // 2
    a, b = x[:, :half], x[:, half:]
    aa, bb, ab = (xp.sum(u[:n] * v[:n], 0) for u, v in ((a, a), (b, b), (a, b)))
    some = xp.abs(ab) > _EPS * (xp.sqrt(aa) * xp.sqrt(bb))
    slope = (bb - aa) / xp.where(some, 2 * ab, 1)
    slope = xp.clip(slope, -1e150, 1e150)
    tangent = xp.where(slope < 0, -1.0, 1.0) / (xp.abs(slope) + xp.sqrt(1 + slope * slope))
    tangent = xp.where(some, tangent, 0)
    cosine = xp.sqrt(1 / (1 + tangent * tangent))
    sine, cosine = (tangent * cosine)[None], cosine[None]
    top, bottom = cosine * a - sine * b, sine * a + cosine * b
    if half == 1:
        return xp.concatenate([top, bottom], 1)
    top, bottom = (
        xp.concatenate([top[:, :1], bottom[:, :1], top[:, 1:-1]], 1),
        xp.concatenate([bottom[:, 1:], top[:, -1:]], 1),
    )
    return xp.concatenate([top, bottom], 1)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b of [.., n, q] and [.., q, m]."""
    return np.einsum("...nq,...qm->...nm", a, b)


def inverse(a: np.ndarray) -> np.ndarray:
    """The inverses of symmetric positive definite matrices [.., q, q], by elimination."""
    out = np.array(a, np.float64)
    for j in range(a.shape[-1]):
        row, column = out[..., j, :].copy(), out[..., j].copy()
        row[..., j] = 1.0
        row /= column[..., j, None]
        out[..., j] = 0.0
        out -= column[..., None] * row[..., None, :]
        out[..., j, :] = row
    return out


def outside_span(rows: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, int]:
    """Which directions [n, d] are outside the span of rows [K, d] by over 1e-10; and its rank."""
    _, s, vt = np.linalg.svd(rows, full_matrices=False)
    basis = vt[s > max(rows.shape) * np.finfo(np.float64).eps * s[0]] if s[0] > 0 else vt[:0]
    left = np.linalg.norm(directions - directions @ basis.T @ basis, axis=1)
    return left > _REACH * np.linalg.norm(directions, axis=1), len(basis)
