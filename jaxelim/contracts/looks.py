"""Tests of pieces by a threshold whose level depends on the piece, at few times of a run.

Such a test may look when it likes, as it is valid at all times at once. It looks at a run
at every t below 256, then at times 0.4% to 0.8% apart, where a likelihood ratio passes a
gate. All of this depends on the run alone. Lanes that look are gathered, so that one look
does not cost a look of all.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.pieces import Pieces, pairs_of
from jaxelim.lanes import LaneOps, over_arm_blocks

if TYPE_CHECKING:
    from jaxelim.contracts.views import Snapshot, View
    from jaxelim.thresholds.mixture import Mixture

GROUP = 128
"""One lane in so many looks in one call, at least one: on average fewer do."""
WORDS = "at every t below 256, then 0.4 to 0.8% apart, where the LLR passes a gate"
"""When a run looks."""
_EVERY = 7  # log2 of the number of looks between t and 2 t


def look_time(t: Array, since: Array | None = None) -> Array:
    """Whether a run looks after t samples, [] int32: every t below 256, then 0.4 to 0.8% apart.

    Where rewards enter in groups, it looks after a group with such a t in it: `since` [] were
    before the group.
    """
    digits = 31 - jax.lax.clz(t)
    places = jnp.maximum(digits - _EVERY, 0)
    if since is not None:
        return jax.lax.shift_right_logical(t, places) > jax.lax.shift_right_logical(since, places)
    step = jax.lax.shift_left(jnp.int32(1), places)
    return (t & (step - 1)) == 0


def refuted(seen: "Snapshot", level: Array, among: Array) -> Array:
    """The pieces of the answer that the threshold refutes at this look: [Q] bool.

    Args:
        seen: with a threshold whose level depends on the piece.
        level: the threshold's level, [].
        among: the pieces that matter, [Q] bool. A run looks if one passes the gate.
    """
    passes = among & seen.evidence.refuted(_test(seen).gate(level, seen))
    wanted = _may_look(seen) & seen.lanes.any(passes)
    return among & (_log_e(seen, wanted, _any_of_answer, level, among) > level)


def all_refuted(seen: "Snapshot", level: Array) -> Array:
    """Whether the threshold refutes all pieces of the answer at this look: [] bool."""
    lanes, exists = seen.lanes, seen.shape.exists
    least = lanes.min(jnp.where(exists, seen.evidence.values(), jnp.inf))
    wanted = _may_look(seen) & (least > _test(seen).gate(level, seen))
    return _log_e(seen, wanted, _least_of_answer, level, exists) > level


def refuted_pairs(seen: "Snapshot", level: Array) -> Array:
    """Whether the threshold refutes {mu_i <= mu_k}, for every ordered pair: [i, k] bool.

    Of items, or with slack, as the pieces of the answer say.
    """
    gate = _test(seen).gate(level, seen)

    def more(refuted: Array, arms) -> Array:
        for _, row in seen.family.refuted_pairs(seen, arms, gate):
            refuted = refuted | row
        return refuted

    n = pairs_of(seen.shape).candidates
    none = jnp.zeros((n, *seen.means.shape[1:]), bool)
    wanted = _may_look(seen) & seen.lanes.any(over_arm_blocks(n, more, none))
    return _log_e(seen, wanted, _of_pairs) > level


def refuted_shape(seen: "Snapshot", level: Array, shape: Pieces, passes: Array) -> Array:
    """The pieces of a shape, which all lanes share, that the threshold refutes: [Q] bool.

    Args:
        seen: with a threshold whose level depends on the piece.
        level: the threshold's level, [].
        shape: without an axis of lanes.
        passes: [Q] bool, the pieces whose likelihood ratio passes the gate.
    """
    wanted = _may_look(seen) & seen.lanes.any(passes)

    def of_shape(alone: "Snapshot") -> Array:
        return _test(alone).log_e(dataclasses.replace(alone, shape=shape))

    return _log_e(seen, wanted, of_shape) > level


def largest_log_e(seen: "Snapshot", so_far: Array) -> Array:
    """The largest log e so far of every piece of every answer, at the looks: as `so_far`.

    [i, k] of {mu_i <= mu_k}, of items or candidates too, or with slack; [K, 2] of
    {mu_k >= level} and {mu_k <= level}. Here no gate keeps a run from looking.
    """
    f = _of_sides if seen.shape.signs else _of_pairs
    return jnp.maximum(so_far, _log_e(seen, _may_look(seen), f))


def of_answer(seen: "Snapshot", wanted: Array) -> Array:
    """log e of the answer's pieces now, -inf of the runs that are not `wanted`: [Q]."""
    return _log_e(seen, wanted, lambda alone: _test(alone).log_e(alone))


