"""Calls that are cut into blocks of runs: on an executor, from a store, or both."""

import dataclasses
import math
import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim import checks, cluster, scope
from jaxelim.errors import ArgumentError, ClusterError, Interrupted, warn
from jaxelim.progress import check as check_progress
from jaxelim.simulation.call import CheckedCall
from jaxelim.simulation.interrupts import Interrupts
from jaxelim.simulation.outcomes import RECORDED, Outcomes, ordered
from jaxelim.simulation.plan import planned
from jaxelim.simulation.results.descriptions import origin
from jaxelim.simulation.results.result import Result
from jaxelim.simulation.run import run

if TYPE_CHECKING:
    import xarray as xr

    from jaxelim.simulation.jobs import Job
    from jaxelim.store import Held

MOST = 10_000
"""Runs of a block by default, at most."""
_LAYOUT = "plan_"
"""What entries of a block's work that tell its layout begin with."""


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A checked call as a task for workers."""

    call: CheckedCall

    def compute(self, runs: np.ndarray, progress: Any) -> "tuple[xr.Dataset, dict]":
        """The call's runs, a pure function of it: arrays of a store, and measurements."""
        assert np.array_equal(runs, self.call.runs)
        interrupts = Interrupts()
        with scope.engine():
            plan = planned(self.call)
            block = ordered(plan, run(plan, progress, interrupts))
            if interrupts.asked or block is None:  # it was noted while progress was told
                raise KeyboardInterrupt
            data = Result.of(dataclasses.replace(block, timings={}, layout={})).to_xarray()
        data.attrs = {}
        layout = {f"{_LAYOUT}{name}": value for name, value in block.layout.items()}
        return data, block.timings | layout


def check(call: CheckedCall, progress: Any, executor: Any, block: Any, store: Any) -> None:
    """Refuse arguments of `simulate` that do not go together, and progress that is none.

    Raises:
        ArgumentError: they do not, or it is not.
    """
    check_progress(progress)
    if block is not None:
        checks.integer("block", block, low=1)
        if executor is None and store is None:
            raise ArgumentError("block", block, "None without executor and store")
    if executor is not None and call.engine.devices not in (None, 1):
        raise ArgumentError(
            "engine", call.engine, "devices=None or 1: with an executor each worker has one device"
        )


def simulated(
    calls: Sequence[CheckedCall],
    made: Callable[[list[Result | None]], Any],
    progress: Any,
    executor: Any,
    block: int | None,
    store: Any,
    labels: Sequence[dict[str, str]] | None = None,
) -> Any:
    """Run calls in blocks, and put their arrays together in the order of their runs.

    Args:
        calls: the checked calls.
        made: makes what is returned of the results, which are None where no run is over.
            An interruption has what it makes of the finished blocks.
        progress: as for `simulate`.
        executor: None for this process.
        block: runs of a block; None: chosen by the number of workers.
        store: a folder for finished blocks, or None.
        labels: of the calls in a study: what their files in the store tell.

    Raises:
        as `simulate`.
    """
    from jaxelim.simulation.jobs import Blocks  # imports xarray

    asked, calls = calls, [call.part(np.sort(call.runs)) for call in calls]
    workers = 1
    if executor is not None:
        calls = [
            dataclasses.replace(call, engine=dataclasses.replace(call.engine, devices=1))
            for call in calls
        ]
        workers = cluster.workers_of(executor)
        if not hasattr(executor, "get_executor"):  # Dask pickles more
            for call in calls:
                _check_pickles(call)
    jobs = [
        job(call, store is not None, of_call)
        for call, of_call in zip(calls, labels or [{}] * len(calls), strict=True)
    ]
    total = sum(call.runs.size for call in calls)
    size = _size(total, workers) if block is None else block
    blocks = Blocks(jobs, store, size)

    def finished() -> list[Result | None]:
        return [result_of(call, blocks.held(n)) for n, call in enumerate(asked)]

    try:
        blocks.compute(executor, progress)
    except KeyboardInterrupt:
        results = finished()
        kept = sum(result.runs.size for result in results if result is not None)
        counted = f"{kept} of {total} runs are in finished blocks"
        result = made(results) if kept else None
        raise Interrupted(f"interrupted: {counted}. {_remain(store)}", result) from None
    except ClusterError as error:
        raise type(error)(error.problem, f"{error.remedy}. {_remain(store)}") from error
    return made(finished())


