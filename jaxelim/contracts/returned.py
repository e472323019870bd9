"""What the methods of a user's class return: calls of them, and words for results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import scope
from jaxelim.checks import shipped
from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import HalfSpaces, Pairs, Pieces
from jaxelim.contracts.views import Estimate
from jaxelim.errors import ArgumentError, JaxelimError, abbreviate, in_words
from jaxelim.lanes import LaneOps

_RETURNS = {
    "answer": "an answer(seen) that returns arrays",
    "public": "a public(seen, answer) that returns one bool per arm, or as many as width says",
    "shape": "a shape(seen, answer) that returns Pairs or HalfSpaces of matching lengths",
}


@contextmanager
def blamed(
    method: str, fault: Callable[[str], Exception], hint: Callable[[Exception], str] | None = None
) -> Iterator[None]:
    """Turn what a user's method raises into `fault(note)`; the library's own exceptions pass.

    The note is such as "choose raised ValueError: ..", with the hint on that exception.
    """
    try:
        yield
    except (JaxelimError, FloatingPointError):  # JAX's debug_nans raises the latter
        raise
    except Exception as error:
        more = "" if hint is None else hint(error)
        raise fault(f"{method} raised {in_words(error)}{more}") from error


def described(x: Any) -> str:
    """Describe an array by dtype and shape, a sequence by length, other objects by type."""
    if isinstance(x, tuple | list):
        return f"a {type(x).__name__} of length {len(x)}"
    if isinstance(x, Array | jax.ShapeDtypeStruct | np.ndarray | np.generic):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    return "None" if x is None else f"of type {type(x).__name__}"


def array_of(x: Any) -> Array | None:
    """x as an array; None where it is none."""
    try:
        return jnp.asarray(x)
    except (TypeError, ValueError):
        return None


def traced_shape(problem: Problem, arms: int, dimensions: int) -> Pieces:
    """The shape of the problem's pieces, with shapes and dtypes in place of arrays.

    Raises:
        ArgumentError: a method raises, or its result breaks its contract.
    """
    return (_kept_shape if shipped(problem) else _traced_shape)(problem, arms, dimensions)


def _traced_shape(problem: Problem, arms: int, dimensions: int) -> Pieces:
    def ask(name: str, *arguments: Any) -> Any:
        allowed = _RETURNS[name] + "; made of jax.numpy operations"
        with blamed(name, partial(ArgumentError, "problem", problem, allowed)):
            return getattr(problem, name)(*arguments)

    def fault(name: str, note: str) -> ArgumentError:
        return ArgumentError("problem", problem, _RETURNS[name], f"{name} returned {note}")

    def traced(means, theta, constants):
        seen = Estimate(LaneOps(), means, theta, constants)
        answer = ask("answer", seen)
        if not all(isinstance(x, jax.Array) for x in jax.tree.leaves(answer)):
            raise fault("answer", "a pytree with leaves that are no arrays")
        public = ask("public", seen, answer)
        width = problem.width(arms)
        if getattr(public, "shape", None) != (width,) or public.dtype != jnp.bool_:
            raise fault("public", abbreviate(public))
        shape = ask("shape", seen, answer)
        if wrong := _wrong_lengths(shape, arms):
            raise fault("shape", wrong)
        return shape

    with scope.engine():
        return jax.eval_shape(traced, np.zeros(arms), np.zeros(dimensions), problem.constants())


_kept_shape = lru_cache(256)(_traced_shape)  # tracing takes as long as a solve of H*


def _wrong_lengths(shape: Any, arms: int) -> str:
    """What is wrong with a shape of K arms; empty if nothing is."""
    if not isinstance(shape, Pairs | HalfSpaces):
        return f"a {type(shape).__name__}"
    exists = shape.exists
    if exists.dtype != jnp.bool_ or exists.ndim != 1:
        return f"exists of {described(exists)}"
    if isinstance(shape, HalfSpaces):
        return ""
    if shape.first is None:
        above: Any = shape.above
        like = getattr(above, "shape", ()), getattr(above, "dtype", None), exists.shape
        right = like == ((arms,), jnp.bool_, (arms,)) and shape.level is not None
        return "" if right else f"above of {described(above)}"
    first, rows = shape.first, 1 if shape.first.ndim == 0 else shape.first.shape[0]
    whole = first.dtype.kind in "iu" and first.ndim < 2 and exists.size % rows == 0
    if whole and (shape.items or exists.size == rows * (arms + shape.refers)):
        return ""
    return f"first of {described(first)} with {exists.size} places"
