"""The public calls `simulate` and `trace`, and the one path of all calls: blocks of runs.

A block is computed here or by a worker; a store keeps it.
"""

import concurrent.futures
import dataclasses
import math
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from jaxelim import checks, parallel, scope
from jaxelim.contracts import Problem, SamplingRule, StoppingRule
from jaxelim.errors import ArgumentError, Interrupted, WorkerError, warn
from jaxelim.files import make_folder
from jaxelim.instances.instance import Instance
from jaxelim.progress import Progress, refuse_other
from jaxelim.simulation.experiment import Engine, Experiment, Settings, of_truth, takes_settings
from jaxelim.simulation.plan import HostLoop, ordered, planned
from jaxelim.simulation.results.descriptions import ARRAYS, experiment_of, numbers_of, origin
from jaxelim.simulation.results.result import Result, correct
from jaxelim.stopping import LLR
from jaxelim.store import Part, Store
from jaxelim.text import text_of

MOST = 10_000  # runs of a block by default
_ONE = Engine(lanes=1, devices=1)


@takes_settings()
def simulate(
    instance: Instance,
    problem: Problem,
    rule: SamplingRule,
    *,
    progress: Any = None,
    executor: Any = None,
    block: int | None = None,
    store: str | os.PathLike[str] | None = None,
    **settings: Unpack[Settings],
) -> Result:
    """Run a sampling rule many times, and observe stopping rules on its trajectories.

    A first call compiles, most often for seconds.

    Args:
        instance: one instance, or a batch of them.
        problem: `BestArm()`, with `epsilon=`, `reference=` or `items=`, `TopM(m)`,
            `Thresholding(level)` or `HalfSpaces(...)`.
        rule: a sampling rule.
        delta: the error probability in (0, 1), a number or a 1-D array.
        stopping: one stopping rule or several. Stopping rules share one trajectory a
            run. Deltas share it too where the rule's choices do not depend on delta;
            else each delta has its own trajectory.
        elimination: at sampling: None, `SelectiveElimination()`, `FullElimination()` or
            `Resets(...)`. The rule then reads only the pieces that the stopping rule, one of
            the same kind, has left. `Resets` has sets of its own.
        threshold: beta, a callable of (t, delta), or a `Mixture`, which has a proof, unlike the
            default, the paper's heuristic.
        runs: number of runs, or a 1-D array of run indices. Run r of a seed is the same
            run in every call.
        seed: of the noise, an integer in [0, 2^63).
        max_samples: largest number of samples of a run. A run that reaches it without
            stopping is truncated, and flagged `truncated`.
        ridge: lambda of V = lambda I + sum_k N_k phi_k phi_k', >= 0; 0 needs arms that
            span R^d. None: 0. The paper's experiments have 1. It biases theta_hat; only a
            `LinearThreshold` of the same ridge accounts for that.
        noise: noise [runs, T] in place of the seeded noise: standard normals for
            Gaussian rewards, else uniforms on [0, 1). A run that uses up its row
            is truncated. No proof covers it: `Result.proven` says so.
        record: ("pair_times",) to record, for top m, when each ordered pair of arms was eliminated.
            ("means",) to record the means at the end of each run, for `Result.intervals`.
        engine: layout of the work; see `Engine`.
        progress: True to show finished runs, samples a second and time left; False for
            nothing. None shows them at a terminal and in a notebook, and elsewhere a line
            a minute on standard error. Or a callable of (runs done, runs, samples, seconds).
        initial_pulls: pulls of each arm before the first check, in rounds of all arms in index
            order. None: the family's least, 1, or 2 where the variance is unknown.
        batch: pulls whose rewards enter together, after the last of them, from the first check
            on; one test follows. At most max_samples.
        delay: further pulls that are chosen before a reward enters, at most max_samples. With
            a batch it enters at the first batch end from then on. `samples` counts pulls whose
            rewards are pending. See docs/how-to/batches-and-delays.md.
        executor: a `concurrent.futures.Executor` whose workers are spawned processes, as
            `jaxelim.parallel.processes` gives, or `get_executor()` of a Dask client; None:
            this process. The runs are cut into blocks, one device each.
        block: runs of a block. None: all; with executor or store a quarter of the runs of
            a worker, rounded up to a power of two, at most 10,000. With a store a gap in
            the indices of `runs` ends a block.
        store: a folder that keeps each block once it is finished; the same call goes on
            from there. See docs/how-to/store-and-resume.md.

    Returns:
        A `Result`; arrays are [stopping, delta, run], with a batch of instances
        [instance, stopping, delta, run].

    Raises:
        ArgumentError: an argument is wrong, or an instance's correct answer is not unique.
            The message names it, with the given and the allowed values.
        UnsupportedError: a combination that is not defined, with the reason.
        FamilyError, RuleError: a method of the family or of the rule raises, or returns
            something that its contract does not allow.
        SetupError: the process or JAX's settings prevent jaxelim from computing.
        StoreError: the store cannot be read or written.
        WorkerError: a worker of the executor has died, or has other versions.
        Interrupted: Ctrl-C, a KeyboardInterrupt. Its `result` has the runs of finished
            blocks; it is None where there are none.
    """
    call = Experiment(of_truth(instance), problem, rule, **settings)
    return run_calls([call], lambda found: found[0], [{}], progress, executor, block, store)


