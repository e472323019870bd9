"""Commands about results: `jaxelim run`, `show`, `plot`, `results`, `merge`."""

import dataclasses
import warnings
from pathlib import Path
from typing import Annotated

import tyro

from jaxelim import catalogue, checks
from jaxelim.cli.files import kind_of, table_of
from jaxelim.cli.instances import Asked
from jaxelim.errors import ArgumentError
from jaxelim.figures import every_figure, save
from jaxelim.files import make_folder, writable_file
from jaxelim.simulation.api import Engine, simulate
from jaxelim.simulation.results.loading import load_result
from jaxelim.simulation.results.result import Result
from jaxelim.store import Store, merge
from jaxelim.studies.files import load_store, load_study


@dataclasses.dataclass(frozen=True)
class Run(Asked):
    """Simulate a rule on an instance and print the summary."""

    rule: str = "lingape"
    """A sampling rule (see `jaxelim rules`)."""
    setting: tuple[str, ...] = ()
    """The rule's own settings, NAME=VALUE, as `--setting pulls=2`."""
    stopping: tuple[str, ...] = ("llr",)
    """llr, selective, full, native: one or several, observed on the same runs."""
    elimination: str = "none"
    """At sampling: none, selective or full."""
    delta: tuple[float, ...] = (0.01,)
    """Error probability, one or several."""
    threshold: str = "heuristic"
    """heuristic, mixture, gk16, linear or kaufmann-koolen.

    Their numbers come from the instance, the problem and the rule.
    """
    runs: int = 1000
    """Number of runs."""
    seed: int = 0
    """Seed of the noise."""
    max_samples: int = checks.MAX_SAMPLES
    """A run that has drawn so many samples is truncated, and flagged."""
    ridge: float | None = None
    """The ridge lambda of the design matrix; default: 0."""
    initial_pulls: int | None = None
    """Pulls of each arm before the first check; default: the least that the rewards allow."""
    batch: int = 1
    """Pulls whose rewards enter together."""
    delay: int = 0
    """Further pulls before a reward enters."""
    lanes: int | None = None
    """Lanes, runs at once, on each device; default: chosen by backend and number of runs."""
    record: tuple[str, ...] = ()
    """means or pair_times: one or several, kept in the file beside the outcomes."""
    output: Path | None = None
    """Write the result and its experiment to this NetCDF file; see `jaxelim show`."""

    def act(self) -> None:
        """Simulate, print the summary, and write the result."""
        instance = self.asked_instance()
        problem = self.asked_problem()
        stopping = list(map(catalogue.find_stopping, self.stopping))
        if self.output is not None:
            writable_file("output", self.output)
        rule = catalogue.rule_with(self.rule, self.setting)
        threshold = catalogue.find_threshold(self.threshold, instance, problem)
        result = simulate(
            instance, problem, rule, delta=self.delta, stopping=stopping,
            elimination=catalogue.find_elimination(self.elimination),
            threshold=threshold, runs=self.runs, seed=self.seed, max_samples=self.max_samples,
            ridge=self.ridge, engine=Engine(lanes=self.lanes),
            initial_pulls=self.initial_pulls, batch=self.batch, delay=self.delay,
            record=self.record,
        )  # fmt: skip
        print(result.summary())
        if self.output is not None:
            result.save(self.output)
            print(f"wrote {self.output}")


