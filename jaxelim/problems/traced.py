"""The shape of a problem's pieces, traced, with checks of what its methods return."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import HalfSpaces, Pairs, Pieces
from jaxelim.contracts.returned import blamed, described
from jaxelim.contracts.views import Estimate
from jaxelim.errors import ArgumentError, abbreviate
from jaxelim.lanes import LaneOps

RETURNS = {
    "answer": "an answer(seen) that returns arrays",
    "public": "a public(seen, answer) that returns one bool per arm, or as many as width says",
    "shape": "a shape(seen, answer) that returns Pairs or HalfSpaces of matching lengths",
}


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
