"""Finds scores that are not numbers in the choices of a user's rule.

NumPy's argmax of scores with NaN is the place of the first NaN, an arm like any other. Here
it is `NO_NUMBER`, which is no arm, so a choice that rests on it is refused.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.engine.one_lane import is_literal

NO_NUMBER = np.int32(-(2**30) - 7)
"""The choice of an `argmax` or `argmin` over scores with NaN; neither an arm nor a clipped one."""


def watched(f: Callable) -> Callable:
    """f of arrays, where `argmax` and `argmin` give `NO_NUMBER` over scores with NaN.

    Inside loops and branches of f they stay as they are.
    """

    def numbered(*arguments: Any) -> Any:
        closed, shapes = jax.make_jaxpr(f, return_shape=True)(*arguments)
        out = _evaluated(closed, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return numbered


def _evaluated(closed: Any, leaves: list[Array]) -> list[Array]:
    """What a closed jaxpr gives on arrays."""
    jaxpr = closed.jaxpr
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *leaves], strict=True))

    def read(v: Any) -> Any:
        return v.val if is_literal(v) else values[v]

    for equation in jaxpr.eqns:
        out = _applied(equation, [read(v) for v in equation.invars])
        values |= zip(equation.outvars, out, strict=True)
    return [read(v) for v in jaxpr.outvars]


def _applied(equation: Any, values: list[Array]) -> list[Array]:
    """What an equation gives on these arguments."""
    primitive, inner = equation.primitive, equation.params.get("jaxpr")
    if primitive.name in ("jit", "pjit", "closed_call") and hasattr(inner, "consts"):
        return _evaluated(inner, values)
    params = primitive.get_bind_params(equation.params)
    # By the version of JAX: the parameters, or functions and parameters.
    functions, params = ((), params) if isinstance(params, dict) else params
    found = primitive.bind(*functions, *values, **params)
    out = found if primitive.multiple_results else [found]
    if primitive.name in ("argmax", "argmin") and jnp.issubdtype(values[0].dtype, jnp.floating):
        lost = jnp.any(jnp.isnan(values[0]), equation.params["axes"])
        out = [jnp.where(lost, out[0].dtype.type(NO_NUMBER), out[0])]
    return out
