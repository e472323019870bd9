"""The state of a live run, and what an event makes of it: a fold over the log.

A live run is a simulated one whose pulls are pending until a caller tells their rewards. So
`told` and `chosen` are halves of the engine's own step: its test, and its choice. They compute
lane 0 of a group; the other lanes are finished from the start. A CPU computes them, as it is
faster at one run than a GPU, and a run asks for the same arms with and without one.
"""

import dataclasses
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks, scope
from jaxelim.cache import KEPT, Cache, Jitted
from jaxelim.contracts import SamplingRule, StoppingRule, looks
from jaxelim.contracts.proofs import LAWS
from jaxelim.engine import LANE_GROUP, Inputs, Lane, Queue, Spec, watching
from jaxelim.engine.step import Step
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.instances.arms import Arms
from jaxelim.problems.arms import BestArm
from jaxelim.returned import traced_shape
from jaxelim.simulation.experiment import LONGEST, Engine, Experiment
from jaxelim.simulation.plan import failure, inputs_of, queue_of, spec_of
from jaxelim.stopping import LLR
from jaxelim.thresholds import Mixture

MOST_WITH_P_VALUES = 64
"""Most arms of a run that keeps p-values; the work of a look grows with their square."""
BLOCK = 64
"""Most arms that one call chooses, and least places for rewards in one."""


class State(NamedTuple):
    """What a live run knows after some events."""

    lane: Any = None  # the engine's lanes; None until every arm has its first rewards
    before: tuple[tuple[int, float, int, int], ...] = ()  # rows told while there is no lane
    waiting: tuple[int, ...] = ()  # arms that were asked for and not told, in order
    told: int = 0  # number of rewards
    ended: int = 0  # number of rewards when the run ended; 0 while it is open
    strayed: bool = False  # an event asked for other arms than the rule chooses here

    @property
    def stopped(self) -> bool:
        """Whether the run has ended by its stopping rule."""
        return bool(self.ended and self.lane and np.asarray(self.lane.record.stopped)[0, 0, 0])

    @property
    def stats(self) -> Any:
        """The statistics of the rewards that have entered."""
        return self.lane.pending.entered


