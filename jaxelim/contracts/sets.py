"""Sets of pieces: the contract; masks over candidates, ordered pairs of them, signs of arms."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import looks
from jaxelim.contracts.pieces import Pairs, Pieces, pairs_of
from jaxelim.contracts.views import Snapshot
from jaxelim.errors import UnsupportedError, undefined
from jaxelim.lanes import LaneOps, balanced, index_like, pytree

_BITS = 32


class PieceSet:
    """The contract of a set of pieces that elimination reduces: a registered dataclass."""

    def active(self, seen: Snapshot) -> Array:
        """Which pieces of the answer of `seen` are in the set: [Q] bool."""
        raise undefined(self, "active(seen)")

    def active_count(self, seen: Snapshot) -> Array:
        """The number of pieces that are `active`: [] int32."""
        return seen.lanes.sum(self.active(seen))

    def drop(self, seen: Snapshot, refuted: Array) -> "PieceSet":
        """The set without the pieces of the answer that are `refuted`, [Q] bool."""
        raise undefined(self, "drop(seen, refuted)")

    def drop_all(self, seen: Snapshot, beta: Array) -> "PieceSet":
        """The set without the pieces, of all answers, that beta [] refutes."""
        return self.drop(seen, seen.refuted(beta, self.active(seen)))

    def tests(self, seen: Snapshot, full: bool) -> Array:
        """The number of pieces that the next check tests: [] int32."""
        return self.active_count(seen)

    def settled(self, seen: Snapshot, full: bool) -> Array:
        """Whether the set settles an answer: [] bool."""
        return ~seen.lanes.any(self.active(seen))

    def verdict(self, seen: Snapshot, full: bool) -> Array:
        """The public form of that answer: [K] bool."""
        return seen.public

    def times(self) -> Array | None:
        """When each piece was eliminated, 0 for never; None if not recorded."""
        return None

    def remaining(self, lanes: LaneOps) -> Array:
        """The number that a trace records of the set: [] int32."""
        raise undefined(self, "remaining(lanes)")


def whole(like: Array) -> tuple[Array, Array]:
    """`dropped` and `left` of a set of all candidates, or arms; `like` [C] gives the number."""
    return jnp.zeros(like.shape, jnp.int32), jnp.full(like.shape[1:], like.shape[0], jnp.int32)


@pytree
class ArmSet(PieceSet):
    """A mask over the candidates, stored as the times at which they were dropped."""

    dropped: Array  # [C] int32, 0 while active
    left: Array  # [] int32: number of active candidates

    def active(self, seen):
        return (self.dropped == 0) & (index_like(self.dropped) != seen.answer)

    def active_count(self, seen):
        return self.left - (seen.lanes.take(self.dropped, seen.answer) == 0).astype(jnp.int32)

    def drop(self, seen, refuted):
        dropped = jnp.where(refuted & (self.dropped == 0), seen.stats.t, self.dropped)
        return ArmSet(dropped, seen.lanes.zeros(dropped))

    def drop_all(self, seen, beta):
        if seen.check.mixture is None:
            return self.drop(seen, looks.refuted_against(seen, beta))
        return self.drop(seen, jnp.any(looks.refuted_pairs(seen, beta), 0))

    def tests(self, seen, full):
        return self.left * (self.dropped.shape[0] - 1) if full else self.active_count(seen)

    def settled(self, seen, full):
        return self.left <= 1

    def verdict(self, seen, full):
        arms = self.dropped[: seen.public.shape[0]]  # a reference is no part of an answer
        return jnp.where(self.left == 0, seen.public, arms == 0)

    def times(self):
        return self.dropped

    def remaining(self, lanes):
        return self.left


def pack(lanes: LaneOps, bits: Array) -> Array:
    """Pack bool [K, ..] into uint32 words [ceil(K/32), ..]: k is bit k % 32 of word k // 32."""

    def together(parts: list[Array]) -> Array:
        shifted = [x.astype(jnp.uint32) << np.uint32(bit) for bit, x in enumerate(parts)]
        return balanced(jnp.bitwise_or, shifted)

    def words(bits: Array) -> Array:
        k = bits.shape[0]
        whole = k // _BITS * _BITS
        blocks = bits[:whole].reshape((-1, _BITS) + bits.shape[1:])
        of_blocks = [together([blocks[:, bit] for bit in range(_BITS)])] if whole else []
        rest = [together(list(bits[whole:]))[None]] if whole < k else []
        return jnp.concatenate([*of_blocks, *rest])

    return lanes.materialize(words, bits)


