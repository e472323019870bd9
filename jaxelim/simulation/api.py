"""The public calls `simulate` and `trace`: check, run, order the results."""

import dataclasses
import os
from typing import Any, Unpack

import numpy as np

from jaxelim import checks, scope
from jaxelim.contracts import Problem, SamplingRule, StoppingRule
from jaxelim.errors import ArgumentError
from jaxelim.instances.instance import Instance
from jaxelim.progress import Progress
from jaxelim.simulation import blocks
from jaxelim.simulation.experiment import Engine, Experiment, Settings, of_truth, takes_settings
from jaxelim.simulation.plan import planned
from jaxelim.simulation.results.result import Result
from jaxelim.simulation.run import HostLoop, ordered
from jaxelim.stopping import LLR


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
        record: ("pair_times",) to record, for top m, when each ordered pair of arms
            was eliminated. ("means",) to record the means at the end of each run, for
            `Result.intervals`.
        engine: layout of the work; see `Engine`.
        progress: True to show finished runs, samples a second and time left; False for
            nothing. None shows them at a terminal and in a notebook, and elsewhere a line
            a minute on standard error. Or a callable of (runs done, runs, samples, seconds).
        initial_pulls: pulls of each arm before the first check, in rounds of all arms
            in index order. None: the family's least, 1, or 2 where the variance is
            unknown.
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
    return blocks.run_calls([call], lambda found: found[0], [{}], progress, executor, block, store)


@dataclasses.dataclass(frozen=True, repr=False)
class Trace:
    """One run, step by step.

    Attributes:
        arms: int32 [samples], every pull in order, the initial ones first.
        rewards: float64 [samples], in the units of the instance.
        active: int32 [checks], what is left at each check, of which the first follows
            the initial pulls. Best arm and thresholding: active arms, or items. Top m:
            ordered pairs known worse. Half-spaces: active pieces. LLR stopping eliminates
            nothing.
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


_ONE = Engine(lanes=1, devices=1)


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
        noise: noise [T] in place of the seeded noise, as in `simulate`. Sample s has
            reward mean[arm] + noise_std noise[s] (Gaussian), or 1 where
            noise[s] < mean[arm] (Bernoulli).
        run: the run index, for seeded noise.

    Returns:
        A `Trace`.

    Raises:
        ArgumentError: several instances, stopping rules or deltas; and as
            in `simulate`.
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


__all__ = ["Trace", "simulate", "trace"]
