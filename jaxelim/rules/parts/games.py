"""Exact solutions of matrix games, and the game over gradients of a Frank-Wolfe step."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.views import Evidence
from jaxelim.lanes import LaneOps, index_like, pytree

_STALLED = 12
"""Pivots without progress before Bland's rule applies."""
_BATCHED_ROWS = (4, 16, 64)
"""Sizes of tableaus. A batch takes the smallest that holds its largest game.

Larger games are solved one lane at a time, the others of their batch together: else the
rounding of a run would depend on its neighbours.
"""


@pytree
class Solution:
    """An optimal strategy of the maximiser, its guaranteed payoff, and a bound on the error."""

    strategy: Array  # [K], on the simplex; exactly 0 outside a basis
    value: Array  # []: min over the rows of payoffs @ strategy
    gap: Array  # []: duality gap, from the unscaled payoffs and the other player's strategy
    pivots: Array  # [] int32


@pytree
class _Tableau:
    """The simplex tableau. Variables 0 .. F - 1 are the game's rows, F .. F + K - 1 slacks."""

    entries: Array  # [F, K], a column a constraint
    costs: Array  # [F]: the objective
    amounts: Array  # [K]: the right-hand side
    objective: Array  # []
    basic: Array  # [K] int32: the variable of each constraint
    free: Array  # [F] int32: the variable of each row
    best: Array  # []: the largest objective so far
    stalled: Array  # [] int32: pivots since `best` grew
    pivots: Array  # [] int32
    done: Array  # [] bool