@dataclasses.dataclass(frozen=True)
class Fold:
    """The checked arguments of a live run, and the state after an event."""

    call: Experiment
    spec: Spec
    inputs: Inputs
    queue: Queue

    @staticmethod
    def of(
        arms: Arms, *, rule: Any, run: Any, delta: Any = 0.01, stopping: Any = LLR(),  # noqa: B008
        **others: Any,
    ) -> "Fold":  # fmt: skip
        """Check the arguments of a `LiveRun` as `simulate` does, but for the truth."""
        if isinstance(rule, SamplingRule) and "truth" in rule.traits.reads:
            allowed = "a rule that needs no theta, such as an oracle with weights of its own"
            raise ArgumentError("rule", rule, allowed, "nobody knows theta in a live run")
        if not isinstance(stopping, StoppingRule):
            raise ArgumentError("stopping", stopping, "one stopping rule")
        delta = checks.real("delta", delta, low=0, high=1, open=True)
        run = checks.integer("run", run, low=0, high=checks.MAX_RUNS - 1)
        if arms.most is not None:
            _check_joins(arms, rule, stopping, **others)
        call = Experiment(
            arms, rule=rule, delta=delta, stopping=stopping, runs=np.array([run]),
            max_samples=LONGEST, record=("pair_times",),
            engine=Engine(lanes=LANE_GROUP, devices=1), **others,
        )  # fmt: skip
        shape = traced_shape(call.problem, arms.K, arms.d)
        of_pieces = shape.candidates is not None and shape.candidates <= MOST_WITH_P_VALUES
        keeps = of_pieces and isinstance(call.threshold, Mixture)  # log e of each piece
        keeps &= arms.source is None or arms.law in LAWS
        spec = dataclasses.replace(
            spec_of(call, backend="cpu").executed(lanes=LANE_GROUP, queue=LANE_GROUP, devices=1),
            evidence=call.threshold if keeps else None, places=0,
        )  # fmt: skip
        with scope.on_cpu():
            inputs = inputs_of(call, spec)
            return Fold(call, spec, *jax.device_put((inputs, queue_of(call, spec)[0])))

    @property
    def arms(self) -> Arms:
        """The arms."""
        return self.call.instance

    @property
    def first(self) -> int:
        """The number of initial pulls."""
        return self.call.initial_pulls * self.arms.K

    @cached_property
    def programs(self) -> dict[str, Jitted]:
        """The compiled functions, which all runs of one shape share."""
        return programs(self.spec, self.inputs)

    def compute(self, name: str, *arguments: Any) -> Any:
        """Call a compiled function."""
        with scope.on_cpu():
            return self.programs[name](self.inputs, *arguments)

    def due(self, state: State) -> list[int]:
        """The initial pulls without a reward, in rounds of all arms."""
        if state.lane is not None:
            return []
        told, rounds = self.counts(state), range(self.call.initial_pulls)
        return [k for n in rounds for k in range(self.arms.K) if told[k] <= n]

    def left(self, state: State) -> np.ndarray | None:
        """The numbers of rewards of the arms that were not told yet: [K]; None: no end."""
        stack: Any = self.arms.source
        return None if stack is None else np.array(stack.sizes) - self.counts(state)

    def counts(self, state: State) -> np.ndarray:
        """The number of rewards of each arm: int64 [K]."""
        if state.lane is not None:
            return np.asarray(state.stats.counts)[:, 0].astype(np.int64)
        rows = np.array(state.before).reshape(-1, 4)
        return np.bincount(rows[:, 0].astype(int), rows[:, 2], self.arms.K).astype(np.int64)

    def __call__(self, state: State, event: dict) -> State:
        """The state after an event: "ask", "stop", or "tell" with "rewards" and "times"."""
        if "ask" in event:
            waiting = (*state.waiting, *event["ask"])
            chosen = state if state.ended else self.chosen(state, len(waiting))
            strayed = state.strayed or chosen.waiting != waiting
            return chosen._replace(waiting=waiting, strayed=strayed)
        if "stop" in event:  # by hand: nothing is tested from here on
            with scope.on_cpu():
                lane = dataclasses.replace(state.lane, done=jnp.ones_like(state.lane.done))
            return state._replace(lane=lane, ended=state.told, waiting=())
        return self._told(state, event)

    def _told(self, state: State, event: dict) -> State:
        """The state after rewards have entered together, and were tested once."""
        rows = rows_of(event)
        if (left := self.left(state)) is not None:
            stack: Any = self.arms.source
            for k, _, times, _ in rows:
                left[k] -= times
                if left[k] < 0:
                    allowed = f"an arm with rewards left: its stack has {stack.sizes[k]}"
                    raise ArgumentError("arm", self.arms.label(k), allowed)
        told, lane, waiting = state.told + sum(row[2] for row in rows), state.lane, state.waiting
        if lane is None:
            state = state._replace(before=(*state.before, *rows), told=told)
            if self.due(state):
                return state
            lane, rows = self._begun(state.before)
        else:
            rows, waiting = _answered(waiting, rows)
        entered, pulls = np.array(rows, float).reshape(-1, 4), np.array(waiting, np.int32)
        entered[:, 1] /= self.arms.family.scale
        lane = self.compute("told", lane, *_block(entered), *_block(pulls[:, None]))
        over = told if bool(np.asarray(lane.done)[0]) else 0
        return State(lane, (), waiting, told, state.ended or over, state.strayed)

    def _begun(self, before: Sequence[tuple]) -> tuple[Lane, list]:
        """The lanes in which the first rewards of all arms have entered, and the other rows.

        None has entered where arms have common items: the first ones may be of several.
        """
        number, early = Counter(), []
        first = np.zeros((self.call.initial_pulls, self.arms.K))
        for arm, reward, times, item in before:
            here = min(times, len(first) - number[arm])
            first[number[arm] : number[arm] + here, arm] = reward
            number[arm] += here
            early.append((arm, reward, times - here, item))
        first = first.ravel() / self.arms.family.scale
        lane = self.compute("start", self.queue, first)
        family: Any = self.arms.family
        if family.items is None:
            return lane, early
        entered = lane.pending.entered
        with scope.on_cpu():
            none = family.empty(jnp.zeros_like(entered.means), entered.size)
        none = dataclasses.replace(none, stacks=entered.stacks)
        pending = dataclasses.replace(lane.pending, entered=none)
        return dataclasses.replace(lane, pending=pending), list(before)

    def chosen(self, state: State, count: int) -> State:
        """The state in which `count` arms are asked for and not told."""
        lane, waiting = state.lane, state.waiting
        while len(waiting) < count:
            more = min(count - len(waiting), BLOCK)
            lane, arms = self.compute("chosen", lane, np.int32(more))
            self.refuse_failed(lane, state.told)
            waiting += tuple(np.asarray(arms)[:more].tolist())
        return state._replace(lane=lane, waiting=waiting)

    def refuse_failed(self, lane: Lane, told: int) -> None:
        """Raise the error of a run that its rule, its problem or its family has ended."""
        if fault := int(np.asarray(lane.fault)[0]):
            raise failure(self.call, fault, told, int(self.call.runs[0]), live=True)

    def look(self, state: State) -> dict[str, np.ndarray]:
        """Evidence, beta and answer of the present statistics; see `look`."""
        return jax.tree.map(np.asarray, self.compute("look", state.lane))

    # States as arrays, for files.

    def kept(self, state: State) -> list[np.ndarray]:
        """A state as arrays; none where only its events give it."""
        lane = jax.tree.leaves(state.lane)
        if not lane or any(x.dtype.kind not in "biuf" for x in lane):
            return []
        others = np.array(state.waiting, np.int64), np.array([state.told, state.ended])
        return [np.asarray(x) for x in (*lane, *others)]

    def restored(self, arrays: Sequence[np.ndarray]) -> State | None:
        """The state of `kept`; None if its arrays are of other shapes."""
        *leaves, waiting, numbers = arrays
        with scope.on_cpu():
            begun = self.programs["start"].jit.eval_shape(
                self.inputs, self.queue, np.zeros(self.first)
            )
            known, structure = jax.tree.flatten(begun)
            if [(x.shape, x.dtype) for x in leaves] != [(x.shape, x.dtype) for x in known]:
                return None
            lane = jax.tree.unflatten(structure, jax.device_put(leaves))
        return State(lane, (), tuple(waiting.tolist()), *numbers.tolist())


