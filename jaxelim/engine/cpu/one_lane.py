"""The steps of a chunk of a single lane, as one kernel where their operations allow that."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.engine.cpu.one_kernel import Traced, at_run_time

Counted = tuple[Array, Any]
"""The number of steps taken, [] int32, and what they change."""


def taken(chunk: Any, c: Any) -> Counted:
    """Take the steps of a `Chunk`, fewer where the run ends.

    Steps follow each other until the lane asks for `choose`, or is done. All of this is
    one kernel if `choose` can be in it. Otherwise those steps are a kernel.
    """
    spec, flag = chunk.spec, chunk.inputs.flag
    length, start = spec.execution.chunk, (at_run_time(jnp.int32(0), flag), c)
    step = Traced(lambda c: (c[0] + 1, chunk.one_step(*c)), start)

    def free(c: Counted) -> Array:
        return (c[0] < length) & ~c[1].lane.asks[0] & ~c[1].lane.done[0]

    def burst(c: Counted) -> Counted:
        return jax.lax.while_loop(free, step, c)

    if not spec.rule.rare:
        return step.kernel(burst, flag)(start)
    asked = Traced(chunk.choose, c)
    whole = step.allowed and asked.allowed
    inner = burst if whole else step.kernel(burst, flag)

    def more(c: Counted) -> Array:
        return (c[0] < length) & ~c[1].lane.done[0]

    def both(c: Counted) -> Counted:
        n, steps = inner(c)
        return n, jax.lax.cond(steps.lane.asks[0], asked, lambda steps: steps, steps)

    def all_steps(c: Counted) -> Counted:
        return jax.lax.while_loop(more, both, c)

    return step.kernel(all_steps, flag)(start) if whole else all_steps(start)
