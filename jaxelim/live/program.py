"""The compiled functions of a live run: one lane of the engine, driven by rewards from outside.

A live run takes the engine's own steps. Its rewards are given, so the functions here call
`Step.start`, `Step.decide` and the family's `update`, in the order of `Step.pull`. Lane 0
holds the run; the other lanes of its group are finished from the start.

`Lane.stats` has the rewards that have entered. Where others are pending, `settle` and `ahead`
make of it what a rule sees, as the engine's steps do with a batch or a delay.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.cache import KEPT, Cache, Jitted
from jaxelim.contracts import looks
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import Snapshot, Statistics, Tree
from jaxelim.engine import Inputs, Lane, Queue, Spec
from jaxelim.engine.pending import Pending, Schedule
from jaxelim.engine.step import Step
from jaxelim.lanes import where

BLOCK = 64
"""Most rewards that one call takes."""


class Told(NamedTuple):
    """Rewards for one call: [BLOCK] each, the first `length` in use."""

    arms: np.ndarray  # int32
    rewards: np.ndarray  # in the unit of a run
    length: np.int32


class Out(NamedTuple):
    """Pulls that are pending: arms that were asked for."""

    arms: Any  # [P] int32, the first `length` in use
    length: Any  # [] int32
    tested: Any  # [] int32: rewards that have entered since the last check


class Turned(NamedTuple):
    """A run after some rewards."""

    lane: Lane  # with the rule's state before its choice
    state: Tree  # the rule's state after its choice
    seen: Array  # [8] int32: see `Seen`


class Seen(NamedTuple):
    """What the host reads after each call; `Turned.seen` in this order."""

    arm: int  # the choice
    over: int  # whether the run has ended
    stopped: int  # by its stopping rule
    samples: int  # when
    bad_arm: int  # a choice out of range, 0 for none
    bad_answer: int  # likewise an answer
    fault: int  # as `Lane.fault`
    t: int  # rewards so far


@dataclasses.dataclass(frozen=True)
class LiveStep(Step):
    """Steps with given rewards."""

    def first_rewards(self, inputs: Inputs, nature: Tree, noise: Array) -> Array:
        """The rewards of the initial pulls, given in place of noise: [n K, B]."""
        return noise


class LiveProgram:
    """The compiled functions of one spec. Each compiles on its first call."""

    def __init__(self, spec: Spec):
        self.spec, self.traces = spec, 0
        options = spec.execution.compiler_options(spec.family.optimization)
        functions = _Functions(spec, self._count)
        schedule = Schedule(places=0)  # the caller keeps what is pending
        waiting = _Functions(dataclasses.replace(spec, schedule=schedule), self._count)
        self.start = Jitted(functions.start, compiler_options=options)
        self.enter = Jitted(functions.enter, compiler_options=options)
        self.pool = Jitted(functions.pool, compiler_options=options)
        self.told = Jitted(waiting.told, compiler_options=options)
        self.ahead = Jitted(waiting.ahead, compiler_options=options)
        self.look = Jitted(functions.look, compiler_options=options)
        self._shapes: Any = None

    def shapes(self, inputs: Inputs, queue: Queue) -> tuple[Lane, Tree]:
        """Shapes and dtypes of the lanes that vary over a run, and of the rule's state."""
        if self._shapes is None:
            length = self.spec.initial_samples(inputs)
            rewards = jax.ShapeDtypeStruct((length,), self.spec.dtype)
            lane = jax.eval_shape(_Functions(self.spec, lambda: None).start, inputs, queue, rewards)
            self._shapes = varying(lane), lane.rule_state
        return self._shapes

    def _count(self) -> None:
        self.traces += 1


