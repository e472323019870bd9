"""Jobs in blocks of runs: on an executor, from a store, or both."""

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxelim import cluster
from jaxelim.cluster.dispatch import say
from jaxelim.cluster.remote import Task
from jaxelim.errors import ArgumentError
from jaxelim.progress import Progress
from jaxelim.store import Block, Held, Store, digest, ranges
from jaxelim.store.held import joined


@dataclasses.dataclass(frozen=True)
class Job:
    """Work that is cut by runs.

    Attributes:
        name: readable; in a store one name has one set of settings.
        settings: all that decides the numbers of run r, canonical; {} without a store.
        task: the task that computes some of the runs [n]. Its `compute` returns arrays
            with a dimension `run`, and measurements of the work.
        runs: run indices, sorted.
        program: key of the compiled program; jobs with equal keys share it.
        trajectories: of each run, for progress.
        experiment: the contents of a file that tells what was computed, from the arrays of
            a block; None: nothing tells it.
    """

    name: str
    settings: dict
    task: Callable[[np.ndarray], Task]
    runs: np.ndarray
    program: Hashable = None
    trajectories: int = 1
    experiment: Callable[[xr.Dataset], bytes | None] = lambda data: None


class Blocks:
    """The blocks of jobs: those that a store has, and those that `compute` adds.

    Args:
        jobs: the work.
        store: a folder of finished blocks, or None.
        size: runs of a block, at most.

    Attributes:
        found: runs that the store had.
        computed: runs that it lacked.
        damaged: files that were set aside, to be computed again.

    Raises:
        ArgumentError: two jobs of one name in a store.
        ConflictError: the store has other settings under a job's name.
        StoreError: the store cannot be written.
    """

    def __init__(self, jobs: Sequence[Job], store: Any, size: int):
        self.jobs, self.damaged = jobs, 0
        self._of: list[list[Block]] = [[] for _ in jobs]  # blocks, by job
        self._store = None if store is None else Store(store)
        missing = [job.runs for job in jobs]
        if self._store is not None:
            missing = [
                np.setdiff1d(job.runs, held.runs)
                for job, held in zip(jobs, self._opened(self._store), strict=True)
            ]
        parts = (stretches(runs, size, self._store is not None) for runs in missing)
        self.parts = [(n, runs) for n, own in enumerate(parts) for runs in own]
        self.computed = sum(runs.size for runs in missing)
        self.found = sum(job.runs.size for job in jobs) - self.computed

    def _opened(self, store: Store) -> list[Held]:
        """What the store has of each job; damaged files are set aside."""
        names = [job.name for job in self.jobs]
        if len(set(names)) < len(names):
            raise ArgumentError("jobs", names, "cells with a name each")
        store.prepare()
        for job in self.jobs:
            store.check_name(job.name, job.settings)
        for path in store.sweep():
            say(f"removed {path}, left by a job that was killed")
        every = [store.held(job.settings) for job in self.jobs]
        for n, held in enumerate(every):
            for error in held.damaged:
                say(f"damaged, set aside and computed again: {error}")
            store.put_aside(held.damaged)
            self.damaged += len(held.damaged)
            self._of[n] += held.blocks
        return every

    def compute(self, executor: Any, progress: Any) -> None:
        """Compute the missing blocks, one a worker at a time; keep each at once.

        Args:
            executor: None for this process.
            progress: as of `simulate`.

        Raises:
            StoreError: a block cannot be written; finished blocks stay.
            WorkersLost, SchedulerLost, WorkerMismatch, KeyboardInterrupt: likewise.
        """
        work = [
            cluster.WorkBlock(job.task(runs), runs, f"{job.name} runs {ranges(runs)}", job.program)
            for job, runs in ((self.jobs[n], runs) for n, runs in self.parts)
        ]
        listener = _Listener(self, progress)
        try:
            cluster.compute_all(executor, work, listener)
        finally:
            listener.close()

    def add(self, number: int, data: xr.Dataset, work: dict) -> None:
        """Keep what a part's task returned."""
        n, _ = self.parts[number]
        job = self.jobs[n]
        block = Block(job.name, job.settings, data, work)
        if self._store is not None:
            key = digest(job.settings)
            if self._store.tells(key) is None and (told := job.experiment(data)) is not None:
                self._store.tell(key, told)
            self._store.write(block)
        self._of[n].append(block)

    def held(self, number: int) -> Held:
        """The finished blocks of a job."""
        blocks = tuple(self._of[number])
        return Held(joined(blocks), blocks, ())


def stretches(runs: np.ndarray, size: int, together: bool) -> Iterator[np.ndarray]:
    """Cut sorted runs into blocks; `together`: of consecutive indices, as the store has them.

    These are cut at multiples of the size, so that any two calls with this size cut alike.
    """
    if not together:
        yield from (runs[i : i + size] for i in range(0, runs.size, size))
        return
    if runs.size:
        cut = (np.diff(runs) != 1) | (np.diff(runs // size) != 0)
        yield from np.split(runs, np.flatnonzero(cut) + 1)


class _Listener:
    """Keeps blocks, and shows progress over all of them."""

    def __init__(self, blocks: Blocks, progress: Any):
        self._blocks = blocks
        of_run = [job.trajectories for job in blocks.jobs]
        total = sum(k * job.runs.size for k, job in zip(of_run, blocks.jobs, strict=True))
        self._sizes = [of_run[n] * runs.size for n, runs in blocks.parts]
        self._bar = Progress(progress, total)
        self._runs, self._samples = total - sum(self._sizes), 0
        self._under_way: dict[int, tuple[int, int]] = {}
        if self._runs:
            self._show()

    def began(self, number: int) -> None:
        self._under_way[number] = 0, 0

    def moved(self, number: int, runs: int, samples: int, seconds: float) -> None:
        self._under_way[number] = runs, samples
        self._show()

    def finished(self, number: int, content: tuple[xr.Dataset, dict]) -> None:
        self._blocks.add(number, *content)
        self._under_way.pop(number, None)
        self._runs += self._sizes[number]
        self._samples += content[1].get("samples_drawn", 0)
        self._show()

    def _show(self) -> None:
        runs, samples = np.sum([(0, 0), *self._under_way.values()], 0)
        self._bar.update(self._runs + int(runs), self._samples + int(samples))

    def close(self) -> None:
        self._bar.close()
