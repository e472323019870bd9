"""Commands about results: `jaxelim run`, `study`, `show`, `plot`."""

import warnings
from pathlib import Path
from typing import Annotated, Literal

import tyro

from jaxelim import catalogue, checks, figures
from jaxelim.cli import Command, Compiles, write
from jaxelim.cli.instances import OnInstance, Settings, text
from jaxelim.errors import ArgumentError
from jaxelim.files import make_folder, writable_file
from jaxelim.parallel import asked_for
from jaxelim.simulation.api import simulate
from jaxelim.simulation.experiment import Engine
from jaxelim.store import Store
from jaxelim.studies import files
from jaxelim.studies.grid import Study, study


class Run(OnInstance, Settings):
    """Simulate a rule on an instance and print the summary.

    The threshold is the heuristic one, which has no proof; --threshold mixture has one.
    """

    stopping: Annotated[tuple[str, ...], text("One or several, observed on the same runs.",
                                              "stopping")] = ("llr",)  # fmt: skip
    delta: tuple[float, ...] = (0.01,)
    """Error probability, one or several."""
    runs: int = 1000
    """Number of runs."""
    max_samples: int = checks.MAX_SAMPLES
    """A run that has drawn so many samples is truncated, and flagged."""
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
        instance, problem = self.made()
        self.check_files()
        rule, layout = catalogue.made("rule", self.rule), Engine(lanes=self.lanes)
        result = simulate(instance, problem, rule, engine=layout, **self.settings())
        print(result.summary())
        write(self.output, result.save)


class StudyOf(Compiles):
    """Run the study of a file, and print its summary and its comparison."""

    file: Annotated[Path, tyro.conf.Positional]
    """A TOML or JSON file with the arguments of `je.study` by name: instances, problem, rules,
    delta, stopping, runs and so on. Problems, rules, stopping rules and thresholds are texts
    as in `jaxelim run`: "LUCB(pulls=2)". `{instance = .., costs = [..]}` gives costs."""
    runs: int | None = None
    """Number of runs; default: the file's."""
    store: Path | None = None
    """Keep finished blocks in this folder, and go on from there; default: the file's."""
    baseline: str | None = None
    """The rule that the others are compared with; default: the first."""
    by: Literal["samples", "costs"] = "samples"
    """What the comparison counts: samples, or the costs of the arms."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Write the study to this file; see `jaxelim show`."""
    figure: Path | None = None
    """Draw stopping times, their ratio to log(1/delta) and errors into this file."""
    log: bool = False
    """Draw samples on logarithmic axes."""
    workers: int = 0
    """Worker processes on this machine; 0: this process computes."""
    scheduler: str | None = None
    """Address or file of the Dask scheduler of a running cluster."""

    def act(self) -> None:
        given = files.study_arguments(self.file)
        asked = {"runs": self.runs, "store": self.store}
        given |= {name: one for name, one in asked.items() if one is not None}
        self.check_files()
        checks.integer("workers", self.workers, low=0)
        with asked_for(self.workers, self.scheduler) as executor:
            found = study(**given, executor=executor)
        print(found.summary())
        if len(found.rules) > 1:
            print(found.compare(self.baseline, by=self.by))
        write(self.output, found.save)
        write(self.figure, lambda path: figures.save(found.figure(log=self.log), path))


class Show(Command):
    """Print the summary of a file or of a store."""

    file: Annotated[Path, tyro.conf.Positional]
    """A file of `jaxelim run` or `study --output`, of `Result.save` or `Study.save`; or a folder
    of finished blocks, of `store=` or an experiment."""
    baseline: str | None = None
    """Of a study: also print the comparison of all other rules with this one."""

    def act(self) -> int | None:
        store = self.file.is_dir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # damaged files are said below
            kinds = "study", "result"
            found = files.load_store(self.file) if store else files.loaded(self.file, {}, *kinds)
        if isinstance(found, Study):
            shown = [found.summary() if len(found) else "no finished blocks"]
            if self.baseline is not None:
                shown.append(found.compare(self.baseline))
            damaged = Store(self.file).damaged() if store else []
            print(*shown, *(f"DAMAGED, and set aside: {path}" for path in damaged), sep="\n")
            return 1 if damaged else 0
        if self.baseline is not None:
            raise ArgumentError("baseline", self.baseline, "a study's file; this is one result")
        print(found.summary())
        hidden = ("instance", "problem", "rule", "stopping", "elimination", "proven")
        shown = (f"{key} {value}" for key, value in found.settings.items() if key not in hidden)
        print("; ".join(shown))


class Plot(Command):
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
        endings = [checks.choice("format", ending, ("png", "pdf")) for ending in self.format]
        known = figures.BY_NAME
        names = [checks.choice("figure", name, known) for name in self.figure or known]
        if self.output.suffix in (".png", ".pdf"):
            raise ArgumentError("output", self.output, "a folder; --figure and --format name files")
        results = files.load_results(self.files)
        make_folder(self.output)
        writable_file("output", self.output / "figure.png")
        written = []
        for name in names:
            own = {"log": self.log} if name in ("delta", "active") else {}
            try:
                figure = known[name](results, **own)
            except ArgumentError as error:
                why = f" ({error.note})" if error.note else ""
                print(f"no figure {name}: it needs {error.allowed}{why}")
                continue
            written += figures.save(figure, self.output / name, endings=endings)
            print(*(f"wrote {path}" for path in written[-len(endings) :]), sep="\n")
        if not written:
            raise ArgumentError("figure", names, "a figure that these files allow")
