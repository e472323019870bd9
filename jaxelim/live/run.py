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
from jaxelim.instances.arms import Arms, is_name
from jaxelim.live import given, log
from jaxelim.live.fold import Fold, State, rows_of
from jaxelim.live.look import Look
from jaxelim.live.report import Report
from jaxelim.simulation.experiment import LONGEST, Settings, takes_settings
from jaxelim.simulation.results.descriptions import made
from jaxelim.text import NotHere, text_of
from jaxelim.thresholds import Mixture

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
    rewards of an arm are independent draws from one distribution of the family, or a whole
    `stack` in a random order, and if the time at which a reward is told does not depend on
    its value: docs/how-to/live-runs.md. `proven` says whether another threshold has a proof.

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
        most_arms: how many arms are ever in, if some `add` and `remove` come: independent arms
            with names, at most 10^6. The proof covers them all from the start. None: none comes.
        elimination, ridge, initial_pulls: as in `simulate`.
        seed, run: of the rule's own random choices, as in `simulate`.
        costs: [K] what a pull of each arm costs, in any unit; see `Instance`.
        stack: how many rewards each arm has, where each is told once: a number for all arms, or
            [K]. They come in a random order, of each arm by itself, or of `Paired` in one for
            all. Rows of a `tell` that answer no `ask` are shuffled. An arm that was told all
            has a known mean, and is not asked for; the run ends with an answer where all are
            known. See docs/how-to/a-stack-that-ends.md. None: rewards do not end.

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
        stack: Any = None,
        **settings: Unpack[Settings],
    ):
        own: Any = {"threshold": Mixture(), **settings}
        own |= {"problem": problem, "rule": rule, "run": run}
        kept: Any = {"family": family, "costs": costs, "most": most_arms, "stack": stack}
        self._fold_of = lambda arms: Fold.of(Arms(arms, **kept), **own)
        self._first = self._fold_of(arms)
        self._now = self._first, State()
        self._events: list[dict] = []
        self._items = given.Items()
        self._log: log.Log | None = None
        self._lock = threading.RLock()

    # Asking and telling.

    def ask(self, n: int | None = None) -> Any:
        """The next arm, and again the same arm until its `tell` returns.

        The first arms are the initial pulls, in rounds of all arms.

        Args:
            n: the number of arms, for a list of n that were not told yet: those that were
                asked for before come first. None: one arm. The rule chooses each of them
                without the rewards of the others, as in `simulate(batch=n)`. Fewer than n
                while initial pulls are left, at most these, and at the end of a `stack`.

        Returns:
            The arm by its name, or by its number if it has none; or a list.

        Raises:
            OverError: the run has ended.
            UnsupportedError: the arm has a score of all items that `Paired` keeps.
            RuleError: the rule chose an arm out of range.
            StoreError: the file cannot be written; then nothing has changed.
        """
        count = 1 if n is None else checks.integer("n", n, low=1)
        with self._lock:
            self._refuse_over()
            arms = self._fold.due(self._state)
            if not arms:
                left = self._fold.left(self._state)
                count = count if left is None else min(count, int(left.sum()))
                after = self._fold.chosen(self._state, count)
                counts, family = self._fold.counts(after), self._fold.arms.family
                if (room := given.room(after.waiting, counts, family)) < count:
                    count, after = room, self._fold.chosen(self._state, room)
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
        item: Any = None,
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
            item: the name or number of the item, of `Paired` rewards; as many as arms; or the name
                of a column. None: the next one of a single arm, which are numbered from 0. Which
                items an arm has, and their order, may depend on no score: scores may come late,
                but not be chosen.
            counts: in place of `told`: a mapping of arms to (sum, number) of rewards, so
                (hits, trials); of unknown variance to (sum, number, sum of squares).
            missing: "refuse" rows with an empty cell, or "skip" them.

        Returns:
            The number of rows that were left out.

        Raises:
            ArgumentError: no such arm or column, a cell that is no reward
                of the family, with its row, an item that the arm has a score of, or more
                rewards than its stack has.
            UnsupportedError: the family needs more than counts.
            StoreError: the file cannot be written. After any error nothing has changed.
        """
        if told is None:
            told, arm = arm, None
        with self._lock:  # as the numbers of arms change when one joins or leaves
            fold, state = self._now
            if counts is not None:
                if told is not None:
                    raise ArgumentError("counts", counts, "None beside an arm or a table")
                arms, rewards, times = given.counts(counts, fold.arms, LONGEST - state.told)
                self._commit({"tell": arms, "rewards": rewards, "times": times})
                return 0
            arms, rewards, left_out, items = given.entries(
                told, value, arm, reward, missing, fold.arms, item
            )
            if fold.arms.source is not None:
                waiting, seed = fold.due(state) or state.waiting, [fold.call.seed, state.told]
                arms, rewards, items = given.in_order((arms, rewards, items), waiting, seed)
            of_items = given.places(items, arms, fold.arms, self._items, self._events)
            self._commit({"tell": arms, "rewards": rewards, **of_items})
        return left_out

    def add(self, arm: str) -> None:
        """Let an arm join; `ask` gives its first pulls next. See docs/how-to/arms-that-join.md.

        One that was removed comes back with its rewards. Arms that were asked for and not
        told wait no more.

        Raises:
            OverError: the run has ended: a stop is never taken back.
            ArgumentError: the arm is in, or is one more than `most_arms`, or there is none.
            StoreError: the file cannot be written. After any error nothing has changed.
        """
        with self._lock:
            most = self._most()
            if not is_name(arm) or arm in self.names or len({*self._members()[1], arm}) > most:
                allowed = f"an arm that is not in, one of most_arms={most} that ever are, by name"
                raise ArgumentError("arm", arm, allowed)
            self._commit({"add": arm})

    def remove(self, arm: str) -> None:
        """Let an arm leave: the answer is the best of those that are in when it is given.

        Later rewards of it are refused. Arms that were asked for and not told wait no more.

        Raises:
            ArgumentError: there is no such arm, two are left (with a reference one), or there
                is no `most_arms`.
            OverError, StoreError: as `add`.
        """
        with self._lock:
            self._most()
            problem: Any = self._first.call.problem
            least, words = (2, "three") if problem.reference is None else (1, "two")
            if arm not in self.names or len(self.names) == least:
                raise ArgumentError("arm", arm, f"one of {words} arms or more that are in")
            self._commit({"remove": arm})

    def _most(self) -> int:
        """How many arms are ever in; refuse a run that is over, or of fixed arms."""
        self._refuse_over()
        if (most := self._first.arms.most) is None:
            allowed = "a number, given when the run begins: without it no arm joins or leaves; "
            allowed += "begin another run with it, and tell it the rewards of this one"
            raise UnsupportedError("most_arms", None, allowed)
        return most

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
        """Write an event, then change the state to that after it.

        Where an arm joins or leaves, those that are in are told all their rewards at once, as to
        a run that begins. So an arm that joins has first pulls.
        """
        fold, state = self._now
        if event.keys() & {"add", "remove"}:
            inside, of_arms = self._members([*self._events, event])
            rows = [(k, *row) for k, name in enumerate(inside) for row in of_arms[name]]
            tell, rewards, times = ([row[place] for row in rows] for place in range(3))
            fold = self._fold_of(inside)
            state = State(told=self.told - int(sum(times)), strayed=state.strayed)
            after = fold(state, {"tell": tell, "rewards": rewards, "times": times})
        after = fold(state, event) if after is None else after
        if self._log is not None:
            self._log.append(len(self._events), event)
        self._events.append(event)
        self._now = fold, after

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

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def _members(self, events: list[dict] | None = None) -> tuple[list, dict[Any, list[list]]]:
        """The arms that are in after events, and by name the rows of all that ever were."""
        inside = list(map(self._first.arms.label, range(self._first.arms.K)))
        rows: dict[Any, list] = {name: [] for name in inside}
        for event in self._events if events is None else events:
            if "add" in event:
                inside.append(event["add"])
                rows.setdefault(event["add"], [])
            elif "remove" in event:
                inside.remove(event["remove"])
            elif "tell" in event:
                for k, *row in rows_of(event):
                    rows[inside[k]].append(row)
        return inside, rows

    def _rewards(self) -> dict[Any, np.ndarray]:
        """The rewards of each arm that were told one by one, in order."""
        of_arms = self._members([event for event in self._events if "times" not in event])[1]
        return {name: np.array([row[0] for row in of_arms[name]]) for name in self.names}

    # Files.

    def save(self, path: Any = None) -> None:
        """Write the run to a file; from then on every `ask` and `tell` is appended to it.

        The file holds the settings, all that was asked and told, and the state. Each later
        event is on the disk before its call returns, so a killed process loses nothing.

        Args:
            path: a new file, or the file that the run has; None: the latter.

        Raises:
            ArgumentError: the file exists already, or the path cannot be written.
            StoreError: another process has the file open, or it cannot be written; then an
                older file stays as it was.
        """
        with self._lock:
            if path is None and self._log is None:
                raise ArgumentError("path", None, "the path of a new file")
            held = self._log
            own = held and os.path.abspath(held.path)
            if not held or (path is not None and os.path.abspath(path) != own):
                path = writable_file("path", path)
                if path.exists():
                    raise ArgumentError("path", str(path), "a new file; this one exists")
                held = log.Log(path, self._settings(), self._events)
                self.close()
                self._log = held
            if state := self._fold.kept(self._state):
                held.keep(len(self._events), state)

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
        names = (Settings.__annotations__.keys() - _NOT_LIVE) | {"problem", "rule"}
        own: Any = {name: getattr(call, name) for name in names}
        own |= {"delta": call.delta[0], "stopping": call.stopping[0], "run": int(call.runs[0])}
        named = None if arms.names is None else dict(zip(arms.names, arms.arms, strict=True))
        own |= {"arms": arms.arms if named is None else named, "family": arms.family}
        own |= {"costs": arms.costs, "most_arms": arms.most}
        source: Any = arms.source
        if source is not None:
            own["stack"] = list(source.sizes)
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
            StoreError: the file cannot be read, has a newer format, or is open elsewhere.
            DamagedFileError: it is not as it was written.
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
        fold = run._fold_of(run._members(done)[0]) if run._first.arms.most else run._first
        if contents.state and (state := fold.restored(contents.state)):
            run._now, run._events = (fold, state), done
        for n, event in enumerate(contents.events[len(run._events) :], len(run._events)):
            try:
                run._commit(event)
            except (KeyError, TypeError, ValueError) as error:
                raise DamagedFileError(path, f"event {n} cannot be replayed") from error
        return run
