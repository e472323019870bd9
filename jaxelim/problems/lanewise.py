"""Problems written for one run, run in lanes; and sets of pieces made from shapes."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import HalfSpaces, Pairs, Pieces
from jaxelim.contracts.returned import blamed, described
from jaxelim.contracts.views import Estimate
from jaxelim.errors import ArgumentError, abbreviate
from jaxelim.lanes import LaneOps, saturated
from jaxelim.problems.sets import made_from

_SHARED = (
    "name", "uses_theta", "shared_answers", "times_axes", "answer_axis", "m", "epsilon",
)  # fmt: skip
"""What a problem in lanes has of the problem that it adapts."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Lanewise(Problem):
    """A problem adapted to lanes.

    Calls its methods under `jax.vmap` unless they are lanes-last. Makes its set of
    pieces by `made_from` unless it defines one.
    """

    of: Problem

    lanes_last: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in _SHARED:
            object.__setattr__(self, name, getattr(self.of, name))

    def check_arms(self, arms):
        self.of.check_arms(arms)

    def check(self, arms, theta):
        self.of.check(arms, theta)

    def width(self, arms):
        return self.of.width(arms)

    def wrong_answers(self, arms):
        return self.of.wrong_answers(arms)

    def constants(self):
        return self.of.constants()

    def in_range(self, arms):
        return self.of.in_range(arms)

    def _of_lanes(self, method: Callable, seen: Any, *answer: Any) -> Any:
        """What a method of the adapted problem returns, in lanes."""
        if self.of.lanes_last or seen.means.ndim == 1:
            return method(seen, *answer)
        alone = dataclasses.replace(seen, lanes=seen.lanes.alone)
        axes = jax.tree.map(lambda _: -1, dataclasses.replace(alone, constants=()))
        constants = jax.tree.map(lambda _: None, seen.constants)
        axes = dataclasses.replace(axes, constants=constants)
        of_answer = [jax.tree.map(lambda _: -1, tree) for tree in answer]
        return jax.vmap(method, in_axes=(axes, *of_answer), out_axes=-1)(alone, *answer)

    def answer(self, seen):
        return self._of_lanes(self.of.answer, seen)

    def public(self, seen, answer):
        return self._of_lanes(self.of.public, seen, answer)

    def shape(self, seen, answer):
        shape = self._of_lanes(self.of.shape, seen, answer)
        if isinstance(shape, Pairs) and not shape.signs:
            return dataclasses.replace(shape, first=saturated(shape.first))
        return shape

    def out_of_range(self, seen):
        if type(self.of).out_of_range is not Problem.out_of_range:
            return self.of.out_of_range(seen)
        shape = seen.shape
        if not isinstance(shape, Pairs) or shape.signs:
            return None
        first: Any = shape.first
        number = jnp.where((first < 0) | (first >= shape.candidates), first, 0)
        if shape.several:
            number = jnp.max(number, 0) + jnp.where(jnp.max(number, 0) == 0, jnp.min(number, 0), 0)
        return number, number != 0

    def pieces(self, seen, pair_times=False):
        if type(self.of).pieces is not Problem.pieces:
            return self.of.pieces(seen, pair_times)
        return made_from(seen)


RETURNS = {
    "answer": "an answer(seen) that returns arrays",
    "public": "a public(seen, answer) that returns one bool per arm, or as many as width says",
    "shape": "a shape(seen, answer) that returns Pairs or HalfSpaces of matching lengths",
}
"""The contract of each method, in words."""


def traced_shape(problem: Problem, arms: int, dimensions: int) -> Pieces:
    """The shape of the problem's pieces, with shapes and dtypes in place of arrays.

    Raises:
        ArgumentError: a method raises, or its result breaks its contract.
    """

    def ask(name: str, *arguments: Any) -> Any:
        allowed = RETURNS[name] + "; made of jax.numpy operations"
        with blamed(name, partial(ArgumentError, "problem", problem, allowed)):
            return getattr(problem, name)(*arguments)

    def fault(name: str, note: str) -> ArgumentError:
        return ArgumentError("problem", problem, RETURNS[name], f"{name} returned {note}")

    def traced(means, theta, constants):
        seen = Estimate(LaneOps(), means, theta, constants)
        answer = ask("answer", seen)
        if not all(isinstance(x, jax.Array) for x in jax.tree.leaves(answer)):
            raise fault("answer", "a pytree with leaves that are no arrays")
        public = ask("public", seen, answer)
        width = problem.width(arms)
        if getattr(public, "shape", None) != (width,) or public.dtype != jnp.bool_:
            raise fault("public", f"{abbreviate(public)}")
        shape = ask("shape", seen, answer)
        _check_lengths(shape, arms, lambda note: fault("shape", note))
        return shape

    with scope.engine():
        return jax.eval_shape(traced, np.zeros(arms), np.zeros(dimensions), problem.constants())


def _check_lengths(shape: Any, arms: int, fault: Callable[[str], Exception]) -> None:
    if not isinstance(shape, Pairs | HalfSpaces):
        raise fault(f"a {type(shape).__name__}")
    exists = shape.exists
    if exists.dtype != jnp.bool_ or exists.ndim != 1:
        raise fault(f"exists of {described(exists)}")
    if isinstance(shape, HalfSpaces):
        return
    if shape.first is None:
        above: Any = shape.above
        like = getattr(above, "shape", ()), getattr(above, "dtype", None), exists.shape
        if like != ((arms,), jnp.bool_, (arms,)) or shape.level is None:
            raise fault(f"above of {described(above)}")
        return
    first, rows = shape.first, 1 if shape.first.ndim == 0 else shape.first.shape[0]
    whole = first.dtype.kind in "iu" and first.ndim < 2 and exists.size % rows == 0
    if not whole or (not shape.items and exists.size != rows * (arms + shape.refers)):
        raise fault(f"first of {described(first)} with {exists.size} places")


def in_lanes(problem: Problem) -> Problem:
    """The problem in the form that the engine takes."""
    complete = type(problem).pieces is not Problem.pieces
    return problem if problem.lanes_last and complete else Lanewise(problem)


def unadapted(problem: Problem) -> Problem:
    """The problem that `in_lanes` was given."""
    return problem.of if isinstance(problem, Lanewise) else problem
