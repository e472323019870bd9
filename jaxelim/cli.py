"""The command line: `jaxelim run`, `show`, `plot`, `complexity`, `rules`, `instances`,
`results`, `merge`, `live`.

`jaxelim --version` prints the version.
"""

import contextlib
import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import jax
import tyro

from jaxelim import __version__, catalogue, checks, instances, program_cache, scope, store
from jaxelim.contracts import Problem, StoppingRule
from jaxelim.errors import ArgumentError, JaxelimError, SetupError, StoreError
from jaxelim.figures import allocation_figure, every_figure, figure_file, save, write
from jaxelim.files import make_folder, writable_file
from jaxelim.instances.instance import Instance
from jaxelim.live import commands as live_commands
from jaxelim.lower_bound import complexity, kl_bound, practical_time, sample_bound
from jaxelim.problems.epsilon_best_arm import EpsilonBestArm
from jaxelim.simulation.api import Engine, simulate
from jaxelim.simulation.loading import load_result
from jaxelim.simulation.result import BIASED, aligned


def use_all_cores(cache: bool = True) -> None:
    """Set JAX to one CPU device per core, one thread each, and a persistent compilation cache.

    Call it before JAX starts. The command line and the experiments call it, the library
    never does. Settings in the environment stay.

    Args:
        cache: whether compiled programs are kept, in JAX_COMPILATION_CACHE_DIR or in the
            user's cache folder for jaxelim.

    Raises:
        SetupError: JAX has started.
    """
    os.environ.setdefault("NPROC", "1")
    if "JAX_NUM_CPU_DEVICES" not in os.environ:
        if scope.jax_started():
            raise SetupError(
                "JAX has started, so the number of its CPU devices is fixed",
                "call use_all_cores before anything that uses JAX, or set JAX_NUM_CPU_DEVICES",
            )
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        jax.config.update("jax_num_cpu_devices", cores)
    if not cache:
        jax.config.update("jax_enable_compilation_cache", False)
    elif "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(program_cache.own_folder()))


@dataclasses.dataclass(frozen=True)
class Asked(live_commands.Compiles):
    """An instance, and the problem on it."""

    instance: Annotated[str, tyro.conf.Positional]
    """A shipped instance (see `jaxelim instances`) or the path of a JSON file."""
    problem: str = "best-arm"
    """best-arm, best-item, top-m or thresholding. best-item: of the items in the file."""
    m: int | None = None
    """Number of arms to find, for top-m; default: the usual m of the instance."""
    level: float = 0.0
    """The level, for thresholding."""
    epsilon: float = 0.0
    """The slack of best-arm: any arm within it of the largest mean is right."""
    family: str | None = None
    """Rewards of this family at the instance's means: gaussian, gaussian-by-arm, bernoulli,
    poisson or exponential; default: the instance's own."""
    family_setting: tuple[str, ...] = ()
    """The family's own settings, NAME=VALUE, as `--family-setting std=2.5`."""


@dataclasses.dataclass(frozen=True)
class Run(Asked):
    """Simulate a rule on an instance and print the summary."""

    rule: str = "lingape"
    """A sampling rule (see `jaxelim rules`)."""
    setting: tuple[str, ...] = ()
    """The rule's own settings, NAME=VALUE, as `--setting optimistic=true`."""
    stopping: tuple[str, ...] = ("llr",)
    """llr, selective, full, native: one or several, observed on the same runs."""
    elimination: str = "none"
    """At sampling: none, selective or full."""
    delta: tuple[float, ...] = (0.01,)
    """Error probability, one or several."""
    threshold: str = "heuristic"
    """heuristic, gk16, log-log, linear, kaufmann-koolen or kaufmann-kalyanakrishnan.

    Their numbers come from the instance, the problem and the rule.
    """
    runs: int = 1000
    """Number of runs."""
    seed: int = 0
    """Seed of the noise."""
    max_samples: int = checks.MAX_SAMPLES
    """A run that has drawn so many samples is truncated, and flagged."""
    ridge: float | None = None
    """The ridge lambda of the design matrix; default: 0, and 1 with --threshold linear."""
    initial_pulls: int | None = None
    """Pulls of each arm before the first check; default: the least that the rewards allow."""
    lanes: int | None = None
    """Lanes, runs at once, on each device; default: chosen by backend and number of runs."""
    precision: str = "float64"
    """float64 or float32."""
    output: Path | None = None
    """Write the result and its experiment to this NetCDF file; see `jaxelim show`."""


