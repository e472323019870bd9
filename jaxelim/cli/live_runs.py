"""`jaxelim live new|ask|tell|show|add|remove|stop FILE`: a live run in a file, from the shell."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from jaxelim import catalogue, checks, instances
from jaxelim.cli import Compiles, write
from jaxelim.cli.instances import Rule, Settings, Threshold, text
from jaxelim.errors import ArgumentError, StoreError
from jaxelim.files import writable_file
from jaxelim.live.report import Report
from jaxelim.live.run import LiveRun


class New(Settings):
    """Begin a live run in a new file."""

    file: Annotated[Path, tyro.conf.Positional]
    """The file."""
    arms: tuple[str, ...] = ()
    """Names of independent arms, or one number of them."""
    features: str | None = None
    """In place of --arms: a shipped instance or a JSON file, for its arms' features."""
    family: Annotated[str, text("Their rewards, such as 'Bounded(0, 5)'.", "family")] = "gaussian"
    rule: Rule = "ebtci"
    stopping: Annotated[str, text("", "stopping")] = "selective"
    threshold: Threshold = "mixture"
    delta: float = 0.05
    """Error probability."""
    run: int = 0
    """The run index, for the rule's own random choices."""
    most_arms: int | None = None
    """How many arms are ever in, if some `add` and `remove` come; default: none comes."""
    stack: tuple[int, ...] = ()
    """How many rewards each arm has, if each is told once: one number, or one an arm."""

    def act(self) -> None:
        if (self.features is None) == (not self.arms):
            raise ArgumentError("arms", self.arms, "--arms NAME NAME .. or --features FILE")
        arms, costs = list(self.arms), self.costs or None
        if self.features is not None:
            of_file = instances.load_instance(self.features)
            arms, costs = of_file.arms, costs or of_file.costs
        elif len(arms) == 1 and arms[0].isdigit():
            arms = int(arms[0])
        problem = catalogue.problem_on(self.features, self.problem)
        rule, family = (catalogue.made(x, getattr(self, x)) for x in ("rule", "family"))
        writable_file("file", self.file)
        stack = self.stack[0] if len(self.stack) == 1 else self.stack or None
        with LiveRun(arms, problem, rule, family=family, costs=costs, stack=stack, run=self.run,
                     most_arms=self.most_arms, **self.settings()) as run:  # fmt: skip
            run.save(self.file)
            n = len(run.names)
            print(f"{self.file}: {rule!r}, {problem!r}, {n} arm{'s' * (n > 1)} of {family!r}, "
                  f"delta {self.delta:g}. First: {run.ask()}")  # fmt: skip


class OfFile(Compiles):
    """What the commands on a run that has begun have in common."""

    file: Annotated[Path, tyro.conf.Positional]
    """The file of the run."""

    @contextlib.contextmanager
    def changed(self) -> Iterator[LiveRun]:
        """The run, whose state is then written, so that no command replays or compiles for it.

        The events are in the file already, so that one which cannot be rewritten lacks nothing.
        """
        with LiveRun.load(self.file) as run:
            yield run
            with contextlib.suppress(StoreError):
                run.save()


class Ask(OfFile):
    """Print the next arm."""

    n: int | None = None
    """Print the next n arms, which are chosen without the rewards in between."""

    def act(self) -> None:
        with self.changed() as run:
            print(*([run.ask()] if self.n is None else run.ask(self.n)), sep="\n")


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
        words = self.rewards
        given = [name for name in ("rewards", "csv", "counts") if getattr(self, name)]
        if len(given) != 1 or len(words) % 2:
            allowed = "an arm and a reward, as often as you like; or --csv; or --counts"
            raise ArgumentError("rewards", words, allowed, " and ".join(given) if given[1:] else "")
        told: Any = words[::2], words[1::2]
        own: Any = {"item": self.item or None}
        if self.counts:
            sums = (one.rpartition("=")[::2] for one in self.counts)
            counts = {arm: tuple(map(checks.written, numbers.split("/"))) for arm, numbers in sums}
            told, own = (), {"counts": counts}
        elif self.csv is not None:
            told = (sys.stdin if str(self.csv) == "-" else self.csv,)
            own = dict(arm=self.arm, reward=self.reward, missing=self.missing,
                       item=next(iter(self.item), None))  # fmt: skip
        with self.changed() as run:
            left_out = run.tell(*told, **own)
            if left_out:
                print(f"Rows left out for an empty cell: {left_out}.")
            print(Report(run).standing())


class Show(OfFile):
    """Print arms, intervals, p-values and the evidence; change nothing."""

    forecast: bool = False
    """Say how many more rewards the run needs, by simulating on from the estimates."""
    figure: Path | None = None
    """Draw the evidence into this file."""

    def act(self) -> None:
        self.check_files()
        run = LiveRun.load(self.file, attach=False)
        print(run.summary(self.forecast))
        if run.answer is not None:
            print(run.evidence)
        if self.figure is not None:
            from jaxelim.figures import save  # matplotlib is slow to import

            write(self.figure, lambda path: save(run.figure(), path))


class Add(OfFile):
    """Let an arm join a run with --most-arms."""

    arm: Annotated[str, tyro.conf.Positional]
    """Its name."""

    def act(self) -> None:
        with self.changed() as run:
            getattr(run, type(self).__name__.lower())(self.arm)
            print(Report(run).standing())


class Remove(Add):
    """Let an arm leave a run with --most-arms."""


class Stop(OfFile):
    """End the run by hand: there is no answer then; intervals and p-values hold."""

    def act(self) -> None:
        with LiveRun.load(self.file) as run:
            print(run.stop())
