"""What a live run knows at one time, and how rewards change it. Nothing here writes."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from jaxelim import scope
from jaxelim.contracts.views import Tree
from jaxelim.engine import Lane
from jaxelim.engine.progress import automatic
from jaxelim.errors import UnsupportedError
from jaxelim.live.job import LiveJob
from jaxelim.live.program import BLOCK, LiveProgram, Seen, Told, program, varying

LONG = 2.0
"""Seconds after which a terminal shows how many of many rewards have entered."""


@dataclasses.dataclass(frozen=True)
class Moment:
    """The state of a live run after some events.

    Attributes:
        lane: the engine's lanes; None until every arm has its first rewards.
        state: the rule's state after the choice that waits in `seen`.
        seen: what the host read last.
        first: the first rewards of each arm, while there is no lane.
        early: further rewards (arm, reward) that came meanwhile.
        asked: arms that were asked for and not told, in order.
        told: number of rewards.
    """

    lane: Lane | None
    state: Tree
    seen: Seen | None
    first: tuple[tuple[float, ...], ...]
    early: tuple[tuple[int, float], ...]
    asked: tuple[int, ...]
    told: int

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.seen is not None and bool(self.seen.over)

    @property
    def ended_by_hand(self) -> bool:
        """Whether `Moments.ended` has ended the run."""
        seen = self.seen
        if seen is None or not seen.over:
            return False
        return not (seen.stopped or seen.bad_arm or seen.bad_answer or seen.fault)


class Moments:
    """The transitions of one live run."""

    def __init__(self, job: LiveJob):
        self.job, self.arms = job, job.arms.K
        self.program: LiveProgram = program(job.spec, job.inputs)
        self._scale = job.call.instance.family.scale

    @property
    def begin(self) -> Moment:
        """The moment before the first reward."""
        return Moment(None, (), None, ((),) * self.arms, (), (), 0)

    def due(self, moment: Moment) -> list[int]:
        """The initial pulls without a reward, in rounds of all arms."""
        rounds = range(self.job.call.initial_pulls)
        return [k for n in rounds for k in range(self.arms) if len(moment.first[k]) <= n]

    def told(self, moment: Moment, arms: Sequence[int], rewards: Sequence[float]) -> Moment:
        """The moment after rewards of these arms, checked each by each."""
        told = moment.told + len(arms)
        if moment.lane is not None:
            return dataclasses.replace(self._entered(moment, arms, rewards), told=told)
        first, early = [list(each) for each in moment.first], list(moment.early)
        for arm, reward in zip(arms, rewards, strict=True):
            if len(first[arm]) < self.job.call.initial_pulls:
                first[arm].append(reward)
            else:
                early.append((arm, reward))
        now = dataclasses.replace(
            moment, first=tuple(map(tuple, first)), early=tuple(early), told=told
        )
        return now if self.due(now) else self._started(now)

    def _started(self, moment: Moment) -> Moment:
        """The moment at which all first rewards enter together, and then those that came early."""
        rounds = np.array(moment.first).T.ravel() / self._scale
        with scope.engine():
            lane = self.program.start(self.job.inputs, self.job.queue, rounds)
        early, bare = moment.early, dataclasses.replace(moment, lane=lane, first=(), early=())
        now = self._turned(bare, np.zeros(1, int), np.zeros(1), False, not early)
        return self._entered(now, *zip(*early, strict=True)) if early else now

    def _entered(self, moment: Moment, arms: Sequence[int], rewards: Sequence[float]) -> Moment:
        """The moment after rewards in the engine's statistics."""
        waiting = Counter(moment.asked)
        answered = Counter(arms) & waiting
        asked = []
        for arm in moment.asked:  # the first of equal arms is answered first
            if answered[arm] > 0:
                answered[arm] -= 1
            else:
                asked.append(arm)
        moment = dataclasses.replace(moment, asked=tuple(asked))
        scaled = np.asarray(rewards, float) / self._scale
        blocks = tqdm(
            range(0, len(arms), BLOCK), delay=LONG, disable=not automatic(), file=sys.stderr,
            leave=False, unit=" rewards", unit_scale=BLOCK,
        )  # fmt: skip
        for start in blocks:
            stop = min(start + BLOCK, len(arms))
            chooses = stop == len(arms) and not asked
            part = np.asarray(arms[start:stop]), scaled[start:stop]
            moment = self._turned(moment, *part, True, chooses)
        return moment

    def _turned(
        self, moment: Moment, arms: np.ndarray, rewards: np.ndarray, counts: bool, chooses: bool
    ) -> Moment:
        """The moment after one call of the compiled `turn`."""
        size = len(arms)
        told = Told(
            np.zeros(BLOCK, np.int32), np.zeros(BLOCK), np.full(BLOCK, counts), np.int32(size),
            np.bool_(chooses),
        )  # fmt: skip
        told.arms[:size], told.rewards[:size] = arms, rewards
        with scope.engine():
            turned = self.program.turn(self.job.inputs, moment.lane, told)
            seen = Seen(*np.asarray(turned.seen).tolist())
        return dataclasses.replace(moment, lane=turned.lane, state=turned.state, seen=seen)

    def asked(self, moment: Moment, count: int) -> Moment:
        """The moment at which `count` arms are asked for and not told.

        Raises:
            UnsupportedError: rewards to come decide about these arms.
        """
        while len(moment.asked) < count:
            assert moment.lane is not None and moment.seen is not None
            arm, state = moment.seen.arm, moment.state
            if moment.asked:
                asked = np.bincount(moment.asked, minlength=self.arms).astype(np.int32)
                with scope.engine():
                    state, seen = self.program.ahead(self.job.inputs, moment.lane, asked)
                    arm, known = np.asarray(seen).tolist()
                if not known:
                    rule, fewer = self.job.call.rule, len(moment.asked)
                    allowed = f"at most {fewer}: rewards to come decide what {rule!r} pulls next"
                    raise UnsupportedError("n", count, allowed)
            lane = dataclasses.replace(moment.lane, rule_state=state)
            moment = dataclasses.replace(moment, lane=lane, asked=(*moment.asked, arm))
        return moment

    def ended(self, moment: Moment) -> Moment:
        """The moment at which a person ends the run: nothing is checked from here on."""
        assert moment.lane is not None and moment.seen is not None
        t = moment.lane.stats.t
        with scope.engine():
            closed = jax.numpy.broadcast_to(t, moment.lane.closed_at.shape)
            lane = dataclasses.replace(
                moment.lane, done=jax.numpy.ones_like(moment.lane.done), closed_at=closed
            )
        seen = moment.seen._replace(over=1, samples=int(t[0]), t=int(t[0]))
        return dataclasses.replace(moment, lane=lane, seen=seen, asked=())

    def look(self, moment: Moment) -> dict[str, np.ndarray]:
        """Evidence, beta and answer of the present statistics; see `look` of the program."""
        with scope.engine():
            return jax.tree.map(np.asarray, self.program.look(self.job.inputs, moment.lane))

    # Moments as lists of arrays.

    def leaves(self, moment: Moment) -> list[np.ndarray] | None:
        """The arrays of lane 0 that vary over a run; None if one is no plain array."""
        assert moment.lane is not None
        arrays = jax.tree.leaves((varying(moment.lane), moment.state))
        if any(x.dtype.kind not in "biuf" for x in arrays):
            return None
        return [np.asarray(x)[..., :1] for x in arrays]

    def restored(self, leaves: list[np.ndarray], seen: Seen) -> tuple[Lane, Tree] | None:
        """The lanes and the rule's next state of `leaves`; None if these are of other shapes."""
        job = self.job
        with scope.engine():
            shapes = self.program.shapes(job.inputs, job.queue)
            known, structure = jax.tree.flatten(shapes)
            same = [x.shape[:-1] == y.shape[:-1] and x.dtype == y.dtype
                    for x, y in zip(leaves, known, strict=False)]  # fmt: skip
            if len(leaves) != len(known) or not all(same):
                return None
            wide = [np.repeat(x, job.spec.execution.lanes, -1) for x in leaves]
            bare, state = jax.tree.unflatten(structure, jax.device_put(wide))
            lanes = np.arange(job.spec.execution.lanes)
            prepared = jax.tree.map(lambda x: x[0], job.inputs.prepared)
            idle: Any = jax.device_put((
                np.where(lanes == 0, 0, job.spec.execution.queue).astype(np.int32),
                (lanes > 0) | bool(seen.over),
            ))  # fmt: skip
            lane = dataclasses.replace(bare, item=idle[0], done=idle[1], prepared=prepared)
        return lane, state
