"""The steps of a chunk of a single lane, as one kernel where their operations allow that."""

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.engine.one_kernel import Traced, at_run_time
from jaxelim.engine.stepping import Stepping, Steps

Counted = tuple[Array, Steps]
"""The number of steps taken, [] int32, and what they change."""


def stepped(stepping: Stepping, c: Steps) -> Counted:
    """Take `chunk` steps, fewer where the run ends.

    Steps follow each other until the lane asks for `choose`, or is done. All of this is
    one kernel if `choose` can be in it. Otherwise those steps are a kernel, and each
    loop of `choose` that can be.
    """
    spec, flag = stepping.spec, stepping.inputs.flag
    tagged = spec.tuned
    start = at_run_time(jnp.int32(0), flag), c

    def step(c: Counted) -> Counted:
        return c[0] + 1, stepping.one(c[0], c[1])

    one = Traced(step, start)

    def free(c: Counted) -> Array:
        return (c[0] < spec.chunk) & ~c[1].lane.asks[0] & ~c[1].lane.done[0]

    def burst(c: Counted) -> Counted:
        return jax.lax.while_loop(free, one, c)

    if spec.rule.fast is None:
        return one.kernel(burst, flag)(start) if tagged else burst(start)
    asked = Traced(stepping.asked, c)
    whole = tagged and one.allowed and asked.allowed
    inner = one.kernel(burst, flag) if tagged and not whole else burst
    choose = asked.with_kernels(flag) if tagged and not whole else asked

    def more(c: Counted) -> Array:
        return (c[0] < spec.chunk) & ~c[1].lane.done[0]

    def both(c: Counted) -> Counted:
        n, steps = inner(c)
        return n, jax.lax.cond(steps.lane.asks[0], choose, lambda steps: steps, steps)

    def chunk(c: Counted) -> Counted:
        return jax.lax.while_loop(more, both, c)

    return one.kernel(chunk, flag)(start) if whole else chunk(start)
