"""Run an experiment's cells in blocks into a store: resumable, sharded, with progress.

A cell holds one simulation's settings without its runs: instance, problem, rule and
observers. Its runs are computed in blocks. A finished block is stored (`jaxelim.store`)
and never computed again. `Options` is what the command lines of all experiments share;
`script` is their main function.
"""

import contextlib
import dataclasses
import os
import platform
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
import tyro
import xarray as xr
from tqdm import tqdm

import jaxelim as je
from experiments import paper
from experiments.workers import Worker
from jaxelim import checks, cli
from jaxelim.errors import ArgumentError, JaxelimError
from jaxelim.files import make_folder, writable_file
from jaxelim.store import REVISION, Block, Held, Store, canonical, ranges


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

    def compute(
        self, runs: np.ndarray, progress: Callable[[int, int, int, float], None]
    ) -> tuple[xr.Dataset, dict]:
        """Compute these runs.

        Returns:
            Arrays with a dimension `run`, and measurements of the work.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Cell:
    """One simulation's settings without its runs; fields are those of `je.simulate`.

    Args:
        name: readable, such as "table1/bai/LinGapE/watched".
        stopping: all observers of the same runs.
        delta: one or several, on one trajectory if the rule ignores delta.
    """

    name: str
    instance: je.Instance
    problem: je.Problem
    rule: je.SamplingRule
    stopping: tuple[je.StoppingRule, ...]
    elimination: Any = None
    delta: tuple[float, ...] = (0.01,)
    seed: int = 0
    max_samples: int = paper.CAP
    threshold: Any = je.Heuristic()  # noqa: RUF009 (frozen)
    ridge: float | None = 1.0
    record: tuple[str, ...] = ()
    precision: str = "float64"
    initial_pulls: int | None = None

    @property
    def pulls(self) -> int:
        """The number of initial pulls of each arm."""
        least = self.instance.family.initial_pulls
        return least if self.initial_pulls is None else self.initial_pulls

    def settings(self) -> dict:
        """All fields but the name, and the revision of the library's numbers.

        One initial pull is left out, as files of older versions do not have it.
        """
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("name", "initial_pulls")
        }
        if self.pulls != 1:
            fields["initial_pulls"] = self.pulls
        return canonical({**fields, "revision": REVISION})

    @property
    def program(self) -> Hashable:
        """See `Job`: everything but numbers, which are arguments of the program."""
        shape = self.instance.structure, self.instance.arms.shape, len(self.delta)
        kinds = (
            self.instance.family,
            self.problem.static_part(),
            self.rule.static_part(),
            self.stopping,
            self.elimination,
            self.threshold,
        )
        return (*shape, *kinds, self.ridge, self.record, self.precision, self.pulls)

    def compute(
        self, runs: np.ndarray, progress: Callable[[int, int, int, float], None]
    ) -> tuple[xr.Dataset, dict]:
        """See `Job`."""
        result = je.simulate(
            self.instance,
            self.problem,
            self.rule,
            delta=self.delta,
            stopping=self.stopping,
            elimination=self.elimination,
            threshold=self.threshold,
            runs=runs,
            seed=self.seed,
            max_samples=self.max_samples,
            ridge=self.ridge,
            record=self.record,
            engine=je.Engine(precision=self.precision, devices=1),
            progress=progress,
            initial_pulls=self.initial_pulls,
        )
        data = result.to_xarray()
        data.attrs = {}
        versions = {"jax": jax.__version__, "numpy": np.__version__, "machine": platform.machine()}
        return data, {
            **result.timings,
            **{f"plan_{key}": value for key, value in result.layout.items()},
            **versions,
        }


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
    processes: bool = True
    """Use processes, not threads, on several CPU cores: faster, but slower to start."""

    def __post_init__(self) -> None:
        checks.integer("runs", self.runs, low=1, high=checks.MAX_RUNS)
        checks.integer("block", self.block, low=1)
        checks.seed(self.seed)
        parse_shard(self.shard)

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


EVERY = 60.0
"""Seconds without a finished block after which progress is printed, without bars."""


class Board:
    """Progress: runs done, samples per second and time left, per block and in total.

    Shows bars at a terminal. Elsewhere prints a line per finished block, and one after
    each minute without any.

    Args:
        total: all runs.
        done: runs that existed at the start.
        blocks: blocks to compute.
        workers: blocks computed concurrently.
    """

    def __init__(self, total: int, done: int, blocks: int, workers: int):
        self._total, self._done, self._blocks = total, done, blocks
        self._finished = self._samples = self._computed = 0
        self._began = time.perf_counter()
        self._lock = threading.Lock()
        # worker: finished runs and drawn samples of its block
        self._at_work: dict[int, tuple[int, int]] = {}
        self._parts: dict[int, Part] = {}  # worker: its block
        self._said = self._began
        self._bars: list[tqdm] = []
        if sys.stderr.isatty():
            common: dict[str, Any] = dict(
                file=sys.stderr, dynamic_ncols=True, unit="run", smoothing=0
            )
            self._bars = [tqdm(total=total, initial=done, desc="all", position=0, **common)]
            self._bars += [
                tqdm(total=0, position=1 + worker, leave=False, **common)
                for worker in range(workers)
            ]

    def begin(self, worker: int, part: Part) -> None:
        """Record that a worker begins a block."""
        with self._lock:
            self._parts[worker] = part
            if self._bars:
                self._bars[1 + worker].reset(part.runs.size)
                self._bars[1 + worker].set_description(f"{part.job.name} {ranges(part.runs)}")

    def update(self, worker: int, runs: int, samples: int, seconds: float) -> None:
        """Record the finished runs and drawn samples of a worker's block."""
        with self._lock:
            self._at_work[worker] = runs, samples
            if self._bars:
                under_way = np.sum(list(self._at_work.values()), 0)
                everything = (
                    self._done + self._computed + under_way[0],
                    self._samples + under_way[1],
                    self._seconds(),
                )
                own = runs, samples, seconds
                for bar, (count, drawn, took) in zip(
                    (self._bars[1 + worker], self._bars[0]), (own, everything), strict=True
                ):
                    bar.set_postfix_str(_rate(drawn, took), refresh=False)
                    bar.update(count - bar.n)
            elif time.perf_counter() > self._said + EVERY:
                self._say_how_far()

    def _say_how_far(self) -> None:
        runs, samples = np.sum(list(self._at_work.values()), 0)
        runs, samples, self._said = (
            self._computed + runs,
            self._samples + samples,
            time.perf_counter(),
        )
        left = self._left(runs) if runs else "unknown time"
        blocks = (
            f"{part.job.name} {self._at_work.get(worker, (0, 0))[0]} of {part.runs.size} runs"
            for worker, part in sorted(self._parts.items())
        )
        everything = (
            f"{self._done + runs} of {self._total} runs, "
            f"{_rate(samples, self._seconds())}; {left} left"
        )
        print(f"{everything}; at work: {', '.join(blocks)}", file=sys.stderr, flush=True)

    def end(self, worker: int, part: Part, work: dict, seconds: float) -> None:
        """Record that a block is finished and stored."""
        with self._lock:
            self._ended(worker, part, work, seconds)

    def _ended(self, worker: int, part: Part, work: dict, seconds: float) -> None:
        self._at_work.pop(worker, None)
        self._parts.pop(worker, None)
        self._said = time.perf_counter()
        self._finished += 1
        self._computed += part.runs.size
        samples = int(work.get("samples_drawn", 0))
        self._samples += samples
        if not self._bars:
            print(
                f"[{self._finished}/{self._blocks}] {part.job.name} runs {ranges(part.runs)}: "
                f"{seconds:.1f} s, {_rate(samples, work.get('seconds', seconds))}; "
                f"{self._left(self._computed)} left",
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        """Close the bars."""
        for bar in reversed(self._bars or ()):
            bar.close()

    def _left(self, runs: int) -> str:
        return _clock(self._seconds() / runs * (self._total - self._done - runs))

    def _seconds(self) -> float:
        return time.perf_counter() - self._began


def _rate(samples: float, seconds: float) -> str:
    return f"{samples / max(seconds, 1e-9) / 1e6:.2f} M samples/s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes >= 60
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )


