"""Reductions along the first axis by balanced trees, written out for XLA."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def balanced(combine: Callable, parts: list) -> Any:
    """Combine the parts in pairs, the results in pairs, and so on: a balanced tree."""
    while len(parts) > 1:
        paired = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = paired + parts[2 * len(paired) :]
    return parts[0]


def width(n: int) -> int:
    """Length of the blocks in which an axis of length n is folded."""
    return int(np.ceil(np.sqrt(n)))


def by_blocks(x: Array, fold: Callable) -> Any:
    """What `fold` makes of the rows of each block of the first axis; the last may be shorter.

    Padding it would be slow: XLA:CPU computes the producer of a padding one by one.
    """
    n = x.shape[0]
    wide = width(n)
    whole = n // wide * wide
    blocks = x[:whole].reshape((-1, wide) + x.shape[1:])
    folded = fold([blocks[:, i] for i in range(wide)])
    if whole == n:
        return folded
    rest = fold(rows_of(x[whole:]))
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), folded, rest)


def rows_of(x: Array) -> list[Array]:
    """x[0], x[1], .. This and the functions below use lax, which traces faster than jax.numpy."""
    return [jax.lax.index_in_dim(x, i, keepdims=False) for i in range(x.shape[0])]


def larger(a: Array, b: Array) -> Array:
    """The larger entries."""
    return jax.lax.select(jax.lax.gt(b, a), b, a)


def smaller(a: Array, b: Array) -> Array:
    """The smaller entries."""
    return jax.lax.select(jax.lax.lt(b, a), b, a)


def first_of_largest(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """The larger entries with what goes with them; of equal ones the first."""
    better = jax.lax.gt(b[0], a[0])
    return jax.lax.select(better, b[0], a[0]), jax.lax.select(better, b[1], a[1])
