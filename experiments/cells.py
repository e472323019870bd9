"""Run an experiment's cells in blocks into a store: resumable, sharded, with progress.

A cell (`experiments.cell`) holds one simulation's settings without its runs. Its
runs are computed in blocks, in this process, on workers here or on a cluster. A finished
block is stored (`jaxelim.store`) and never computed again. `Options` is what the command
lines of all experiments share; `script` is their main function.
"""

import dataclasses
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import tyro

import jaxelim as je
from experiments import paper
from experiments.cell import Cell
from jaxelim import checks, cli, program_cache
from jaxelim.cluster.clients import chosen
from jaxelim.errors import ArgumentError, ClusterError, JaxelimError
from jaxelim.files import make_folder, writable_file
from jaxelim.interrupts import Signals
from jaxelim.simulation.jobs import Blocks, Job
from jaxelim.store import Held, Store

MOST_CELLS = 64
"""More cells than a study of these experiments has: so many workers may have work."""
_JOIN = (
    "Join the folders of all shards with `jaxelim merge A B -o C`, then give the same command "
    "with --output C and no --shard."
)
EVERY = 60.0
"""Seconds between two lines of progress, where there is no bar."""


class Cuttable(Protocol):
    """A cell: what the runner asks of it."""

    @property
    def name(self) -> str:
        """Readable name; one name has one set of settings."""
        ...

    def job(self, runs: np.ndarray) -> Job:
        """Some of its runs, as a job of a store."""
        ...


@dataclasses.dataclass(frozen=True)
class Options:
    """Options that all experiments share."""

    told: ClassVar[tuple[str, ...]] = ("seed", "max_samples")
    """Options that are in a cell's name where they are not the usual ones."""
    runs: int = 100
    """Runs of every cell, indexes 0 .. runs - 1; finished runs are not repeated."""
    seed: int = 0
    """Seed of the noise."""
    output: Path = Path("results")
    """Folder of the finished blocks, tables and figures."""
    shard: str = "1/1"
    """i/n: compute the i-th of n parts on its own machine; then `jaxelim merge`."""
    block: int = 1000
    """Most runs per file: the loss of a killed job, and the unit of shards."""
    max_samples: int = paper.CAP
    """Cap on a run's samples; runs that reach it are cut off and flagged."""
    workers: int | None = None
    """Worker processes on this machine; 0: compute in this process. Default: one a core."""
    scheduler: str | None = None
    """Address of the Dask scheduler of a running cluster; see docs/how-to/clusters.md."""
    scheduler_file: Path | None = None
    """The file that such a scheduler wrote, in place of its address."""
    dashboard: str | None = None
    """HOST:PORT of Dask's dashboard of the workers here, such as 127.0.0.1:8787."""

    def __post_init__(self) -> None:
        checks.integer("runs", self.runs, low=1, high=checks.MAX_RUNS)
        checks.integer("block", self.block, low=1)
        checks.seed(self.seed)
        parse_shard(self.shard)
        if self.workers is not None:
            checks.integer("workers", self.workers, low=0)

    def named(self, name: str) -> str:
        """A cell's name; a seed or cap other than the default is appended.

        A folder can then hold several.
        """
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        said = [
            f"/{key}={getattr(self, key)}"
            for key in self.told
            if getattr(self, key) != usual[key]
        ]
        return name + "".join(said)


def parse_shard(text: str) -> tuple[int, int]:
    """Parse "i/n" into (i, n), with i from 1 to n.

    Raises:
        ArgumentError: the text has another form.
    """
    first, _, second = text.partition("/")
    if not (first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second)):
        raise ArgumentError("shard", text, "i/n with 1 <= i <= n, such as 2/3")
    return int(first), int(second)


def shard_of(options: Options) -> np.ndarray:
    """The runs of a shard, of every cell; each shard has equally many, but for one."""
    number, shards = parse_shard(options.shard)
    return np.array_split(np.arange(options.runs), shards)[number - 1]


class Done(NamedTuple):
    """Counts of a job: computed runs, finished runs found, damaged files recomputed."""

    computed: int
    found: int
    damaged: int


