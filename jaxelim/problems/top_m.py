"""Top-m identification."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.base import Problem
from jaxelim.errors import ArgumentError, TieError
from jaxelim.lanes import Lanes, balanced, by_several, index_like
from jaxelim.problems.best_arm import pairwise_gap, refuted_rows

_BITS = 32


def pack(lanes: Lanes, bits: Array) -> Array:
    """bool [K, ..] along axis 0 -> uint32 words [ceil(K/32), ..], bit k % 32 of word k // 32."""

    def together(parts: list[Array]) -> Array:
        return balanced(jnp.bitwise_or, [x.astype(jnp.uint32) << np.uint32(bit) for bit, x in enumerate(parts)])

    def words(bits: Array) -> Array:
        k = bits.shape[0]
        whole = k // _BITS * _BITS
        blocks = bits[:whole].reshape((-1, _BITS) + bits.shape[1:])
        found = [together([blocks[:, bit] for bit in range(_BITS)])] if whole else []
        rest = [together(list(bits[whole:]))[None]] if whole < k else []
        return jnp.concatenate([*found, *rest])

    return lanes.pin(words, bits)


def unpack(words: Array, k: int) -> Array:
    """The inverse of `pack`: bool [K, ..]."""
    shifts = jnp.arange(_BITS, dtype=jnp.uint32).reshape((1, _BITS) + (1,) * (words.ndim - 1))
    bits = (words[:, None] >> shifts) & jnp.uint32(1)
    return bits.reshape((-1,) + words.shape[1:])[:k] != 0


