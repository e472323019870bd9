"""What a live run knows at one time, and how rewards change it. Nothing here writes."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxelim import scope
from jaxelim.contracts.views import Tree
from jaxelim.engine import Lane
from jaxelim.live.given import Pooled
from jaxelim.live.job import LiveJob
from jaxelim.live.program import BLOCK, LiveProgram, Out, Seen, Told, program, varying
from jaxelim.progress import bar

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
        """The moment after rewards of these arms, which enter together, with one check."""
        told = moment.told + len(arms)
        if moment.lane is not None:
            moment = self._entered(moment, np.asarray(arms), np.asarray(rewards) / self._scale)
            return dataclasses.replace(moment, told=told)
        first, early = [list(each) for each in moment.first], list(moment.early)
        for arm, reward in zip(arms, rewards, strict=True):
            if len(first[arm]) < self.job.call.initial_pulls:
                first[arm].append(reward)
            else:
                early.append((arm, reward))
        now = dataclasses.replace(
            moment, first=tuple(map(tuple, first)), early=tuple(early), told=told
        )
        if self.due(now):
            return now
        return self._checked(self._begun(now), *self._columns(early), self.job.first + len(early))

    def pooled(self, moment: Moment, given: Pooled) -> Moment:
        """The moment after rewards of which counts and sums are known, with one check.

        Before the start they complete the first rewards of all arms.
        """
        left, first = given.pulls.copy(), [list(each) for each in moment.first]
        told = moment.told + int(left.sum())
        for k, own in enumerate(first):  # rewards equal to their mean have the same sums
            used = min(self.job.call.initial_pulls - len(own), int(left[k]))
            own += [float(given.means[k])] * used
            left[k] -= used
        moment = dataclasses.replace(moment, first=tuple(map(tuple, first)))
        if moment.lane is None:
            moment = self._in_group(self._begun(moment), *self._columns(moment.early))
        units = given.means / self._scale, given.squares / self._scale**2
        answered, asked = left.copy(), []
        for arm in moment.asked:
            asked += [arm] * int(answered[arm] <= 0)
            answered[arm] -= 1
        with scope.engine():
            lane = self.program.pool(self.job.inputs, moment.lane, left.astype(float), *units)
        moment = dataclasses.replace(moment, lane=lane, asked=tuple(asked))
        return dataclasses.replace(self._checked(moment, *self._columns(()), told), told=told)

    def _begun(self, moment: Moment) -> Moment:
        """The moment at which all first rewards enter together, without a check."""
        rounds = np.array(moment.first).T.ravel() / self._scale
        with scope.engine():
            lane = self.program.start(self.job.inputs, self.job.queue, rounds)
        return dataclasses.replace(moment, lane=lane, first=(), early=())

    def _columns(self, early: Sequence[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
        """Arms and their rewards in the unit of a run: [n] each."""
        table = np.array(early, float).reshape(-1, 2)
        return table[:, 0].astype(int), table[:, 1] / self._scale

    def _entered(self, moment: Moment, arms: np.ndarray, rewards: np.ndarray) -> Moment:
        """The moment after rewards of arms, with one check.

        Those that answer arms that were asked for enter first, in the order of their pulls.
        """
        left, places = Counter(arms.tolist()) & Counter(moment.asked), {}
        for place, arm in enumerate(arms.tolist()):
            if left[arm] > len(places.setdefault(arm, [])):
                places[arm].append(place)
        group, asked = [], []
        for arm in moment.asked:  # the first of equal arms is answered first
            group.append(places[arm].pop(0)) if places.get(arm) else asked.append(arm)
        others = sorted(set(range(len(arms))) - set(group))
        order = np.array(group + others)
        moment = dataclasses.replace(moment, asked=tuple(asked))
        return self._checked(moment, arms[order], rewards[order], len(arms))

    def _in_group(self, moment: Moment, arms: np.ndarray, rewards: np.ndarray) -> Moment:
        """The moment after rewards, without a check."""
        lane, rows = moment.lane, range(0, len(arms), BLOCK)
        many: Any = dict(delay=LONG, leave=False, unit=" rewards", unit_scale=BLOCK)
        with scope.engine():
            for start in bar(iterable=rows, **many) or rows:
                part = arms[start : start + BLOCK], rewards[start : start + BLOCK]
                lane = self.program.enter(self.job.inputs, lane, _told(*part))
        return dataclasses.replace(moment, lane=lane)

    def _checked(
        self, moment: Moment, arms: np.ndarray, rewards: np.ndarray, tested: int
    ) -> Moment:
        """The moment after rewards, one check and the next choice.

        `tested`: the rewards since the last check, on which the times of looks depend.
        """
        before = max(len(arms) - 1, 0) // BLOCK * BLOCK
        moment = self._in_group(moment, arms[:before], rewards[:before])
        told, out = _told(arms[before:], rewards[before:]), _out(moment.asked, tested)
        with scope.engine():
            turned = self.program.told(self.job.inputs, moment.lane, told, out)
            seen = Seen(*np.asarray(turned.seen).tolist())
        return dataclasses.replace(moment, lane=turned.lane, state=turned.state, seen=seen)

    def asked(self, moment: Moment, count: int) -> Moment:
        """The moment at which `count` arms are asked for and not told."""
        if len(moment.asked) >= count:
            return moment
        assert moment.lane is not None and moment.seen is not None
        if not moment.asked:  # the choice that waits
            lane = dataclasses.replace(moment.lane, rule_state=moment.state)
            moment = dataclasses.replace(moment, lane=lane, asked=(moment.seen.arm,))
        if len(moment.asked) >= count:
            return moment
        with scope.engine():
            out = _out(moment.asked, 0, count)
            ahead = self.program.ahead(self.job.inputs, moment.lane, out, np.int32(count))
            state, arms, seen = ahead[0], *map(np.asarray, ahead[1:])
        now = Seen(*seen.tolist())
        if now.over:  # the rule failed: the same happens at each further ask
            return dataclasses.replace(moment, seen=now)
        assert moment.lane is not None
        lane = dataclasses.replace(moment.lane, rule_state=state)
        return dataclasses.replace(moment, lane=lane, asked=tuple(arms[:count].tolist()))

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


def _told(arms: np.ndarray, rewards: np.ndarray) -> Told:
    """At most `BLOCK` rewards, as the program takes them."""
    told = Told(np.zeros(BLOCK, np.int32), np.zeros(BLOCK), np.int32(len(arms)))
    told.arms[: len(arms)], told.rewards[: len(arms)] = arms, rewards
    return told


def _out(asked: Sequence[int], tested: int, most: int = 0) -> Out:
    """The pulls that are pending, with places for `most`; of few sizes, as each compiles."""
    places = BLOCK
    while places < max(len(asked), most):
        places *= 8
    out = Out(np.zeros(places, np.int32), np.int32(len(asked)), np.int32(tested))
    out.arms[: len(asked)] = asked
    return out
