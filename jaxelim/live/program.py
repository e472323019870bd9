"""The compiled functions of a live run: lane 0 of the engine, with rewards from outside.

A live run is a simulated one whose pulls are pending until a caller tells their rewards. So
`told` and `chosen` are halves of the engine's own step: its test, and its choice. The other
lanes of the group are finished from the start.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.cache import KEPT, Cache, Jitted
from jaxelim.contracts import looks
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext, Snapshot, Tree
from jaxelim.engine import Inputs, Lane, Queue, Spec
from jaxelim.engine.step import Step, Taken
from jaxelim.lanes import index_like

BLOCK = 64
"""Most rewards that one call takes, and most arms that it chooses."""
_TESTED = "observers", "sampling", "record", "log_e"
"""What a test changes in a lane."""


class Arms(NamedTuple):
    """Arms in a call, with their rewards where these are told; the first `length` are read."""

    arms: np.ndarray  # [P] int32
    rewards: np.ndarray  # [P], in the unit of a run
    length: np.int32

    @staticmethod
    def of(arms: Sequence[int] | np.ndarray, rewards: Any = 0.0) -> "Arms":
        """From n arms and rewards, in one of few sizes, as each compiles."""
        places, count = BLOCK, len(arms)
        while places < count:
            places *= 8
        table = np.zeros(places, np.int32), np.zeros(places)
        table[0][:count], table[1][:count] = arms, rewards
        return Arms(*table, np.int32(count))


@dataclasses.dataclass(frozen=True)
class LiveStep(Step):
    """Steps whose rewards come from outside."""

    def first_rewards(self, inputs: Inputs, nature: Tree, noise: Array) -> Array:
        """The rewards of the initial pulls, given in place of noise: [n K, B]."""
        return noise

    def chosen(self, inputs: Inputs, lane: Lane) -> Taken:
        """Choose; the pull is pending, so the reward is not read."""
        return self._taken(inputs, lane, lambda lane, arm: jnp.zeros(arm.shape, self.spec.dtype))


class LiveProgram:
    """The compiled functions of one spec. Each compiles on its first call."""

    def __init__(self, spec: Spec):
        self._functions = functions = _Functions(spec)
        options = spec.execution.compiler_options(spec.family.optimization)
        compiled = partial(Jitted, compiler_options=options)
        self.start, self.enter = compiled(functions.start), compiled(functions.enter)
        self.pool, self.told = compiled(functions.pool), compiled(functions.told)
        self.chosen, self.look = compiled(functions.chosen), compiled(functions.look)

    @property
    def traces(self) -> int:
        """Number of traces of all functions."""
        return self._functions.traces


class _Functions:
    """The pure functions of a program."""

    def __init__(self, spec: Spec):
        self.spec, self.step, self.traces = spec, LiveStep(spec), 0

    def start(self, inputs: Inputs, queue: Queue, rewards: Array) -> Lane:
        """The lanes after the initial pulls; rewards [n K], in rounds of all arms."""
        self.traces += 1
        lanes = jnp.arange(self.spec.execution.lanes, dtype=jnp.int32)
        run = jnp.broadcast_to(queue.run[0], lanes.shape)
        wide = jnp.broadcast_to(rewards[:, None], (*rewards.shape, lanes.size))
        item = jnp.where(lanes == 0, 0, self.spec.execution.queue)  # the others are past its end
        return self.step.start(inputs, queue, item.astype(jnp.int32), run, 0 * run, wide)

    def enter(self, inputs: Inputs, lane: Lane, told: Arms) -> Lane:
        """Enter rewards, without a test."""
        self.traces += 1
        return self._entered(inputs, lane, told)

    def _entered(self, inputs: Inputs, lane: Lane, told: Arms) -> Lane:
        def one(i: Array, now: Lane) -> Lane:
            arm, reward = (jnp.broadcast_to(x[i], lane.done.shape) for x in told[:2])
            all_of_them = jnp.ones_like(lane.done)
            whole = now.with_fixed(lane)
            return self.step.arrivals.with_reward(inputs, whole, arm, reward, all_of_them).varying

        return jax.lax.fori_loop(0, told.length, one, lane.varying).with_fixed(lane)

    def pool(self, inputs: Inputs, lane: Lane, pulls: Array, means: Array, squares: Array) -> Lane:
        """Enter rewards by their numbers, means and spreads [K], as of `Family.pooled`."""
        self.traces += 1
        assert lane.pending is not None
        wide = (jnp.broadcast_to(x[:, None], (*x.shape, lane.done.size)) for x in
                (pulls, means, squares))  # fmt: skip
        before = lane.pending.entered
        stats = self.spec.family.pooled(self._space(inputs, lane), before, *wide)
        stats = dataclasses.replace(stats, t=before.t + jnp.sum(pulls).astype(jnp.int32))
        return dataclasses.replace(lane, pending=dataclasses.replace(lane.pending, entered=stats))

    def told(self, inputs: Inputs, lane: Lane, told: Arms, waiting: Arms) -> Lane:
        """Enter rewards, and test all that have entered since the last test.

        The rule's own test may read its state after a choice. That choice is dropped: `chosen`
        makes it again.

        Args:
            inputs, lane: of the run.
            told: the rewards.
            waiting: the pulls that are pending now.
        """
        self.traces += 1
        spec, before = self.spec, lane
        lane = self._pending(inputs, self._entered(inputs, lane, told), waiting)
        assert lane.pending is not None
        pending = dataclasses.replace(lane.pending, checked=lane.pending.entered.t)
        now = self.step.decide(inputs, lane, work=bool(spec.rule.traits.native)).lane
        over = jnp.all(now.record.closed_at > 0, (0, 1)) | now.fault.any
        tested = {name: getattr(now, name) for name in _TESTED}
        tested["fault"] = dataclasses.replace(now.fault, arm=before.fault.arm)  # the choice's
        return dataclasses.replace(
            before, stats=lane.stats, pending=pending, done=before.done | over, **tested
        )

    def _pending(self, inputs: Inputs, lane: Lane, waiting: Arms) -> Lane:
        """The lanes with these pulls pending, after all rewards that have entered."""
        space, pending, family = self._space(inputs, lane), lane.pending, self.spec.family
        assert pending is not None

        def one(i: Array, ahead: Any) -> Any:
            pull = jnp.broadcast_to(waiting.arms[i], lane.done.shape), ~lane.done
            return family.with_pending(space, pending.entered, ahead, pull)

        ahead = family.with_pending(space, pending.entered, pending.entered)
        ahead = jax.lax.fori_loop(0, waiting.length, one, ahead)
        return dataclasses.replace(lane, stats=ahead)

    def chosen(self, inputs: Inputs, lane: Lane, count: Array) -> tuple[Lane, Array]:
        """Choose `count` [] int32 further arms: the lanes, and the arms [BLOCK] int32."""
        self.traces += 1

        def one(carry: tuple) -> tuple:
            n, now, arms = carry
            taken = self.step.chosen(inputs, now.with_fixed(lane))
            now, go = taken.lane, taken.go[0]
            return n + go.astype(n.dtype), now.varying, arms.at[n].set(taken.arm[0])

        def more(carry: tuple) -> Array:
            return (carry[0] < count) & ~carry[1].done[0]

        start = jnp.int32(0), lane.varying, jnp.zeros(BLOCK, jnp.int32)
        _, now, arms = jax.lax.while_loop(more, one, start)
        return now.with_fixed(lane), arms

    def look(self, inputs: Inputs, lane: Lane) -> dict[str, Any]:
        """What a run shows of its state: LLRs and log e [Q], their beta, the answer [W]."""
        self.traces += 1
        observing, pending = self.step.observing, lane.pending
        assert pending is not None
        seen = observing.of(inputs, lane, pending.entered)
        active = seen.shape.exists
        if self.spec.stopping[0].eliminates:
            active = active & jax.tree.map(lambda x: x[0], lane.observers[0]).active(seen)
        shown = {
            "llr": seen.evidence.values(),
            "exists": seen.shape.exists,
            "active": active,
            "public": seen.public,
            "beta": observing.betas(lane)[0],
        }
        if seen.threshold is not None:
            first = jnp.arange(lane.done.size) == 0
            # Below 0 it is some lower bound, as no test needs more.
            shown["log_e"] = jnp.maximum(looks.of_answer(seen, first), 0)
        if isinstance(seen.shape, Pairs):
            shown["pairs"] = _candidates(seen)
        return jax.tree.map(lambda x: x[..., 0], shown)

    def _space(self, inputs: Inputs, lane: Lane) -> ArmContext:
        return self.step.observing.space(inputs, lane.run.features)


def _candidates(seen: Snapshot) -> Array:
    """The candidates of each piece; of signs its arm, and whether it is above: [Q, 2, B] int32."""
    shape, lanes = seen.shape, seen.lanes
    places = jnp.broadcast_to(index_like(shape.exists), shape.exists.shape)
    if shape.signs:
        return jnp.stack([places, shape.above.astype(jnp.int32)], 1)

    def pair(piece: Array) -> Array:
        both = shape.pair(lanes, piece)
        return jnp.stack([jnp.broadcast_to(x, piece.shape).astype(jnp.int32) for x in both])

    return jax.vmap(pair)(places)


program = Cache(lambda spec, inputs: LiveProgram(spec), KEPT)
"""The program of a spec for inputs of one layout, compiled once while the cache keeps it."""
shapes = Cache(lambda spec, given: jax.eval_shape(_Functions(spec).start, *given), KEPT)
"""Shapes and dtypes of the lanes, for the arguments of `start`."""
