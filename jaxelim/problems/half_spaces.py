"""Problems given by an answer map and half-spaces for each answer; tests compare others to it."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import scope
from jaxelim.cache import jitted
from jaxelim.checks import real_array
from jaxelim.contracts import PieceSet, Problem, pieces
from jaxelim.errors import ArgumentError
from jaxelim.lanes import pytree, saturated
from jaxelim.returned import blamed


@pytree
class HalfSpaceSet(PieceSet):
    """The times at which the half-spaces of every answer were dropped."""

    dropped: Array  # [A, Q] int32, 0 while active
    problem: "HalfSpaces" = dataclasses.field(metadata={"static": True})

    def active(self, seen):
        return (seen.lanes.row(self.dropped, seen.answer) == 0) & seen.shape.exists

    def drop(self, seen, refuted):
        return self._without(seen, seen.public[:, None] & refuted[None])

    def drop_all(self, seen, beta):
        directions, offsets = seen.space.constants
        (*places, d), lanes = directions.shape, seen.means.shape[1:]

        def wide(x: Array, *shape: int) -> Array:
            flat = x.reshape(-1, *shape, *[1] * len(lanes))
            return jnp.broadcast_to(flat, (offsets.size, *shape, *lanes))

        exists = jnp.ones((offsets.size, *lanes), bool)
        every = seen.about(pieces.HalfSpaces(wide(directions, d), wide(offsets), exists))
        return self._without(seen, every.refuted(beta, exists).reshape(*places, *lanes))

    def _without(self, seen, refuted):
        dropped = jnp.where(refuted & self._left(), seen.stats.t, self.dropped)
        return dataclasses.replace(self, dropped=dropped)

    def _left(self) -> Array:
        """The half-spaces that are active: [A, Q] bool."""
        valid = self.problem.valid
        return (self.dropped == 0) & valid.reshape(valid.shape + (1,) * (self.dropped.ndim - 2))

    def tests(self, seen, full):
        return self.remaining(seen.lanes) if full else self.active_count(seen)

    def settled(self, seen, full):
        left = jnp.any(self._left(), 1)  # [A]
        return ~jnp.all(left, 0) if full else ~seen.lanes.take(left, seen.answer)

    def verdict(self, seen, full):
        left = jnp.any(self._left(), 1)
        empty = seen.lanes.argmin(left.astype(seen.means.dtype))
        other = jnp.where(seen.lanes.take(left, seen.answer), empty, seen.answer)
        return self.problem.public(seen.estimate, other) if full else seen.public

    def times(self):
        return self.dropped

    def remaining(self, lanes):
        return jnp.sum(self._left(), (0, 1), dtype=jnp.int32)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HalfSpaces(Problem):
    """Identify an answer given by half-spaces {lambda : y . lambda <= c}.

    Every answer has its own set of active pieces P_t^stp(i), the paper's general definition.
    A run stops when a tested answer has no active piece.

    Args:
        answer: theta_hat [d] -> the index of the empirical answer, an int32 scalar
            below A; made of jax.numpy operations.
        directions: [A, Q, d], the directions y of each answer's half-spaces; a row of
            zeros means no half-space.
        offsets: [A, Q], the offsets c, in the units of the rewards; None: 0.
    """

    answer_map: Callable[[Array], Array]
    directions: Any
    offsets: Any = None
    name: ClassVar[str] = "half-spaces"
    times_axes: ClassVar[tuple[str, ...]] = ("answer_index", "piece")
    lanes_last: ClassVar[bool] = True
    uses_theta: ClassVar[bool] = True

    def __init__(self, answer, directions, offsets=None):
        if not callable(answer):
            raise ArgumentError("answer", answer, "a function theta_hat [d] -> index of the answer")
        directions = real_array("directions", directions, ndim=3)
        if 0 in directions.shape:
            allowed = "at least one answer, one half-space and one dimension"
            raise ArgumentError("directions", directions.shape, allowed)
        shape = directions.shape[:2]
        given = np.zeros(shape) if offsets is None else offsets
        offsets = real_array("offsets", given, shape=shape)
        vars(self).update(answer_map=answer, directions=directions, offsets=offsets)

    def _key(self):
        y, c = self.directions, self.offsets
        return self.answer_map, y.shape, y.tobytes(), c.tobytes()

    def __eq__(self, other):
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        name = getattr(self.answer_map, "__name__", repr(self.answer_map))
        arrays = f"directions={self.directions.tolist()}, offsets={self.offsets.tolist()}"
        return f"HalfSpaces({name}, {arrays})"

    def __str__(self):
        name = getattr(self.answer_map, "__name__", "..")
        return f"HalfSpaces({name}, directions=<{list(self.directions.shape)}>)"

    def static_part(self):
        ones = np.where(self.valid[..., None], np.ones_like(self.directions), 0)
        return HalfSpaces(self.answer_map, ones)

    def constants(self):
        return self.directions, self.offsets

    @property
    def valid(self) -> np.ndarray:
        return np.any(self.directions != 0, 2)

    def width(self, arms):
        return self.directions.shape[0]

    def scaled(self, scale):
        return HalfSpaces(self.answer_map, self.directions, self.offsets / scale)

    def check_arms(self, arms):
        if arms.shape[1] != self.directions.shape[2]:
            allowed = f"a last axis of d = {arms.shape[1]}"
            raise ArgumentError("directions", self.directions.shape, allowed)

    def check(self, arms, theta):
        allowed = "a function theta_hat [d] -> index of the answer, an integer scalar, made of "
        fault = partial(ArgumentError, "answer", self.answer_map, allowed + "jax.numpy operations")
        with blamed("it", fault), scope.engine():  # the settings of the engine, not the caller's
            i = np.asarray(_jitted(self.answer_map, theta))
        if i.shape != () or i.dtype.kind not in "iu":
            raise fault(f"it gave {i.dtype} of shape {i.shape}")
        if not 0 <= i < len(self.directions):
            raise ArgumentError("answer", int(i), f"an index below {len(self.directions)}")
        inside = self.directions[i] @ theta <= self.offsets[i]
        if np.any(inside & self.valid[i]):
            given = f"theta lies in half-space {int(np.argmax(inside))} of its own answer {i}"
            raise ArgumentError("instance", given, "theta outside every half-space of its answer")

    def answer(self, seen):
        theta_hat: Any = seen.theta_hat  # kept, as `uses_theta` is on
        answer = self.answer_map
        if theta_hat.ndim > 1:
            answer = jax.vmap(answer, in_axes=-1, out_axes=-1)
        return saturated(answer(theta_hat))

    def out_of_range(self, seen):
        return seen.answer, (seen.answer < 0) | (seen.answer >= len(self.directions))

    def in_range(self, arms):
        last = len(self.directions) - 1
        return "answer", f"a function that gives an answer from 0 to {last} at every theta_hat"

    def public(self, seen, answer):
        answers = jnp.arange(len(self.directions), dtype=jnp.int32)
        return answers.reshape((-1,) + (1,) * answer.ndim) == answer

    def shape(self, seen, answer):
        rows = [jnp.asarray(x)[answer] for x in (*seen.constants, self.valid)]
        y, c, exists = (jnp.moveaxis(x, 0, -1) if answer.ndim else x for x in rows)
        return pieces.HalfSpaces(y, c, exists)

    def wrong_answers(self, arms):
        return max(len(self.directions) - 1, 1)

    def pieces(self, seen, pair_times=False):
        shape = (*self.offsets.shape, *seen.means.shape[1:])
        return HalfSpaceSet(jnp.zeros(shape, jnp.int32), self)


_jitted = jitted(lambda answer_map, theta: answer_map(theta))