def none_so_far(seen: "Snapshot") -> Array:
    """What `largest_log_e` begins with: 0, for e = 1; of pieces with an index."""
    lanes = seen.means.shape[1:]
    n = pairs_of(seen.shape).candidates
    if seen.shape.signs:
        return jnp.zeros((n, 2, *lanes))
    return jnp.zeros((n, n, *lanes))


def _test(seen: "Snapshot") -> "Mixture":
    """The threshold, which there is."""
    assert seen.threshold is not None
    return seen.threshold


def _of_sides(alone: "Snapshot") -> Array:
    """log e of both pieces of every arm of one run: [K, 2]."""
    pieces, sides = pairs_of(alone.shape), []
    for above in (False, True):
        side = pieces.signs_of(jnp.full_like(pieces.exists, above))
        sides.append(_test(alone).log_e(dataclasses.replace(alone, shape=side)))
    return jnp.stack(sides, 1)


def _may_look(seen: "Snapshot") -> Array:
    """Whether a run looks at this t, if a likelihood ratio passes the gate: [] bool."""
    now = look_time(seen.stats.t, seen.since)
    return now if seen.live is None else now & seen.live


def _any_of_answer(alone: "Snapshot", level: Array, among: Array) -> Array:
    """log e of the answer's pieces `among` [Q] of one run, -inf where it cannot pass: [Q]."""
    return _of_answer(alone, level, among, jnp.any)


def _least_of_answer(alone: "Snapshot", level: Array, among: Array) -> Array:
    """The least log e of the answer's pieces `among` [Q] of one run, -inf below the level: []."""
    log_e = _of_answer(alone, level, among, lambda passes: jnp.all(passes | ~among))
    return jnp.min(jnp.where(among, log_e, jnp.inf))


def _of_answer(
    alone: "Snapshot", level: Array, among: Array, look: Callable[[Array], Array]
) -> Array:
    """log e of those of the answer's pieces `among` whose upper bounds pass the level: [Q].

    It is -inf of the others, and of all unless `look` holds of which pass, [Q] bool.
    """
    test = _test(alone)
    above = test.log_e_above(alone)
    if above is None:
        return test.log_e(alone)
    passes = among & (above > level)
    shape: Any = alone.shape
    few = dataclasses.replace(alone, shape=dataclasses.replace(shape, exists=passes))
    none = jnp.full_like(above, -jnp.inf)
    log_e = jax.lax.cond(look(passes), lambda: test.log_e(few), lambda: none)
    return jnp.where(passes, log_e, -jnp.inf)


def _of_pairs(alone: "Snapshot") -> Array:
    """log e of all ordered pairs of arms, items or candidates of one run: [i, k]."""
    pieces = pairs_of(alone.shape)
    arms = jnp.arange(pieces.candidates, dtype=jnp.int32)

    def of(i: Array) -> Array:
        shape = pieces.others(i)
        log_e = _test(alone).log_e(dataclasses.replace(alone, shape=shape))
        return jnp.where(arms != i, log_e, -jnp.inf)

    return jax.vmap(of)(arms)


