"""A call that is cut into blocks of runs: on an executor, from a store, or both."""

import dataclasses
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxelim import checks, cluster, scope
from jaxelim.cluster.dispatch import say
from jaxelim.engine.progress import Progress
from jaxelim.errors import ArgumentError, ClusterError, Interrupted
from jaxelim.simulation.call import CheckedCall
from jaxelim.simulation.interrupts import Interrupts
from jaxelim.simulation.outcomes import RECORDED, Outcomes, ordered
from jaxelim.simulation.plan import planned
from jaxelim.simulation.results.result import Result
from jaxelim.simulation.run import run

MOST = 10_000
"""Runs of a block by default, at most."""
_LAYOUT = "plan_"
"""What entries of a block's work that tell its layout begin with."""


class Computed(NamedTuple):
    """Runs that are over, of one block or of a store."""

    runs: np.ndarray
    arrays: dict[str, np.ndarray | None]  # of `RECORDED`
    work: dict  # timings, and the layout


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A checked call as a task for workers."""

    call: CheckedCall

    def compute(self, runs: np.ndarray, progress: Any) -> Computed:
        """The call's runs, a pure function of it."""
        assert np.array_equal(runs, self.call.runs)
        interrupts = Interrupts()
        with scope.engine():
            plan = planned(self.call)
            block = ordered(plan, run(plan, progress, interrupts))
        if interrupts.asked or block is None:  # it was noted while progress was told
            raise KeyboardInterrupt
        layout = {f"{_LAYOUT}{name}": value for name, value in block.layout.items()}
        return Computed(runs, block.arrays, block.timings | layout)


def check(call: CheckedCall, executor: Any, block: Any, store: Any) -> None:
    """Refuse arguments of `simulate` that do not go together.

    Raises:
        ArgumentError: they do not.
    """
    if block is not None:
        checks.integer("block", block, low=1)
        if executor is None and store is None:
            raise ArgumentError("block", block, "None without executor and store")
    if executor is not None and call.engine.devices not in (None, 1):
        raise ArgumentError(
            "engine", call.engine, "devices=None or 1: with an executor each worker has one device"
        )


def simulated(
    call: CheckedCall, progress: Any, executor: Any, block: int | None, store: Any
) -> Result:
    """Run a call in blocks, and put its arrays together in the order of its runs.

    Args:
        call: the checked call.
        progress: as for `simulate`.
        executor: None for this process.
        block: runs of a block; None: chosen by the number of workers.
        store: a folder for finished blocks, or None.

    Raises:
        as `simulate`.
    """
    asked, call = call, call.part(np.sort(call.runs))
    workers = 1
    if executor is not None:
        call = dataclasses.replace(call, engine=dataclasses.replace(call.engine, devices=1))
        workers = cluster.workers_of(executor)
        if not hasattr(executor, "get_executor"):  # Dask pickles more
            _check_pickles(call)
    kept = None if store is None else _Kept(store, call)
    held = None if kept is None else kept.held()
    missing = call.runs if held is None else np.setdiff1d(call.runs, held.runs)
    size = _size(call.runs.size, workers) if block is None else block
    parts = [call.part(runs) for runs in _stretches(missing, size, kept is not None)]
    tasks = [cluster.WorkBlock(Simulation(p), p.runs, f"runs {_named(p.runs)}") for p in parts]
    listener = _Listener(call, parts, progress, kept, call.runs.size - missing.size)
    try:
        cluster.compute_all(executor, tasks, listener)
    except KeyboardInterrupt as error:
        result = _finished(asked, listener, held)
        kept_runs = 0 if result is None else result.runs.size
        counted = f"{kept_runs} of {call.runs.size} runs are in finished blocks"
        raise Interrupted(f"interrupted: {counted}. {_remain(store)}", result) from error
    except ClusterError as error:
        raise type(error)(error.problem, f"{error.remedy}. {_remain(store)}") from error
    finally:
        listener.close()
    result = _finished(asked, listener, held)
    assert result is not None
    return result


