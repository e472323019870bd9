"""Run an experiment's cells in blocks into a store: resumable, sharded, with progress.

A cell (`experiments.cell`) holds one simulation's settings without its runs. Its
runs are computed in blocks, in this process, on workers here or on a cluster. A finished
block is stored (`jaxelim.store`) and never computed again. `Options` is what the command
lines of all experiments share; `script` is their main function.
"""

import contextlib
import dataclasses
import importlib.util
import itertools
import os
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
import tyro
import xarray as xr

import jaxelim as je
from experiments import paper
from experiments.board import Board
from experiments.cell import Cell
from jaxelim import checks, cli, cluster, program_cache
from jaxelim.cluster import WorkBlock, compute_all, workers_of
from jaxelim.cluster.clients import cores
from jaxelim.cluster.remote import Task
from jaxelim.errors import ArgumentError, ClusterError, JaxelimError
from jaxelim.files import make_folder, writable_file
from jaxelim.interrupts import Signals
from jaxelim.store import Block as StoredBlock
from jaxelim.store import Held, Store, ranges


class Job(Protocol):
    """The interface of a cell that the runner uses."""

    @property
    def name(self) -> str:
        """Readable name; one name has one set of settings."""
        ...

    def settings(self) -> dict:
        """Everything that decides the numbers of run r, in canonical form."""
        ...

    @property
    def program(self) -> Hashable:
        """Key of the compiled program: jobs with equal keys share it."""
        ...

    @property
    def task(self) -> Task:
        """What computes its runs: arrays with a dimension `run`, and measurements."""
        ...


