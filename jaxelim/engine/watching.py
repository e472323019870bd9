"""Numbers that are not finite, and NaN scores of a user's rule: they end a run and fail the call.

The estimates of all lanes are read at the end of each chunk: a reward that was not finite
has left its arm without a finite estimate. A user's family or problem may give such
numbers at times only. In its runs each snapshot is read, and of a family each reward.

NumPy's argmax of scores with NaN is the place of the first NaN, an arm like any other. In a user's
rule it is `NO_NUMBER`, which is no arm, so a choice that rests on it is refused.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import shipped
from jaxelim.contracts.views import Snapshot, View
from jaxelim.engine.one_lane import is_literal
from jaxelim.engine.state import Lane, Spec
from jaxelim.families.draws import fold

REWARD, MEANS, EVIDENCE, INTERVAL, POSTERIOR, ARM, ANSWER = range(1, 8)
"""What ends a run: a number that is not finite, or an arm or an answer out of range."""
NO_NUMBER = np.int32(-(2**30) - 7)
"""The choice of an `argmax` or `argmin` over scores with NaN; neither an arm nor a clipped one."""


def marked(fault: Array, bad: Array, code: int, value: Array | int = 0) -> Array:
    """The faults [B] with this one where `bad` [B] holds: 8 v + code, v the arm or the answer.

    The first one stays; but `MEANS`, which may be found late, has led to arms and answers.
    """
    new = jnp.asarray(value, jnp.int64) * 8 + code
    replaced = (fault == 0) | (fault % 8 >= ARM) if code == MEANS else fault == 0
    return jnp.where(bad & replaced, new, fault)


def seen(spec: Spec, seen: Snapshot, view: View, lane: Lane) -> tuple[Array, Array]:
    """The faults after this snapshot, [B], and which lanes are live without one, [B] bool."""
    fault, live, checked = lane.fault, ~lane.done, spec.problem.out_of_range(seen)
    if checked is not None:
        answer, beyond = checked
        fault, live = marked(fault, live & beyond, ANSWER, answer), live & ~beyond
    if shipped(spec.family) and shipped(spec.problem):
        return fault, live
    faults = {
        MEANS: ~jnp.isfinite(view.means),
        EVIDENCE: view.shape.exists & ~jnp.isfinite(view.evidence.values()),
    }
    family = view.family
    needs = () if shipped(family) else spec.rule.needs(family, view.problem)
    if "interval" in needs:
        beta = jnp.log(view.time) if view.beta is None else view.beta
        interval = family.interval(view, view.means, beta)
        faults[INTERVAL] = jnp.isnan(interval.lower) | jnp.isnan(interval.upper)
    if "posterior" in needs and view.key is not None:
        # A rule's own first draw, where it takes its keys from `fold`.
        drawn = family.posterior(fold(view.key, 0), view.counts, view.means)
        faults[POSTERIOR] = ~jnp.isfinite(drawn)
    for code, bad in faults.items():
        fault = marked(fault, live & view.lanes.any(bad), code)
    return fault, live & (fault == 0)


def ended(lane: Lane, bad: Array, code: int) -> Lane:
    """The lanes, ended where `bad` [B] holds."""
    return dataclasses.replace(lane, fault=marked(lane.fault, bad, code), done=lane.done | bad)


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
        given = [read(v) for v in equation.invars]
        primitive, inner = equation.primitive, equation.params.get("jaxpr")
        if primitive.name in ("jit", "pjit", "closed_call") and hasattr(inner, "consts"):
            out = _evaluated(inner, given)
        else:
            params = primitive.get_bind_params(equation.params)
            # By the version of JAX: the parameters, or functions and parameters.
            functions, params = ((), params) if isinstance(params, dict) else params
            found = primitive.bind(*functions, *given, **params)
            out = found if primitive.multiple_results else [found]
        if primitive.name in ("argmax", "argmin") and jnp.issubdtype(given[0].dtype, jnp.floating):
            lost = jnp.any(jnp.isnan(given[0]), equation.params["axes"])
            out = [jnp.where(lost, out[0].dtype.type(NO_NUMBER), out[0])]
        values |= zip(equation.outvars, out, strict=True)
    return [read(v) for v in jaxpr.outvars]
