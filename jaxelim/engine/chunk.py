"""The steps of a chunk, on noise that is drawn at its start."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.engine import records
from jaxelim.engine.execution import LANE_GROUP
from jaxelim.engine.one_lane import Traced, as_one_kernel, at_run_time
from jaxelim.engine.state import Carry, Inputs, Lane, Log, Spec
from jaxelim.engine.step import Step, outline

BURST = 4
"""Fast steps between polls for waiting lanes.

With one group of lanes there is one step between polls, as most lanes wait then.
"""


class Varying(NamedTuple):
    """What the steps of a chunk change."""

    lane: Lane  # without the arrays that are fixed over a run
    pulled: Array | None  # [T, B] the arms, where observers stop at different times
    log: Log | None
    chooses: Array  # [] int64


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
        return Varying(carry.lane.varying, pulled, carry.log, carry.chooses)

    def one_step(self, n: Array, c: Varying) -> Varying:
        """Step n of the chunk."""
        spec, lane = self.spec, c.lane.with_fixed(self.lane)
        if spec.rule.rare or spec.schedule is not None:
            at = jnp.minimum(lane.stats.t - self.lane.stats.t, spec.execution.chunk - 1)
            noise = spec.execution.lane_ops(self.inputs.flag).take(self.noise, at)
        else:
            noise = jax.lax.dynamic_index_in_dim(self.noise, n, keepdims=False)
        now = self.step.pull(self.inputs, lane, noise)
        lane, pulled, log = now.lane, c.pulled, c.log
        if pulled is not None:
            row = now.arm.astype(self.narrow)
            pulled = jax.lax.dynamic_update_index_in_dim(pulled, row, n, 0)
        if log is not None:
            log = records.logged(spec, lane, now.arm, now.reward, now.seen, log)
        return Varying(lane.varying, pulled, log, c.chooses)

    def choose(self, c: Varying) -> Varying:
        """A call of `choose` for lanes that ask."""
        lane = self.step.asking.choose(self.inputs, c.lane.with_fixed(self.lane))
        return c._replace(lane=lane.varying, chooses=c.chooses + 1)

    def taken(self, c: Varying) -> tuple[Array | int, Varying]:
        """Take all steps of the chunk: their number, and the state after them."""
        execution, inputs = self.spec.execution, self.inputs
        if execution.single:
            return self._alone(c)
        if self.spec.rule.rare:
            return inputs.steps, self._two_speeds(c)
        return execution.chunk, jax.lax.fori_loop(0, execution.chunk, self.one_step, c)

    def _alone(self, c: Varying) -> tuple[Array, Varying]:
        """Take the steps of a single lane, fewer where its run ends.

        Steps follow each other until the lane asks for `choose`, or is done. All of this is
        one kernel if `choose` can be in it. Otherwise those steps are a kernel.
        """
        length, flag = self.spec.execution.chunk, self.inputs.flag
        start = at_run_time(jnp.int32(0), flag), c
        step = Traced(lambda c: (c[0] + 1, self.one_step(*c)), start)

        def more(c: tuple[Array, Varying]) -> Array:
            return (c[0] < length) & ~c[1].lane.done[0]

        def burst(c: tuple[Array, Varying]) -> tuple[Array, Varying]:
            return jax.lax.while_loop(lambda c: more(c) & ~c[1].lane.asks[0], step, c)

        if not self.spec.rule.rare:
            return as_one_kernel(burst, flag, start)
        asked = Traced(self.choose, c)

        def both(c: tuple[Array, Varying]) -> tuple[Array, Varying]:
            n, steps = burst(c) if asked.allowed else as_one_kernel(burst, flag, c)
            return n, jax.lax.cond(steps.lane.asks[0], asked, lambda steps: steps, steps)

        def all_steps(c: tuple[Array, Varying]) -> tuple[Array, Varying]:
            return jax.lax.while_loop(more, both, c)

        return as_one_kernel(all_steps, flag, start) if asked.allowed else all_steps(start)

    def _two_speeds(self, c: Varying) -> Varying:
        """Take bursts of steps, with calls of `choose` for waiting lanes in between."""
        steps = 1 if self.spec.execution.lanes <= LANE_GROUP else BURST
        patience = outline(self.spec, self.inputs).patience

        def count(x: Array) -> Array:
            return jnp.sum(x, dtype=jnp.float32)

        def enough(c: Varying) -> Array:
            asking, live = count(c.lane.asks), count(~c.lane.done)
            return (asking > 0) & (asking >= patience * live)

        def chosen(c: Varying) -> Varying:
            return jax.lax.while_loop(enough, self.choose, c)

        def burst(i: Array, c: Varying) -> Varying:
            c = jax.lax.fori_loop(0, steps, lambda n, c: self.one_step(i * steps + n, c), c)
            # Only what `choose` changes is in the loop's state. It is in a branch, since XLA would
            # compute what does not change in the loop before its test.
            bare = c._replace(pulled=None, log=None)
            bare = jax.lax.cond(enough(bare), chosen, lambda c: c, bare)
            return bare._replace(pulled=c.pulled, log=c.log)

        return jax.lax.fori_loop(0, self.inputs.steps // steps, burst, c)
