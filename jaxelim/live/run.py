"""A run on rewards that come from outside: a log of events, and the state after them."""

import os
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from jaxelim import checks
from jaxelim.contracts import Family, Problem, SamplingRule
from jaxelim.errors import ArgumentError, DamagedFileError, LiveFileWarning, UnsupportedError
from jaxelim.files import writable_file
from jaxelim.instances.arms import Arms
from jaxelim.live import given, joins, log
from jaxelim.live.fold import Fold, State
from jaxelim.live.look import Look
from jaxelim.live.report import Report
from jaxelim.simulation.experiment import LONGEST, Settings, takes_settings
from jaxelim.simulation.results.descriptions import made
from jaxelim.text import NotHere, text_of
from jaxelim.thresholds.mixture import Mixture

if TYPE_CHECKING:
    from jaxelim.tables import Table

_NOT_LIVE = {"runs", "noise", "record", "engine", "batch", "delay", "max_samples"}
"""Arguments of `simulate` that a live run has not."""


class LiveRun(Look):
    """A run of a sampling rule on rewards from outside, one at a time.

    `ask` gives the next arm, `tell` takes a reward. Each reward is followed by a check
    of elimination and stopping, as in `simulate`. A live run that is told the rewards of
    a simulated run, in order, makes the same pulls and stops at the same time.

    With the default threshold the answer is wrong with probability at most delta, if
    rewards of an arm are independent draws from one distribution of the family, and if
    the time at which a reward is told does not depend on its value. See
    docs/how-to/live-runs.md. `proven` says whether that holds for another threshold.

    Args:
        arms: features [K, d]; a number K, or K names, of independent arms; or a mapping
            of names to features.
        problem: as in `simulate`.
        rule: a sampling rule. `Oracle` needs weights.
        family: of the rewards; None: `Gaussian(1.0)`.
        delta: the error probability, in (0, 1).
        stopping: one stopping rule.
        threshold: as in `simulate`, which has another default. `Mixture()` is defined for
            most rewards and problems, without a ridge; elsewhere it is refused, and the
            message names another.
        most_arms: how many arms, which have names, are ever in, where some `add` and `remove`
            come; the proof covers all of them from the start. None: none comes.
        elimination, ridge, initial_pulls: as in `simulate`.
        seed, run: of the rule's own random choices, as in `simulate`.
        costs: [K] what a pull of each arm costs, in any unit; see `Instance`.

    Raises:
        ArgumentError, UnsupportedError, FamilyError, RuleError: as `simulate`.
    """

    @takes_settings(*_NOT_LIVE, threshold=Mixture())
    def __init__(
        self,
        arms: Any,
        problem: Problem,
        rule: SamplingRule,
        *,
        family: Family | None = None,
        costs: Any = None,
        run: int = 0,
        most_arms: int | None = None,
        **settings: Unpack[Settings],
    ):
        given: Any = {"threshold": Mixture(), **settings}
        arms = Arms.of(arms, family, costs)
        given |= {"run": run, "most_arms": most_arms}
        self._fold = self._first = Fold.of(arms, problem=problem, rule=rule, **given)
        self._state = State()
        self._events: list[dict] = []
        self._log: log.Log | None = None
        self._lock = threading.RLock()

    # Asking and telling.

    def ask(self, n: int | None = None) -> Any:
        """The next arm, and again the same arm until its `tell` returns.

        The first arms are the initial pulls, in rounds of all arms.

        Args:
            n: the number of arms, for a list of n that were not told yet: those that were
                asked for before come first. None: one arm. The rule chooses each of them
                without the rewards of the others, as in `simulate(batch=n)`. Of the
                initial pulls at most those that are left.

        Returns:
            The arm by its name, or by its number if it has none; or a list.

        Raises:
            OverError: the run has ended.
            UnsupportedError: so many initial pulls are not left.
            RuleError: the rule chose an arm out of range.
            StoreError: the file cannot be written; then nothing has changed.
        """
        count = 1 if n is None else checks.integer("n", n, low=1)
        with self._lock:
            self._refuse_over()
            arms = self._fold.due(self._state)
            if 0 < len(arms) < count:
                allowed = f"at most {len(arms)} until every arm has its first rewards"
                raise UnsupportedError("n", count, allowed)
            if not arms:
                after = self._fold.chosen(self._state, count)
                if new := after.waiting[len(self._state.waiting) :]:
                    self._commit({"ask": list(new)}, after)
                arms = list(after.waiting)
        named = [self._fold.arms.label(k) for k in arms[:count]]
        return named[0] if n is None else named

    def tell(
        self,
        told: Any = None,
        value: Any = None,
        /,
        *,
        arm: Any = None,
        reward: Any = None,
        counts: Any = None,
        missing: str = "refuse",
    ) -> int:
        """Take the reward of an arm, those of several arms in order, a table, or counts.

        ::

            run.tell("bold", 1)
            run.tell(frame, arm="variant", reward="converted")
            run.tell(Path("visitors.csv"))
            run.tell(counts={"plain": (241, 5000), "bold": (267, 5000)})

        The rewards of one call enter together, and one check follows. Those that answer arms
        that were asked for come first, in the order of their pulls. Rewards may come late, in
        any order, and from arms that nobody asked for. The first rewards of all arms enter
        together. After the end of the run rewards are recorded, and the answer stays.

        Args:
            told: an arm, by name or number; a sequence of arms; or a table: a data frame, a
                mapping of columns, a structured array, or a CSV file, as a path or open.
            value: a number or bool, or as many as arms; None with a table.
            arm, reward: the names of two columns of a table; None: it has no others. Without
                a table, as `told` and `value`.
            counts: in place of `told`: a mapping of arms to (sum, number) of rewards, so
                (hits, trials); of unknown variance to (sum, number, sum of squares).
            missing: "refuse" rows with an empty cell, or "skip" them.

        Returns:
            The number of rows that were left out.

        Raises:
            ArgumentError: no such arm or column, a cell that is no reward
                of the family, with its row, or counts that lack first rewards of an arm.
            UnsupportedError: the family needs more than counts.
            StoreError: the file cannot be written. After any error nothing has changed.
        """
        if told is None:
            told, arm = arm, None
        if counts is None:
            arms, rewards, left_out = given.entries(
                told, value, arm, reward, missing, self._fold.arms
            )
            with self._lock:
                self._commit({"tell": arms, "rewards": rewards})
            return left_out
        if told is not None:
            raise ArgumentError("counts", counts, "None beside an arm or a table")
        with self._lock:
            due, most = self._fold.due(self._state), LONGEST - self._state.told
            arms, rewards, times = given.counts(counts, self._fold.arms, due, most)
            self._commit({"tell": arms, "rewards": rewards, "times": times})
        return 0

    def add(self, arm: str, cost: float | None = None) -> None:
        """Let an arm join. It begins with its first pulls, which `ask` gives next.

        Arms that were asked for and not told wait no more; their rewards count when they come.
        An arm that was removed comes back with its rewards, and is not counted twice.

        Args:
            arm: its name.
            cost: of a pull; None: the run has no costs.

        Raises:
            OverError: the run has ended: a stop is never taken back.
            UnsupportedError: the run was made without `most_arms`.
            ArgumentError: the arm is in, is no name, or is one too many.
            StoreError: the file cannot be written. After any error nothing has changed.
        """
        with self._lock:
            held = self._joining("add", arm).held
            if not isinstance(arm, str) or arm in self.names:
                raise ArgumentError("arm", arm, "a new name, or that of an arm that was removed")
            if arm not in held and len(held) == self._fold.most_arms:
                allowed = f"one of {', '.join(held)}: most_arms={len(held)} of them have been in"
                raise ArgumentError("arm", arm, allowed)
            if (cost is None) != (self._first.arms.costs is None):
                raise ArgumentError("cost", cost, "a number in a run with costs, else None")
            cost = cost if cost is None else checks.real("cost", cost, low=0, open=True)
            self._commit({"add": arm, "cost": cost})

    def remove(self, arm: str) -> None:
        """Let an arm leave. The answer is the best of those that are in when it is given.

        Later rewards of the arm are refused. Arms that were asked for wait no more.

        Args:
            arm: its name.

        Raises:
            OverError, UnsupportedError, StoreError: as `add`.
            ArgumentError: there is no such arm, or two are left.
        """
        with self._lock:
            self._joining("remove", arm)
            k = self._fold.arms.index(arm)
            if len(self.names) == 2:
                raise ArgumentError("arm", arm, "one of three arms or more: a run compares two")
            self._commit({"remove": self.names[k]})

    def _joining(self, name: str, arm: Any) -> joins.Joined:
        """What the log says of the arms, where some may join and leave."""
        self._refuse_over()
        if self._fold.most_arms is None:
            raise UnsupportedError(name, arm, "a run that was made with most_arms=")
        return self._joined(self._events)

    def _joined(self, events: list[dict]) -> joins.Joined:
        """What some of the events say of the arms."""
        return joins.of_log(self._first.arms, events)

    def stop(self) -> "Table":
        """End the run by hand, for good.

        There is no answer then. Intervals and p-values hold, as they do at any time; see
        `intervals` and `p_values`. Later rewards are recorded.

        Returns:
            The summary.

        Raises:
            OverError: the run has ended before.
            UnsupportedError: not every arm has its first rewards.
            StoreError: the file cannot be written; then nothing has changed.
        """
        with self._lock:
            self._refuse_over()
            self._started("stop")
            self._commit({"stop": True})
        return self.summary()

    def _commit(self, event: dict, after: State | None = None) -> None:
        """Write an event, then change the state to that after it."""
        fold = self._fold
        if after is None:
            fold, after = self._next(event)
        if self._log is not None:
            self._log.append(len(self._events), event)
        self._events.append(event)
        self._fold, self._state = fold, after

    def _next(self, event: dict) -> tuple[Fold, State]:
        """The fold and the state after an event."""
        if "add" in event or "remove" in event:
            log = self._joined([*self._events, event])
            return self._first.joined(log, self._state.strayed)
        return self._fold, self._fold(self._state, event)

    # What is shown.

    def summary(self, forecast: bool = False) -> "Table":
        """A table with a row for each arm, and the state of the run in words.

        For each arm: the estimate and its difference to the leader's, with intervals; the
        p-value of the answer's being wrong about it; what its pulls cost; and its state.

        Args:
            forecast: whether to say how many more rewards the run needs, as `forecast()`.
        """
        may = forecast and self._state.lane is not None and not self._state.ended
        return Report(self).summary(self.forecast() if may else None)

    def __repr__(self) -> str:
        state = f"stopped: {', '.join(map(str, self.answer_arms))}" if self.stopped else "open"
        state = "ended by hand" if self.ended_by_hand else state
        rule = type(self._fold.call.rule).__name__
        return f"<LiveRun of {rule}, {len(self.names)} arms, {self.told} rewards, {state}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def _rewards(self) -> dict[Any, np.ndarray]:
        """The rewards of each arm that were told one by one, in order."""
        held = self._joined([event for event in self._events if "times" not in event]).held
        return {name: np.array([reward for reward, _ in held[name]]) for name in self.names}

    # Files.

    def save(self, path: Any = None) -> None:
        """Write the run to a file; from then on every `ask` and `tell` is appended to it.

        The file holds the settings, all that was asked and told, and the state. Each later
        event is on the disk before its call returns, so a killed process loses nothing.

        Args:
            path: a new file, or the file that the run has; None: the latter.

        Raises:
            ArgumentError: the file exists already, or the path cannot be written.
            StoreError: another process has the file open.
            StoreError: it cannot be written; then an older file stays as it was.
        """
        with self._lock:
            if path is None and self._log is None:
                raise ArgumentError("path", None, "the path of a new file")
            if self._log is None or (
                path is not None and os.path.abspath(path) != os.path.abspath(self._log.path)
            ):
                path = writable_file("path", path)
                if path.exists():
                    raise ArgumentError("path", str(path), "a new file; this one exists")
                new = log.Log(path, self._settings(), self._events)
                self.close()
                self._log = new
            if state := self._fold.kept(self._state):
                self._log.keep(len(self._events), state)

    def close(self) -> None:
        """Release the file; the run goes on without one."""
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None

    def __enter__(self) -> "LiveRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _settings(self) -> dict[str, str]:
        """The arguments of the run as text, for its file."""
        call, arms = self._first.call, self._first.arms
        own = {name: getattr(call, name) for name in Settings.__annotations__.keys() - _NOT_LIVE}
        own |= {"problem": call.problem, "rule": call.rule, "family": arms.family}
        own |= {"delta": call.delta[0], "stopping": call.stopping[0], "run": int(call.runs[0])}
        named = None if arms.names is None else dict(zip(arms.names, arms.arms, strict=True))
        own |= {"arms": arms.arms if named is None else named, "costs": arms.costs}
        own["most_arms"] = self._first.most_arms
        return {name: text_of(name, value) for name, value in own.items()}

    @staticmethod
    def load(path: str | os.PathLike[str], *, attach: bool = True, **own: Any) -> "LiveRun":
        """Read a run from its file, and go on with it.

        The state is taken from the file if this version wrote it. Otherwise all events
        are replayed.

        Args:
            path: the file.
            attach: whether the run goes on in this file; False to look only.
            own: those of problem, rule, family, stopping, elimination and threshold that are
                objects of one's own, not of jaxelim, with the settings that the file has.

        Raises:
            StoreError: the file cannot be read, or has a newer format.
            DamagedFileError: it is not as it was written.
            StoreError: another process has it open.
            ArgumentError: an object of one's own is missing.

        Warns:
            LiveFileWarning: a rule of another version chooses other arms than the recorded
                ones, which stay.
        """
        path = Path(path)
        held = log.Log(path) if attach and path.is_file() else None
        try:
            run = LiveRun._read(path, own)
        except BaseException:
            if held is not None:
                held.close()
            raise
        run._log = held
        if run._state.strayed:
            text = f"{path}: the rule chooses other arms here than in the file; those stay"
            warnings.warn(text, LiveFileWarning, stacklevel=2)
        return run

    @staticmethod
    def _read(path: Path, own: dict[str, Any]) -> "LiveRun":
        """The run of a file: its state, if this version wrote one, and the events after it."""
        contents = log.read(path)
        for name in own:
            checks.choice("own", name, contents.settings)

        def value(name: str, text: str) -> Any:
            try:
                given = own[name] if name in own else made(text)
                if name not in own or text_of(name, given) == text:
                    return given
            except (NotHere, ArgumentError):
                pass
            allowed = f"the {text} that the run was made with, given to load"
            raise ArgumentError(name, own.get(name), allowed)

        try:
            run = LiveRun(**{name: value(name, text) for name, text in contents.settings.items()})
        except (KeyError, TypeError) as error:
            raise DamagedFileError(path, "its settings cannot be read") from error
        done = contents.events[: contents.after]
        run._fold = run._first.among(*run._joined(done)[:2])
        state = run._fold.restored(contents.state) if contents.state else None
        if state is None:
            done, state, run._fold = [], State(), run._first
        run._events, run._state = done, state
        for n, event in enumerate(contents.events[len(run._events) :], len(run._events)):
            try:
                run._fold, run._state = run._next(event)
            except (KeyError, TypeError, ValueError) as error:
                raise DamagedFileError(path, f"event {n} cannot be replayed") from error
            run._events.append(event)
        return run
