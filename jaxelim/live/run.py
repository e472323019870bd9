"""A run on rewards that come from outside."""

import dataclasses
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim import checks
from jaxelim.contracts import Family, Problem, SamplingRule, StoppingRule
from jaxelim.errors import (
    ArgumentError,
    DamagedFileError,
    LiveFileWarning,
    OverError,
    UnsupportedError,
)
from jaxelim.files import writable_file
from jaxelim.live import book, report
from jaxelim.live.job import Arms, LiveJob
from jaxelim.live.moment import Moment, Moments
from jaxelim.live.program import Seen
from jaxelim.live.report import Evidence
from jaxelim.live.settings import arguments, encoded, versions
from jaxelim.simulation.failures import Place, failure
from jaxelim.simulation.proven import proven
from jaxelim.simulation.result import Summary
from jaxelim.stopping.llr import LLR
from jaxelim.thresholds.basic import Heuristic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LARGEST = 1e100
"""The largest absolute value of a reward, in the unit of a run; squares must not overflow."""


class LiveRun:
    """A run of a sampling rule on rewards from outside, one at a time.

    `ask` gives the next arm, `tell` takes a reward. Each reward is followed by a check
    of elimination and stopping, as in `simulate`. A live run that is told the rewards of
    a simulated run, in order, makes the same pulls and stops at the same time.

    The error probability is at most delta where the threshold keeps it, if rewards of
    an arm are independent draws from one distribution of the family, and if the time at
    which a reward is told does not depend on its value. See docs/how-to/live-runs.md.

    Args:
        arms: features [K, d]; a number K, or K names, of independent arms; or a mapping
            of names to features.
        problem: as in `simulate`.
        rule: a sampling rule. `Oracle` needs weights.
        family: of the rewards; None: `Gaussian(1.0)`.
        delta: the error probability, in (0, 1).
        stopping: one stopping rule.
        elimination, threshold, ridge, initial_pulls: as in `simulate`.
        seed, run: of the rule's own random choices, as in `simulate`.

    Raises:
        ArgumentError, UnsupportedError, FamilyError, RuleError: as `simulate`.
    """

    def __init__(
        self,
        arms: Any,
        problem: Problem,
        rule: SamplingRule,
        *,
        family: Family | None = None,
        delta: float = 0.01,
        stopping: StoppingRule = LLR(),  # noqa: B008 (frozen)
        elimination: Any = None,
        threshold: Callable = Heuristic(),  # noqa: B008 (frozen)
        ridge: float | None = None,
        initial_pulls: int | None = None,
        seed: int = 0,
        run: int = 0,
    ):
        found = Arms.of(arms)
        self._job = LiveJob.checked(
            found, problem, rule, family, delta, stopping, elimination, threshold, ridge,
            initial_pulls, seed, run,
        )  # fmt: skip
        self._moments = Moments(self._job)
        self._moment = self._moments.begin
        self._events: list[bytes] = []
        self._saved = 0  # events before the last state in the file
        self._book: book.Book | None = None
        self._lock = threading.RLock()
        self._settings = {
            "arms": encoded(found.features), "names": found.names and list(found.names),
            "problem": encoded(problem), "rule": encoded(rule), "family": encoded(family),
            "delta": float(delta), "stopping": encoded(stopping),
            "elimination": encoded(elimination), "threshold": encoded(threshold),
            "ridge": ridge, "initial_pulls": initial_pulls, "seed": seed, "run": run,
        }  # fmt: skip

    # Asking and telling.

    def ask(self, n: int | None = None) -> Any:
        """The next arm, and again the same arm until its `tell` returns.

        The first arms are the initial pulls, in rounds of all arms.

        Args:
            n: the number of arms, for a list of the next n; None: one arm. More than one
                is defined where no reward to come decides about them: for the initial
                pulls, and for rules such as `Uniform`, or inside a round or a phase.

        Returns:
            The arm by its name, or by its number if it has none; or a list.

        Raises:
            OverError: the run has ended.
            UnsupportedError: rewards to come decide about the n arms.
            RuleError: the rule chose an arm out of range.
            StoreError: the file cannot be written; then nothing has changed.
        """
        count = 1 if n is None else checks.integer("n", n, low=1)
        with self._lock:
            self._refuse_over()
            if self._moment.lane is None:
                found = self._moments.due(self._moment)
                if count > len(found):
                    allowed = f"at most {len(found)} until every arm has its first rewards"
                    raise UnsupportedError("n", count, allowed)
            else:
                after = self._moments.asked(self._moment, count)
                new = after.asked[len(self._moment.asked) :]
                if new:
                    self._commit(after, {"ask": list(new)})
                found = list(after.asked)
        named = [self._job.arms.name(k) for k in found[:count]]
        return named[0] if n is None else named

    def tell(self, arm: Any, reward: Any) -> None:
        """Take the reward of an arm, or those of several arms in order.

        Rewards may come late, in any order, and from arms that nobody asked for. Those
        enter statistics and t, not the rule's state. The first rewards of all arms enter
        together. After the end of the run rewards are recorded, and the answer stays.

        Args:
            arm: a name or number, or a sequence of them.
            reward: a number, or as many numbers.

        Raises:
            UnknownNameError, ArgumentError: no such arm, or a reward that the family
                cannot draw. Then nothing has changed.
            StoreError: the file cannot be written; then nothing has changed.
        """
        several = isinstance(arm, Sequence | np.ndarray) and not isinstance(arm, str)
        arms = [self._job.arms.index(one) for one in (arm if several else [arm])]
        shape = (len(arms),) if several else ()
        rewards = checks.real_array("reward", reward, shape=shape).reshape(-1)
        if not arms:
            raise ArgumentError("arm", arm, "an arm, or a non-empty sequence of arms")
        family = self._job.job.instance.family
        large = np.abs(rewards) > LARGEST * family.scale
        family.refuse_rewards(rewards, large, f"of at most {LARGEST:g} units")
        family.check_rewards(rewards)
        values = rewards.tolist()
        with self._lock:
            after = self._moments.told(self._moment, arms, values)
            self._commit(after, {"tell": arms, "rewards": values})

    def _commit(self, after: Moment, event: dict) -> None:
        """Write an event, then change the state."""
        event = {"n": len(self._events), **event}
        if self._book is not None:
            self._book.append(event)
        self._events.append(book.line(event))
        self._moment = after

    def _refuse_over(self) -> None:
        seen = self._moment.seen
        if seen is None or not seen.over:
            return
        job = self._job.job
        if seen.bad_arm or seen.bad_answer or seen.fault:
            place = Place(seen.t, int(job.runs[0]), live=True)
            raise failure(job, seen.bad_arm, seen.bad_answer, seen.fault, place)
        raise OverError(self.answer_arms, seen.samples)

    # What is known.

    @property
    def names(self) -> tuple:
        """The arms as the caller names them: [K]."""
        return tuple(self._job.arms.name(k) for k in range(len(self._job.arms.features)))

    @property
    def first(self) -> int:
        """The number of initial pulls, which enter together."""
        return self._job.first

    @property
    def settings(self) -> dict[str, Any]:
        """The problem, the rule, delta and the threshold."""
        job, own = self._job.job, ("problem", "rule", "threshold")
        return {"delta": float(job.deltas[0]), **{name: getattr(job, name) for name in own}}

    @property
    def proven(self) -> bool | str:
        """As `Result.proven`: True, or why the threshold does not prove the answer."""
        return proven(self._job.job, truth=False)

    @property
    def stopped(self) -> bool:
        """Whether the run has ended, by its stopping rule."""
        return self._moment.over and bool(self._moment.seen and self._moment.seen.stopped)

    @property
    def samples(self) -> int:
        """The number of rewards until the run ended; so far, if it is open."""
        seen = self._moment.seen
        return seen.samples if self.stopped and seen is not None else self._moment.told

    @property
    def told(self) -> int:
        """The number of all rewards, those after the end of the run too."""
        return self._moment.told

    @property
    def waiting(self) -> tuple:
        """Arms that were asked for and not told; without the initial pulls."""
        return tuple(map(self._job.arms.name, self._moment.asked))

    @property
    def counts(self) -> np.ndarray:
        """The number of rewards of each arm: int64 [K]."""
        if self._moment.lane is None:
            late = np.bincount([k for k, _ in self._moment.early], minlength=len(self.names))
            return np.array([len(one) for one in self._moment.first]) + late
        return np.asarray(self._moment.lane.stats.counts)[:, 0].astype(np.int64)

    @property
    def means(self) -> np.ndarray:
        """The estimates: float64 [K]; NaN for arms without a reward before the start.

        Averages of the rewards; for linear arms phi_k . theta_hat.
        """
        lane, scale = self._moment.lane, self._job.job.instance.family.scale
        if lane is not None:
            return np.asarray(lane.stats.means)[:, 0] * scale
        each = [list(one) for one in self._moment.first]
        for k, reward in self._moment.early:
            each[k].append(reward)
        return np.array([np.mean(one) if one else np.nan for one in each])

    @property
    def answer(self) -> np.ndarray | None:
        """The answer, bool [K] as in `Trace`; None before the start.

        While the run is open it is the empirical answer, without guarantee.
        """
        lane = self._moment.lane
        if lane is None:
            return None
        if self.stopped:
            return np.asarray(lane.answers)[0, 0, :, 0]
        return self._moments.look(self._moment)["public"]

    @property
    def answer_arms(self) -> tuple:
        """The arms in the answer, as the caller names them; numbers of items or answers."""
        answer = self.answer
        if answer is None:
            return ()
        of_arms = self._job.job.problem.answer_axis is None and answer.size == len(self.names)
        name = self._job.arms.name if of_arms else int
        return tuple(name(k) for k in np.flatnonzero(answer).tolist())

    @property
    def elimination_times(self) -> np.ndarray | None:
        """t when the stopping rule eliminated each arm, 0 for never: as in `Trace`.

        [K]; of top m [K, K], ordered pairs. None where nothing is recorded.
        """
        lane, spec = self._moment.lane, self._job.spec
        if lane is None or not spec.stopping[0].eliminates:
            return None
        found = lane.observers[0].times()
        if found is None:
            return None
        found = np.asarray(found)[0, ..., 0]
        return np.where(found <= self.samples, found, 0)

    @property
    def active(self) -> np.ndarray:
        """What is not eliminated, bool: arms [K], or of `elimination_times`' shape.

        Where times are not recorded: the pieces of the empirical answer.
        """
        times = self.elimination_times
        if times is not None:
            return times == 0
        if self._moment.lane is None or not self._job.spec.stopping[0].eliminates:
            return np.ones(len(self.names), bool)
        return self.evidence.active

    @property
    def evidence(self) -> Evidence:
        """The LLR of each piece of the empirical answer, beside beta.

        Raises:
            UnsupportedError: not every arm has its first rewards.
        """
        if self._moment.lane is None:
            allowed = f"after the first {self.first} rewards, {self.told} so far"
            raise UnsupportedError("evidence", self, allowed)
        found = self._moments.look(self._moment)
        of_arms = self._job.job.problem.answer_axis is None
        return Evidence.of(found, self._job.arms.name if of_arms else None)

    def summary(self) -> Summary:
        """A table with a row for each arm, and the state of the run in words."""
        return report.summary(self)

    def figure(self) -> "Figure":
        """The LLRs of the pieces beside beta, and the arms' means and pulls.

        Raises:
            UnsupportedError: not every arm has its first rewards.
        """
        return report.figure(self)

    # Files.

    def save(self, path: Any = None) -> None:
        """Write the run to a file; from then on every `ask` and `tell` is appended to it.

        The file holds the settings, all that was asked and told, and the state. It is
        replaced by rename. Each later event is on the disk before its call returns, so a
        killed process loses nothing.

        Args:
            path: a new file, or the file that the run has; None: the latter.

        Raises:
            ArgumentError: the file exists already, or the path cannot be written.
            LockedError: another process has the file open.
            StoreError: it cannot be written; then an older file stays.
        """
        with self._lock:
            if path is None and self._book is None:
                raise ArgumentError("path", None, "the path of a new file")
            if self._book is None or (path is not None and Path(path) != self._book.path):
                path = writable_file("path", path)
                if path.exists():
                    raise ArgumentError("path", str(path), "a new file; this one exists")
                new = book.Book(path)
                try:
                    new.rewrite(self._settings, self._events, self._state())
                except BaseException:
                    new.close()
                    raise
                self.close()
                self._book = new
            else:
                self._book.rewrite(self._settings, self._events, self._state())
            self._saved = len(self._events)

    @property
    def unsaved(self) -> int:
        """The number of events since the last state in the file; `load` replays them."""
        return len(self._events) - self._saved

    def close(self) -> None:
        """Release the file; the run goes on without one."""
        with self._lock:
            if self._book is not None:
                self._book.close()
                self._book = None

    def __enter__(self) -> "LiveRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _state(self) -> dict | None:
        """The state as JSON; None where only the events give it."""
        moment = self._moment
        leaves = None if moment.lane is None else self._moments.leaves(moment)
        if leaves is None:
            return None
        return {
            "versions": versions(),
            "leaves": [book.leaf(x) for x in leaves],
            "seen": list(moment.seen or ()),
            "asked": list(moment.asked),
            "told": moment.told,
        }

    @staticmethod
    def load(
        path: Any,
        *,
        attach: bool = True,
        problem: Problem | None = None,
        rule: SamplingRule | None = None,
        family: Family | None = None,
        stopping: StoppingRule | None = None,
        elimination: Any = None,
        threshold: Callable | None = None,
    ) -> "LiveRun":
        """Read a run from its file, and go on with it.

        The state is taken from the file if this version wrote it. Otherwise all events
        are replayed.

        Args:
            path: the file.
            attach: whether the run goes on in this file; False to look only.
            problem, rule, family, stopping, elimination, threshold: those of the run
                that are objects of one's own, not of jaxelim.

        Raises:
            StoreError: the file cannot be read, or has a newer format.
            DamagedFileError: it is not as it was written, in other places than its last
                line.
            LockedError: another process has it open.
            ArgumentError: an object of one's own is missing.

        Warns:
            LiveFileWarning: the last line was not whole and is dropped; or a rule of
                another version chooses other arms than the recorded ones, which stay.
        """
        path = Path(path)
        held = book.Book(path) if attach and path.is_file() else None
        try:
            found = book.read(path)
            own = dict(problem=problem, rule=rule, family=family, stopping=stopping,
                       elimination=elimination, threshold=threshold)  # fmt: skip
            try:
                arms, given = arguments(found.settings, own)
                run = LiveRun(arms, **given)
            except (KeyError, TypeError) as error:
                raise DamagedFileError(path, "its settings cannot be read") from error
            run._resume(path, found)
            if found.torn:
                text = f"{path}: {found.torn} at the end is dropped; no call had returned it"
                warnings.warn(text, LiveFileWarning, stacklevel=2)
                if held is not None:
                    held.cut(found.length)
        except BaseException:
            if held is not None:
                held.close()
            raise
        run._book = held
        return run

    def _resume(self, path: Path, found: book.Contents) -> None:
        """Take the state of a file, and replay the events after it."""
        self._events = [book.line(event) for event in found.events]
        done = self._saved = found.at if self._restore(found.state) else 0
        other = None
        for event in found.events[done:]:
            try:
                other = self._replay(event) or other
            except (KeyError, TypeError, ValueError) as error:
                raise DamagedFileError(path, f"event {event['n']} cannot be replayed") from error
        if other is not None:
            text = f"{path}: the rule chooses other arms here than in the file; those stay"
            warnings.warn(text, LiveFileWarning, stacklevel=3)

    def _restore(self, state: dict | None) -> bool:
        """Take a state, if this version wrote it."""
        if state is None or state.get("versions") != versions():
            return False
        seen = Seen(*state["seen"])
        found = self._moments.restored([book.array(x) for x in state["leaves"]], seen)
        if found is None:
            return False
        self._moment = Moment(*found, seen, (), (), tuple(state["asked"]), state["told"])
        return True

    def _replay(self, event: dict) -> bool:
        """Repeat an event; returns whether the rule chose other arms than those recorded."""
        if "tell" in event:
            self._moment = self._moments.told(self._moment, event["tell"], event["rewards"])
            return False
        now, recorded = self._moment, tuple(event["ask"])
        after = (*now.asked, *recorded)
        try:
            chosen = now if now.over else self._moments.asked(now, len(after))
        except UnsupportedError:
            chosen = now
        self._moment = dataclasses.replace(chosen, asked=after)
        return chosen.asked != after