@dataclasses.dataclass(frozen=True)
class _Functions:
    """The pure functions of a program."""

    spec: Spec
    count: Any  # called at every trace

    def start(self, inputs: Inputs, queue: Queue, rewards: Array) -> Lane:
        """The lanes after the initial pulls; rewards [n K], in rounds of all arms."""
        self.count()
        spec, lanes = self.spec, jnp.arange(self.spec.execution.lanes, dtype=jnp.int32)
        run = jnp.broadcast_to(queue.run[0], lanes.shape)
        wide = jnp.broadcast_to(rewards[:, None], (*rewards.shape, spec.execution.lanes))
        # All lanes but one are past the queue's end.
        item = jnp.where(lanes == 0, 0, spec.execution.queue).astype(jnp.int32)
        return LiveStep(spec).start(inputs, queue, item, run, jnp.zeros_like(lanes), wide)

    def _entered(self, inputs: Inputs, told: Told, i: Array, lane: Lane) -> Lane:
        """The lanes with one more reward in their statistics."""
        spec = self.spec
        seen = LiveStep(spec).observing.snapshot(inputs, lane)
        arm, reward = (jnp.broadcast_to(x[i], lane.done.shape) for x in (told.arms, told.rewards))
        stats = spec.family.update(seen, arm, reward, jnp.ones_like(lane.done))
        t = lane.stats.t + 1
        return dataclasses.replace(lane, stats=dataclasses.replace(stats, t=t))

    def enter(self, inputs: Inputs, lane: Lane, told: Told) -> Lane:
        """Enter rewards, without a check."""
        self.count()
        return self._all_entered(inputs, lane, told)

    def _all_entered(self, inputs: Inputs, lane: Lane, told: Told) -> Lane:
        """The lanes with all of the rewards in their statistics."""

        def body(i: Array, lane: Lane) -> Lane:
            return _whole(varying(self._entered(inputs, told, i, lane)), lane)

        return jax.lax.fori_loop(0, told.length, body, lane)

    def pool(self, inputs: Inputs, lane: Lane, pulls: Array, means: Array, squares: Array) -> Lane:
        """Enter rewards of all arms by their numbers, means and spreads, without a check.

        Args:
            inputs, lane: of the run.
            pulls, means, squares: [K] as of `Family.pooled`, in the unit of a run.
        """
        self.count()
        space = LiveStep(self.spec).observing.space(inputs, lane.features)
        wide = (jnp.broadcast_to(x[:, None], (*x.shape, lane.done.size)) for x in
                (pulls, means, squares))  # fmt: skip
        stats = self.spec.family.pooled(space, lane.stats, *wide)
        t = lane.stats.t + jnp.sum(pulls).astype(jnp.int32)
        return dataclasses.replace(lane, stats=dataclasses.replace(stats, t=t))

    def told(self, inputs: Inputs, lane: Lane, told: Told, out: Out) -> Turned:
        """Enter rewards, test all that have entered since the last check, and choose.

        Args:
            inputs, lane: of the run.
            told: the rewards.
            out: the pulls that are pending, and how many rewards are tested.
        """
        self.count()
        lane = self._all_entered(inputs, lane, told)
        waiting = self._waiting(inputs, lane, out)
        now, arm = self._decided(inputs, waiting)
        closed = jnp.where(lane.closed_at == 0, jnp.minimum(now.closed_at, lane.stats.t), 0)
        closed_at = jnp.maximum(lane.closed_at, closed)  # in rewards
        state, kept = now.rule_state, (lane.stats, lane.rule_state, closed_at)
        names = ("stats", "rule_state", "closed_at")
        now = dataclasses.replace(now, pending=None, **dict(zip(names, kept, strict=True)))
        return Turned(now, state, _seen(now, arm))

    def ahead(self, inputs: Inputs, lane: Lane, out: Out, most: Array) -> tuple[Tree, Array, Array]:
        """Choose arms while others are pending, without a test.

        Args:
            inputs: of the run.
            lane: with the rule's state after its last choice.
            out: the pulls that are pending.
            most: [] int32, the number of pending pulls at the end.

        Returns:
            The rule's next state, the arms of `out` with the new ones, and what the host reads.
        """
        self.count()
        spec, space = self.spec, LiveStep(self.spec).observing.space(inputs, lane.features)

        def body(c: tuple) -> tuple:
            n, now, arms, _ = c
            now, arm = self._decided(inputs, _whole(now, lane))
            pull = arm, ~now.done
            stats = spec.family.with_pending(space, lane.stats, now.stats, pull)
            now = dataclasses.replace(now, stats=stats)
            return n + 1, varying(now), arms.at[n].set(arm[0]), arm

        def more(c: tuple) -> Array:
            return (c[0] < most) & ~c[1].done[0]

        start = varying(self._waiting(inputs, lane, out))
        none = jnp.zeros(lane.done.shape, jnp.int32)
        _, now, arms, arm = jax.lax.while_loop(more, body, (out.length, start, out.arms, none))
        return now.rule_state, arms, _seen(dataclasses.replace(now, stats=lane.stats), arm)

    def _waiting(self, inputs: Inputs, lane: Lane, out: Out) -> Lane:
        """The lanes as the engine has them while the pulls of `out` are pending."""
        spec, entered = self.spec, lane.stats
        space = LiveStep(spec).observing.space(inputs, lane.features)

        def one(i: Array, ahead: Statistics) -> Statistics:
            pull = jnp.broadcast_to(out.arms[i], lane.done.shape), ~lane.done
            return spec.family.with_pending(space, entered, ahead, pull)

        ahead = spec.family.with_pending(space, entered, entered)
        ahead = jax.lax.fori_loop(0, out.length, one, ahead)
        pending = Pending(entered=entered, checked=entered.t - out.tested, ring=None)
        return dataclasses.replace(lane, stats=ahead, pending=pending)

    def _decided(self, inputs: Inputs, lane: Lane) -> tuple[Lane, Array]:
        """The lanes after a choice, which they keep if they are over; and the arm, [B]."""
        step = LiveStep(self.spec)

        def decide(lane: Lane) -> tuple[Lane, Array]:
            decided = step.decide(inputs, lane)
            now = where(lane.done, varying(lane), varying(decided.lane))
            return now, decided.arm

        now, arm = decide(lane)
        if self.spec.rule.rare:

            def again(now: Lane) -> tuple[Lane, Array]:
                return decide(step.asking.choose(inputs, _whole(now, lane)))

            asks = jnp.any(now.asks)
            now, arm = jax.lax.cond(asks, again, lambda now: (now, arm), now)
        return _whole(now, lane), arm

    def look(self, inputs: Inputs, lane: Lane) -> dict[str, Any]:
        """What a run shows of its state: LLRs and log e [Q], their beta, the answer [W]."""
        self.count()
        step = Step(self.spec)
        stats = dataclasses.replace(lane.stats, t=lane.stats.t - lane.done.astype(jnp.int32))
        seen = step.observing.snapshot(inputs, dataclasses.replace(lane, stats=stats))
        active = seen.shape.exists
        if self.spec.stopping[0].eliminates:
            active = active & jax.tree.map(lambda x: x[0], lane.observers[0]).active(seen)
        shown = {
            "llr": seen.evidence.values(),
            "exists": seen.shape.exists,
            "active": active,
            "public": seen.public,
            "beta": step.observing.betas(lane)[0],
        }
        if seen.threshold is not None:
            first = jnp.arange(self.spec.execution.lanes) == 0
            # Below 0 it is some lower bound, as no test needs more.
            shown["log_e"] = jnp.maximum(looks.of_answer(seen, first), 0)
        pairs = _pairs(seen)
        if pairs is not None:
            shown["pairs"] = pairs
        return jax.tree.map(lambda x: x[..., 0], shown)