@dataclasses.dataclass(frozen=True)
class Options:
    """Options that all experiments share."""

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
        usual = {field.name: field.default for field in dataclasses.fields(Options)}
        said = [
            f"/{key}={getattr(self, key)}"
            for key in ("seed", "max_samples")
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


@dataclasses.dataclass(frozen=True)
class Part:
    """One block of one cell: runs first .. last."""

    job: Job
    first: int
    last: int

    @property
    def runs(self) -> np.ndarray:
        """Run indexes [run]."""
        return np.arange(self.first, self.last + 1)


def partition(
    jobs: Sequence[Job], runs: int, block: int, shard: tuple[int, int] = (1, 1)
) -> list[Part]:
    """A shard's blocks of all cells, cut at multiples of `block`.

    A block's shard does not depend on what is finished: machines that share nothing
    agree on it.
    """
    whole = [
        Part(job, first, min(first + block, runs) - 1)
        for job in jobs
        for first in range(0, runs, block)
    ]
    return whole[shard[0] - 1 :: shard[1]]


def missing(part: Part, held: np.ndarray) -> list[Part]:
    """The blocks of a part that remain when the runs `held` exist."""
    runs = np.setdiff1d(part.runs, held)
    if runs.size == 0:
        return []
    stretches = np.split(runs, np.flatnonzero(np.diff(runs) != 1) + 1)
    return [Part(part.job, int(one[0]), int(one[-1])) for one in stretches]


@dataclasses.dataclass(frozen=True)
class Done:
    """Counts of a job: computed runs, finished runs found, damaged files recomputed."""

    computed: int
    found: int
    damaged: int


def run_cells(jobs: Sequence[Job], options: Options) -> Done:
    """Compute a shard's missing blocks, one a worker at a time; store each at once.

    Raises:
        ConflictError: the folder has other settings under a cell's name.
        StoreError: the folder cannot be written; finished blocks stay.
        WorkersLost, SchedulerLost, WorkerMismatch: likewise.
        KeyboardInterrupt: likewise.
    """
    store, shard = Store(options.output), parse_shard(options.shard)
    settings = {job.name: job.settings() for job in jobs}
    if len(settings) < len(jobs):
        raise ArgumentError("jobs", [job.name for job in jobs], "cells with a name each")
    store.prepare()
    for name, one in settings.items():
        store.check_name(name, one)
    for path in store.sweep():
        print(f"removed {path}, left by a job that was killed", file=sys.stderr)
    held: dict[str, np.ndarray] = {}
    damaged = 0
    for name, one in settings.items():
        found = store.held(one)
        for error in found.damaged:
            print(f"damaged, set aside and computed again: {error}", file=sys.stderr)
        store.put_aside(found.damaged)
        damaged += len(found.damaged)
        held[name] = found.runs
    parts = partition(jobs, options.runs, options.block, shard)
    todo = [rest for part in parts for rest in missing(part, held[part.job.name])]
    total = sum(part.runs.size for part in parts)
    left = sum(part.runs.size for part in todo)
    with _executor(options, len(todo)) as executor:
        workers = 1 if executor is None else workers_of(executor)
        kept = _Kept(store, settings, todo, Board(total, total - left, len(todo), workers))
        blocks = [
            WorkBlock(
                part.job.task,
                part.runs,
                f"{part.job.name} runs {ranges(part.runs)}",
                part.job.program,
            )
            for part in todo
        ]
        try:
            compute_all(executor, blocks, kept)
        finally:
            kept.board.close()
    return Done(left, total - left, damaged)


class _Kept:
    """Stores each block once it is finished, and shows the progress of all."""

    def __init__(self, store: Store, settings: dict, parts: Sequence[Part], board: Board):
        self.board = board
        self._store, self._settings, self._parts = store, settings, parts
        self._rows: dict[int, int] = {}  # number of a block: its row on the board
        self._began: dict[int, float] = {}

    def began(self, number: int) -> None:
        if number not in self._rows:
            used = set(self._rows.values())
            self._rows[number] = next(row for row in itertools.count() if row not in used)
        self._began[number] = time.perf_counter()
        self.board.begin(self._rows[number], self._parts[number])

    def moved(self, number: int, runs: int, samples: int, seconds: float) -> None:
        self.board.update(self._rows[number], runs, samples, seconds)

    def finished(self, number: int, content: tuple[xr.Dataset, dict]) -> None:
        part, (data, work) = self._parts[number], content
        self._store.write(StoredBlock(part.job.name, self._settings[part.job.name], data, work))
        seconds = time.perf_counter() - self._began.pop(number)
        self.board.end(self._rows.pop(number), part, work, seconds)


@contextlib.contextmanager
def _executor(options: Options, blocks: int) -> Iterator[Any]:
    """The workers that the options ask for; None for this process."""
    given = options.scheduler_file if options.scheduler is None else options.scheduler
    if blocks and given is not None:
        with cluster.connect(given) as client:
            yield client
        return
    workers = _workers(options, blocks)
    if workers == 0:
        yield None
        return
    with cluster.local(workers, dashboard=options.dashboard) as client:
        yield client


def _workers(options: Options, blocks: int) -> int:
    """How many processes to start here; none where one alone would work.

    On a GPU this process computes: one process has the device.
    """
    if options.workers is not None:
        return min(options.workers, blocks)
    workers = min(cores(), blocks)
    if workers < 2 or jax.default_backend() != "cpu":
        return 0
    if importlib.util.find_spec("distributed") is None:
        print("one process: more need `pip install '.[cluster]'`", file=sys.stderr)
        return 0
    return workers


def load(jobs: Sequence[Job], options: Options) -> dict[str, Held] | None:
    """The runs 0 .. runs - 1 of every cell, by name; damaged files count as missing.

    None, with a message, if runs are missing: other shards have them.
    """
    store, loaded, lacking = Store(options.output), {}, 0
    for job in jobs:
        held = store.held(job.settings())
        kept = np.flatnonzero(held.runs < options.runs)
        lacking += options.runs - kept.size
        data = None if held.data is None else held.data.isel(run=kept)
        loaded[job.name] = Held(data, held.blocks, held.damaged)
    if lacking:
        print(
            f"{options.output} lacks {lacking} of {options.runs * len(jobs)} runs: "
            "no table or figure is made. Join the folders of all shards with "
            "`jaxelim merge A B -o C`, then give the same command with --output C and no --shard."
        )
        return None
    return loaded


def run_and_load(
    jobs: Sequence[Job], options: Options, files: Sequence[Path] = ()
) -> dict[str, Held] | None:
    """Check that `files` can be written, then `run_cells` and `load`.

    Raises:
        ArgumentError: one of the files cannot be written; and as `run_cells`.
    """
    for path in files:
        make_folder(path.parent)
        writable_file("output", path)
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
        # The paper's ridge is 1, although it is biased; unstructured-k40-osi warns.
        warnings.simplefilter("ignore", je.RidgeWarning)
        with _Terminable(), program_cache.mended():
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


__all__ = ["Board", "Cell", "Options", "Part", "load", "run_and_load", "run_cells", "script"]
