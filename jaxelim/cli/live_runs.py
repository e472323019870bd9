"""`jaxelim live new|ask|tell|show|stop FILE`: a live run in a file, from the shell."""

import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from jaxelim import catalogue, checks, families, instances
from jaxelim.errors import ArgumentError, StoreError
from jaxelim.files import writable_file
from jaxelim.instances.arms import Arms
from jaxelim.live import order, report
from jaxelim.live.run import LiveRun

FAMILIES = f"{', '.join(families.known())}. Its first settings may follow, as in bounded:0,5."
"""What `--family` takes, in its help."""

File = Annotated[Path, tyro.conf.Positional]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiles:
    """What commands that compile programs have in common."""

    cache: bool = True
    """Keep compiled programs for later commands, in the folder JAX_COMPILATION_CACHE_DIR or
    in the user's cache folder."""


@dataclasses.dataclass(frozen=True)
class New(Compiles):
    """Begin a live run in a new file."""

    file: File
    """The file."""
    arms: tuple[str, ...] = ()
    """Names of independent arms, or one number of them."""
    features: str | None = None
    """In place of --arms: a shipped instance or a JSON file, for its arms' features."""
    problem: str = "best-arm"
    """best-arm, best-or-none, best-item, top-m or thresholding; best-item: of the items
    in the file."""
    m: int | None = None
    """Number of arms to find, for top-m."""
    level: float | None = None
    """The level, for thresholding and best-or-none: its reference; default: 0."""
    epsilon: float = 0.0
    """The slack of best-arm."""
    family: Annotated[str, tyro.conf.arg(help=FAMILIES)] = "gaussian"
    family_setting: tuple[str, ...] = ()
    """The family's own settings, NAME=VALUE, as `--family-setting std=2.5`."""
    rule: str = "ebtci"
    """A sampling rule (see `jaxelim rules`)."""
    setting: tuple[str, ...] = ()
    """The rule's own settings, NAME=VALUE."""
    stopping: str = "selective"
    """llr, selective, full or native."""
    elimination: str = "none"
    """At sampling: none, selective or full."""
    costs: tuple[float, ...] = ()
    """What a pull of each arm costs, in any unit; default: those of the file, or none."""
    delta: float = 0.05
    """Error probability."""
    threshold: str = "mixture"
    """mixture, heuristic, gk16 or kaufmann-koolen."""
    ridge: float | None = None
    """The ridge lambda of the design matrix, for linear arms; default: 0."""
    initial_pulls: int | None = None
    """Pulls of each arm before the first check; default: the least that the rewards allow."""
    seed: int = 0
    """Seed of the rule's own random choices."""
    run: int = 0
    """Its run index."""


@dataclasses.dataclass(frozen=True)
class Ask(Compiles):
    """Print the next arm."""

    file: File
    """The file of the run."""
    n: int | None = None
    """Print the next n arms, which are chosen without the rewards in between."""


@dataclasses.dataclass(frozen=True)
class Tell(Compiles):
    """Take rewards."""

    file: File
    """The file of the run."""
    rewards: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """An arm and its reward, or several: ARM REWARD ARM REWARD .."""
    csv: Path | None = None
    """In place of them: a CSV file with a row for each reward, the arm and the reward; - for
    standard input. A first row of two names is passed over."""
    arm: str | None = None
    """Name of the file's column of arms, if it has more than two columns."""
    reward: str | None = None
    """Name of its column of rewards."""
    in_order: bool = False
    """Test after each row, as they came in this order; else once, after the last."""
    unchecked: bool = False
    """With --in-order: even if the order looks sorted."""
    missing: Literal["refuse", "skip"] = "refuse"
    """What to do with rows that have an empty cell."""
    counts: tuple[str, ...] = ()
    """In place of rewards: ARM=SUM/NUMBER of each arm, so hits/trials; with unknown variance
    ARM=SUM/NUMBER/SQUARES."""


@dataclasses.dataclass(frozen=True)
class Show(Compiles):
    """Print arms, intervals, p-values and the evidence; change nothing."""

    file: File
    """The file of the run."""
    forecast: bool = False
    """Say how many more rewards the run needs, by simulating on from the estimates."""
    figure: Path | None = None
    """Draw the evidence into this file."""


@dataclasses.dataclass(frozen=True)
class Stop(Compiles):
    """End the run by hand: there is no answer then; intervals and p-values hold."""

    file: File
    """The file of the run."""


_named = tyro.conf.subcommand


