"""Searches for instances, features or arms of extreme T*: projected gradient steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import checks, scope
from jaxelim.errors import ArgumentError


class Found(NamedTuple):
    """What `extreme_time` found."""

    point: np.ndarray  # [..] the best point of all steps
    time: float  # T* there
    times: np.ndarray  # [steps] T* along the search


def extreme_time(
    time: Callable[[jax.Array], Any], start: Any, project: Callable[[jax.Array], Any], *,
    largest: bool = False, steps: int = 100, rate: float = 0.1,
) -> Found:  # fmt: skip
    """Search for a local minimum of T*, or a maximum, by projected gradient steps on log T*.

    T* has kinks, where its gradient does not vanish. So the length of a step follows a schedule
    that falls to zero (cosine). It is not set by coordinate as in Adam: such steps, projected,
    stop at the boundary away from any optimum. The tutorial on allocations has recipes.

    Args:
        time: T* of a point; a pure function of JAX arrays, as `1/optimum(..).value`.
        start: the first point, [..].
        project: the closest allowed point, as of `optax.projections`.
        largest: whether to look for a maximum.
        steps: number of gradient steps.
        rate: length of the first step, Euclidean.

    Returns:
        A `Found`. `complexity` certifies T* of the instance found.

    Raises:
        ArgumentError: an argument is out of range, or T* of the start is not finite.
    """
    import optax  # slow to import

    steps = checks.integer("steps", steps, low=1)
    rate = checks.real("rate", rate, low=0, open=True)
    first = checks.real_array("start", start)
    sign = -1.0 if largest else 1.0
    with scope.engine(), jax.numpy_dtype_promotion("standard"):
        rule = optax.chain(
            optax.normalize_by_update_norm(eps=1e-300),
            optax.sgd(optax.cosine_decay_schedule(rate, steps)),
        )

        def step(carry, _):
            x, state, best, least = carry
            value, slope = jax.value_and_grad(lambda x: sign * jnp.log(time(x)))(x)
            better = value < least
            best, least = jnp.where(better, x, best), jnp.where(better, value, least)
            change, state = rule.update(slope, state, x)
            return (project(x + change), state, best, least), jnp.exp(sign * value)

        @jax.jit
        def run(x):
            carry = x, rule.init(x), x, jnp.asarray(jnp.inf)
            (_, _, best, least), times = jax.lax.scan(step, carry, None, length=steps)
            return best, jnp.exp(sign * least), times

        point, reached, times = jax.device_get(run(jnp.asarray(first)))
    if not np.isfinite(reached):
        raise ArgumentError("start", start, "a point with one correct answer, where T* is finite")
    return Found(point, float(reached), times)
