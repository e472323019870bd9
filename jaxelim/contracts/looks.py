"""Looks: tests of pieces by a mixture, at few times of a run.

Such a test may look when it likes, as it is valid at all times at once. When it looks depends
on the run alone. Lanes that look are gathered, so that one look does not cost a look of all.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.pieces import Pairs, pairs_of
from jaxelim.lanes import ArmBlock, LaneOps, index_like, over_arm_blocks

if TYPE_CHECKING:
    from jaxelim.contracts.views import Snapshot

GROUP = 128  # one lane in so many looks in one call, at least one: on average fewer do
WORDS = "at every t below 256, then 0.4 to 0.8% apart, where the LLR passes a gate"
_EVERY = 7  # log2 of the number of looks between t and 2 t


def look_time(t: Array, since: Array | None = None) -> Array:
    """Whether a run looks after t samples, [] int32; see `WORDS`.

    Where rewards enter in groups, `since` [] were before the group: some t in it is looked at.
    """
    places = jnp.maximum(31 - jax.lax.clz(t) - _EVERY, 0)
    before = t - 1 if since is None else since
    return jax.lax.shift_right_logical(t, places) > jax.lax.shift_right_logical(before, places)


def refuted_pairs(seen: "Snapshot", beta: Array) -> Array:
    """Whether {mu_i <= mu_k} is refuted, of every ordered pair of candidates: [i, k] bool."""
    if seen.check.mixture is not None:
        passes = refuted_against(seen, seen.check.mixture.gate(beta, seen))
        wanted = may_look(seen) & seen.lanes.any(passes)
        return of_answer(seen, wanted, True, beta) > beta

    def put(refuted: Array, i: Array, row: Array) -> Array:
        if seen.shape.slack:  # else a candidate is never refuted against itself
            row = row & (index_like(row) != i)
        return jax.lax.dynamic_update_index_in_dim(refuted, row, i, 0)

    n = seen.shape.candidates
    return _over_rows(seen, beta, put, jnp.zeros((n, n, *seen.means.shape[1:]), bool))


def refuted_against(seen: "Snapshot", beta: Array) -> Array:
    """The candidates k with a piece {mu_i <= mu_k}, for some i, whose LLR exceeds beta: [C]."""
    # 0 or 1 in the floating type: XLA:CPU does not vectorise the loop with booleans.
    none = jnp.zeros((seen.shape.candidates, *seen.means.shape[1:]), seen.means.dtype)
    return _over_rows(seen, beta, lambda known, i, row: jnp.where(row, 1, known), none) > 0


def _over_rows(seen: "Snapshot", beta: Array, put: Callable, state: Array) -> Array:
    """Fold put(state, i, row) over all candidates i, `row` as of `Family.refuted_pairs`."""

    def more(state: Array, arms: ArmBlock) -> Array:
        for i, row in seen.family.refuted_pairs(seen, arms, beta):
            state = put(state, i, row)
        return state

    return over_arm_blocks(seen.shape.candidates, more, state)


def of_every_answer(seen: "Snapshot") -> Array:
    """log e of every piece of every answer, without a gate; -inf where no run looks.

    [i, k] of {mu_i <= mu_k}, or of candidates; [K, 2] of {mu_k >= level} and {mu_k <= level}.
    """
    log_e = of_answer(seen, may_look(seen), True)
    return jnp.swapaxes(log_e, 0, 1) if seen.shape.signs else log_e


def none_so_far(seen: "Snapshot") -> Array:
    """0 for every piece of every answer, as e is 1 before any look; of pieces with an index."""
    n = pairs_of(seen.shape).candidates
    return jnp.zeros((n, 2 if seen.shape.signs else n, *seen.means.shape[1:]))


def of_answer(
    seen: "Snapshot", wanted: Array, others: bool = False, level: Array | None = None,
    every: bool = False,
) -> Array:  # fmt: skip
    """log e of the answer's pieces, or of all answers'; -inf of runs that are not wanted: [.., Q].

    `wanted` [] bool are the runs that look. With a `level` only those matter where log e may
    exceed it, by a bound that costs less: of some piece, or of every one. A snapshot that has
    log e of every piece is read.
    """
    if level is not None and seen.check.log_e is None and not hasattr(seen.family, "log_e"):
        may = _in_groups(seen, wanted, others, True) > level
        over = tuple(range(may.ndim - wanted.ndim))
        wanted &= jnp.all(may | ~seen.shape.exists, over) if every else jnp.any(may, over)
    return _in_groups(seen, wanted, others, False)


def _in_groups(seen: "Snapshot", wanted: Array, others: bool, above: bool) -> Array:
    """log e as of `of_answer`, or what is `above` it."""
    space = dataclasses.replace(seen.space, lanes=LaneOps(gpu=seen.lanes.gpu), transposed=None)
    bare, mixture = dataclasses.replace(seen, space=space, evidence=None), seen.check.mixture

    def of_run(own: dict[str, Any], log_e: Array | None, features: Array | None) -> Array:
        check = dataclasses.replace(seen.check, live=None, since=None, log_e=log_e)
        alone = dataclasses.replace(bare, check=check, **own)
        if features is not None:
            alone = dataclasses.replace(alone, space=dataclasses.replace(space, features=features))
        shape = _all_answers(alone.shape) if others else alone.shape

        def one(shape: Any) -> Array:
            if log_e is None:
                return mixture.log_e(dataclasses.replace(alone, shape=shape), above)
            if shape.signs:
                return log_e[jnp.arange(shape.candidates), shape.above.astype(jnp.int32)]
            return log_e[shape.places()]

        value = jax.vmap(one)(shape) if shape.exists.ndim > 1 else one(shape)
        return jnp.where(shape.exists, value, -jnp.inf)

    own = dict(stats=seen.stats.of_one_run(), answer=seen.answer, shape=seen.shape)
    features = seen.space.features if seen.space.features.ndim == 3 else None
    of_each = own, seen.check.log_e, features
    if seen.means.ndim == 1:
        return jnp.where(wanted, of_run(own, seen.check.log_e, None), -jnp.inf)
    lanes = seen.means.shape[-1]
    size = lanes // GROUP
    of_runs = jax.jit(jax.vmap(of_run, -1, -1) if size > 1 else of_run, inline=True)

    def some(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, looked = carry
        at = jnp.argsort(~left, stable=True)[:size] if size > 1 else jnp.argmax(left)
        now = of_runs(*jax.tree.map(lambda x: x[..., at], of_each))
        looked = looked.at[..., at].set(jnp.where(left[at], now, looked[..., at]))
        return left.at[at].set(False), looked

    first = jax.tree.map(lambda x: x[..., :size] if size > 1 else x[..., 0], of_each)
    shape = jax.eval_shape(of_runs, *first).shape
    none = jnp.full((*shape[: len(shape) - (size > 1)], lanes), -jnp.inf)

    def looks(carry: tuple[Array, Array]) -> Array:
        return jax.lax.while_loop(lambda c: jnp.any(c[0]), some, carry)[1]

    # In a branch, since XLA would compute what does not change in the loop before its test.
    return jax.lax.cond(jnp.any(wanted), looks, lambda c: c[1], (wanted, none))


def may_look(seen: "Snapshot") -> Array:
    """Whether a run looks at this t, if a likelihood ratio passes the gate: [] bool."""
    now = look_time(seen.stats.t, seen.check.since)
    return now if seen.check.live is None else now & seen.check.live


def _all_answers(pairs: Pairs) -> Pairs:
    """The pieces of all answers of one run: of each candidate, [C, C], or both sides' [2, K]."""
    if pairs.signs:
        above = jnp.stack([jnp.zeros_like(pairs.exists), jnp.ones_like(pairs.exists)])
        return dataclasses.replace(pairs, above=above, exists=jnp.ones_like(above))
    return jax.vmap(pairs.others)(jnp.arange(pairs.candidates, dtype=jnp.int32))
