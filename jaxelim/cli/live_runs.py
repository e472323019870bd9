"""`jaxelim live new|ask|tell|show|add|remove|stop FILE`: a live run in a file, from the shell."""

import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from jaxelim import catalogue, checks, instances
from jaxelim.cli.instances import RULE, Compiles, Settings, text
from jaxelim.errors import ArgumentError, StoreError
from jaxelim.files import writable_file
from jaxelim.live.report import Report
from jaxelim.live.run import LiveRun

File = Annotated[Path, tyro.conf.Positional]


@dataclasses.dataclass(frozen=True, kw_only=True)
class New(Settings):
    """Begin a live run in a new file."""

    file: File
    """The file."""
    arms: tuple[str, ...] = ()
    """Names of independent arms, or one number of them."""
    features: str | None = None
    """In place of --arms: a shipped instance or a JSON file, for its arms' features."""
    family: Annotated[str, text("Their rewards, such as 'Bounded(0, 5)'.", "family")] = "gaussian"
    rule: Annotated[str, text(RULE, "rule")] = "ebtci"
    stopping: Annotated[str, text("", "stopping")] = "selective"
    threshold: Annotated[str, text("", "threshold")] = "mixture"
    delta: float = 0.05
    """Error probability."""
    run: int = 0
    """The run index, for the rule's own random choices."""
    most_arms: int | None = None
    """How many arms are ever in, if some `add` and `remove` come; default: none comes."""
    stack: tuple[int, ...] = ()
    """How many rewards each arm has, if each is told once: one number, or one an arm."""

    def act(self) -> None:
        """Write the file, and print the first arm."""
        arms, costs = self._arms()
        problem = catalogue.problem_on(self.features, self.problem)
        rule, family = (catalogue.made(x, getattr(self, x)) for x in ("rule", "family"))
        writable_file("file", self.file)
        own: Any = dict(family=family, costs=costs, run=self.run, most_arms=self.most_arms)
        if self.stack:
            own["stack"] = self.stack[0] if len(self.stack) == 1 else self.stack
        with LiveRun(arms, problem, rule, **own, **self.settings()) as run:
            run.save(self.file)
            arms = len(run.names)
            print(f"{self.file}: {rule!r}, {problem!r}, {arms} arm{'s' * (arms > 1)} of "
                  f"{family!r}, delta {self.delta:g}. First: {run.ask()}")  # fmt: skip

    def _arms(self) -> tuple[Any, Any]:
        """The arms as `LiveRun` takes them, and their costs."""
        if (self.features is None) == (not self.arms):
            raise ArgumentError("arms", self.arms, "--arms NAME NAME .. or --features FILE")
        if self.features is not None:
            of_file = instances.load_instance(self.features)
            return of_file.arms, self.costs or of_file.costs
        number = len(self.arms) == 1 and self.arms[0].isdigit()
        return int(self.arms[0]) if number else list(self.arms), self.costs or None


@dataclasses.dataclass(frozen=True)
class OfFile(Compiles):
    """What the commands on a run that has begun have in common."""

    file: File
    """The file of the run."""


@dataclasses.dataclass(frozen=True)
class Ask(OfFile):
    """Print the next arm."""

    n: int | None = None
    """Print the next n arms, which are chosen without the rewards in between."""

    def act(self) -> None:
        """Print the arms."""
        with LiveRun.load(self.file) as run:
            arms = run.ask(self.n)
            print("\n".join(map(str, [arms] if self.n is None else arms)))
            _keep_state(run)


@dataclasses.dataclass(frozen=True)
class Tell(OfFile):
    """Take rewards."""

    rewards: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """An arm and its reward, or several: ARM REWARD ARM REWARD .."""
    csv: Path | None = None
    """In place of them: a CSV file with a row for each reward, the arm and the reward; - for
    standard input. A first row of two names is passed over."""
    arm: str | None = None
    """Name of the file's column of arms, if it has more than two columns."""
    reward: str | None = None
    """Name of its column of rewards."""
    item: tuple[str, ...] = ()
    """Of paired rewards: the name of its column of items; or without a file an item for each
    reward."""
    missing: Literal["refuse", "skip"] = "refuse"
    """What to do with rows that have an empty cell."""
    counts: tuple[str, ...] = ()
    """In place of rewards: ARM=SUM/NUMBER of each arm, so hits/trials; with unknown variance
    ARM=SUM/NUMBER/SQUARES."""

    def act(self) -> None:
        """Take them, and print how the run stands."""
        words = self.rewards
        given = [name for name in ("rewards", "csv", "counts") if getattr(self, name)]
        if len(given) != 1 or len(words) % 2:
            allowed = "an arm and a reward, as often as you like; or --csv; or --counts"
            raise ArgumentError("rewards", words, allowed, " and ".join(given) if given[1:] else "")
        with LiveRun.load(self.file) as run:
            notes = []
            if self.counts:
                run.tell(counts=dict(map(_counted, self.counts)))
            elif self.csv is None:
                run.tell(words[::2], words[1::2], item=self.item or None)
            else:
                table: Any = sys.stdin if str(self.csv) == "-" else self.csv
                own: Any = dict(arm=self.arm, reward=self.reward, missing=self.missing)
                own["item"] = self.item[0] if self.item else None
                left_out = run.tell(table, **own)
                if left_out:
                    notes.append(f"Rows left out for an empty cell: {left_out}.")
            _keep_state(run)
            print("\n".join([*notes, Report(run).standing()]))


@dataclasses.dataclass(frozen=True)
class Show(OfFile):
    """Print arms, intervals, p-values and the evidence; change nothing."""

    forecast: bool = False
    """Say how many more rewards the run needs, by simulating on from the estimates."""
    figure: Path | None = None
    """Draw the evidence into this file."""

    def act(self) -> None:
        """Print, and draw."""
        if self.figure is not None:
            from jaxelim.figures.style import figure_file, save  # matplotlib is slow to import

            figure_file("figure", self.figure)
        run = LiveRun.load(self.file, attach=False)
        print(run.summary(self.forecast))
        if run.answer is not None:
            print(run.evidence)
        if self.figure is not None:
            save(run.figure(), self.figure)
            print(f"wrote {self.figure}")


@dataclasses.dataclass(frozen=True)
class Add(OfFile):
    """Let an arm join a run with --most-arms."""

    arm: Annotated[str, tyro.conf.Positional]
    """Its name."""
    change: ClassVar = staticmethod(LiveRun.add)

    def act(self) -> None:
        """Change the run, and print how it stands."""
        with LiveRun.load(self.file) as run:
            self.change(run, self.arm)
            _keep_state(run)
            print(Report(run).standing())


@dataclasses.dataclass(frozen=True)
class Remove(Add):
    """Let an arm leave a run with --most-arms."""

    change: ClassVar = staticmethod(LiveRun.remove)


@dataclasses.dataclass(frozen=True)
class Stop(OfFile):
    """End the run by hand: there is no answer then; intervals and p-values hold."""

    def act(self) -> None:
        """End it."""
        with LiveRun.load(self.file) as run:
            print(run.stop())


def _counted(text: str) -> tuple[str, tuple]:
    """The arm and the sums of ARM=SUM/NUMBER or ARM=SUM/NUMBER/SQUARES."""
    arm, _, numbers = text.rpartition("=")
    values = tuple(map(checks.written, numbers.split("/")))
    return arm, values


def _keep_state(run: LiveRun) -> None:
    """Write the state, so that the next command neither replays events nor compiles for it.

    The events are in the file already, so that one which cannot be rewritten lacks nothing.
    """
    with contextlib.suppress(StoreError):
        run.save()
