"""Top-m identification."""

import dataclasses
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import PieceSet, Problem, looks
from jaxelim.contracts.shapes import Rows
from jaxelim.errors import ArgumentError, TieError
from jaxelim.lanes import LaneOps, index_like, over_arm_blocks
from jaxelim.numerics.trees import balanced

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
        found = [together([blocks[:, bit] for bit in range(_BITS)])] if whole else []
        rest = [together(list(bits[whole:]))[None]] if whole < k else []
        return jnp.concatenate([*found, *rest])

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


def refuted_pairs(seen, beta) -> Array:
    """Whether beta refutes the piece {mu_j <= mu_k}, for every ordered pair: [j, k] bool."""
    if seen.threshold is not None:
        return looks.refuted_pairs(seen, beta)

    def more(refuted, arms):
        for j, row in seen.family.refuted_pairs(seen, arms, beta):
            if seen.shape.slack:  # else an arm is never refuted against itself
                row = row & (index_like(row) != j)
            refuted = jax.lax.dynamic_update_index_in_dim(refuted, row, j, 0)
        return refuted

    shape = seen.means.shape
    return over_arm_blocks(shape[0], more, jnp.zeros(shape[:1] + shape, bool))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairSet(PieceSet):
    """The ordered pairs of arms of which one is known to be worse, as packed bits."""

    worse: Array  # [W, K] uint32: bit k of column j is set once k is known to be worse than j
    found: Array  # [K] bool: at least K - m arms are known to be worse
    kept_times: Array | None  # [K, K] int32: when each pair (j, k) was dropped, 0 for never
    m: int = dataclasses.field(metadata={"static": True})

    def active(self, seen):
        answer = seen.answer
        words = seen.lanes.column(self.worse, answer.top)  # [W, m]
        worse = jnp.swapaxes(unpack(words, answer.member.shape[0]), 0, 1)
        return Rows.of(seen.shape).flat(~worse & ~answer.member)

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
        lanes, answer = seen.lanes, seen.answer
        arms = answer.member.shape[0]
        known = lanes.take(self.found, answer.top)
        now = Rows.of(seen.shape).apart(refuted) & ~answer.member & ~known[:, None]
        words = lanes.column(self.worse, answer.top) | pack(lanes, jnp.swapaxes(now, 0, 1))
        all_worse = _count(words) >= arms - self.m
        worse, found, times = self.worse, self.found, self.kept_times
        each = index_like(answer.member)
        for r in range(self.m):
            here = each == answer.top[r]
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
        lanes, answer = seen.lanes, seen.answer
        arms = answer.member.shape[0]
        if full:
            return lanes.sum(jnp.where(self.found, 0, arms - 1 - _count(self.worse)))
        outside = pack(lanes, ~answer.member)
        words = lanes.column(self.worse, answer.top)
        open_ = _count(~words & outside[:, None])
        each = jnp.where(lanes.take(self.found, answer.top), 0, open_)
        return sum(each[r] for r in range(self.m))

    def settled(self, seen, full):
        return seen.lanes.sum(self.found) >= self.m

    def verdict(self, seen, full):
        # The found arms of largest mean, as one step can find more than m in all.
        found = jnp.where(self.found, seen.means, -jnp.inf)
        return largest(seen.lanes, found, self.m).member

    def times(self):
        return self.kept_times

    def remaining(self, lanes):
        return lanes.sum(_count(self.worse))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairMask(PieceSet):
    """A mask over the ordered pairs of arms."""

    left: Array  # [K, K] bool

    def active(self, seen):
        rows = jnp.swapaxes(seen.lanes.row(self.left, seen.answer.top), 0, 1)
        return Rows.of(seen.shape).flat(rows & ~seen.answer.member)

    def drop(self, seen, refuted):
        answer, left = seen.answer, self.left
        each, now = index_like(answer.member), Rows.of(seen.shape).apart(refuted) & ~answer.member
        for r in range(answer.top.shape[0]):
            left = left & ~((each == answer.top[r])[:, None] & now[r][None])
        return PairMask(left)

    def drop_all(self, seen, beta):
        return PairMask(self.left & ~refuted_pairs(seen, beta))


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
            given = f"arms {tied} tied across the top-{self.m} boundary"
            raise TieError("instance", given, "one top-m set")

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

    def plain_pieces(self, seen):
        means = seen.means
        return PairMask(jnp.ones((means.shape[0], *means.shape), bool))


def largest(lanes: LaneOps, means: Array, m: int) -> TopAnswer:
    """The m largest entries of means [K], ties to the lowest index."""
    each = index_like(means)
    # Entries of -inf become the lowest finite number, which differs from the mark of chosen ones.
    left = jnp.maximum(means, jnp.finfo(means.dtype).min)
    top = []
    for _ in range(m):
        i = lanes.argmax(left)
        left = jnp.where(each == i, -jnp.inf, left)
        top.append(i)
    return TopAnswer(jnp.stack(top), left == -jnp.inf)
