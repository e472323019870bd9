"""The command line: `jaxelim run`, `complexity`, `rules`, `instances`, `results`, `merge`."""

import dataclasses
import os
import sys
from pathlib import Path
from typing import Annotated

import jax
import tyro

from jaxelim import catalogue, instances, scope, store
from jaxelim.complexity import complexity, kl_bound, practical_time, sample_bound
from jaxelim.elimination import StoppingRule
from jaxelim.errors import ArgumentError, JaxelimError, SetupError, StoreError
from jaxelim.figures import allocation_figure
from jaxelim.result import aligned
from jaxelim.simulate import Engine, simulate


def use_all_cores() -> None:
    """One CPU device per core, one thread each, and compiled programs kept between processes (in ~/.cache/jaxelim).

    Only before JAX has started, and only for a process that is ours: the command line and the experiments call it, the library
    never does. What the environment already says is left as it is.

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
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        jax.config.update("jax_num_cpu_devices", cores)
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(Path.home() / ".cache" / "jaxelim"))


@dataclasses.dataclass(frozen=True)
class Asked:
    """An instance, and what is to be found out about it."""

    instance: Annotated[str, tyro.conf.Positional]
    """A shipped instance (see `jaxelim instances`) or the path of a JSON file."""
    problem: str = "best-arm"
    """best-arm, top-m or thresholding."""
    m: int | None = None
    """How many arms, for top-m; what the instance was made for if left out."""
    level: float = 0.0
    """The level, for thresholding."""


@dataclasses.dataclass(frozen=True)
class Run(Asked):
    """Simulate a rule on an instance and print the summary."""

    rule: str = "lingape"
    """A sampling rule (see `jaxelim rules`)."""
    stopping: tuple[str, ...] = ("llr",)
    """llr, selective, full, native: one or several, observed side by side."""
    elimination: str = "none"
    """At sampling: none, selective or full."""
    delta: tuple[float, ...] = (0.01,)
    """Error probability, one or several."""
    threshold: str = "heuristic"
    """heuristic, gk16, log-log or linear (its L and S from the instance)."""
    runs: int = 1000
    """How many runs."""
    seed: int = 0
    """Seed of the noise."""
    max_samples: int = 1_000_000
    """A run that has drawn so many is cut off, and flagged."""
    ridge: float | None = None
    """The ridge lambda of the design matrix; left out: 0, and 1 with --threshold linear."""
    lanes: int | None = None
    """Runs side by side on each device; chosen if left out."""
    precision: str = "float64"
    """float64 or float32."""
    output: Path | None = None
    """Write everything to this NetCDF file."""


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
    """For the bounds."""
    gap: float = 1e-8
    """Relative duality gap to solve to."""
    figure: Path | None = None
    """Draw w* and H_p by piece into this file."""


@dataclasses.dataclass(frozen=True)
class Results:
    """List what a folder of results holds: cells, runs, means, damaged files."""

    directory: Annotated[Path, tyro.conf.Positional]
    """What was given to an experiment as --output."""


@dataclasses.dataclass(frozen=True)
class Merge:
    """Join folders of results, say from several machines; refuses different settings under one name."""

    sources: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of results; they stay as they are."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """Where all of it goes: a new folder, or one that holds results already."""


def _m_of(name: str, problem: str, m: int | None) -> int | None:
    """m as given, or what a shipped instance was made for."""
    if m is None and problem == "top-m":
        m = instances.describe(name).m if name in instances.names() else None
        if m is None:
            raise ArgumentError("m", None, "an integer from 1 to K - 1: this instance does not say which")
    return m


def _complexity(config: Hardness) -> None:
    instance = instances.load_instance(config.instance)
    m = _m_of(config.instance, config.problem, config.m)
    problem = catalogue.find_problem(config.problem, m, config.level)
    found = complexity(instance, problem, gap=config.gap)
    print(f"{problem!r} on {config.instance}: K = {instance.K}, d = {instance.d}")
    print(f"  H* = {float(found.value):.8g} per sample, T* = {float(found.time):.6g}, duality gap {float(found.gap):.1e} H*")
    bound, kl = (float(f(config.delta, found.value)) for f in (sample_bound, kl_bound))
    print(f"  at delta = {config.delta}: E[tau] >= log(1/(2.4 delta))/H* = {bound:.1f}, kl(delta, 1 - delta)/H* = {kl:.1f}")
    practical = practical_time(config.delta, float(found.value))
    print(f"  practical bound, the first t >= T* log((1 + t)/delta): {practical}")
    largest = found.allocation.argsort()[::-1][:10]
    print("  largest weights: " + ", ".join(f"{k}: {found.allocation[k]:.4f}" for k in largest))
    if config.figure is not None:
        allocation_figure(found, str(config.instance)).savefig(config.figure, dpi=150)
        print(f"wrote {config.figure}")


def _run(config: Run) -> None:
    instance = instances.load_instance(config.instance)
    m = _m_of(config.instance, config.problem, config.m)
    known = catalogue.stopping_rules()
    stopping: list[StoppingRule] = [catalogue.find("stopping", name, known)() for name in config.stopping]
    at_sampling = {"none": lambda: None, "selective": known["selective"], "full": known["full"]}
    if config.output is not None and not config.output.parent.is_dir():
        raise ArgumentError("output", str(config.output), "a file in a folder that exists")
    result = simulate(
        instance, catalogue.find_problem(config.problem, m, config.level), catalogue.find_rule(config.rule)(),
        delta=config.delta, stopping=stopping,
        elimination=catalogue.find("elimination", config.elimination, at_sampling)(),
        threshold=catalogue.find_threshold(config.threshold, instance, config.ridge),
        runs=config.runs, seed=config.seed, max_samples=config.max_samples, ridge=config.ridge,
        engine=Engine(lanes=config.lanes, precision=config.precision), progress=sys.stderr.isatty(),
    )
    print(result.summary())
    if config.output is not None:
        part = config.output.with_name(config.output.name + ".part")
        result.to_xarray().to_netcdf(part, engine="h5netcdf")
        os.replace(part, config.output)
        print(f"wrote {config.output}")


def _rules(config: Rules) -> None:
    rows = catalogue.rule_rows()
    print(catalogue.markdown(rows) if config.markdown else "\n".join(aligned(rows)))


def _instances(config: Instances) -> None:
    found = [instances.describe(name) for name in instances.names()]
    print("\n".join(aligned([
        {"name": one.name, "arms": one.K, "dimensions": one.d, "structure": one.structure, "problems": ", ".join(one.problems),
         "m": one.m or "-", "used in": one.used_in} for one in found
    ])))


def _results(config: Results) -> int:
    found = store.Store(config.directory)
    if not found.exists():
        raise StoreError(config.directory, "holds no results: there is no folder 'blocks' in it")
    cells = found.cells()
    rows = [row for cell in cells for row in cell.rows()]
    print("\n".join(aligned(rows)) if rows else "no finished blocks")
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
    print(f"{config.output}: {len(done.copied)} blocks copied, {len(done.present)} there already, {len(done.damaged)} damaged")
    return 1 if done.damaged else 0


def main(arguments: list[str] | None = None) -> int:
    """The console script; returns the exit code: 0, 1 for damaged files, 2 for an error."""
    commands = {"run": Run, "complexity": Hardness, "rules": Rules, "instances": Instances, "results": Results, "merge": Merge}
    config = tyro.extras.subcommand_cli_from_dict(commands, args=arguments, prog="jaxelim", description=__doc__)
    try:
        use_all_cores()
        actions = {Run: _run, Hardness: _complexity, Rules: _rules, Instances: _instances, Results: _results, Merge: _merge}
        return actions[type(config)](config) or 0
    except JaxelimError as error:
        print(f"jaxelim: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