def _pairs(seen: Snapshot) -> Array | None:
    """The arms of each piece, [Q, 2, B] int32; None for pieces that are not made of arms."""
    shape = seen.shape
    if not isinstance(shape, Pairs) or shape.items:
        return None
    places, lanes = shape.exists.shape

    def pair(piece: Array) -> Array:
        both = shape.arms(seen.lanes, jnp.broadcast_to(piece, (lanes,)))
        return jnp.stack([jnp.broadcast_to(arm, (lanes,)).astype(jnp.int32) for arm in both])

    return jax.vmap(pair)(jnp.arange(places, dtype=jnp.int32))


def varying(lane: Lane) -> Lane:
    """The lane without the arrays that are fixed over a run; some have no axis of lanes."""
    return dataclasses.replace(lane, features=None, nature=None, prepared=())


def _whole(lane: Lane, of: Lane) -> Lane:
    return dataclasses.replace(lane, features=of.features, nature=of.nature, prepared=of.prepared)


def _seen(lane: Lane, arm: Array) -> Array:
    bad_answer = jnp.zeros_like(arm) if lane.bad_answer is None else lane.bad_answer
    numbers = {
        "arm": arm, "over": lane.done, "stopped": lane.stopped[0, 0],
        "samples": lane.closed_at[0, 0], "bad_arm": lane.bad_arm, "bad_answer": bad_answer,
        "fault": lane.fault, "t": lane.stats.t,
    }  # fmt: skip
    return jnp.stack([numbers[name][0].astype(jnp.int32) for name in Seen._fields])


program = Cache(lambda spec, inputs: LiveProgram(spec), KEPT)
"""The program of a spec for inputs of one layout, compiled once while the cache keeps it."""
