"""Walks over traced functions: their operations, and their evaluation one by one.

Jaxprs and literals are told by their attributes: `jax.extend`, which has their classes,
imports Pallas too, and takes a tenth of the package's import.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax import Array
from jax.core import eval_jaxpr

_INSIDE = frozenset({"cond", "while", "jit", "pjit", "scan", "custom_jvp_call", "custom_vjp_call",
                     "closed_call"})  # fmt: skip
"""Primitives whose own functions are looked into."""


def functions(params: dict[str, Any]) -> Iterator[Any]:
    """The jaxprs among an equation's parameters."""
    for value in params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            inner = getattr(part, "jaxpr", part)  # of a closed jaxpr
            if hasattr(inner, "eqns"):
                yield inner


def is_literal(v: Any) -> bool:
    """Whether an operand is a number written into the jaxpr; else it is a variable."""
    return hasattr(v, "val")


def operations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr: those of branches, loops and calls before these themselves."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in _INSIDE:
            for inner in functions(equation.params):
                yield from operations(inner)
        yield equation


def composite(equation: Any) -> bool:
    """Whether an equation is a branch, a loop or a call, whose operations are listed themselves."""
    return equation.primitive.name in _INSIDE


def bound(equation: Any) -> Callable:
    """The operation of an equation, a function of arrays that returns a list of arrays."""
    params = equation.primitive.get_bind_params(equation.params)
    # By the version of JAX: the parameters, or functions and parameters.
    inner, params = ((), params) if isinstance(params, dict) else params

    def operation(*x: Array) -> list[Array]:
        out = equation.primitive.bind(*inner, *x, **params)
        return out if equation.primitive.multiple_results else [out]

    return operation


def evaluated(
    closed: Any, leaves: list[Array], apply: Callable[[Any, list[Array]], list[Array]]
) -> list[Array]:
    """Evaluate a closed jaxpr; `apply` evaluates an equation on its arguments."""
    jaxpr = closed.jaxpr
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *leaves], strict=True))

    def read(v: Any) -> Any:
        return v.val if is_literal(v) else values[v]

    for equation in jaxpr.eqns:
        out = apply(equation, [read(v) for v in equation.invars])
        values |= zip(equation.outvars, out, strict=True)
    return [read(v) for v in jaxpr.outvars]


def traced_once(f: Callable) -> Callable:
    """f of pytrees, traced once for each layout of its arguments.

    Operations keep their lines of f, which profiles name; those of an inlined `jax.jit` do not.
    """
    jitted = jax.jit(f)

    def g(*arguments: Any) -> Any:
        traced = jitted.trace(*arguments)
        closed = traced.jaxpr
        out = eval_jaxpr(closed.jaxpr, closed.consts, *jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(traced.out_info), out)

    return g
