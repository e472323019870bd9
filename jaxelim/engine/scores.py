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
from jax.extend import core

from jaxelim.engine.one_kernel import bound

NO_NUMBER = np.int32(-(2**30) - 7)
"""The choice of an `argmax` or `argmin` over scores with NaN; neither an arm nor a clipped one."""

_CHOOSES = ("argmax", "argmin")
_CALLS = ("jit", "pjit", "closed_call")


def watched(f: Callable) -> Callable:
    """f of arrays, where `argmax` and `argmin` give `NO_NUMBER` over scores with NaN.

    Inside loops and branches of f they stay as they are.
    """

    def found(*given: Any) -> Any:
        closed, shapes = jax.make_jaxpr(f, return_shape=True)(*given)
        out = _evaluated(closed, jax.tree.leaves(given))
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return found


def _evaluated(closed: Any, given: list[Array]) -> list[Array]:
    """Evaluate a closed jaxpr."""
    jaxpr = closed.jaxpr
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *given], strict=True))
    read = lambda v: v.val if isinstance(v, core.Literal) else values[v]  # noqa: E731
    for equation in jaxpr.eqns:
        name, taken = equation.primitive.name, [read(v) for v in equation.invars]
        if name in _CALLS and isinstance(inner := equation.params.get("jaxpr"), core.ClosedJaxpr):
            out = _evaluated(inner, taken)
        else:
            out = bound(equation)(*taken)
            out = out if equation.primitive.multiple_results else [out]
        if name in _CHOOSES and jnp.issubdtype(taken[0].dtype, jnp.floating):
            lost = jnp.any(jnp.isnan(taken[0]), equation.params["axes"])
            out = [jnp.where(lost, out[0].dtype.type(NO_NUMBER), out[0])]
        values |= zip(equation.outvars, out, strict=True)
    return [read(v) for v in jaxpr.outvars]