@dataclasses.dataclass(frozen=True)
class Plot:
    """Draw the figures that files of results allow, one rule a file."""

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Files of `jaxelim run --output`, or of `Result.save`."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path()
    """The folder for the figures; it is made if there is none."""
    figure: tuple[str, ...] = ()
    """tau, survival, delta, ratio, active, pulls, comparison: one or several; default: all that
    the files allow."""
    format: tuple[str, ...] = ("png",)
    """png, pdf or both."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """List the sampling rules."""

    markdown: bool = False
    """As a Markdown table."""


@dataclasses.dataclass(frozen=True)
class Instances:
    """List the shipped instances."""


@dataclasses.dataclass(frozen=True)
class Hardness(Asked):
    """H*, T*, the lower bounds and the optimal allocation of an instance."""

    delta: float = 0.01
    """Error probability, for the bounds."""
    gap: float = 1e-8
    """Relative duality gap to solve to."""
    figure: Path | None = None
    """Draw w* and H_p by piece into this file."""


@dataclasses.dataclass(frozen=True)
class Results:
    """List the cells, runs, means and damaged files of a folder of results."""

    directory: Annotated[Path, tyro.conf.Positional]
    """The folder, which was an experiment's --output."""


@dataclasses.dataclass(frozen=True)
class Show:
    """Print the summary of a file that `jaxelim run --output` or `Result.save` wrote."""

    file: Annotated[Path, tyro.conf.Positional]
    """The file."""