def studied(options: Options, files: Sequence[Path], *grid: Any, **more: Any) -> je.Study | None:
    """`je.study` with the options' runs, store and workers; None for a shard of several.

    Args:
        options: of the command line.
        files: what the caller writes; checked first.
        grid: instances, problem and rules.
        more: other arguments of `je.study`.

    Raises:
        ArgumentError: one of the files cannot be written; and as `je.study`.
    """
    _writable(files)
    given = options.scheduler_file if options.scheduler is None else options.scheduler
    blocks = -(-options.runs // options.block) * MOST_CELLS
    with chosen(blocks, options.workers, given, options.dashboard) as executor:
        found = je.study(
            *grid, runs=shard_of(options), seed=options.seed, max_samples=options.max_samples,
            store=options.output, block=options.block, executor=executor, progress=_progress(),
            engine=je.Engine(devices=1), **more,
        )  # fmt: skip
    if parse_shard(options.shard)[1] > 1:
        print(_JOIN)
        return None
    return found


def _writable(files: Sequence[Path]) -> None:
    for path in files:
        make_folder(path.parent)
        writable_file("output", path)


def _progress() -> Any:
    return True if sys.stderr.isatty() else Lines()


def run_cells(jobs: Sequence[Cuttable], options: Options) -> Done:
    """Compute a shard's missing blocks, one a worker at a time; store each at once.

    Raises:
        ConflictError: the folder has other settings under a cell's name.
        StoreError: the folder cannot be written; finished blocks stay.
        WorkersLost, SchedulerLost, WorkerMismatch: likewise.
        KeyboardInterrupt: likewise.
    """
    runs = shard_of(options)
    blocks = Blocks([one.job(runs) for one in jobs], options.output, options.block)
    given = options.scheduler_file if options.scheduler is None else options.scheduler
    with chosen(len(blocks.parts), options.workers, given, options.dashboard) as executor:
        blocks.compute(executor, _progress())
    return Done(blocks.computed, blocks.found, blocks.damaged)


class Lines:
    """Progress as a line a minute, where there is no terminal."""

    def __init__(self) -> None:
        self._said = time.perf_counter()

    def __call__(self, done: int, total: int, samples: int, seconds: float) -> None:
        """Print how far the work is, if the last line is old."""
        if time.perf_counter() < self._said + EVERY:
            return
        self._said = time.perf_counter()
        rate = f"{samples / seconds / 1e6:.2f} M samples/s"
        print(f"{done} of {total} runs, {rate}", file=sys.stderr, flush=True)


def load(jobs: Sequence[Cuttable], options: Options) -> dict[str, Held] | None:
    """The runs 0 .. runs - 1 of every cell, by name; damaged files count as missing.

    None, with a message, if runs are missing: other shards have them.
    """
    store, loaded, lacking = Store(options.output), {}, 0
    for job in jobs:
        held = store.held(job.job(np.arange(options.runs)).settings)
        kept = np.flatnonzero(held.runs < options.runs)
        lacking += options.runs - kept.size
        data = None if held.data is None else held.data.isel(run=kept)
        loaded[job.name] = Held(data, held.blocks, held.damaged)
    if lacking:
        print(
            f"{options.output} lacks {lacking} of {options.runs * len(jobs)} runs: "
            f"no table or figure is made. {_JOIN}"
        )
        return None
    return loaded


def run_and_load(
    jobs: Sequence[Cuttable], options: Options, files: Sequence[Path] = ()
) -> dict[str, Held] | None:
    """Check that `files` can be written, then `run_cells` and `load`.

    Raises:
        ArgumentError: one of the files cannot be written; and as `run_cells`.
    """
    _writable(files)
    began = time.perf_counter()
    done = run_cells(jobs, options)
    again = f", {done.damaged} damaged files computed again" if done.damaged else ""
    print(
        f"{done.computed} runs computed, {done.found} were there already{again}; "
        f"{time.perf_counter() - began:.1f} s, compilation included: {options.output}/blocks",
        file=sys.stderr,
    )
    return load(jobs, options)


class _Terminable(Signals):
    """While entered, SIGTERM is treated like Ctrl-C."""

    numbers = (signal.SIGTERM,)

    def handle(self, number: int, frame: Any) -> None:
        """Raise KeyboardInterrupt."""
        raise KeyboardInterrupt

    def takes(self, handler: Any) -> bool:
        """Whatever handled it."""
        return True


def script(
    kind: type,
    main: Callable[[Any], None],
    arguments: list[str] | None = None,
    about: str | None = None,
) -> int:
    """Run an experiment's main function on parsed options; print errors in one line.

    Args:
        kind: the dataclass of its options, an `Options`.
        main: the function to run.
        arguments: the command line; None: the process's own.
        about: the first words of --help; None: the docstring of the options.

    Returns:
        The exit code: 0, 2 for an error, 130 after an interrupt.
    """
    given = sys.argv[1:] if arguments is None else arguments
    try:
        config = tyro.cli(kind, args=given, description=about or kind.__doc__)
        cli.use_all_cores()
        with _Terminable(), program_cache.mended:
            main(config)
    except KeyboardInterrupt:
        print(f"\nInterrupted. {_how_to_go_on(given)}", file=sys.stderr)
        return 130
    except ClusterError as error:
        print(f"{type(error).__name__}: {error}. {_how_to_go_on(given)}", file=sys.stderr)
        return 2
    except JaxelimError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


def _how_to_go_on(given: Sequence[str]) -> str:
    """What is kept, and the command that goes on from it."""
    module = getattr(sys.modules.get("__main__"), "__spec__", None)
    name = module.name if module is not None else os.path.basename(sys.argv[0])
    command = shlex.join(["python", "-m", name, *given])
    return f"Every finished block is kept; to go on from there, say again:\n  {command}"


__all__ = ["Cell", "Options", "load", "run_and_load", "run_cells", "script"]
