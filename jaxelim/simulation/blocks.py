"""A call that is cut into blocks of runs: on an executor, from a store, or both."""

import dataclasses
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from jaxelim import checks, cluster, scope
from jaxelim.cluster.dispatch import say
from jaxelim.engine.progress import Progress
from jaxelim.errors import ArgumentError, ClusterError, Interrupted
from jaxelim.simulation.drive import spec_of
from jaxelim.simulation.job import Job
from jaxelim.simulation.outcomes import outcomes
from jaxelim.simulation.result import Result

MOST = 10_000
"""Runs of a block by default, at most."""
FIELDS = ("samples", "stopped", "answer", "pulls", "tests_stopping", "tests_sampling", "solves",
          "log_e")  # fmt: skip
"""Arrays of a block besides the elimination times."""


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A checked call as a task for workers."""

    job: Job

    def compute(self, runs: np.ndarray, progress: Any) -> tuple[Any, dict]:
        """The outcome of the call's runs, a pure function of it; and timings."""
        assert np.array_equal(runs, self.job.runs)
        with scope.engine():
            arrays, work = outcomes(self.job, progress)
        return _with_one_table_of_times(arrays, self.job), work


def _part(job: Job, runs: np.ndarray) -> Job:
    """A call, whose runs are sorted, with these of its runs."""
    rows = np.searchsorted(job.runs, runs)
    noise = job.noise
    if noise is not None:
        slice_ = noise[rows[0] : rows[-1] + 1]
        noise = slice_ if len(slice_) == len(rows) else noise[rows]
    return dataclasses.replace(job, runs=runs, noise=noise)


def _with_one_table_of_times(arrays: Any, job: Job) -> Any:
    """An outcome whose elimination times are one array for all stopping rules, or none."""
    found = [x for x in arrays.times if x is not None]
    if not found:
        return dataclasses.replace(arrays, times=())
    each = [np.zeros_like(found[0]) if x is None else x for x in arrays.times]
    axis = 1 if job.instance.batched else 0
    return dataclasses.replace(arrays, times=(np.concatenate(each, axis),))


def check(job: Job, executor: Any, block: Any, store: Any) -> None:
    """Refuse arguments of `simulate` that do not go together.

    Raises:
        ArgumentError: they do not.
    """
    if block is not None:
        checks.integer("block", block, low=1)
        if executor is None and store is None:
            raise ArgumentError("block", block, "None without executor and store")
    if executor is not None and job.layout.devices not in (None, 1):
        raise ArgumentError(
            "engine", job.layout, "devices=None or 1: with an executor each worker has one device"
        )


def simulated(job: Job, progress: Any, executor: Any, block: int | None, store: Any) -> Result:
    """Run a call in blocks, and put its arrays together in the order of its runs.

    Args:
        job: the checked call.
        progress: as for `simulate`.
        executor: None for this process.
        block: runs of a block; None: chosen by the number of workers.
        store: a folder for finished blocks, or None.

    Raises:
        as `simulate`.
    """
    given = job
    order = np.argsort(job.runs)
    noise = None if job.noise is None else job.noise[order]
    job = dataclasses.replace(job, runs=job.runs[order], noise=noise)
    workers = 1
    if executor is not None:
        job = dataclasses.replace(job, layout=dataclasses.replace(job.layout, devices=1))
        workers = cluster.workers_of(executor)
        if not hasattr(executor, "get_executor"):  # Dask pickles more
            _check_pickles(job)
    kept = None if store is None else _Kept(store, job)
    held = None if kept is None else kept.held()
    missing = job.runs if held is None else np.setdiff1d(job.runs, held.runs)
    size = _size(job.runs.size, workers) if block is None else block
    parts = [_part(job, runs) for runs in _stretches(missing, size, kept is not None)]
    asked = [cluster.Block(Simulation(p), p.runs, f"runs {_named(p.runs)}") for p in parts]
    listener = _Listener(job, parts, progress, kept, job.runs.size - missing.size)
    try:
        cluster.compute_all(executor, asked, listener)
    except KeyboardInterrupt as error:
        result = _finished(given, job, listener, held)
        kept_runs = 0 if result is None else result.runs.size
        counted = f"{kept_runs} of {job.runs.size} runs are in finished blocks"
        raise Interrupted(f"interrupted: {counted}. {_remain(store)}", result) from error
    except ClusterError as error:
        raise type(error)(error.problem, f"{error.remedy}. {_remain(store)}") from error
    finally:
        listener.close()
    result = _finished(given, job, listener, held)
    assert result is not None
    return result


def _finished(given: Job, job: Job, listener: "_Listener", held: Any) -> Result | None:
    """The result of the finished blocks, or None where there is none.

    Args:
        given: the call; the result has its order of runs.
        job: the call, its runs sorted.
        listener: has the blocks of this call.
        held: the blocks of the store, or None.
    """
    found = [(listener.parts[n].runs, *content) for n, content in listener.found.items()]
    if held is not None and held.data is not None:
        inside = held.data.isel(run=np.flatnonzero(np.isin(held.runs, job.runs)))
        if inside.sizes["run"]:
            work = _summed([one.work for one in held.blocks])
            found.append((inside["run"].values, _arrays_of(inside), work))
    if not found:
        return None
    count = len(listener.found) + (0 if held is None else len(held.blocks))
    largest = max((runs for runs, _, _ in found), key=len)
    over = np.isin(given.runs, np.concatenate([runs for runs, _, _ in found]))
    missing = ""
    if not over.all():
        missing = f"{over.sum()} of {over.size} runs are in finished blocks"
        noise = None if given.noise is None else given.noise[over]
        given = dataclasses.replace(given, runs=given.runs[over], noise=noise)
    return _assembled(given, _part(job, largest), found, count, missing)