@dataclasses.dataclass(frozen=True)
class Merge:
    """Join folders of results, as of several machines; refuse different settings of one name."""

    sources: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of results; they stay as they are."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """The folder for all of it, new or with results already."""


def _m_of(name: str, problem: str, m: int | None) -> int | None:
    """m as given, or the usual m of a shipped instance.

    Raises:
        ArgumentError: m is missing and the instance has no usual one.
    """
    if m is None and problem == "top-m":
        m = instances.describe(name).m if name in instances.names() else None
        if m is None:
            raise ArgumentError(
                "m", None, "an integer from 1 to K - 1: this instance has no usual one"
            )
    return m


def _instance(config: Asked) -> Instance:
    """The instance, with the family that is asked for."""
    given = instances.load_instance(config.instance)
    if config.family is None:
        if config.family_setting:
            allowed = "none without --family"
            raise ArgumentError("family_setting", config.family_setting, allowed)
        return given
    family = catalogue.find_family(config.family, config.family_setting)
    return Instance(given.arms, given.theta, None, given.name, family)


def _problem(config: Asked) -> Problem:
    """The problem, with the items of the file for best-item."""
    m = _m_of(config.instance, config.problem, config.m)
    items = instances.load_items(config.instance) if config.problem == "best-item" else None
    return catalogue.find_problem(config.problem, m, config.level, config.epsilon, items)


def _complexity(config: Hardness) -> None:
    checks.real("delta", config.delta, low=0, high=1, open=True)
    if config.figure is not None:
        figure_file("figure", config.figure)
    instance = _instance(config)
    problem = _problem(config)
    found = complexity(instance, problem, gap=config.gap)
    bound, kl = (float(f(config.delta, found)) for f in (sample_bound, kl_bound))
    slack = isinstance(problem, EpsilonBestArm)
    right = len(problem.right(instance.means)) if slack else 1
    practical = practical_time(config.delta, found)
    print(f"{problem!r} on {config.instance}: K = {instance.K}, d = {instance.d}")
    print(
        f"  H* = {float(found.value):.8g} per sample, T* = {float(found.time):.6g}, "
        f"duality gap {float(found.gap):.1e} H*"
    )
    if right > 1:
        kl = float(kl_bound(config.delta, found, right))
        print(
            f"  {right} right answers: as delta falls, E[tau] >= T* log(1/delta) (1 + o(1)); "
            f"at delta = {config.delta}: E[tau] >= kl((1 - delta)/{right}, delta)/H* = {kl:.1f}"
        )
    else:
        print(
            f"  at delta = {config.delta}: E[tau] >= log(1/(2.4 delta))/H* = {bound:.1f}, "
            f"kl(delta, 1 - delta)/H* = {kl:.1f}"
        )
    print(f"  practical bound, the first t >= T* log((1 + t)/delta): {practical}")
    largest = found.allocation.argsort()[::-1][:10]
    print("  largest weights: " + ", ".join(f"{k}: {found.allocation[k]:.4f}" for k in largest))
    if config.figure is not None:
        write(allocation_figure(found, str(config.instance)), config.figure)
        print(f"wrote {config.figure}")


def _run(config: Run) -> None:
    instance = _instance(config)
    problem = _problem(config)
    known = catalogue.stopping_rules()
    stopping: list[StoppingRule] = [
        catalogue.find("stopping", name, known)() for name in config.stopping
    ]
    at_sampling = {"none": lambda: None, "selective": known["selective"], "full": known["full"]}
    if config.output is not None:
        writable_file("output", config.output)
    rule = catalogue.rule_with(config.rule, config.setting)
    result = simulate(
        instance,
        problem,
        rule,
        delta=config.delta,
        stopping=stopping,
        elimination=catalogue.find("elimination", config.elimination, at_sampling)(),
        threshold=catalogue.find_threshold(config.threshold, instance, config.ridge, problem, rule),
        runs=config.runs,
        seed=config.seed,
        max_samples=config.max_samples,
        ridge=config.ridge,
        engine=Engine(lanes=config.lanes, precision=config.precision),
        initial_pulls=config.initial_pulls,
    )
    print(result.summary())
    if config.output is not None:
        result.save(config.output)
        print(f"wrote {config.output}")


def _plot(config: Plot) -> None:
    if not config.files:
        raise ArgumentError("files", config.files, "at least one file of results")
    endings = [checks.choice("format", one, ("png", "pdf")) for one in config.format]
    names = config.figure
    if config.output.suffix in (".png", ".pdf"):
        raise ArgumentError("output", config.output, "a folder; --figure and --format name files")
    results = [load_result(path) for path in config.files]
    rules = [str(one.rule) for one in results]
    labels = [
        rule if rules.count(rule) == 1 else f"{rule}, {path.stem}"
        for rule, path in zip(rules, config.files, strict=True)
    ]
    if len(set(labels)) < len(labels):
        raise ArgumentError("files", config.files, "files of different rules or names")
    make_folder(config.output)
    writable_file("output", config.output / "figure.png")
    drawn, missing = every_figure(dict(zip(labels, results, strict=True)), names)
    for name, figure in drawn.items():
        for path in save(figure, config.output / name, endings=endings):
            print(f"wrote {path}")
    for name, reason in missing.items():
        print(f"no figure {name}: {reason}")
    if not drawn:
        raise ArgumentError("figure", names or "all", "a figure that these files allow")


def _show(config: Show) -> None:
    result = load_result(config.file)
    print(result.summary())
    left_out = ("instance", "problem", "rule", "stopping", "elimination", "interrupted", "proven")
    shown = [f"{name} {value}" for name, value in result.settings.items() if name not in left_out]
    print("; ".join(shown))


def _rules(config: Rules) -> None:
    rows = catalogue.rule_rows()
    print(catalogue.markdown(rows) if config.markdown else "\n".join(aligned(rows)))


def _instances(config: Instances) -> None:
    found = [instances.describe(name) for name in instances.names()]
    print(
        "\n".join(
            aligned(
                [
                    {
                        "name": one.name,
                        "arms": one.K,
                        "dimensions": one.d,
                        "structure": one.structure,
                        "problems": ", ".join(one.problems),
                        "m": one.m or "-",
                        "used in": one.used_in,
                    }
                    for one in found
                ]
            )
        )
    )


def _results(config: Results) -> int:
    found = store.Store(config.directory)
    if not found.exists():
        raise StoreError(config.directory, "holds no results: there is no folder 'blocks' in it")
    cells = found.cells()
    rows = [row for cell in cells for row in cell.rows()]
    print("\n".join(aligned(rows)) if rows else "no finished blocks")
    if any(row["cut off"] for row in rows):
        print(f"runs that were cut off are in no mean, and {BIASED}")
    damaged = [error for cell in cells for error in cell.held.damaged]
    for error in damaged:
        print(f"DAMAGED {error}")
    for path in found.set_aside():
        print(f"set aside {path}: was damaged, and computed again")
    for path in found.leftovers():
        print(f"temporary {path}: of a job that is writing now, or of one that was killed")
    runs = sum(cell.held.runs.size for cell in cells)
    print(f"{len(cells)} cells, {runs} runs, {len(found.entries())} files, {len(damaged)} damaged")
    return 1 if damaged else 0


def _merge(config: Merge) -> int:
    done = store.merge(config.sources, config.output)
    for error in done.damaged:
        print(f"DAMAGED, left out: {error}")
    print(
        f"{config.output}: {len(done.copied)} blocks copied, {len(done.present)} there already, "
        f"{len(done.damaged)} damaged"
    )
    return 1 if done.damaged else 0


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 for damaged files, 2 for an error."""
    commands = {
        "run": Run,
        "plot": Plot,
        "show": Show,
        "complexity": Hardness,
        "rules": Rules,
        "instances": Instances,
        "results": Results,
        "merge": Merge,
        "live": live_commands.Live,
    }
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--version"]:
        print(f"jaxelim {__version__}")
        return 0

    def act() -> int | None:
        config = tyro.extras.subcommand_cli_from_dict(
            commands, args=arguments, prog="jaxelim", description=__doc__
        )
        use_all_cores(getattr(config, "cache", True))
        actions = {Run: _run, Show: _show, Plot: _plot, Hardness: _complexity, Rules: _rules,
                   Instances: _instances, Results: _results, Merge: _merge,
                   live_commands.Live: live_commands.act}  # fmt: skip
        with program_cache.mended():
            return actions[type(config)](config)

    return guarded("jaxelim", act)