@dataclasses.dataclass(frozen=True)
class Live:
    """A live run: the rule says which arm is next, and you say what it gave."""

    action: tyro.conf.OmitSubcommandPrefixes[
        Annotated[New, _named("new")]
        | Annotated[Ask, _named("ask")]
        | Annotated[Tell, _named("tell")]
        | Annotated[Show, _named("show")]
        | Annotated[Stop, _named("stop")]
    ]

    @property
    def cache(self) -> bool:
        """Whether the action keeps compiled programs."""
        return self.action.cache

    def act(self) -> None:
        """Run the command."""
        _act(self.action)


def _act(action: New | Ask | Tell | Show | Stop) -> None:
    if isinstance(action, New):
        _new(action)
    elif isinstance(action, Ask):
        with LiveRun.load(action.file) as run:
            arms = run.ask(action.n)
            print("\n".join(map(str, [arms] if action.n is None else arms)))
            _keep_state(run)
    elif isinstance(action, Tell):
        _tell(action)
    elif isinstance(action, Stop):
        with LiveRun.load(action.file) as run:
            print(run.stop())
    else:
        _show(action)


def _new(config: New) -> None:
    family = catalogue.find_family(config.family, config.family_setting)
    arms = _arms(config, family)
    items = None
    if config.problem == "best-item" and config.features is not None:
        items = instances.load_items(config.features)
    problem = catalogue.find_problem(config.problem, config.m, config.level, config.epsilon, items)
    rule = catalogue.rule_with(config.rule, config.setting)
    threshold = catalogue.find_threshold(config.threshold, arms, problem)
    named: Any = arms.arms
    if arms.names is not None:
        named = dict(zip(arms.names, arms.arms, strict=True))
    writable_file("file", config.file)
    run = LiveRun(
        named, problem, rule, family=family, delta=config.delta,
        stopping=catalogue.find_stopping(config.stopping),
        elimination=catalogue.find_elimination(config.elimination),
        threshold=threshold, ridge=config.ridge, initial_pulls=config.initial_pulls,
        seed=config.seed, run=config.run, costs=arms.costs,
    )  # fmt: skip
    with run:
        run.save(config.file)
        print(f"{config.file}: {rule!r}, {problem!r}, {arms.K} arms. First: {run.ask()}")


def _arms(config: New, family: Any) -> Arms:
    """The arms, with names if they have any."""
    if (config.features is None) == (not config.arms):
        raise ArgumentError("arms", config.arms, "--arms NAME NAME .. or --features FILE")
    if config.features is not None:
        of_file = instances.load_instance(config.features)
        return Arms(of_file.arms, family, costs=config.costs or of_file.costs)
    number = len(config.arms) == 1 and config.arms[0].isdigit()
    given = int(config.arms[0]) if number else list(config.arms)
    return Arms.of(given, family, config.costs or None)


def _tell(config: Tell) -> None:
    words = config.rewards
    given = [name for name in ("rewards", "csv", "counts") if getattr(config, name)]
    if len(given) != 1 or len(words) % 2:
        allowed = "an arm and a reward, as often as you like; or --csv; or --counts"
        raise ArgumentError("rewards", words, allowed, " and ".join(given) if given[1:] else "")
    with LiveRun.load(config.file) as run:
        notes = []
        if config.counts:
            run.tell(counts=dict(map(_counted, config.counts)))
        elif config.csv is None:
            run.tell(words[::2], words[1::2])
        else:
            table: Any = sys.stdin if str(config.csv) == "-" else config.csv
            in_order = order.UNCHECKED if config.unchecked else config.in_order
            own: Any = dict(arm=config.arm, reward=config.reward, missing=config.missing)
            left_out = run.tell(table, in_order=in_order, **own)
            if left_out:
                notes.append(f"Rows left out for an empty cell: {left_out}.")
            if not in_order:
                notes.append("The table is tested once, at its end. After each row: --in-order.")
        _keep_state(run)
        print("\n".join([*notes, *report.standing(run)]))


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


def _show(config: Show) -> None:
    if config.figure is not None:
        from jaxelim.figures.style import figure_file, write  # matplotlib is slow to import

        figure_file("figure", config.figure)
    run = LiveRun.load(config.file, attach=False)
    print(run.summary(config.forecast))
    if run.answer is not None:
        _show_pieces(run)
    if config.figure is not None:
        write(run.figure(), config.figure)
        print(f"wrote {config.figure}")


def _show_pieces(run: LiveRun) -> None:
    """Print the evidence against each alternative to the answer."""
    now = run.evidence
    values, words = now.llr, "Log-likelihood ratio"
    if now.log_e is not None:
        values, words = now.log_e, "Evidence (log e, where 1/e is a p-value)"
    print(f"{words} of each comparison; the run needs more than {now.beta:.4g}:")
    for n, piece in enumerate(now.labels):
        left = "" if now.active[n] else "  decided"
        print(f"  {piece}: {values[n]:.4g}{left}")
