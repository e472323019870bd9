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

from jaxelim.engine.jaxprs import bound, evaluated

NO_NUMBER = np.int32(-(2**30) - 7)
"""The choice of an `argmax` or `argmin` over scores with NaN; neither an arm nor a clipped one."""

_CHOOSES = ("argmax", "argmin")
_CALLS = ("jit", "pjit", "closed_call")


def watched(f: Callable) -> Callable:
    """f of arrays, where `argmax` and `argmin` give `NO_NUMBER` over scores with NaN.

    Inside loops and branches of f they stay as they are.
    """

    def numbered(*arguments: Any) -> Any:
        closed, shapes = jax.make_jaxpr(f, return_shape=True)(*arguments)
        out = evaluated(closed, jax.tree.leaves(arguments), _applied)
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return numbered


def _applied(equation: Any, values: list[Array]) -> list[Array]:
    """What an equation gives on these arguments."""
    name, inner = equation.primitive.name, equation.params.get("jaxpr")
    if name in _CALLS and hasattr(inner, "consts"):  # a closed jaxpr
        return evaluated(inner, values, _applied)
    out = bound(equation)(*values)
    if name in _CHOOSES and jnp.issubdtype(values[0].dtype, jnp.floating):
        lost = jnp.any(jnp.isnan(values[0]), equation.params["axes"])
        out = [jnp.where(lost, out[0].dtype.type(NO_NUMBER), out[0])]
    return out
