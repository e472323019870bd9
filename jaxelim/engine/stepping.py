"""The steps of a chunk: one step of all lanes on the chunk's noise, or a call of `choose`."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.engine import one_kernel, records
from jaxelim.engine.state import Carry, Inputs, Lane, Log, Spec
from jaxelim.engine.step import Step

_FIXED = ("features", "nature", "prepared", "delta")
"""Arrays of a lane that are fixed over a run; they stay outside the state of the loops."""


class Steps(NamedTuple):
    """What the steps of a chunk change."""

    lane: Lane  # without the arrays that are fixed over a run
    pulled: Array | None  # [T, B] the arms, where observers stop at different times
    log: Log | None
    chooses: Array  # [] int64


class Stepping:
    """Steps within one chunk.

    Args:
        spec: the program's.
        inputs: what all runs share.
        lane: at the start of the chunk.
        noise: [T, B].
    """

    def __init__(self, spec: Spec, inputs: Inputs, lane: Lane, noise: Array):
        self.spec, self.step, self.noise = spec, Step(spec), noise
        if spec.in_kernel and not spec.per_lane_instances:
            # Made here, since XLA would read the features by columns in every step.
            lanes = self.step.lanes(inputs)
            transposed = lanes.materialize(jnp.transpose, inputs.features[0])
            inputs = dataclasses.replace(inputs, transposed=transposed)
        self.inputs = inputs
        self.start = lane.stats.t
        self._fixed: dict[str, Any] = {name: getattr(lane, name) for name in _FIXED}
        k = inputs.features.shape[1]
        self.narrow = jnp.int16 if k <= jnp.iinfo(jnp.int16).max else jnp.int32

    def begun(self, carry: Carry) -> Steps:
        """The state before the first step."""
        shape = self.spec.chunk, self.spec.lanes
        pulled = None
        if self.spec.observers > 1:
            pulled = jnp.full(shape, -1, self.narrow)
            if self.spec.in_kernel:
                pulled = one_kernel.at_run_time(pulled, self.inputs.flag)
        return Steps(self.bared(carry.lane), pulled, carry.log, carry.chooses)

    def whole(self, lane: Lane) -> Lane:
        """The lane with what is fixed over a run."""
        return dataclasses.replace(lane, **self._fixed)

    def bared(self, lane: Lane) -> Lane:
        """The lane without what is fixed over a run."""
        nothing: dict[str, Any] = dict(features=None, nature=None, prepared=(), delta=None)
        return dataclasses.replace(lane, **nothing)

    def one(self, n: Array, c: Steps) -> Steps:
        """Step n of the chunk."""
        spec, lane = self.spec, self.whole(c.lane)
        if spec.rule.fast is not None:
            at = jnp.minimum(lane.stats.t - self.start, spec.chunk - 1)
            eps = self.step.lanes(self.inputs).take(self.noise, at)
        else:
            eps = jax.lax.dynamic_index_in_dim(self.noise, n, keepdims=False)
        now = self.step.pull(self.inputs, lane, eps)
        lane, pulled, log = now.lane, c.pulled, c.log
        if spec.precision == "float32" and spec.family.refresh is not None:
            lane = records.refreshed(spec, self.inputs, lane, now.arm)
        if pulled is not None:
            row = now.arm.astype(self.narrow)
            pulled = jax.lax.dynamic_update_index_in_dim(pulled, row, n, 0)
        if log is not None:
            log = records.logged(spec, lane, now.arm, now.reward, now.seen, log)
        return Steps(self.bared(lane), pulled, log, c.chooses)

    def asked(self, c: Steps) -> Steps:
        """A call of `choose` for lanes that ask."""
        lane = self.step.asking.choose(self.inputs, self.whole(c.lane))
        return c._replace(lane=self.bared(lane), chooses=c.chooses + 1)