@dataclasses.dataclass(frozen=True, repr=False)
class Trace:
    """One run, step by step.

    Attributes:
        arms: int32 [samples], every pull in order, the initial ones first.
        rewards: float64 [samples], in the units of the instance.
        active: int32 [checks], what is left at each check, of which the first follows the initial
            pulls. Best arm and thresholding: active arms, or items. Top m: ordered pairs known
            worse. Half-spaces: active pieces. LLR stopping eliminates nothing.
        samples: int, samples drawn.
        stopped: bool, whether the stopping rule ended the run.
        answer: bool [K]; [P] of items.
        pulls: int32 [K].
        elimination_times: int32, as in `Result`; None where nothing was recorded.
        theta_hat_0: float64 [d], the estimate after the initial pulls.
    """

    arms: np.ndarray
    rewards: np.ndarray
    active: np.ndarray
    samples: int
    stopped: bool
    answer: np.ndarray
    pulls: np.ndarray
    elimination_times: np.ndarray | None
    theta_hat_0: np.ndarray

    @property
    def truncated(self) -> bool:
        """Whether the run was truncated."""
        return not self.stopped

    def __repr__(self) -> str:
        return f"<Trace {self.samples} samples, {'stopped' if self.stopped else 'truncated'}>"


@takes_settings("runs", "record", max_samples=20_000, engine=_ONE)
def trace(
    instance: Instance,
    problem: Problem,
    rule: SamplingRule,
    *,
    run: int = 0,
    **settings: Unpack[Settings],
) -> Trace:
    """Run one run and record each step, including the initial pulls.

    Args:
        instance, problem, rule, stopping, delta: as in `simulate`, one of each.
        settings: all others as in `simulate`. With a batch or a delay `Trace.active` has an entry
            for each sample, and `rewards` those that were pending at the end.
        noise: noise [T] in place of the seeded noise, as in `simulate`. Sample s has reward
            mean[arm] + noise_std noise[s] (Gaussian), or 1 where noise[s] < mean[arm] (Bernoulli).
        run: the run index, for seeded noise.

    Returns:
        A `Trace`.

    Raises:
        ArgumentError: several instances, stopping rules or deltas; and as in `simulate`.
    """
    given: Any = {"max_samples": 20_000, "engine": _ONE, **settings}
    if given.get("noise") is not None:
        given["noise"] = checks.real_array("noise", given["noise"], ndim=1)[None]
    if not isinstance(given.get("stopping", LLR()), StoppingRule):
        raise ArgumentError("stopping", given["stopping"], "one stopping rule")
    if isinstance(instance, Instance) and instance.batched:
        raise ArgumentError("instance", instance, "one instance, not a batch")
    checks.real("delta", given.get("delta", 0.01), low=0, high=1, open=True)
    run = checks.integer("run", run, low=0, high=checks.MAX_RUNS - 1)
    call = Experiment(of_truth(instance), problem, rule, **given, runs=np.array([run]))
    call = call.on_one_device()
    length = max(4096, 1 << (call.cap + 1).bit_length())  # so, traces share few compiled programs
    with scope.engine():
        plan = planned(call, log=length)
        carry: Any = HostLoop(plan, Progress(False, 1)).run()[0]
        found = {name: x[0, 0, 0] for name, x in ordered(plan, carry).items()}
        samples, log, scale = int(found["samples"]), carry.log, instance.family.scale
        k = call.initial_pulls * instance.K
        rewards = np.concatenate([log.first_rewards, log.reward[k:samples]])
        return Trace(
            arms=np.concatenate([np.arange(k, dtype=np.int32) % instance.K, log.arm[k:samples]]),
            rewards=rewards.astype(np.float64) * scale,
            active=log.remaining[k : samples + 1],
            samples=samples,
            stopped=bool(found["stopped"]),
            answer=found["answer"],
            pulls=found["pulls"],
            elimination_times=found.get("elimination_times"),
            theta_hat_0=call.in_the_given_coordinates(log.theta_hat_0) * scale,
        )


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
    """What `made` makes of the results of calls, which are run in blocks; None: no run is over.

    `labels` are the names of the calls in a store, empty without a study.
    """
    _check(calls[0], progress, executor, block)
    if executor is not None:
        calls = [call.on_one_device() for call in calls]
    total = sum(call.runs.size for call in calls)
    if block is None and (executor is not None or store is not None):
        block = _size(total, parallel.workers_of(executor))
    folder = None if store is None else Store(store)
    keys = [call.key for call in calls] if folder is not None else []
    kept: list[list[Part]] = [[] for _ in calls]
    work: list[tuple[int, Experiment]] = []
    if folder is not None:
        make_folder(folder.folder)
        kept = [folder.read(key, call.runs) for key, call in zip(keys, calls, strict=True)]
    for n, call in enumerate(calls):
        if folder is not None and kept[n]:
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


def _stretches(runs: np.ndarray, size: int | None, consecutive: bool) -> list[np.ndarray]:
    """Cut sorted runs into blocks of a size; consecutive ones at its multiples, in all calls."""
    size = size or max(runs.size, 1)
    place = runs if consecutive else np.arange(runs.size)
    cut = (np.diff(place) != 1) | (np.diff(place // size) != 0)
    return np.split(runs, np.flatnonzero(cut) + 1) if runs.size else []


def result_of(call: Experiment, parts: Sequence[Part], known: Any = None) -> Result | None:
    """The result of blocks, in the order of the call, if any; `known` is the origin in a file."""
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
