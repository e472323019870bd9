"""Top-m identification."""

import dataclasses
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import PieceSet, Problem
from jaxelim.contracts.shapes import Rows, Shape
from jaxelim.errors import ArgumentError
from jaxelim.lanes import LaneOps, index_like
from jaxelim.numerics.trees import balanced
from jaxelim.problems.masks import made_from, refuted_pairs

_BITS = 32


def pack(lanes: LaneOps, bits: Array) -> Array:
    """Pack bool [K, ..] along axis 0 into uint32 words [ceil(K/32), ..].

    Entry k is bit k % 32 of word k // 32.
    """

    def together(parts: list[Array]) -> Array:
        return balanced(
            jnp.bitwise_or, [x.astype(jnp.uint32) << np.uint32(bit) for bit, x in enumerate(parts)]
        )

    def words(bits: Array) -> Array:
        k = bits.shape[0]
        whole = k // _BITS * _BITS
        blocks = bits[:whole].reshape((-1, _BITS) + bits.shape[1:])
        words_of_blocks = [together([blocks[:, bit] for bit in range(_BITS)])] if whole else []
        rest = [together(list(bits[whole:]))[None]] if whole < k else []
        return jnp.concatenate([*words_of_blocks, *rest])

    return lanes.materialize(words, bits)


def unpack(words: Array, k: int) -> Array:
    """The inverse of `pack`: bool [K, ..]."""
    shifts = jnp.arange(_BITS, dtype=jnp.uint32).reshape((1, _BITS) + (1,) * (words.ndim - 1))
    bits = (words[:, None] >> shifts) & jnp.uint32(1)
    return bits.reshape((-1,) + words.shape[1:])[:k] != 0


def _count(words: Array) -> Array:
    """Count the set bits over axis 0 of words [W, ..]: int32."""
    return balanced(jnp.add, [jax.lax.population_count(word).astype(jnp.int32) for word in words])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TopAnswer:
    """The m arms with the largest means."""

    top: Array  # [m] int32, by decreasing mean (ties: lowest index first)
    member: Array  # [K] bool