def _log_e(seen: "Snapshot", wanted: Array, f: Callable[..., Array], *more: Array) -> Array:
    """f of the runs that are `wanted`, -inf of the others: [.., B], or [..] of one run.

    Args:
        seen: of all runs.
        wanted: [B] bool.
        f: of the snapshot of one run, and of what belongs to it in `more`.
        more: [.., B].
    """
    if seen.means.ndim == 1:
        return jnp.where(wanted, f(_alone(seen), *more), -jnp.inf)
    several = seen.space.features.ndim == 3
    lanes = seen.means.shape[-1]
    size = max(1, lanes // GROUP)
    features = seen.space.features if several else None
    own = features, seen.stats.of_one_run(), seen.answer, seen.shape, *more
    alone = _alone(seen)

    def at(features, stats, answer, shape, *more) -> Array:
        space = alone.space
        if features is not None:
            space = dataclasses.replace(space, features=features)
        parts = dict(space=space, stats=stats, answer=answer, shape=shape)
        return f(dataclasses.replace(alone, **parts), *more)

    ends = () if size == 1 else (size,)
    each = jax.vmap(at, -1, -1) if ends else at
    each = jax.jit(each, inline=True)  # one trace serves eval_shape and the loop
    few = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*x.shape[:-1], *ends), x.dtype), own)
    shape = jax.eval_shape(each, *few)
    none = jnp.full((*shape.shape[: shape.ndim - len(ends)], lanes), -jnp.inf, shape.dtype)
    index = jnp.arange(lanes, dtype=jnp.int32)

    def look_at_one(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, looked = carry
        lane = jax.lax.argmax(left, 0, jnp.int32)
        of_lane = jax.tree.map(
            lambda x: jax.lax.dynamic_index_in_dim(x, lane, x.ndim - 1, False), own
        )
        log_e = each(*of_lane)
        looked = jax.lax.dynamic_update_index_in_dim(looked, log_e, lane, looked.ndim - 1)
        return left & (index != lane), looked

    def look_at_several(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, looked = carry
        place = jnp.cumsum(left.astype(jnp.int32)) - 1
        taken = left & (place < size)
        order = jnp.argsort(~left, stable=True).astype(jnp.int32)[:size]
        few = jax.tree.map(lambda x: x[..., order], own)
        log_e = each(*few)
        now = log_e[..., jnp.clip(place, 0, size - 1)]
        return left & ~taken, jnp.where(taken, now, looked)

    look = look_at_one if size == 1 else look_at_several

    def looks(carry: tuple[Array, Array]) -> Array:
        return jax.lax.while_loop(lambda c: jnp.any(c[0]), look, carry)[1]

    # In a branch, since XLA would compute what does not change in the loop before its test.
    return jax.lax.cond(jnp.any(wanted), looks, lambda c: c[1], (wanted, none))


def _alone(seen: "Snapshot") -> "Snapshot":
    """The snapshot for one run of its lanes, without its evidence."""
    space = dataclasses.replace(seen.space, lanes=LaneOps(gpu=seen.lanes.gpu), transposed=None)
    return dataclasses.replace(seen, space=space, evidence=None, live=None, since=None)


def pieces_for_sampling(
    seen: "Snapshot | View", elimination: Any, piece_set: Any
) -> tuple[Array, Array]:
    """The pieces for sampling, [Q] bool, and their number, [] int32."""
    if elimination is None:
        return seen.shape.exists, seen.shape.total()
    if elimination.shared:
        return piece_set.active(seen), piece_set.active_count(seen)
    active = elimination.active(seen, piece_set)
    return active, seen.lanes.sum(active)


__all__ = [
    "GROUP", "WORDS", "all_refuted", "largest_log_e", "look_time", "none_so_far", "of_answer",
    "pieces_for_sampling", "refuted", "refuted_pairs", "refuted_shape",
]  # fmt: skip