@dataclasses.dataclass(frozen=True)
class Done:
    """Counts of a job: computed runs, finished runs found, damaged files recomputed."""

    computed: int
    found: int
    damaged: int


def run_cells(jobs: Sequence[Job], options: Options) -> Done:
    """Compute a shard's missing blocks, one per device at a time; store each at once.

    Raises:
        ConflictError: the folder has other settings under a cell's name.
        StoreError: the folder cannot be written; finished blocks stay.
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
    devices = jax.devices()
    apart = options.processes and len(devices) > 1 and devices[0].platform == "cpu"
    board = Board(total, total - left, len(todo), len(devices))
    helpers: list[Worker] = []

    def do(worker: int, part: Part, check: Callable[[], None]) -> None:
        def update(runs: int, _: int, samples: int, seconds: float) -> None:
            check()
            board.update(worker, runs, samples, seconds)

        board.begin(worker, part)
        began = time.perf_counter()
        if apart:
            data, work = helpers[worker].compute(part.job, part.runs, update, check)
        else:
            with jax.default_device(devices[worker]):
                data, work = part.job.compute(part.runs, update)
        store.write(Block(part.job.name, settings[part.job.name], data, work))
        board.end(worker, part, work, time.perf_counter() - began)

    with contextlib.ExitStack() as stack:
        stack.callback(board.close)
        if apart:
            helpers += [stack.enter_context(Worker()) for _ in range(min(len(devices), len(todo)))]
        _side_by_side(todo, do, len(devices))
    return Done(left, total - left, damaged)


def _side_by_side(
    todo: Sequence[Part], do: Callable[[int, Part, Callable[[], None]], None], workers: int
) -> None:
    """Call do(worker, part, check) for every part, on `workers` threads.

    A worker keeps one device, so that devices compile and run independently. Each
    worker compiles its own programs. It therefore prefers parts whose program no other
    worker has. The first error or an interrupt ends all workers at their next `check`
    and is raised.
    """
    waiting, stop, lock = list(todo), threading.Event(), threading.Lock()
    errors: list[BaseException] = []
    owners: dict[Hashable, int] = {}

    def following(worker: int) -> Part | None:
        with lock:
            mine = (
                i
                for i, part in enumerate(waiting)
                if owners.get(part.job.program, worker) == worker
            )
            part = waiting.pop(next(mine, 0)) if waiting else None
            if part is not None:
                owners.setdefault(part.job.program, worker)
            return part

    def check() -> None:
        if stop.is_set():
            raise _Stopped

    def work(worker: int) -> None:
        try:
            while not stop.is_set():
                part = following(worker)
                if part is None:
                    return
                do(worker, part, check)
        except _Stopped:
            pass
        except BaseException as error:
            errors.append(error)
            stop.set()

    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(work, worker) for worker in range(min(workers, len(todo)))]
        try:
            # After an interrupt, Thread.join may take a running thread for finished.
            wait(futures)
        finally:
            stop.set()
    if errors:
        raise errors[0]


class _Stopped(Exception):
    """Another worker failed, or the job was interrupted."""


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


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C."""
    # only the main thread may set signal handlers
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
        with _terminable():
            main(config)
    except KeyboardInterrupt:
        module = getattr(sys.modules.get("__main__"), "__spec__", None)
        name = module.name if module is not None else os.path.basename(sys.argv[0])
        command = shlex.join(["python", "-m", name, *given])
        print(
            "\nInterrupted. Every finished block is kept; to go on from there, say again:\n"
            f"  {command}",
            file=sys.stderr,
        )
        return 130
    except JaxelimError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0