def _size(runs: int, workers: int) -> int:
    """The default runs of a block: four blocks a worker, by a power of two, within limits."""
    return min(MOST, 2 ** math.ceil(math.log2(max(runs / (4 * workers), 1))))


def _stretches(runs: np.ndarray, size: int, together: bool) -> Iterator[np.ndarray]:
    """Cut sorted runs into blocks; `together`: of consecutive indices, as the store has them.

    These are cut at multiples of the size, so that any two calls cut alike.
    """
    if not together:
        yield from (runs[i : i + size] for i in range(0, runs.size, size))
        return
    if runs.size:
        cut = (np.diff(runs) != 1) | (np.diff(runs // size) != 0)
        yield from np.split(runs, np.flatnonzero(cut) + 1)


def _named(runs: np.ndarray) -> str:
    return str(runs[0]) if runs.size == 1 else f"{runs[0]}-{runs[-1]}"


def _remain(store: Any) -> str:
    if store is None:
        return "Nothing is kept: store=, a folder, keeps finished blocks"
    return f"Finished blocks are kept in {str(store)!r}: the same call goes on from them"


def _check_pickles(job: Job) -> None:
    """Refuse arguments that cannot be sent to a process, by name."""
    for field in dataclasses.fields(job):
        value = getattr(job, field.name)
        try:
            pickle.dumps(value)
        except Exception as error:
            name = {"layout": "engine", "deltas": "delta"}.get(field.name, field.name)
            allowed = "what can be pickled, such as classes and functions at the top of a module"
            raise ArgumentError(name, value, f"with an executor, {allowed}", str(error)) from error


class _Listener:
    """Keeps outcomes, writes blocks, and shows progress over all blocks."""

    def __init__(self, job: Job, parts: list[Job], progress: Any, kept: Any, done: int):
        self.found: dict[int, tuple[Any, dict]] = {}
        self.parts, self._kept = parts, kept
        each = job.instance.size * (1 if job.shared else job.deltas.size)
        self._bar = Progress(progress, each * job.runs.size)
        self._each, self._runs, self._samples = each, each * done, 0
        self._under_way: dict[int, tuple[int, int]] = {}
        if done:
            self._show()

    def began(self, number: int) -> None:
        self._under_way[number] = 0, 0

    def moved(self, number: int, runs: int, samples: int, seconds: float) -> None:
        self._under_way[number] = runs, samples
        self._show()

    def finished(self, number: int, content: Any) -> None:
        if self._kept is not None:
            self._kept.write(self.parts[number], *content)
        self.found[number] = content
        self._under_way.pop(number, None)
        self._runs += self._each * self.parts[number].runs.size
        self._samples += content[1]["samples_drawn"]
        self._show()

    def _show(self) -> None:
        runs, samples = np.sum([(0, 0), *self._under_way.values()], 0)
        self._bar.update(self._runs + int(runs), self._samples + int(samples))

    def close(self) -> None:
        self._bar.close()


class _Kept:
    """The blocks of a call in a store."""

    def __init__(self, folder: Any, job: Job):
        from jaxelim.store import Store, digest  # imports xarray
        from jaxelim.store.calls import settings

        self.store = Store(folder)
        self.settings = settings(job)
        label = f"simulate/{job.problem.name}/{type(job.rule).__name__}"
        self._name = f"{label}/{digest(self.settings)[:8]}"
        self.store.prepare()
        for path in self.store.sweep():
            say(f"removed {path}, left by a job that was killed")

    def held(self) -> Any:
        found = self.store.held(self.settings)
        for error in found.damaged:
            say(f"damaged, set aside and computed again: {error}")
        self.store.put_aside(found.damaged)
        return found

    def write(self, part: Job, arrays: Any, work: dict) -> Path:
        from jaxelim.store import Block

        with scope.engine():
            data = Result.assembled(part, spec_of(part), arrays, work).to_xarray()
        data.attrs = {}
        return self.store.write(Block(self._name, self.settings, data, work))


def _arrays_of(data: Any) -> SimpleNamespace:
    """An outcome from a stored dataset."""
    arrays = {name: data[name].values if name in data else None for name in FIELDS}
    times = (data["elimination_times"].values,) if "elimination_times" in data else ()
    return SimpleNamespace(**arrays, times=times)


def _summed(works: list[dict]) -> dict:
    """The sums of all measurements that are numbers."""
    total: dict = {}
    for work in works:
        for name, value in work.items():
            if isinstance(value, int | float) and not name.startswith("plan_"):
                total[name] = total.get(name, 0) + value
    return total


def _assembled(job: Job, part: Job, found: list, blocks: int, missing: str) -> Result:
    """The result of all blocks, in the order of the call's runs.

    Args:
        job: the call.
        part: the call with the runs of one block, whose layout the result shows.
        found: runs, arrays and timings of each block.
        blocks: their number, stored ones included.
        missing: what is missing, in words, where the call was interrupted.
    """
    axis = 3 if job.instance.batched else 2
    runs = np.concatenate([of_block for of_block, _, _ in found])
    rows = np.argsort(runs)[np.searchsorted(np.sort(runs), job.runs)]

    def together(parts: list) -> Any:
        return None if parts[0] is None else np.concatenate(parts, axis).take(rows, axis)

    arrays = SimpleNamespace(
        **{name: together([getattr(one, name) for _, one, _ in found]) for name in FIELDS}
    )
    tables = [one.times for _, one, _ in found]
    arrays.times = (together([one for (one,) in tables]),) if tables[0] else ()
    work = _summed([work for _, _, work in found])
    with scope.engine():
        result = Result.assembled(job, spec_of(part), arrays, work, missing)
    return dataclasses.replace(result, layout={**result.layout, "blocks": blocks})