def _check_joins(
    arms: Arms, rule: Any, stopping: Any, problem: Any, threshold: Any, **_: Any
) -> None:
    """Refuse a run that arms join and leave where no proof covers it."""
    family, of_arms = arms.family, isinstance(problem, BestArm) and problem.items is None
    names, weights = arms.names or arms.K, getattr(rule, "weights", None)
    for word, given, covered, allowed in (
        ("arms", arms.arms, arms.structure == "unstructured", "names without features"),
        ("arms", names, arms.names, "names"),
        ("costs", arms.costs, arms.costs is None, "None"),
        ("family", family, not getattr(family, "by_arm", False), "one std for all arms"),
        ("family", family, family.items is None, "rewards that have no items in common"),
        ("stack", arms.source, arms.source is None, "None"),
        ("problem", problem, of_arms, "BestArm() without items"),
        ("rule", rule, weights is None, "a rule without weights, which are of fixed arms"),
        ("threshold", threshold, isinstance(threshold, Mixture), "Mixture()"),
        ("stopping", stopping, not stopping.native, "a stop other than Native()"),
    ):
        if not covered:
            raise UnsupportedError(word, given, f"{allowed}, with most_arms={arms.most}")


def rows_of(event: dict) -> list[tuple[int, float, int, int]]:
    """The rows of an event "tell": arm, reward, how often it came, and the place of its item."""
    count = len(event["tell"])
    times, items = event.get("times", [1] * count), event.get("items", [0] * count)
    return list(zip(event["tell"], event["rewards"], times, items, strict=True))


def _answered(waiting: Sequence[int], rows: Iterable[tuple]) -> tuple[list, tuple[int, ...]]:
    """Rows, as of `rows_of`, in the order in which they enter, and the arms that wait then.

    Those that answer a waiting arm come first, in the order of its pulls.
    """
    pulls: dict[int, deque[int]] = defaultdict(deque)
    for place, arm in enumerate(waiting):
        pulls[arm].append(place)

    def answers(row: tuple) -> int:
        own = pulls[row[0]]
        places = [own.popleft() for _ in range(min(row[2], len(own)))]
        return places[0] if places else len(waiting)

    rows = sorted(rows, key=answers)  # which calls it in their order
    return rows, tuple(arm for place, arm in enumerate(waiting) if place in pulls[arm])


# The compiled functions.


def _block(rows: np.ndarray) -> tuple[np.ndarray, np.int32]:
    """Rows, filled up to one of few sizes, as each compiles; and how many they are."""
    places = BLOCK
    while places < len(rows):
        places *= 8
    table = np.zeros((places, rows.shape[1]), rows.dtype)
    table[: len(rows)] = rows
    return table, np.int32(len(rows))


def start(spec: Spec, inputs: Inputs, queue: Queue, rewards: Array) -> Lane:
    """The lanes after the initial pulls; rewards [n K], in rounds of all arms."""
    lanes = jnp.arange(spec.execution.lanes, dtype=jnp.int32)
    run = jnp.broadcast_to(queue.run[0], lanes.shape)
    wide = jnp.broadcast_to(rewards[:, None], (*rewards.shape, lanes.size))
    item = jnp.where(lanes == 0, 0, spec.execution.queue)  # the others are past its end
    return Step(spec).start(inputs, queue, item.astype(jnp.int32), run, 0 * run, wide)


