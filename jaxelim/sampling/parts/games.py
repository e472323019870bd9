"""Exact solutions of matrix games, in one run or many lanes."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.lanes import LaneOps, index_like

_STALLED = 12
"""Pivots without progress before Bland's rule applies."""
_WIDEST = 64
"""Larger games are reduced by rows: no kernel of one lane may hold a large reduction."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Solution:
    """An optimal strategy of the maximiser, its guaranteed payoff, and a bound on the error."""

    strategy: Array  # [K], on the simplex; exactly 0 outside a basis
    value: Array  # []: min over the rows of payoffs @ strategy
    gap: Array  # []: duality gap, from the unscaled payoffs and the other player's strategy
    pivots: Array  # [] int32


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Tableau:
    """The simplex tableau. Variables 0 .. F - 1 are the game's rows, F .. F + K - 1 slacks."""

    entries: Array  # [K + 1, F + 1]: last row: the objective; last column: the right-hand side
    basic: Array  # [K] int32: the variable of each constraint
    free: Array  # [F] int32: the variable of each column
    best: Array  # []: the largest objective so far
    stalled: Array  # [] int32: pivots since `best` grew
    pivots: Array  # [] int32
    done: Array  # [] bool


def solve(lanes: LaneOps, payoffs: Array, mask: Array) -> Solution:
    """Maximise over z in the simplex the min over rows p in mask of payoffs_p . z.

    The simplex method runs in a condensed tableau. Payoffs are shifted and scaled to
    [1, 2]; then it solves max 1'q subject to q'M <= 1, whose duals are z up to scale.
    Dantzig's rule chooses columns. After `_STALLED` pivots without progress Bland's
    rule does, until there is progress again; Bland's rule guarantees termination.

    Against rounding, the tolerance on reduced costs (1e-13 in float64) grows tenfold
    with every 10 (F + K) + 1000 pivots without progress; `gap` would show that. A lane
    with an empty mask plays a game whose payoffs are all 0.

    Args:
        lanes: the primitives.
        payoffs: [F, K].
        mask: [F] bool, the rows in play.
    """
    f, k = payoffs.shape[:2]
    dtype = payoffs.dtype
    tolerance, smallest_pivot = (1e-13, 1e-10) if dtype == jnp.float64 else (2e-6, 1e-5)
    played = mask | (~jnp.any(mask, 0) & (index_like(mask) == 0))
    payoffs = jnp.where(mask[:, None], payoffs, 0)
    low, high = _range(payoffs, played)
    scale = jnp.where(high > low, high - low, 1)
    scaled = jnp.where(played[:, None], (payoffs - low) / scale + 1, 0)

    ones = jnp.ones((1, *mask.shape[1:]), dtype)
    entries = jnp.concatenate(
        [
            jnp.concatenate(
                [jnp.swapaxes(scaled, 0, 1), jnp.ones((k, 1, *mask.shape[1:]), dtype)], 1
            ),
            jnp.concatenate([-played.astype(dtype), 0 * ones])[None],
        ]
    )
    each_row, each_column = index_like(entries[:, 0]), index_like(entries[0])
    none = jnp.zeros(mask.shape[1:], jnp.int32)
    start = _Tableau(
        entries,
        jnp.broadcast_to(each_row[:k] + f, (k, *mask.shape[1:])),
        jnp.broadcast_to(each_column[:f], mask.shape),
        0 * ones[0],
        none,
        none,
        none > 0,
    )

    def pivot(s: _Tableau) -> _Tableau:
        bland = s.stalled > _STALLED
        costs = s.entries[k, :f]
        allowed = tolerance * 10.0 ** (s.stalled // (10 * (f + k) + 1000)).astype(dtype)
        steepest = lanes.argmin(costs)

        def lowest_label():
            label = jnp.where(costs < -allowed, s.free, f + k)
            return jnp.where(bland, jnp.argmin(label, 0).astype(jnp.int32), steepest)

        c = jax.lax.cond(jnp.any(bland), lowest_label, lambda: steepest)
        done = s.done | ~(lanes.take(costs, c) < -allowed)  # also where a cost is NaN
        column = lanes.materialize(lanes.column, s.entries, c)
        usable = column[:k] > smallest_pivot
        ratio = jnp.where(
            usable, jnp.maximum(s.entries[:k, f], 0) / jnp.where(usable, column[:k], 1), jnp.inf
        )
        tied = ratio <= lanes.min(ratio) * (1 + 1e-12)
        preferred = jnp.where(bland, -s.basic.astype(dtype), column[:k])
        r = lanes.argmax(jnp.where(tied, preferred, -jnp.inf))
        row = lanes.materialize(lanes.row, s.entries, r)
        # The whole exchange is one rank-one update; it is zero in a finished lane.
        here, there = each_row == r, each_column == c
        left = jnp.where(
            done, 0, (column - here.astype(dtype)) / jnp.where(done, 1, lanes.take(column, r))
        )
        left, right = lanes.materialize(lambda *x: x, left, row + there.astype(dtype))
        after = s.entries - left[:, None] * right[None]
        objective = s.entries[k, f] - lanes.take(left, jnp.full_like(r, k)) * lanes.take(
            right, jnp.full_like(c, f)
        )
        progress = objective > s.best * (1 + 1e-13)
        return _Tableau(
            after,
            jnp.where(here[:k] & ~done, lanes.take(s.free, c), s.basic),
            jnp.where(there[:f] & ~done, lanes.take(s.basic, r), s.free),
            jnp.where(progress, objective, s.best),
            jnp.where(progress | done, 0, s.stalled + 1),
            s.pivots + (~done).astype(jnp.int32),
            done,
        )

    end = jax.lax.while_loop(lambda s: jnp.any(~s.done), pivot, start)
    strategy = _spread(lanes, end.entries[k, :f], end.free - f, k)
    weights = _spread(lanes, end.entries[:k, f], end.basic, f)
    value = jnp.min(jnp.where(played, _against(payoffs, strategy), jnp.inf), 0)
    bound = jnp.max(_against(jnp.swapaxes(payoffs, 0, 1), weights), 0)
    return Solution(strategy, value, bound - value, end.pivots)


def _spread(lanes: LaneOps, amounts: Array, places: Array, size: int) -> Array:
    """The distribution on 0 .. size - 1 with these amounts at these places.

    Places out of range are left out.
    """
    kept = jnp.where((places >= 0) & (places < size), jnp.maximum(amounts, 0), 0)
    each = index_like(jnp.zeros((size, *places.shape)))
    if places.shape[0] <= _WIDEST:
        held = jnp.sum(jnp.where(jnp.expand_dims(places, 0) == each, kept, 0), 1)
    else:
        each = each[:, 0]
        held = jax.lax.fori_loop(
            0,
            places.shape[0],
            lambda n, held: held + jnp.where(places[n][None] == each, kept[n][None], 0),
            jnp.zeros((size, *places.shape[1:]), amounts.dtype),
        )
    return held / lanes.sum(kept)  # one place of each, if any


def _range(payoffs: Array, played: Array) -> tuple[Array, Array]:
    """The smallest and the largest payoff in the rows that are played."""
    if payoffs.shape[0] <= _WIDEST:
        low = jnp.min(jnp.where(played[:, None], payoffs, jnp.inf), (0, 1))
        return low, jnp.max(jnp.where(played[:, None], payoffs, -jnp.inf), (0, 1))

    def with_row(p, c):
        row, here = payoffs[p], played[p][None]
        low = jnp.minimum(c[0], jnp.min(jnp.where(here, row, jnp.inf), 0))
        return low, jnp.maximum(c[1], jnp.max(jnp.where(here, row, -jnp.inf), 0))

    none = jnp.full(payoffs.shape[2:], jnp.inf, payoffs.dtype)
    return jax.lax.fori_loop(0, payoffs.shape[0], with_row, (none, -none))


def _against(matrix: Array, vector: Array) -> Array:
    """matrix [n, q] times vector [q]: [n]."""
    return jnp.sum(matrix * vector[None], 1)