def solve(lanes: LaneOps, payoffs: Array, mask: Array) -> Solution:
    """Maximise over z in the simplex the min over rows p in mask of payoffs_p . z.

    The simplex method runs in a condensed tableau. Payoffs are shifted and scaled to
    [1, 2]; then it solves max 1'q subject to q'M <= 1, whose duals are z up to scale.
    Dantzig's rule chooses the variable that enters. After `_STALLED` pivots without
    progress Bland's rule does, until there is progress again; Bland's rule guarantees
    termination.

    Against rounding, the tolerance on reduced costs (1e-13 in float64) grows tenfold
    with every 10 (F + K) + 1000 pivots without progress; `gap` would show that. A lane
    with an empty mask plays a game whose payoffs are all 0. Payoffs are [F, K], `mask` [F] bool.
    """
    f, k = payoffs.shape[:2]
    dtype = payoffs.dtype
    tolerance, smallest_pivot = (1e-13, 1e-10) if dtype == jnp.float64 else (2e-6, 1e-5)
    played = mask | (~jnp.any(mask, 0) & (index_like(mask) == 0))
    payoffs = jnp.where(mask[:, None], payoffs, 0)
    low = jnp.min(jnp.where(played[:, None], payoffs, jnp.inf), (0, 1))
    high = jnp.max(jnp.where(played[:, None], payoffs, -jnp.inf), (0, 1))
    scale = jnp.where(high > low, high - low, 1)
    scaled = jnp.where(played[:, None], (payoffs - low) / scale + 1, 0)

    lane = mask.shape[1:]
    each_row, each_constraint = index_like(scaled[:, 0]), index_like(scaled[0])
    none, zero = jnp.zeros(lane, jnp.int32), jnp.zeros(lane, dtype)
    basic = jnp.broadcast_to(each_constraint + f, (k, *lane))
    free, amounts = jnp.broadcast_to(each_row, mask.shape), jnp.ones((k, *lane), dtype)
    start = _Tableau(
        scaled, -played.astype(dtype), amounts, zero, basic, free, zero, none, none, none > 0
    )

    def pivot(s: _Tableau) -> _Tableau:
        bland = s.stalled > _STALLED
        allowed = tolerance * 10.0 ** (s.stalled // (10 * (f + k) + 1000)).astype(dtype)
        steepest = lanes.argmin(s.costs)

        def lowest_label():
            label = jnp.where(s.costs < -allowed, s.free, f + k)
            return jnp.where(bland, jnp.argmin(label, 0).astype(jnp.int32), steepest)

        c = jax.lax.cond(jnp.any(bland), lowest_label, lambda: steepest)
        cost = lanes.take(s.costs, c)
        done = s.done | ~(cost < -allowed)  # also where a cost is NaN
        entering = lanes.materialize(lanes.row, s.entries, c)
        usable = entering > smallest_pivot
        ratio = jnp.maximum(s.amounts, 0) / jnp.where(usable, entering, 1)
        ratio = jnp.where(usable, ratio, jnp.inf)
        tied = ratio <= lanes.min(ratio) * (1 + 1e-12)
        preferred = jnp.where(bland, -s.basic.astype(dtype), entering)
        r = lanes.argmax(jnp.where(tied, preferred, -jnp.inf))
        leaving = lanes.materialize(lanes.column, s.entries, r)
        # The whole exchange is one rank-one update; it is zero in a finished lane.
        here, there = each_constraint == r, each_row == c
        element = jnp.where(done, 1, lanes.take(entering, r))
        left = jnp.where(done, 0, (entering - here.astype(dtype)) / element)
        cost = jnp.where(done, 0, cost / element)
        left, right = lanes.materialize(lambda *x: x, left, leaving + there.astype(dtype))
        amount = lanes.take(s.amounts, r)
        objective = s.objective - cost * amount
        progress = objective > s.best * (1 + 1e-13)
        return _Tableau(
            s.entries - left[None] * right[:, None],
            s.costs - cost * right,
            s.amounts - left * amount,
            objective,
            jnp.where(here & ~done, lanes.take(s.free, c), s.basic),
            jnp.where(there & ~done, lanes.take(s.basic, r), s.free),
            jnp.where(progress, objective, s.best),
            jnp.where(progress | done, 0, s.stalled + 1),
            s.pivots + (~done).astype(jnp.int32),
            done,
        )

    end = jax.lax.while_loop(lambda s: jnp.any(~s.done), pivot, start)
    strategy = _spread(lanes, end.costs, end.free - f, k)
    weights = _spread(lanes, end.amounts, end.basic, f)
    value = jnp.min(jnp.where(played, jnp.sum(payoffs * strategy[None], 1), jnp.inf), 0)
    bound = jnp.max(jnp.sum(jnp.swapaxes(payoffs, 0, 1) * weights[None], 1), 0)
    return Solution(strategy, value, bound - value, end.pivots)


def _spread(lanes: LaneOps, amounts: Array, places: Array, size: int) -> Array:
    """The distribution on 0 .. size - 1 with these amounts at those places that are in range."""
    kept = jnp.where((places >= 0) & (places < size), jnp.maximum(amounts, 0), 0)
    index = index_like(jnp.zeros((size, *places.shape)))
    held = jnp.sum(jnp.where(jnp.expand_dims(places, 0) == index, kept, 0), 1)
    return held / lanes.sum(kept)  # one place of each, if any


def play(evidence: Evidence, values: Array, rows: Array) -> Array:
    """An optimal z of max_z min over the pieces p in `rows` of (z - x) . grad_p: [K].

    `evidence` is under x, `values` [Q] are f_p(x), and `rows` [Q] says which pieces play.
    """
    space, lanes = evidence.space, evidence.space.lanes
    most, many = rows.shape[0], rows.ndim > 1
    values, arms = jnp.where(rows, values, jnp.inf), space.features.shape[0]

    def together(values, size):
        return solve(lanes, *_payoffs(evidence, values, arms, size)).strategy

    def of_lane(values, lane):
        def pick(tree):
            return jax.tree.map(lambda x: x[..., lane], tree)

        features = space.features
        features = features if features.ndim == 2 else pick(features)
        alone = dataclasses.replace(space, lanes=lanes.alone, features=features)
        bare: Any = dataclasses.replace(evidence, space=None)  # type: ignore[arg-type]
        own = dataclasses.replace(pick(bare), space=alone)
        return solve(alone.lanes, *_payoffs(own, pick(values), arms, most)).strategy

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
    return jax.lax.switch(sum((largest > size).astype(jnp.int32) for size in sizes), branches)


def _payoffs(evidence: Evidence, values: Array, arms: int, size: int) -> tuple[Array, Array]:
    """The rows grad_p - f_p [size, K] of pieces of finite f_p = x . grad_p, and which exist."""
    lanes = evidence.space.lanes

    def add(n, c):
        left, payoffs, mask = c
        piece = lanes.argmin(left)
        value = lanes.take(left, piece)
        there = value < jnp.inf
        row = jnp.where(there, evidence.gradient(piece) - value, 0)
        left = jnp.where(index_like(left) == piece, jnp.inf, left)

        put = partial(jax.lax.dynamic_update_index_in_dim, index=n, axis=0)
        return left, put(payoffs, row), put(mask, there)

    lane = values.shape[1:]
    payoffs, mask = jnp.zeros((size, arms, *lane), values.dtype), jnp.zeros((size, *lane), bool)
    count = jnp.minimum(jnp.max(lanes.sum(values < jnp.inf)), size)
    return jax.lax.fori_loop(0, count, add, (values, payoffs, mask))[1:]
