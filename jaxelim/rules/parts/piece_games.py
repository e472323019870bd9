"""The matrix game over gradients of pieces that a Frank-Wolfe step solves."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.views import Evidence
from jaxelim.lanes import index_like
from jaxelim.rules.parts import games

_BATCHED_ROWS = (4, 16, 64)
"""Sizes of tableaus. A batch takes the smallest that holds its largest game.

Larger games are solved one lane at a time, the others of their batch together: else the
rounding of a run would depend on its neighbours.
"""


def play(evidence: Evidence, values: Array, rows: Array) -> Array:
    """An optimal z of max_z min over the pieces p in `rows` of (z - x) . grad_p: [K].

    Args:
        evidence: of the pieces, under x.
        values: f_p(x) of each piece, [Q].
        rows: which pieces play, [Q] bool.
    """
    space, lanes = evidence.space, evidence.space.lanes
    most, many = rows.shape[0], rows.ndim > 1
    values, arms = jnp.where(rows, values, jnp.inf), space.features.shape[0]

    def together(values, size):
        return games.solve(lanes, *_payoffs(evidence, values, arms, size)).strategy

    def of_lane(values, lane):
        def pick(tree):
            return jax.tree.map(lambda x: x[..., lane], tree)

        features = space.features
        features = features if features.ndim == 2 else pick(features)
        alone = dataclasses.replace(space, lanes=lanes.alone, features=features)
        bare: Any = dataclasses.replace(evidence, space=None)  # type: ignore[arg-type]
        own = dataclasses.replace(pick(bare), space=alone)
        return games.solve(alone.lanes, *_payoffs(own, pick(values), arms, most)).strategy

    def apart():
        large = lanes.sum(rows) > _BATCHED_ROWS[-1]
        every = jnp.arange(rows.shape[1], dtype=jnp.int32)
        own = jax.lax.map(partial(of_lane, jnp.where(large, values, jnp.inf)), every)
        others = together(jnp.where(large, jnp.inf, values), _BATCHED_ROWS[-1])
        return jnp.where(large, jnp.moveaxis(own, 0, -1), others)

    sizes = [size for size in _BATCHED_ROWS if many and size < most]
    branches: list[Any] = [partial(together, values, size) for size in sizes]
    whole = partial(together, values, most)
    branches.append(apart if many and most > _BATCHED_ROWS[-1] else whole)
    largest = jnp.max(lanes.sum(rows))
    if not sizes:
        return branches[0]()
    return jax.lax.switch(sum((largest > size).astype(jnp.int32) for size in sizes), branches)


def _payoffs(evidence: Evidence, values: Array, arms: int, size: int) -> tuple[Array, Array]:
    """The rows grad_p - f_p of the game, f_p = x . grad_p, and which of them exist.

    They belong to the pieces with finite `values` f_p, at most `size`: [size, K] and
    [size] bool.
    """
    lanes = evidence.space.lanes

    def add(n, c):
        left, payoffs, mask = c
        piece = lanes.argmin(left)
        value = lanes.take(left, piece)
        there = value < jnp.inf
        row = jnp.where(there, evidence.gradient(piece) - value, 0)
        left = jnp.where(index_like(left) == piece, jnp.inf, left)

        def put(x, row):
            return jax.lax.dynamic_update_index_in_dim(x, row, n, 0)

        return left, put(payoffs, row), put(mask, there)

    lane = values.shape[1:]
    payoffs, mask = jnp.zeros((size, arms, *lane), values.dtype), jnp.zeros((size, *lane), bool)
    count = jnp.minimum(jnp.max(lanes.sum(values < jnp.inf)), size)
    return jax.lax.fori_loop(0, count, add, (values, payoffs, mask))[1:]
