"""When Track-and-Stop solves for its allocation, how exactly, and one run at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.views import View
from jaxelim.lanes import LaneOps

_LEAST = 1e-6


def due(every: int, view: View) -> Array:
    """Whether this choice looks at w: the run's first one, and each `every`-th from there."""
    return (view.t - 1 - view.start) % every == 0


def gap(share: float, view: View) -> Array:
    """The relative duality gap of this choice: [], float64.

    min(c, max(1e-6, c sqrt(2/Z))), c the share, Z the least LLR at the counts over the active
    pieces of the empirical answer, 0 in ties. H*(theta_hat) itself has a relative error of
    about sqrt(2/Z). With slack it is min(c, 1e-6): solves then decide between answers.
    """
    if view.shape.slack:
        return jnp.full_like(view.time.astype(jnp.float64), min(share, _LEAST))
    values = jnp.where(view.active, view.llr, jnp.inf).astype(jnp.float64)
    least = jnp.maximum(view.lanes.min(values), 2.0)  # below 2 the gap is c
    return jnp.minimum(share, jnp.maximum(share * jnp.sqrt(2 / least), _LEAST))


def by_run(lanes: LaneOps, f: Callable, like: Any, *arguments: Any) -> Any:
    """f(*arguments) of each run; arrays have the lanes last, those of the result as `like`.

    A CPU takes the lanes one after another, a GPU all at once.
    """
    leaf: Array = jax.tree.leaves(like)[0]
    if leaf.ndim == 1:
        return f(*arguments)
    if lanes.flag is None:
        return jax.vmap(f, in_axes=-1, out_axes=-1)(*arguments)
    return lanes.one_by_one(lambda i: f(*jax.tree.map(lambda x: x[..., i], arguments)), like)