def unpack(words: Array, k: int) -> Array:
    """The inverse of `pack`: bool [K, ..]."""
    shifts = jnp.arange(_BITS, dtype=jnp.uint32).reshape((1, _BITS) + (1,) * (words.ndim - 1))
    bits = (words[:, None] >> shifts) & jnp.uint32(1)
    return bits.reshape((-1,) + words.shape[1:])[:k] != 0


def _count(words: Array) -> Array:
    """Count the set bits over axis 0 of words [W, ..]: int32."""
    return balanced(jnp.add, [jax.lax.population_count(word).astype(jnp.int32) for word in words])


def _rows(shape: Pieces) -> Pairs:
    """Pairs of m candidates, `first` [m]; also of one."""
    rows = pairs_of(shape)
    return rows if rows.several else dataclasses.replace(rows, first=rows.first[None])  # type: ignore[index]


@pytree
class PairSet(PieceSet):
    """The ordered pairs (j, k) of candidates whose piece is refuted, as packed bits: k is worse.

    A candidate j of m that make an answer is found when C - m of its pieces are refuted. (With
    slack an arm may fall to one that is itself epsilon worse than a third, so one mask over the
    candidates would not do.) Without m an answer is settled when its own pieces are refuted.
    """

    worse: Array  # [W, C] uint32: bit k of column j is set once k is known to be worse than j
    kept_times: Array | None = None  # [C, C] int32: when each pair (j, k) was dropped, or 0
    m: int | None = dataclasses.field(default=None, metadata={"static": True})

    @staticmethod
    def full(like: Array, m: int | None = None, times: bool = False) -> "PairSet":
        """The set of all pairs of candidates; `like` [C] gives the number."""
        k = like.shape[0]
        worse = jnp.zeros((-(-k // _BITS), *like.shape), jnp.uint32)
        return PairSet(worse, jnp.zeros((k, *like.shape), jnp.int32) if times else None, m)

    def active(self, seen):
        shape = _rows(seen.shape)
        words = seen.lanes.column(self.worse, shape.first)  # [W, m]
        worse = jnp.swapaxes(unpack(words, shape.candidates), 0, 1)
        return shape.flat(~worse) & shape.exists

    def _found(self, words: Array) -> Array:
        """Whether C - m are worse, by words [W, ..] of candidates: [..] bool; with m."""
        return _count(words) >= self.worse.shape[1] - self.m  # type: ignore[operator]

    def drop(self, seen, refuted):
        lanes, shape = seen.lanes, _rows(seen.shape)
        top: Array = shape.first  # type: ignore[assignment]
        now, words = shape.apart(refuted & shape.exists), lanes.column(self.worse, top)
        if self.m is not None:
            now = now & ~self._found(words)[:, None]
        words = words | pack(lanes, jnp.swapaxes(now, 0, 1))
        worse, times, index = self.worse, self.kept_times, index_like(self.worse[0])
        for r in range(top.shape[0]):
            here = index == top[r]
            worse = jnp.where(here[None], words[:, r][:, None], worse)
            if times is not None:
                fresh = here[:, None] & now[r][None] & (times == 0)
                times = jnp.where(fresh, seen.stats.t, times)
        return dataclasses.replace(self, worse=worse, kept_times=times)

    def drop_all(self, seen, beta):
        now = jnp.swapaxes(looks.refuted_pairs(seen, beta), 0, 1)  # [k, j]
        if self.m is not None:
            now = now & ~self._found(self.worse)[None]
        worse, times = self.worse | pack(seen.lanes, now), self.kept_times
        if times is not None:
            times = jnp.where(jnp.swapaxes(now, 0, 1) & (times == 0), seen.stats.t, times)
        return dataclasses.replace(self, worse=worse, kept_times=times)

    def tests(self, seen, full):
        lanes, shape, words, left = seen.lanes, _rows(seen.shape), self.worse, self._left()
        if not full:
            words = lanes.column(words, shape.first)
            outside = pack(lanes, jnp.swapaxes(shape.apart(shape.exists), 0, 1))
            left = _count(~words & outside)
        return lanes.sum(left if self.m is None else jnp.where(self._found(words), 0, left))

    def _left(self) -> Array:
        """How many others each candidate is not known to beat: [C] int32."""
        return self.worse.shape[1] - 1 - _count(self.worse)

    def settled(self, seen, full):
        if self.m is None:
            return super().settled(seen, full)
        return seen.lanes.sum(self._found(self.worse)) >= self.m

    def verdict(self, seen, full):
        if self.m is None:
            return seen.public
        # The found arms of largest mean, as one step can find more than m in all.
        means = seen.shape.with_reference(seen.means, seen.shape.level)
        means = jnp.where(self._found(self.worse), means, -jnp.inf)
        return largest(seen.lanes, means, self.m).member[: seen.public.shape[0]]

    def times(self):
        return self.kept_times

    def remaining(self, lanes):
        return lanes.sum(self._left() if self.m is None else _count(self.worse))


@pytree
class SignSet(PieceSet):
    """The arms whose side of the level is open.

    Full and selective tests are the same, but with slack: then a full test has both sides of an
    arm. Without `left` both sides have an entry, so that a sign that changes is tested again, and
    an answer is settled when its own signs are.
    """

    # [K] int32. With `left`: 0 while active, then the time, negative for arms below the level.
    # Without: the bits 1 of a refuted side below the level, 2 of one above.
    dropped: Array
    left: Array | None = None  # [] int32: number of active arms

    def active(self, seen):
        if self.left is not None:
            return self.dropped == 0
        return (self.dropped & self._bits(seen) == 0) & seen.shape.exists

    def _bits(self, seen) -> Array:
        """The bit of each arm's side in the answer: [K]."""
        return jnp.where(seen.shape.above, jnp.int32(2), jnp.int32(1))

    def active_count(self, seen):
        return super().active_count(seen) if self.left is None else self.left

    def drop(self, seen, refuted):
        if self.left is None:
            bits = jnp.where(refuted & seen.shape.exists, self._bits(seen), 0)
            return SignSet(self.dropped | bits)
        t = seen.stats.t
        signed = jnp.where(seen.shape.above, t, -t)
        dropped = jnp.where(refuted & (self.dropped == 0), signed, self.dropped)
        return SignSet(dropped, seen.lanes.zeros(dropped))

    def drop_all(self, seen, beta):
        kept = super().drop_all(seen, beta)
        if not seen.shape.slack:
            return kept
        other = seen.about(seen.shape.flipped())
        return kept.drop(other, other.refuted(beta, kept.active(other)))

    def tests(self, seen, full):
        tests = self.active_count(seen)
        if full and seen.shape.slack:
            tests = tests + self.active_count(seen.about(seen.shape.flipped()))
        return tests

    def settled(self, seen, full):
        return super().settled(seen, full) if self.left is None else self.left == 0

    def verdict(self, seen, full):
        return seen.public if self.left is None else self.dropped > 0

    def times(self):
        return None if self.left is None else jnp.abs(self.dropped)

    def remaining(self, lanes):
        if self.left is not None:
            return self.left
        return lanes.sum(2 - jax.lax.population_count(self.dropped))


class TopAnswer(NamedTuple):
    """The m arms with the largest means."""

    top: Array  # [m] int32, by decreasing mean (ties: lowest index first)
    member: Array  # [K] bool


def largest(lanes: LaneOps, means: Array, m: int) -> TopAnswer:
    """The m largest entries of means [K], ties to the lowest index."""
    arms = index_like(means)
    # Entries of -inf become the lowest finite number, which differs from the mark of chosen ones.
    left = jnp.maximum(means, jnp.finfo(means.dtype).min)
    top = []
    for _ in range(m):
        i = lanes.argmax(left)
        left = jnp.where(arms == i, -jnp.inf, left)
        top.append(i)
    return TopAnswer(jnp.stack(top), left == -jnp.inf)


def made_from(seen: Snapshot) -> PieceSet:
    """The full set of the pieces of all answers, without times and early ends."""
    shape = seen.shape
    if not isinstance(shape, Pairs):  # half-spaces have no index that all answers share
        allowed = "elimination with pieces of Pairs, or a HalfSpaces problem"
        raise UnsupportedError("problem", seen.problem, allowed)
    if shape.signs:
        return SignSet(jnp.zeros(shape.exists.shape, jnp.int32))
    like = shape.exists if not shape.several else shape.apart(shape.exists)[0]
    return PairSet.full(like)
