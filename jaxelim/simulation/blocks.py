"""One path for all calls: blocks of runs, computed here or by workers, kept in a store."""

import concurrent.futures
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxelim import checks, parallel, scope
from jaxelim.errors import ArgumentError, Interrupted, WorkerError, warn
from jaxelim.files import make_folder
from jaxelim.progress import Progress, refuse_other
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.plan import planned
from jaxelim.simulation.results.descriptions import ARRAYS, experiment_of, numbers_of, origin
from jaxelim.simulation.results.result import Result, correct
from jaxelim.simulation.run import HostLoop, ordered
from jaxelim.store import Part, Store
from jaxelim.text import text_of

MOST = 10_000  # runs of a block by default


def compute(call: Experiment, bar: Progress | None = None) -> tuple[dict, dict]:
    """The arrays of a call's runs, a pure function of it, and what the work has taken."""
    with scope.engine():
        plan = planned(call)
        carry, timings = HostLoop(plan, bar or Progress(False, 0)).run()
        arrays = ordered(plan, carry)
        arrays["correct"] = correct(call, arrays["answer"])
        return arrays, {**timings, "layout": plan.layout}


def _check(call: Experiment, progress: Any, executor: Any, block: Any) -> None:
    """Refuse arguments of `simulate` that do not go together, and progress that is none."""
    refuse_other(progress)
    if block is not None:
        checks.integer("block", block, low=1)
    if executor is None:
        return
    if call.engine.devices not in (None, 1):
        allowed = "devices=None or 1: with an executor each worker has one device"
        raise ArgumentError("engine", call.engine, allowed)
    if not isinstance(executor, concurrent.futures.Executor):
        allowed = "None or a concurrent.futures.Executor, as jaxelim.parallel.processes() and "
        raise ArgumentError("executor", executor, allowed + "get_executor() of a Dask client give")
    for name, value in call.fields.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            allowed = "what can be pickled, such as classes and functions at the top of a module"
            raise ArgumentError(name, value, f"with an executor, {allowed}", str(error)) from error


def run_calls(
    calls: Sequence[Experiment],
    made: Callable[[list[Result | None]], Any],
    labels: Sequence[dict[str, str]],
    progress: Any,
    executor: Any,
    block: int | None,
    store: Any,
) -> Any:
    """Run calls in blocks, and put their arrays together in the order of their runs.

    `made` makes what is returned of the results, which are None where no run is over. An
    interruption has what it makes of the finished blocks. `labels` are the names of the calls
    in a store, empty without a study. The others are as for `simulate`.
    """
    _check(calls[0], progress, executor, block)
    if executor is not None:
        calls = [call.on_one_device() for call in calls]
    total = sum(call.runs.size for call in calls)
    if block is None and (executor is not None or store is not None):
        block = _size(total, parallel.workers_of(executor))
    folder = None if store is None else Store(store)
    keys = ["" if folder is None else call.key for call in calls]
    kept: list[list[Part]] = [[] for _ in calls]
    work: list[tuple[int, Experiment]] = []
    if folder is not None:
        make_folder(folder.folder)
    for n, call in enumerate(calls):
        if folder is not None:
            kept[n] = folder.read(keys[n], call.runs)
            if kept[n]:
                folder.tell(keys[n], _told(call, kept[n][0][2], labels[n]))
        missing = np.setdiff1d(call.runs, _runs(kept[n]))
        work += [(n, call.part(runs)) for runs in _stretches(missing, block, folder is not None)]
    parts = [part for _, part in work]
    count, left = (sum(one.trajectories * one.runs.size for one in of) for of in (calls, parts))

    def finished() -> Any:
        return made(list(map(result_of, calls, kept)))

    try:
        with Progress(progress, count) as bar:
            bar.over(count - left, 0)
            if left < count:
                bar.update()
            for number, (arrays, took) in parallel.dealt(compute, parts, executor, bar):
                n, part = work[number]
                if folder is not None:
                    if not kept[n]:
                        folder.tell(keys[n], _told(calls[n], took, labels[n]))
                    folder.write(keys[n], part.runs, arrays, took)
                kept[n].append((part.runs, arrays, took))
                bar.over(part.trajectories * part.runs.size, took["samples_drawn"])
                if executor is not None:
                    bar.update()
    except KeyboardInterrupt:
        over = sum(_runs(parts).size for parts in kept)
        words = f"interrupted: {over} of {total} runs are in finished blocks. {_remain(store)}"
        raise Interrupted(words, finished() if over else None) from None
    except WorkerError as error:
        raise WorkerError(error.problem, f"{error.remedy}. {_remain(store)}") from error
    return finished()