def _rows(shape: Shape) -> Rows:
    """The pairs of m arms, `first` [m]; also of one arm, with slack."""
    rows = Rows.of(shape)
    return rows if rows.several else dataclasses.replace(rows, first=rows.first[None])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairSet(PieceSet):
    """The ordered pairs (j, k) of arms whose piece is refuted, as packed bits: k is worse.

    With slack the piece is {mu_k >= mu_j + epsilon}, and arm j is found when all its K - 1
    pieces are refuted. One mask over the arms would not do: an arm may fall to an arm that
    is itself epsilon worse than a third.
    """

    worse: Array  # [W, K] uint32: bit k of column j is set once k is known to be worse than j
    found: Array  # [K] bool: at least K - m arms are known to be worse
    kept_times: Array | None  # [K, K] int32: when each pair (j, k) was dropped, 0 for never
    m: int = dataclasses.field(metadata={"static": True})

    def active(self, seen):
        shape, member = _rows(seen.shape), seen.public
        words = seen.lanes.column(self.worse, shape.first)  # [W, m]
        worse = jnp.swapaxes(unpack(words, member.shape[0]), 0, 1)
        return shape.flat(~worse & ~member)

    @classmethod
    def full(cls, means: Array, m: int, pair_times: bool) -> Self:
        """The set of all pairs of arms; means [K] give the shape."""
        k = means.shape[0]
        worse = jnp.zeros((-(-k // _BITS), *means.shape), jnp.uint32)
        times = jnp.zeros((k, *means.shape), jnp.int32) if pair_times else None
        return cls(worse, jnp.zeros(means.shape, bool), times, m)

    def _with(self, worse, found, times):
        return dataclasses.replace(self, worse=worse, found=found, kept_times=times)

    def drop(self, seen, refuted):
        lanes, shape, member = seen.lanes, _rows(seen.shape), seen.public
        arms, top = member.shape[0], shape.first
        known = lanes.take(self.found, top)
        now = shape.apart(refuted) & ~member & ~known[:, None]
        words = lanes.column(self.worse, top) | pack(lanes, jnp.swapaxes(now, 0, 1))
        all_worse = _count(words) >= arms - self.m
        worse, found, times = self.worse, self.found, self.kept_times
        index = index_like(member)
        for r in range(self.m):
            here = index == top[r]
            worse = jnp.where(here[None], words[:, r][:, None], worse)
            found = found | (here & all_worse[r])
            if times is not None:
                fresh = here[:, None] & now[r][None] & (times == 0)
                times = jnp.where(fresh, seen.stats.t, times)
        return self._with(worse, found, times)

    def drop_all(self, seen, beta):
        refuted = refuted_pairs(seen, beta)
        now = jnp.swapaxes(refuted, 0, 1) & ~self.found[None]  # [k, j]
        words = self.worse | pack(seen.lanes, now)
        found = self.found | (_count(words) >= refuted.shape[0] - self.m)
        times = self.kept_times
        if times is not None:
            times = jnp.where(jnp.swapaxes(now, 0, 1) & (times == 0), seen.stats.t, times)
        return self._with(words, found, times)

    def tests(self, seen, full):
        lanes, top, member = seen.lanes, _rows(seen.shape).first, seen.public
        if full:
            return lanes.sum(jnp.where(self.found, 0, member.shape[0] - 1 - _count(self.worse)))
        outside = pack(lanes, ~member)
        open_ = _count(~lanes.column(self.worse, top) & outside[:, None])
        tests = jnp.where(lanes.take(self.found, top), 0, open_)
        return sum(tests[r] for r in range(self.m))

    def settled(self, seen, full):
        return seen.lanes.sum(self.found) >= self.m

    def verdict(self, seen, full):
        # The found arms of largest mean, as one step can find more than m in all.
        means = jnp.where(self.found, seen.means, -jnp.inf)
        return largest(seen.lanes, means, self.m).member

    def restarting(self, seen):
        return made_from(seen.shape, seen)

    def times(self):
        return self.kept_times

    def remaining(self, lanes):
        return lanes.sum(_count(self.worse))


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class TopM(Problem):
    """Identify the m arms with the largest means.

    Pieces: y = phi_j - phi_k, c = 0, for j in the answer and k outside it; m (K - m) of
    them. The set of pieces is a K x K mask of ordered pairs. (Paper, section 2 and
    appendix "Identification Problems".)

    Args:
        m: number of arms to identify, 1 .. K - 1.
    """

    m: int = 1
    name: ClassVar[str] = "top-m"
    times_axes: ClassVar[tuple[str, ...]] = ("better", "worse")
    lanes_last: ClassVar[bool] = True

    def __post_init__(self):
        whole = isinstance(self.m, int | np.integer) and not isinstance(self.m, bool)
        if not whole or self.m < 1:
            raise ArgumentError("m", self.m, "an integer from 1 to K - 1")
        object.__setattr__(self, "m", int(self.m))

    def check_arms(self, arms):
        if self.m >= len(arms):
            raise ArgumentError("m", self.m, f"an integer from 1 to K - 1 = {len(arms) - 1}")

    def check(self, arms, theta):
        means = arms @ theta
        order = np.sort(means)[::-1]
        if order[self.m - 1] == order[self.m]:
            tied = np.flatnonzero(means == order[self.m]).tolist()
            where = f"arms {tied} tied across the top-{self.m} boundary"
            raise ArgumentError("instance", where, "one top-m set")

    def half_spaces(self, arms, theta):
        order = np.argsort(-(arms @ theta), kind="stable")
        inside, outside = order[: self.m], order[self.m :]
        directions = (arms[inside][:, None] - arms[outside][None]).reshape(-1, arms.shape[1])
        return directions, np.zeros(len(directions))

    def answer(self, seen):
        return largest(seen.lanes, seen.means, self.m)

    def public(self, seen, answer):
        return answer.member

    def shape(self, seen, answer):
        arms = answer.member.shape[0]
        exists = jnp.broadcast_to(~answer.member, (self.m, *answer.member.shape))
        exists = exists.reshape((-1, *exists.shape[2:]))
        return Rows(answer.top, exists, self.m * (arms - self.m))

    def wrong_answers(self, arms):
        return self.m * (arms - self.m)

    def pieces(self, seen, pair_times=False):
        return PairSet.full(seen.means, self.m, pair_times)


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
