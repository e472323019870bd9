"""Small symmetric positive definite matrices, without calls of a library.

A library's call ends a CUDA graph, or is a kernel that only small matrices wait for. On a
CPU it rounds otherwise on other processors, and runs would part there.

`loop` says whether the passes of an elimination form a loop, in which XLA:CPU updates the
matrix in place. Else small matrices have them written out.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_WIDEST_WRITTEN = 32
"""Up to this size passes are written out on a GPU: in a loop each would copy the matrix."""
_SQUARINGS = 50
_PANEL = 10


def product(a: Array, b: Array) -> Array:
    """a @ b at the highest precision: TF32 must not reach a certificate."""
    return jnp.matmul(a, b, precision="highest")


def swept(a: Array, materialize: Callable, rounded: Callable, loop: bool) -> Array:
    """The inverses of matrices in lanes [q, q, B], by block sweeps of two pivots a pass.

    A pass updates the whole matrix to A - (C - E) D (C - E)' - 2 E E' and so writes
    no single rows. C holds the pivots' columns, D the inverse of the pivot block, E
    unit columns. `materialize` and `rounded` are those of `jaxelim.lanes.LaneOps`.
    """
    q = a.shape[0]
    places = np.arange(q, dtype=np.int32)

    def passed(a, first, n):
        rows = jax.lax.dynamic_slice_in_dim(a, first, n, 0)
        block = jax.lax.dynamic_slice_in_dim(rows, first, n, 1)

        def factors(rows, block, first):
            columns = [rows[r] - (places == first + r).astype(a.dtype)[:, None] for r in range(n)]
            if n == 1:
                return [*columns, columns[0] * (1 / block[0, 0])]
            x, y, z = block[0, 0], block[0, 1], block[1, 1]
            det = 1 / (x * z - rounded(y * y))
            # y's products are the rounded ones, as for many lanes
            of_first = columns[0] * (z * det) + rounded(columns[1] * (-y * det))
            of_second = rounded(columns[0] * (-y * det)) + columns[1] * (x * det)
            return [*columns, of_first, of_second]

        factor = materialize(lambda *x: jnp.stack(factors(*x)), rows, block, first)
        pivots = (places[:, None] == places) & ((places >= first) & (places < first + n))
        a = a - 2 * pivots.astype(a.dtype)[..., None]
        for s in range(n):
            a = a - factor[n + s][:, None] * factor[s][None]
        return a

    if q > 1 and not loop and q <= _WIDEST_WRITTEN:
        for first in places[: q - 1 : 2]:
            a = passed(a, first, 2)
    elif q > 1:
        a = jax.lax.fori_loop(0, q // 2, lambda i, a: passed(a, (2 * i).astype(jnp.int32), 2), a)
    return -(passed(a, jnp.int32(q - 1), 1) if q % 2 else a)


_pick = functools.partial(jax.lax.dynamic_index_in_dim, keepdims=False)


def _passes(passed: Callable, a: Array, places: np.ndarray, loop: bool) -> Array:
    """a after passed(j, a) for the places j in turn."""
    if loop or a.shape[1] > _WIDEST_WRITTEN:
        return jax.lax.fori_loop(places[0], places[-1] + np.int32(1), passed, a)
    for j in places:
        a = passed(j, a)
    return a


def inverse(a: Array, loop: bool = True) -> Array:
    """The inverse of a matrix [q, q], by Gauss's elimination in place, without pivoting."""
    places = np.arange(a.shape[0], dtype=np.int32)

    def passed(j, m):
        row, column, here = _pick(m, j, 0), _pick(m, j, 1), places == j
        row = jnp.where(here, 1, row) / _pick(row, j)
        rest = jnp.where(here[None], 0, m) - column[:, None] * row[None]
        return jnp.where(here[:, None], row[None], rest)

    return _passes(passed, a, places, loop)


def _factored(a: Array, loop: bool) -> Array:
    """Below the diagonal the inverse of the factor with unit diagonal, on it the pivots: [q, q].

    Pivots are single, since the determinant of a block of two would cancel where the
    matrix is nearly singular. Rows that are finished leave the loop by panels.
    """
    places, done = np.arange(a.shape[0], dtype=np.int32), []
    for panel in np.split(places, places[_PANEL::_PANEL]):
        rows = places[panel[0] :]

        def passed(j, m, first=panel[0], rows=rows):
            row, column, here, below = _pick(m, j - first, 0), _pick(m, j, 1), places == j, rows > j
            factors = jnp.where(below, column / _pick(row, j), 0)
            rest = jnp.where(below[:, None] & here[None], 0, m)
            return rest - factors[:, None] * jnp.where(here, 1, row)[None]

        a = _passes(passed, a, panel, loop)
        done.append(a[: len(panel)])
        a = a[len(panel) :]
    return jnp.concatenate(done)


def factor_inverse(a: Array, loop: bool = True) -> Array:
    """The lower triangle R [q, q] with R A R' = identity."""
    m = _factored(a, loop)
    unit = jnp.tril(m, -1) + jnp.eye(a.shape[0], dtype=a.dtype)
    # Not 1/sqrt: XLA:CPU approximates it, on each instruction set otherwise.
    return unit * jnp.sqrt(1 / jnp.diagonal(m))[:, None]


def pivots(a: Array) -> Array:
    """The pivots [q] of a matrix [q, q]: the factors of its determinant."""
    return jnp.diagonal(_factored(a, loop=True))


def least_eigenpair(a: Array, loop: bool = True) -> tuple[Array, Array]:
    """The least eigenvalue [] of a matrix [q, q], and its unit eigenvector [q].

    The inverse is squared until it is the projection on that eigenvector. Eigenvalues
    closer than 2^-50 of their size count as equal.
    """

    def squared(_, p):
        p = product(p, p)
        return p / jnp.max(jnp.diagonal(p))

    start = inverse(a, loop)
    start = start / jnp.max(jnp.diagonal(start))
    p = jax.lax.fori_loop(np.int32(0), np.int32(_SQUARINGS), squared, start)
    u = p[:, jnp.argmax(jnp.diagonal(p))]
    u = u * jnp.sqrt(1 / jnp.sum(u * u))
    return jnp.sum(u * product(a, u)), u