def told(
    spec: Spec, inputs: Inputs, lane: Lane, rows: Array, count: Array, waiting: Array, out: Array
) -> Lane:
    """Enter the first `count` of `rows`, as of `rows_of`, and test all entered since the last test.

    The rule's own test may read its state after a choice. That choice is dropped: `chosen`
    makes it again. The first `out` arms of `waiting` [P, 1] have pulls that are pending now.
    """
    step, family, all_of_them = Step(spec), spec.family, jnp.ones_like(lane.done)
    space = step.space(inputs, lane.run.features)

    def enter(i: Array, now: Lane) -> Lane:
        row = jnp.broadcast_to(rows[i][:, None], (4, lane.done.size))
        arm, times, item = (row[n].astype(jnp.int32) for n in (0, 2, 3))

        def once(_: Array, now: Lane) -> Lane:
            whole = now.with_fixed(lane)
            got = arm, row[1], all_of_them, None if family.items is None else item
            return step.with_reward(inputs, whole, *got).varying

        return jax.lax.fori_loop(0, times[0], once, now)

    now = jax.lax.fori_loop(0, count, enter, lane.varying).with_fixed(lane)
    pending: Any = now.pending
    entered = pending.entered

    def wait(i: Array, ahead: Any) -> Any:
        pull = jnp.broadcast_to(waiting[i], lane.done.shape), ~lane.done
        return family.with_pending(space, entered, ahead, pull)

    ahead = family.with_pending(space, entered, entered)
    ahead = jax.lax.fori_loop(0, out, wait, ahead)
    pending = dataclasses.replace(pending, checked=entered.t)
    before = dataclasses.replace(now, stats=ahead)
    after = step.pull(inputs, before, pulls=False, work=bool(spec.rule.traits.native)).lane
    fault = jnp.where(after.fault % 8 == watching.ARM, lane.fault, after.fault)
    done = lane.done | jnp.all(after.record.samples > 0, (0, 1)) | (fault != 0)
    kept = dict(rule_state=lane.rule_state, pending=pending, fault=fault, done=done)
    return dataclasses.replace(after, **kept)


def chosen(spec: Spec, inputs: Inputs, lane: Lane, count: Array) -> tuple[Lane, Array]:
    """Choose `count` [] int32 further arms: the lanes, and the arms [BLOCK] int32."""
    step = Step(spec)

    def one(carry: tuple) -> tuple:
        n, now, arms = carry
        taken = step.pull(inputs, now.with_fixed(lane), tests=False)
        go = taken.go[0].astype(n.dtype)
        return n + go, taken.lane.varying, arms.at[n].set(taken.arm[0])

    def more(carry: tuple) -> Array:
        return (carry[0] < count) & ~carry[1].done[0]

    begun = jnp.int32(0), lane.varying, jnp.zeros(BLOCK, jnp.int32)
    _, now, arms = jax.lax.while_loop(more, one, begun)
    return now.with_fixed(lane), arms


def look(spec: Spec, inputs: Inputs, lane: Lane) -> dict[str, Any]:
    """What a run shows of its state: pieces, LLRs and log e [Q], their beta, the answer [W]."""
    step, pending = Step(spec), cast(Any, lane.pending)
    seen = step.snapshot_of(inputs, lane.run, pending.entered)
    active = seen.shape.exists
    if spec.stopping[0].eliminates:
        active = active & jax.tree.map(lambda x: x[0], lane.observers[0]).active(seen)
    shown = {
        "llr": seen.evidence.values(),
        "shape": seen.shape,
        "active": active,
        "public": seen.public,
        "beta": step.betas(lane)[0],
    }
    if seen.check.mixture is not None:
        first = jnp.arange(lane.done.size) == 0
        # Below 0 it is some lower bound, as no test needs more.
        shown["log_e"] = jnp.maximum(looks.of_answer(seen, first), 0)
    return jax.tree.map(lambda x: x[..., 0], shown)


def _compiled(spec: Spec, _: Any) -> dict[str, Jitted]:
    options = spec.execution.compiler_options(spec.family.optimization, inner_loops=True)
    functions = start, told, chosen, look
    return {f.__name__: Jitted(partial(f, spec), compiler_options=options) for f in functions}


programs = Cache(_compiled, KEPT)
"""The functions of a spec for inputs of one layout. Each compiles on its first call."""