def _finished(call: CheckedCall, listener: "_Listener", held: Any) -> Result | None:
    """The result of the finished blocks, in the order of the call; None where there is none.

    Args:
        call: all runs that were asked for.
        listener: has the blocks of this call.
        held: the blocks of the store, or None.
    """
    parts, count = list(listener.computed), len(listener.computed)
    if held is not None and held.data is not None:
        count += len(held.blocks)
        stored = held.data.isel(run=np.flatnonzero(np.isin(held.runs, call.runs)))
        if stored.sizes["run"]:
            arrays = {name: stored[name].values if name in stored else None for name in RECORDED}
            largest = max(held.blocks, key=lambda block: block.runs.size)
            work = _layout_of(largest.work) | _summed([block.work for block in held.blocks])
            parts.append(Computed(stored["run"].values, arrays, work))
    if not parts:
        return None
    runs, missing = np.concatenate([part.runs for part in parts]), ""
    over = np.isin(call.runs, runs)
    if not over.all():
        missing = f"{over.sum()} of {over.size} runs are in finished blocks"
        call = call.part(call.runs[over])
    order = np.argsort(runs)
    rows = order[np.searchsorted(runs, call.runs, sorter=order)]
    axis = 3 if call.instance.batched else 2

    def together(name: str) -> np.ndarray | None:
        arrays: list[Any] = [part.arrays[name] for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays, axis).take(rows, axis)

    layout = _layout_of(max(parts, key=lambda part: part.runs.size).work)
    layout = {name.removeprefix(_LAYOUT): value for name, value in layout.items()}
    return _result(
        call,
        {name: together(name) for name in RECORDED},
        _summed([part.work for part in parts]),
        layout | {"blocks": count},
        missing,
    )


def _result(call: CheckedCall, *of_runs: Any) -> Result:
    with scope.engine():
        return Result.of(Outcomes(call, *of_runs))


def _layout_of(work: dict) -> dict:
    """The entries of a block's work that tell its layout."""
    return {name: value for name, value in work.items() if name.startswith(_LAYOUT)}


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


def _check_pickles(call: CheckedCall) -> None:
    """Refuse arguments that cannot be sent to a process, by name."""
    for field in dataclasses.fields(call):
        value = getattr(call, field.name)
        try:
            pickle.dumps(value)
        except Exception as error:
            name = "delta" if field.name == "deltas" else field.name
            allowed = "what can be pickled, such as classes and functions at the top of a module"
            raise ArgumentError(name, value, f"with an executor, {allowed}", str(error)) from error


class _Listener:
    """Keeps outcomes, writes blocks, and shows progress over all blocks."""

    def __init__(
        self, call: CheckedCall, parts: list[CheckedCall], progress: Any, kept: Any, done: int
    ):
        self.computed: list[Computed] = []
        self.parts, self._kept = parts, kept
        of_run = call.trajectories
        self._bar = Progress(progress, of_run * call.runs.size)
        self._of_run, self._runs, self._samples = of_run, of_run * done, 0
        self._under_way: dict[int, tuple[int, int]] = {}
        if done:
            self._show()

    def began(self, number: int) -> None:
        self._under_way[number] = 0, 0

    def moved(self, number: int, runs: int, samples: int, seconds: float) -> None:
        self._under_way[number] = runs, samples
        self._show()

    def finished(self, number: int, content: Computed) -> None:
        if self._kept is not None:
            self._kept.write(self.parts[number], content)
        self.computed.append(content)
        self._under_way.pop(number, None)
        self._runs += self._of_run * self.parts[number].runs.size
        self._samples += content.work["samples_drawn"]
        self._show()

    def _show(self) -> None:
        runs, samples = np.sum([(0, 0), *self._under_way.values()], 0)
        self._bar.update(self._runs + int(runs), self._samples + int(samples))

    def close(self) -> None:
        self._bar.close()


class _Kept:
    """The blocks of a call in a store."""

    def __init__(self, folder: Any, call: CheckedCall):
        from jaxelim.store import Store, digest  # imports xarray
        from jaxelim.store.calls import settings

        self.store = Store(folder)
        self.settings = settings(call)
        label = f"simulate/{call.problem.name}/{type(call.rule).__name__}"
        self._name = f"{label}/{digest(self.settings)[:8]}"
        self.store.prepare()
        for path in self.store.sweep():
            say(f"removed {path}, left by a job that was killed")

    def held(self) -> Any:
        held = self.store.held(self.settings)
        for error in held.damaged:
            say(f"damaged, set aside and computed again: {error}")
        self.store.put_aside(held.damaged)
        return held

    def write(self, call: CheckedCall, block: Computed) -> Path:
        from jaxelim.store import Block

        data = _result(call, block.arrays, {}, {}).to_xarray()
        data.attrs = {}
        return self.store.write(Block(self._name, self.settings, data, block.work))


def _summed(works: list[dict]) -> dict:
    """The sums of all measurements that are numbers."""
    total: dict = {}
    for work in works:
        for name, value in work.items():
            if isinstance(value, int | float) and not name.startswith(_LAYOUT):
                total[name] = total.get(name, 0) + value
    return total
