"""A user's own problem: an answer map and, for each answer, half-spaces. Also the definition that the others are held against."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import scope
from jaxelim.base import Problem, refutes
from jaxelim.cache import jitted
from jaxelim.checks import real_array
from jaxelim.errors import ArgumentError, TieError, in_words
from jaxelim.lanes import saturated


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GroupTimes:
    """When each answer's pieces were dropped, 0 while active."""

    dropped: Array  # [A, G] int32


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HalfSpaces(Problem):
    """A problem given by its half-spaces {lambda : y . lambda <= c}; every answer keeps a set of active pieces of its own.

    Elimination is the paper's general definition, P_t^stp(i): selective elimination tests the empirical answer's pieces, full
    elimination those of all answers, and the run stops when one of the tested answers has none left. A piece may be a union of
    half-spaces (`groups`); it falls when all of them are refuted. All in one group is the LLR stopping rule's view.

    Args:
        answer: theta_hat [d] -> the index of the empirical answer, an int32 scalar below A; made of jax.numpy operations.
        directions: [A, Q, d], the directions y of each answer's half-spaces; rows of zeros stand for "no piece here".
        offsets: [A, Q], the offsets c, in the units of the rewards; 0 if left out.
        groups: [A, Q] integers, the piece that each half-space belongs to, 0 .. G - 1; each its own if left out.
    """

    answer_map: Callable[[Array], Array]
    directions: Any
    offsets: Any = None
    groups: Any = None
    name: ClassVar[str] = "half-spaces"
    uses_theta: ClassVar[bool] = True

    def __init__(self, answer, directions, offsets=None, groups=None):
        if not callable(answer):
            raise ArgumentError("answer", answer, "a function theta_hat [d] -> index of the answer")
        directions = real_array("directions", directions, ndim=3)
        if 0 in directions.shape:
            raise ArgumentError("directions", directions.shape, "at least one answer, one half-space and one dimension")
        shape = directions.shape[:2]
        offsets = np.zeros(shape) if offsets is None else real_array("offsets", offsets, shape=shape)
        if groups is None:
            groups = np.broadcast_to(np.arange(shape[1]), shape)
        whole = real_array("groups", groups, shape=shape)
        if np.asarray(groups).dtype.kind not in "iu" or whole.min() < 0 or whole.max() >= whole.size:
            raise ArgumentError("groups", groups, f"integers from 0 to {whole.size - 1} of shape {shape}")
        for name, value in (
            ("answer_map", answer),
            ("directions", directions),
            ("offsets", offsets),
            ("groups", whole.astype(np.int32)),
        ):
            object.__setattr__(self, name, value)

    def _key(self):
        return (self.answer_map, self.directions.tobytes(), self.offsets.tobytes(), self.groups.tobytes(),
                self.directions.shape)

    def __eq__(self, other):
        return isinstance(other, HalfSpaces) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        name = getattr(self.answer_map, "__name__", repr(self.answer_map))
        arrays = ", ".join(f"{key}={getattr(self, key).tolist()}" for key in ("directions", "offsets", "groups"))
        return f"HalfSpaces({name}, {arrays})"

    def __str__(self):
        answers, q, d = self.directions.shape
        return f"HalfSpaces({getattr(self.answer_map, '__name__', '..')}, directions=<[{answers}, {q}, {d}]>)"

    def skeleton(self):
        return HalfSpaces(self.answer_map, np.where(self._valid[..., None], np.ones_like(self.directions), 0), None, self.groups)

    def constants(self):
        return self.directions, self.offsets

    @property
    def _valid(self) -> np.ndarray:
        return np.any(self.directions != 0, 2)

    @property
    def _group_count(self) -> int:
        return int(self.groups.max()) + 1

    def width(self, arms):
        return self.directions.shape[0]

    def scaled(self, noise_std):
        return HalfSpaces(self.answer_map, self.directions, self.offsets / noise_std, self.groups)

    def _answer_of(self, theta: np.ndarray) -> int:
        allowed = "a function theta_hat [d] -> index of the answer, an integer scalar, made of jax.numpy operations"
        try:
            with scope.engine():  # as in the engine, whatever the caller's flags
                index = np.asarray(_jitted(self.answer_map, theta))
        except Exception as error:
            raise ArgumentError("answer", self.answer_map, allowed, f"it raised {in_words(error)}") from error
        if index.shape != () or index.dtype.kind not in "iu":
            raise ArgumentError("answer", self.answer_map, allowed, f"it gave {index.dtype} of shape {index.shape}")
        return int(index)

    def check(self, arms, theta):
        if arms.shape[1] != self.directions.shape[2]:
            raise ArgumentError("directions", self.directions.shape, f"a last axis of d = {arms.shape[1]}")
        i = self._answer_of(theta)
        if not 0 <= i < len(self.directions):
            raise ArgumentError("answer", i, f"an index below {len(self.directions)}")
        inside = self.directions[i] @ theta <= self.offsets[i]
        if np.any(inside & self._valid[i]):
            raise TieError("instance", f"theta lies in half-space {int(np.argmax(inside))} of its own answer {i}",
                           "theta outside every half-space of its answer")

    def half_spaces(self, arms, theta):
        i = self._answer_of(theta)
        valid = self._valid[i]
        return self.directions[i][valid], self.offsets[i][valid]

    def answer(self, space, means, theta_hat):
        assert theta_hat is not None  # kept, as `uses_theta` says
        answer = self.answer_map if theta_hat.ndim == 1 else jax.vmap(self.answer_map, in_axes=-1, out_axes=-1)
        return saturated(answer(theta_hat))

    def out_of_range(self, answer):
        return answer, (answer < 0) | (answer >= len(self.directions))

    def mask(self, answer, means):
        each = jnp.arange(len(self.directions), dtype=jnp.int32)
        return each.reshape((-1,) + (1,) * answer.ndim) == answer

    def _of(self, table: Any, answer: Array) -> Array:
        """table[answer] with lanes last: [A, ..] -> [.., (B)]."""
        rows = jnp.asarray(table)[answer]
        return rows if answer.ndim == 0 else jnp.moveaxis(rows, 0, -1)

    def gap(self, space, means, theta_hat, answer):
        assert theta_hat is not None
        directions, offsets = space.constants
        return jnp.sum(self._of(directions, answer) * theta_hat[None], 1) - self._of(offsets, answer)

    def exists(self, answer, means):
        return self._of(self._valid, answer)

    def measure(self, space, design, answer):
        return design.squares(space, self._of(space.constants[0], answer)), ()

    def along(self, space, design, answer, cross, piece):
        return design.along(space, space.lanes.row(self._of(space.constants[0], answer), piece))

    def start(self, means, pair_times=False):
        shape = (len(self.directions), self._group_count)
        return GroupTimes(jnp.zeros(shape + means.shape[1:], jnp.int32))

    def _members(self) -> np.ndarray:
        """[A, G, Q]: which half-spaces belong to which piece."""
        return (self.groups[:, None] == np.arange(self._group_count)[None, :, None]) & self._valid[:, None]

    def active(self, lanes, pieces, answer):
        dropped = lanes.row(pieces.dropped, answer)  # [G]
        group = self._of(self.groups, answer)
        each = index_like_groups(self._group_count, group)
        alive = jnp.any((group[None] == each) & (dropped == 0)[:, None], 0)
        return alive & self._of(self._valid, answer)

    def drop(self, lanes, pieces, answer, refuted, t):
        return self._dropped(pieces, self._at(answer) & refuted[None], t, only=answer)

    def _at(self, answer: Array) -> Array:
        """Which answer it is: [A, 1] bool, to broadcast against [A, Q] or [A, G]."""
        each = jnp.arange(len(self.directions), dtype=jnp.int32)
        return each.reshape((-1, 1) + (1,) * answer.ndim) == answer

    def _dropped(self, pieces, refuted, t, only=None):
        members = self._members().reshape(self._members().shape + (1,) * (refuted.ndim - 2))
        fallen = jnp.all(jnp.where(members, refuted[:, None], True), 2)  # [A, G]
        if only is not None:
            fallen = fallen & self._at(only)
        return GroupTimes(jnp.where(fallen & (pieces.dropped == 0), t, pieces.dropped))

    def all_refuted(self, space, stats, beta):
        """Which half-spaces of every answer are refuted: [A, Q]."""
        assert stats.theta_hat is not None
        directions, offsets = space.constants
        shape = directions.shape
        flat = directions.reshape(-1, shape[2])
        if stats.means.ndim == 2:
            flat = jnp.broadcast_to(flat[:, :, None], flat.shape + stats.means.shape[1:])
        gap = jnp.sum(flat * stats.theta_hat[None], 1)
        offsets = offsets.reshape((-1,) + (1,) * (gap.ndim - 1))
        refuted = refutes(gap - offsets, stats.design.squares(space, flat), beta)
        return refuted.reshape(shape[:2] + refuted.shape[1:])

    def drop_all(self, lanes, pieces, refuted, t):
        return self._dropped(pieces, refuted, t)

    def tests(self, lanes, pieces, answer, full):
        if not full:
            return lanes.sum(self.active(lanes, pieces, answer))
        sizes = self._members().sum(2).astype(np.int32)
        sizes = jnp.asarray(sizes.reshape(sizes.shape + (1,) * (pieces.dropped.ndim - 2)))
        return jnp.sum(jnp.where(pieces.dropped == 0, sizes, 0), (0, 1), dtype=jnp.int32)

    def settled(self, lanes, pieces, answer, full):
        left = jnp.any(pieces.dropped == 0, 1)  # [A]
        return ~jnp.all(left, 0) if full else ~lanes.take(left, answer)

    def verdict(self, lanes, pieces, answer, means, full):
        if not full:
            return self.mask(answer, means)
        left = jnp.any(pieces.dropped == 0, 1)
        return self.mask(jnp.where(lanes.take(left, answer), lanes.argmin(left.astype(means.dtype)), answer), means)

    def everything(self, means):
        return jnp.ones((*self.groups.shape, *means.shape[1:]), bool)

    def within(self, lanes, pieces, answer):
        return lanes.row(pieces, answer) & self._of(self._valid, answer)

    def without(self, lanes, pieces, answer, refuted):
        return pieces & ~(self._at(answer) & refuted[None])

    def times(self, pieces):
        exists = np.any(self._members(), 2)[..., None]  # beside [.., A, G, B]; a group without members falls at once, unseen
        return jnp.where(exists, pieces.dropped, 0)

    def remaining(self, lanes, pieces):
        exists = np.any(self._members(), 2).reshape(self._members().shape[:2] + (1,) * (pieces.dropped.ndim - 2))
        return jnp.sum((pieces.dropped == 0) & exists, (0, 1), dtype=jnp.int32)


@jitted
def _jitted(answer_map: Callable, theta: Array) -> Array:
    return answer_map(theta)


def index_like_groups(count: int, group: Array) -> Array:
    """0 .. count - 1 along a new first axis, to broadcast against group [Q]: rank one more than group's."""
    return jnp.arange(count, dtype=jnp.int32).reshape((-1,) + (1,) * group.ndim)