def _runs(parts: Sequence[Part]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *(runs for runs, *_ in parts)])


def _stretches(runs: np.ndarray, size: int | None, consecutive: bool) -> Iterator[np.ndarray]:
    """Cut sorted runs into blocks; of consecutive indices as a store has them.

    These are cut at multiples of the size, so that any two calls with this size cut alike.
    """
    if not runs.size:
        return
    size = runs.size if size is None else size
    if not consecutive:
        yield from (runs[i : i + size] for i in range(0, runs.size, size))
        return
    cut = (np.diff(runs) != 1) | (np.diff(runs // size) != 0)
    yield from np.split(runs, np.flatnonzero(cut) + 1)


def result_of(
    call: Experiment, parts: Sequence[Part], known: dict[str, Any] | None = None
) -> Result | None:
    """The result of finished blocks, in the order of the call; None where there is none.

    `known` is its origin, if the call is a file's.
    """
    if not parts:
        return None
    have = _runs(parts)
    over = np.isin(call.runs, have)
    call = call if over.all() else call.part(call.runs[over])
    order = np.argsort(have)
    place = order[np.searchsorted(have, call.runs, sorter=order)]
    same = np.array_equal(place, np.arange(have.size))
    fields: dict[str, Any] = dict.fromkeys(ARRAYS)
    axis = parts[0][1]["samples"].ndim - 1
    for name in fields.keys() & parts[0][1].keys():
        several = [arrays[name] for _, arrays, _ in parts]
        x = np.concatenate(several, axis) if len(several) > 1 else several[0]
        fields[name] = x if same else np.take(x, place, axis)
    fields |= _tables([took for *_, took in parts])
    with scope.engine():
        return Result(call, **fields, origin=origin(call) if known is None else known)


def _told(call: Experiment, took: dict, labels: dict[str, str]) -> dict[str, Any]:
    """What tells a call in a store: its experiment and the numbers of its instance."""
    with scope.engine():
        tables = {"origin": origin(call), **_tables([took])}
    return {
        "experiment": experiment_of(call, **tables),
        "numbers": {name: text_of(name, x) for name, x in numbers_of(call.instance).items()},
        "labels": [labels] if labels else [],
    }


def _tables(works: Sequence[dict]) -> dict[str, dict]:
    """The sums of what blocks have taken, and their layout; warns where versions differ."""
    names = dict.fromkeys(name for took in works for name in took if name != "layout")
    by = sorted({took["layout"]["computed_by"] for took in works})
    if len(by) > 1:
        note = "Where rounding decides they may differ from runs of one alone"
        warn(f"the runs come from {' and '.join(by)}. {note}", UserWarning)
    more = {"blocks": len(works)} if len(works) > 1 else {}
    return {
        "timings": {name: sum(took.get(name, 0) for took in works) for name in names},
        "layout": {**works[0]["layout"], **more, "computed_by": " and ".join(by)},
    }


def _size(runs: int, workers: int) -> int:
    """The default runs of a block: four blocks a worker, by a power of two, within limits."""
    return min(MOST, 2 ** math.ceil(math.log2(max(runs / (4 * workers), 1))))


def _remain(store: Any) -> str:
    if store is None:
        return "Nothing is kept: store=, a folder, keeps finished blocks"
    return f"Finished blocks are kept in {str(store)!r}: the same call goes on from them"