@dataclasses.dataclass(frozen=True)
class Show:
    """Print the summary of a file: of `jaxelim run` and `study`, or a table."""

    file: Annotated[Path, tyro.conf.Positional]
    """A file of `jaxelim run --output` or `Result.save`; of `jaxelim study --output` or
    `Study.save`; or of an experiment's table, such as table1.nc."""
    baseline: str | None = None
    """Of a study: also print the comparison of all other rules with this one."""

    def act(self) -> None:
        """Print the summary and the settings."""
        kind, contents = kind_of(self.file)
        if kind == "study":
            found = load_study(self.file)
            compared = None if self.baseline is None else found.compare(self.baseline)
            print(found.summary())
            if compared is not None:
                print(compared)
            return
        if self.baseline is not None:
            raise ArgumentError("baseline", self.baseline, f"a study's file; this is a {kind}")
        if kind == "table":
            print(table_of(contents, self.file.stem))
            return
        result = load_result(self.file)
        print(result.summary())
        hidden = ("instance", "problem", "rule", "stopping", "elimination", "proven")
        shown = (f"{key} {value}" for key, value in result.settings.items() if key not in hidden)
        print("; ".join(shown))


@dataclasses.dataclass(frozen=True)
class Plot:
    """Draw the figures that files of results allow, one rule a file, or those of a study."""

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Files of `jaxelim run --output`, or of `Result.save`; or one of `jaxelim study --output`."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path()
    """The folder for the figures; it is made if there is none."""
    figure: tuple[str, ...] = ()
    """tau, survival, delta, ratio, active, pulls, comparison: one or several; default: all that
    the files allow."""
    format: tuple[str, ...] = ("png",)
    """png, pdf or both."""
    log: bool = False
    """Draw the samples of delta and active on logarithmic axes; tau's and survival's always are."""

    def act(self) -> None:
        """Draw, and print the names of the files."""
        if not self.files:
            raise ArgumentError("files", self.files, "at least one file of results")
        endings = [checks.choice("format", ending, ("png", "pdf")) for ending in self.format]
        names = self.figure
        if self.output.suffix in (".png", ".pdf"):
            raise ArgumentError("output", self.output, "a folder; --figure and --format name files")
        by_name = self._by_name()
        make_folder(self.output)
        writable_file("output", self.output / "figure.png")
        drawn, missing = every_figure(by_name, names, log=self.log)
        for name, figure in drawn.items():
            for path in save(figure, self.output / name, endings=endings):
                print(f"wrote {path}")
        for name, reason in missing.items():
            print(f"no figure {name}: {reason}")
        if not drawn:
            raise ArgumentError("figure", names or "all", "a figure that these files allow")

    def _by_name(self) -> dict[str, Result]:
        """The results, by rule."""
        if len(self.files) == 1 and kind_of(self.files[0])[0] == "study":
            groups = [dict(named) for _, named in load_study(self.files[0]).groups()]
            if len(groups) > 1:
                allowed = "a study of one instance and problem: `jaxelim study --figure` draws more"
                raise ArgumentError("files", self.files, allowed)
            return groups[0]
        results = [load_result(path) for path in self.files]
        rules = [str(result.rule) for result in results]
        labels = [
            rule if rules.count(rule) == 1 else f"{rule}, {path.stem}"
            for rule, path in zip(rules, self.files, strict=True)
        ]
        if len(set(labels)) < len(labels):
            raise ArgumentError("files", self.files, "files of different rules or names")
        return dict(zip(labels, results, strict=True))


@dataclasses.dataclass(frozen=True)
class Results:
    """Print the summary of a folder of results, and its damaged files."""

    directory: Annotated[Path, tyro.conf.Positional]
    """The folder, which was an experiment's --output."""

    def act(self) -> int:
        """Print the summary and what is damaged; 1 where something is."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said below
            found = load_store(self.directory)
        print(found.summary() if len(found) else "no finished blocks")
        damaged = Store(self.directory).damaged()
        for path in damaged:
            print(f"DAMAGED, and set aside: {path}")
        return 1 if damaged else 0


@dataclasses.dataclass(frozen=True)
class Merge:
    """Join folders of results, as of several machines."""

    sources: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of results; they stay as they are."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """The folder for all of it, new or with results already."""

    def act(self) -> None:
        """Copy blocks."""
        copied = merge(self.sources, self.output)
        print(f"{self.output}: {len(copied)} blocks copied")
