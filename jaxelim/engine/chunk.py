"""The steps of a chunk, on noise that is drawn at its start."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.engine import records
from jaxelim.engine.one_lane import Traced, as_one_kernel, at_run_time
from jaxelim.engine.state import Carry, Inputs, Lane, Log, Spec
from jaxelim.engine.step import Step


class Varying(NamedTuple):
    """What the steps of a chunk change."""

    lane: Lane  # without the arrays that are fixed over a run
    pulled: Array | None  # [T, B] the arms, where observers stop at different times
    log: Log | None


class Chunk:
    """The steps of one chunk.

    Args:
        spec: the program's.
        inputs: what all runs share.
        lane: at the start of the chunk.
        noise: [T, B].
    """

    def __init__(self, spec: Spec, inputs: Inputs, lane: Lane, noise: Array):
        self.spec, self.step, self.noise = spec, Step(spec), noise
        if spec.execution.single and not spec.per_lane_instances:
            # Made here, since XLA would read the features by columns in every step.
            lanes = spec.execution.lane_ops(inputs.flag)
            transposed = lanes.materialize(jnp.transpose, inputs.features[0])
            inputs = dataclasses.replace(inputs, transposed=transposed)
        self.inputs, self.lane = inputs, lane
        k = inputs.features.shape[1]
        self.narrow = jnp.int16 if k <= jnp.iinfo(jnp.int16).max else jnp.int32

    def begun(self, carry: Carry) -> Varying:
        """The state before the first step."""
        shape = self.spec.execution.chunk, self.spec.execution.lanes
        pulled = None
        if self.spec.observers > 1:
            pulled = jnp.full(shape, -1, self.narrow)
            if self.spec.execution.single:
                pulled = at_run_time(pulled, self.inputs.flag)
        return Varying(carry.lane.varying, pulled, carry.log)

    def one_step(self, n: Array, c: Varying, light: bool = False) -> tuple[Varying, Array]:
        """Step n of the chunk, and where it lacks rare work, which a `light` one leaves out."""
        spec, lane = self.spec, c.lane.with_fixed(self.lane)
        if spec.schedule is not None:
            at = jnp.minimum(lane.stats.t - self.lane.stats.t, spec.execution.chunk - 1)
            noise = spec.execution.lane_ops(self.inputs.flag).take(self.noise, at)
        else:
            noise = jax.lax.dynamic_index_in_dim(self.noise, n, keepdims=False)
        now = self.step.pull(self.inputs, lane, noise, light)
        lane, pulled, log = now.lane, c.pulled, c.log
        if pulled is not None:
            row = now.arm.astype(self.narrow)
            pulled = jax.lax.dynamic_update_index_in_dim(pulled, row, n, 0)
        if log is not None:
            log = records.logged(spec, lane, now.arm, now.reward, now.seen, log)
        return Varying(lane.varying, pulled, log), now.asks

    def taken(self, c: Varying) -> tuple[Array | int, Varying]:
        """Take all steps of the chunk: their number, and the state after them."""
        length = self.spec.execution.chunk
        if self.spec.execution.single:
            return self._alone(c)
        return length, jax.lax.fori_loop(0, length, lambda n, c: self.one_step(n, c)[0], c)

    def _alone(self, c: Varying) -> tuple[Array, Varying]:
        """Take the steps of a single lane, fewer where its run ends.

        They are one kernel if that may hold them. Else light steps are one, which follow each
        other until the lane lacks rare work.
        """
        length, flag = self.spec.execution.chunk, self.inputs.flag
        start = at_run_time(jnp.int32(0), flag), c
        step = Traced(lambda c: (c[0] + 1, self.one_step(*c)[0]), start)

        def more(c: tuple) -> Array:
            return (c[0] < length) & ~c[1].lane.done[0]

        def steps(c: tuple) -> tuple:
            return jax.lax.while_loop(more, step, c)

        if not self.spec.rule.rare or step.allowed:
            return as_one_kernel(steps, flag, start)

        def light(c: tuple) -> tuple:
            after, asks = self.one_step(*c[0], light=True)
            return (c[0][0] + (~asks[0]).astype(jnp.int32), after), asks[0]

        def burst(c: tuple) -> tuple:
            return jax.lax.while_loop(lambda c: more(c[0]) & ~c[1], light, c)

        def both(c: tuple) -> tuple:
            after, asks = as_one_kernel(burst, flag, (c, at_run_time(False, flag)))
            return jax.lax.cond(asks, step, lambda c: c, after)

        return jax.lax.while_loop(more, both, start)