def _count(words: Array) -> Array:
    """How many bits are set, over axis 0 of words [W, ..]: int32."""
    return balanced(jnp.add, [jax.lax.population_count(word).astype(jnp.int32) for word in words])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TopAnswer:
    """The m largest means."""

    top: Array  # [m] int32, by falling mean (ties: lowest index first)
    member: Array  # [K] bool


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairTimes:
    """Which arms are known to be worse than which."""

    worse: Array  # [W, K] uint32: bit k of column j is set once k is known to be worse than j
    found: Array  # [K] bool: at least K - m arms are known to be worse
    times: Array | None = None  # [K, K] int32: when each pair (j, k) fell, 0 for never; only if asked for


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class TopM(Problem):
    """Which are the m arms of largest mean. Pieces: y = phi_j - phi_k for j in the answer and k outside it; m (K - m) of them.

    (Paper, section 2 and appendix "Identification Problems"; the set of pieces is a K x K mask of ordered pairs.)

    Args:
        m: how many arms, 1 .. K - 1.
    """

    m: int = 1
    name: ClassVar[str] = "top-m"

    def __post_init__(self):
        if isinstance(self.m, bool) or not isinstance(self.m, (int, np.integer)) or self.m < 1:
            raise ArgumentError("m", self.m, "an integer from 1 to K - 1")
        object.__setattr__(self, "m", int(self.m))

    def check(self, arms, theta):
        means = arms @ theta
        if self.m >= means.size:
            raise ArgumentError("m", self.m, f"an integer from 1 to K - 1 = {means.size - 1}")
        order = np.sort(means)[::-1]
        if order[self.m - 1] == order[self.m]:
            tied = np.flatnonzero(means == order[self.m])
            raise TieError("instance", f"arms {tied.tolist()} tied across the top-{self.m} boundary", "one top-m set")

    def half_spaces(self, arms, theta):
        order = np.argsort(-(arms @ theta), kind="stable")
        inside, outside = order[: self.m], order[self.m :]
        directions = (arms[inside][:, None] - arms[outside][None]).reshape(-1, arms.shape[1])
        return directions, np.zeros(len(directions))

    def answer(self, space, means, theta_hat):
        return largest(space.lanes, means, self.m)

    def mask(self, answer, means):
        return answer.member

    def _pieces(self, rows: Array) -> Array:
        """What is known of each arm of the answer beside every arm, [m, K, ..], as pieces: [Q, ..]."""
        return rows.reshape((-1, *rows.shape[2:]))

    def _per_arm(self, pieces: Array) -> Array:
        """The inverse: [Q, ..] -> [m, K, ..]."""
        return pieces.reshape((self.m, -1, *pieces.shape[1:]))

    def gap(self, space, means, theta_hat, answer):
        if space.careful:
            rows = jnp.stack([pairwise_gap(space, means, theta_hat, answer.top[r]) for r in range(self.m)])
        else:
            rows = space.lanes.take(means, answer.top)[:, None] - means
        return self._pieces(rows)

    def exists(self, answer, means):
        return self._pieces(jnp.broadcast_to(~answer.member, (self.m, *answer.member.shape)))

    def rows(self, answer):
        return answer.top

    def measure(self, space, design, answer, cross=None):
        cross = design.cross(space, answer.top) if cross is None else cross
        return self._pieces(jnp.swapaxes(design.distances(space, cross, answer.top), 0, 1)), cross

    def along(self, space, design, answer, cross, piece):
        arms = np.asarray(answer.member.shape[0], piece.dtype)
        r, k = jax.lax.div(piece, arms), jax.lax.rem(piece, arms)
        row = cross[:, 0]
        for other in range(1, self.m):  # one pass over all rows, where a gather would go entry by entry
            row = jnp.where(r == other, cross[:, other], row)
        return design.difference(space, row, space.lanes.take(answer.top, r), k)

    def total(self, exists):
        arms = exists.shape[0] // self.m
        return jnp.full(exists.shape[1:], self.m * (arms - self.m), jnp.int32)

    def start(self, means, pair_times=False):
        k = means.shape[0]
        words = (-(-k // _BITS),) + means.shape
        times = jnp.zeros((k,) + means.shape, jnp.int32) if pair_times else None
        return PairTimes(jnp.zeros(words, jnp.uint32), jnp.zeros(means.shape, bool), times)

    def active(self, lanes, pieces, answer):
        words = lanes.column(pieces.worse, answer.top)  # [W, m]
        worse = jnp.swapaxes(unpack(words, answer.member.shape[0]), 0, 1)
        return self._pieces(~worse & ~answer.member)

    def drop(self, lanes, pieces, answer, refuted, t):
        arms = answer.member.shape[0]
        known = lanes.take(pieces.found, answer.top)
        now = self._per_arm(refuted) & ~answer.member & ~known[:, None]
        words = lanes.column(pieces.worse, answer.top) | pack(lanes, jnp.swapaxes(now, 0, 1))
        all_worse = _count(words) >= arms - self.m
        worse, found, times = pieces.worse, pieces.found, pieces.times
        each = index_like(answer.member)
        for r in range(self.m):
            here = each == answer.top[r]
            worse = jnp.where(here[None], words[:, r][:, None], worse)
            found = found | (here & all_worse[r])
            if times is not None:
                fresh = here[:, None] & now[r][None] & (times == 0)
                times = jnp.where(fresh, t, times)
        return PairTimes(worse, found, times)

    def all_refuted(self, space, stats, beta):
        """Which pieces "k is better than j" are refuted, for every ordered pair: [j, k]."""
        def more(refuted, arms):
            for j, row in refuted_rows(space, stats, arms, beta):
                refuted = jax.lax.dynamic_update_index_in_dim(refuted, row, j, 0)
            return refuted

        shape = stats.means.shape
        return by_several(shape[0], more, jnp.zeros(shape[:1] + shape, bool))

    def drop_all(self, lanes, pieces, refuted, t):
        arms = refuted.shape[0]
        now = jnp.swapaxes(refuted, 0, 1) & ~pieces.found[None]  # [k, j]
        words = pieces.worse | pack(lanes, now)
        found = pieces.found | (_count(words) >= arms - self.m)
        times = pieces.times
        if times is not None:
            times = jnp.where(jnp.swapaxes(now, 0, 1) & (times == 0), t, times)
        return PairTimes(words, found, times)

    def tests(self, lanes, pieces, answer, full):
        arms = answer.member.shape[0]
        if full:
            return lanes.sum(jnp.where(pieces.found, 0, arms - 1 - _count(pieces.worse)))
        outside = pack(lanes, ~answer.member)
        words = lanes.column(pieces.worse, answer.top)
        each = jnp.where(lanes.take(pieces.found, answer.top), 0, _count(~words & outside[:, None]))
        return sum(each[r] for r in range(self.m))

    def settled(self, lanes, pieces, answer, full):
        return lanes.sum(pieces.found) >= self.m

    def verdict(self, lanes, pieces, answer, means, full):
        # The found arms of largest mean: all of them, but for the run in which more than m were found.
        return largest(lanes, jnp.where(pieces.found, means, -jnp.inf), self.m).member

    def everything(self, means):
        return jnp.ones((means.shape[0], *means.shape), bool)

    def within(self, lanes, pieces, answer):
        return self._pieces(jnp.swapaxes(lanes.row(pieces, answer.top), 0, 1) & ~answer.member)

    def without(self, lanes, pieces, answer, refuted):
        each, now = index_like(answer.member), self._per_arm(refuted) & ~answer.member
        for r in range(self.m):
            pieces = pieces & ~((each == answer.top[r])[:, None] & now[r][None])
        return pieces

    def times(self, pieces):
        return pieces.times

    def remaining(self, lanes, pieces):
        return lanes.sum(_count(pieces.worse))


def largest(lanes: Lanes, means: Array, m: int) -> TopAnswer:
    """The m largest entries of means [K], ties to the lowest index."""
    each = index_like(means)
    # Entries of -inf can still be chosen, each once: they are told apart from those already taken.
    left = jnp.maximum(means, jnp.finfo(means.dtype).min)
    top = []
    for _ in range(m):
        i = lanes.argmax(left)
        left = jnp.where(each == i, -jnp.inf, left)
        top.append(i)
    return TopAnswer(jnp.stack(top), left == -jnp.inf)