def job(
    call: CheckedCall, stored: bool, labels: dict[str, str] | None = None, name: str | None = None
) -> "Job":
    """A call, its runs sorted, as a job.

    Args:
        call: the call.
        stored: whether a store will have its blocks.
        labels: its place in a study.
        name: in the store; None: of its place, or of its problem and rule.
    """
    from jaxelim.simulation.jobs import Job
    from jaxelim.store import calls, digest

    settings = calls.settings(call) if stored else {}
    parts = ["simulate", call.problem.name, type(call.rule).__name__]
    named = "/".join(["study", *labels.values()] if labels else parts)
    if stored:
        named += f"/{digest(settings)[:8]}"
    return Job(
        named if name is None else name,
        settings,
        lambda runs: Simulation(call.part(runs)),
        call.runs,
        program=_program(call),
        trajectories=call.trajectories,
        experiment=lambda data: _told(call, data, labels),
    )


def _program(call: CheckedCall) -> Any:
    """Key of the compiled program: all but numbers, which are its arguments."""
    instance, parts = call.instance, (call.problem.static_part(), call.rule.static_part())
    shape = instance.structure, instance.arms.shape, instance.family, call.deltas.size
    kinds = call.stopping, call.elimination, call.threshold, call.ridge, call.record
    key = (*shape, *parts, *kinds, call.engine, call.initial_pulls, str(call.waiting))
    try:
        hash(key)
    except TypeError:  # a part of one's own
        return None
    return key


def _told(call: CheckedCall, data: "xr.Dataset", labels: dict[str, str] | None) -> bytes | None:
    """The file of a result of no runs, which tells the call; None where no file can."""
    from jaxelim.simulation.results.saving import contents

    of_none = call.part(call.runs[:0])
    with scope.engine():
        result = Result.of(Outcomes(of_none, _arrays(data.isel(run=[])), {}, {}))
    result.settings.update(origin(call))  # the hash of all of its noise, not of none
    try:
        return contents(result, labels)
    except ArgumentError:  # it has a part of one's own that no file can name
        return None


def _arrays(data: "xr.Dataset") -> dict[str, Any]:
    return {name: data[name].values if name in data else None for name in RECORDED}


def result_of(call: CheckedCall, held: "Held") -> Result | None:
    """The result of finished blocks, in the order of the call; None where there is none.

    Args:
        call: all runs that were asked for.
        held: blocks of it.
    """
    if held.data is None or not np.isin(call.runs, held.runs).any():
        return None
    over, missing = np.isin(call.runs, held.runs), ""
    if not over.all():
        missing = f"{over.sum()} of {over.size} runs are in finished blocks"
        call = call.part(call.runs[over])
    data = held.data.isel(run=np.searchsorted(held.runs, call.runs))
    outcomes = Outcomes(call, _arrays(data), *timings_and_layout(held), missing)
    with scope.engine():
        return Result.of(outcomes)


def timings_and_layout(held: "Held") -> tuple[dict, dict]:
    """What the blocks of a result tell of its work; warns where several versions computed them."""
    largest = max(held.blocks, key=lambda block: block.runs.size).work
    layout = {name.removeprefix(_LAYOUT): value for name, value in largest.items()
              if name.startswith(_LAYOUT)}  # fmt: skip
    computed_by = {block.work.get(f"{_LAYOUT}computed_by", "") for block in held.blocks} - {""}
    layout |= {"blocks": len(held.blocks), "computed_by": " and ".join(sorted(computed_by))}
    if len(computed_by) > 1:
        note = "Where rounding decides they may differ from runs of one alone"
        told = f"runs of {held.blocks[0].name} come from {layout['computed_by']}. {note}"
        warn(told, UserWarning)
    return _summed([block.work for block in held.blocks]), layout


def _size(runs: int, workers: int) -> int:
    """The default runs of a block: four blocks a worker, by a power of two, within limits."""
    return min(MOST, 2 ** math.ceil(math.log2(max(runs / (4 * workers), 1))))


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


def _summed(works: list[dict]) -> dict:
    """The sums of all measurements that are numbers."""
    total: dict = {}
    for work in works:
        for name, value in work.items():
            if isinstance(value, int | float) and not name.startswith(_LAYOUT):
                total[name] = total.get(name, 0) + value
    return total