def guarded(name: str, act: Callable[[], int | None]) -> int:
    """Run `act` and return its exit code; 2 for an error and 130 for Ctrl-C, with a message."""
    try:
        with _obeyed(name):
            code = act() or 0
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        _say_interrupted(name)
        return INTERRUPTED
    except BrokenPipeError:  # as of `jaxelim rules | head`; Python flushes again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (JaxelimError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


INTERRUPTED = 130
PIPE_CLOSED = 141
GRACE = 1.0
"""Seconds for Python to handle Ctrl-C, before the process is ended."""


def _say_interrupted(name: str) -> None:
    print(f"{name}: interrupted", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _obeyed(name: str) -> Iterator[None]:
    """Let Ctrl-C end the process soon, even while XLA compiles and no Python code runs."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or not ours:
        yield
        return
    over = threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def watch() -> None:
        while number := os.read(reader, 1):
            if number[0] == signal.SIGINT and not over.wait(GRACE):
                _say_interrupted(name)
                os._exit(INTERRUPTED)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(writer)  # the watcher reads the end of the pipe and returns
        watcher.join()
        os.close(reader)


def console() -> NoReturn:
    """The console script."""
    code = main()
    if code == INTERRUPTED:  # XLA may still compile in its threads, which a normal exit crashes
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    console()
