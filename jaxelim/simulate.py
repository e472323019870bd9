"""The public calls: check, run, put every run in its place."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxelim import checks, scope
from jaxelim.contracts import Problem, SamplingRule, StoppingRule
from jaxelim.drive import checked_inputs_of, drive, queue_of, spec_of
from jaxelim.elimination import LLR
from jaxelim.errors import ArgumentError
from jaxelim.instance import Instance
from jaxelim.job import Engine, Job
from jaxelim.result import Result, Trace
from jaxelim.thresholds import Heuristic


def simulate(
    instance: Instance,
    problem: Problem,
    rule: SamplingRule,
    *,
    delta: Any = 0.01,
    stopping: StoppingRule | Sequence[StoppingRule] = LLR(),  # noqa: B008 (frozen)
    elimination: Any = None,
    threshold: Callable = Heuristic(),  # noqa: B008 (frozen)
    runs: Any = 1000,
    seed: int = 0,
    max_samples: int = 1_000_000,
    ridge: float | None = None,
    noise: Any = None,
    record: Sequence[str] = (),
    engine: Engine = Engine(),  # noqa: A002, B008 (frozen)
    progress: Any = False,
) -> Result:
    """Run a sampling rule many times and observe one or several stopping rules on its trajectories.

    Args:
        instance: one instance, or a batch of them.
        problem: `BestArm()`, `TopM(m)`, `Thresholding(level)` or `HalfSpaces(...)`.
        rule: a sampling rule.
        delta: the error probability, a number or a 1-D array, in (0, 1).
        stopping: one stopping rule or several, observed side by side. Deltas and stopping rules share one trajectory per run
            wherever the rule's choices depend on neither; else there is one trajectory per delta.
        elimination: at sampling: None, or `SelectiveElimination()` or `FullElimination()`, the rule then looking only at the
            pieces that the (one, matching) stopping rule has left.
        threshold: beta, a callable of (t, delta).
        runs: how many runs, or a 1-D array of run indexes. Run r of a seed is the same run in every call.
        seed: of the noise, an integer in [0, 2^63).
        max_samples: a run that has drawn so many without stopping is cut off, and flagged `truncated`.
        ridge: lambda of V = lambda I + sum_k N_k phi_k phi_k', >= 0; 0 needs arms that span R^d. None:
            that of a `LinearThreshold`, else 0. The paper's experiments have 1. A ridge above 0
            biases theta_hat, and only a `LinearThreshold` accounts for that.
        noise: [runs, T] in place of the seeded noise: standard normals, or uniforms on [0, 1) where
            the family draws from these. A run that uses its row up is truncated.
        record: ("pair_times",) to keep, for top m, when each ordered pair of arms was eliminated.
        engine: how the work is laid out.
        progress: True to show runs done, samples per second and time left.

    Returns:
        A `Result`; arrays are [stopping, delta, run], with a batch of instances [instance, stopping, delta, run].

    Raises:
        ArgumentError: an argument is wrong; it is named, with what was given and what is allowed.
        UnsupportedError: a combination that is not defined, with the reason.
        TieError: an instance whose correct answer is not unique.
        SetupError: the process or JAX's settings do not let jaxelim compute.

    Warns:
        RidgeWarning: sqrt(ridge) ||theta||/noise_std > sqrt(2 beta(K, delta)) at the largest delta,
            and the threshold is no `LinearThreshold` that covers theta.
    """
    if not isinstance(progress, bool) and not callable(progress):
        raise ArgumentError("progress", progress, "True, False or a callable of (runs done, runs, samples, seconds)")
    job = Job.checked(
        instance, problem, rule, delta, stopping, elimination, threshold, runs, seed, max_samples, ridge, noise, record, engine
    )
    with scope.engine():
        return _simulated(job, progress)


def trace(
    instance: Instance,
    problem: Problem,
    rule: SamplingRule,
    *,
    noise: Any = None,
    stopping: StoppingRule = LLR(),  # noqa: B008 (frozen)
    elimination: Any = None,
    delta: float = 0.01,
    threshold: Callable = Heuristic(),  # noqa: B008 (frozen)
    max_samples: int = 20_000,
    seed: int = 0,
    run: int = 0,
    ridge: float | None = None,
    engine: Engine = Engine(lanes=1, devices=1),  # noqa: A002, B008 (frozen)
) -> Trace:
    """One run, step by step, the K initial pulls included.

    Args:
        instance, problem, rule, stopping, elimination, delta, threshold, max_samples, seed, ridge, engine: as in `simulate`,
            one of each.
        noise: [T] in place of the seeded noise, as in `simulate`: sample s has reward
            mean[arm] + noise_std noise[s] (Gaussian), or 1 where noise[s] < mean[arm] (Bernoulli).
        run: the run index, where the noise is seeded.

    Returns:
        A `Trace`.
    """
    if noise is not None:
        noise = checks.real_array("noise", noise, ndim=1)[None]
    if not isinstance(stopping, StoppingRule):
        raise ArgumentError("stopping", stopping, "one stopping rule")
    if isinstance(instance, Instance) and instance.batched:
        raise ArgumentError("instance", instance, "one instance, not a batch")
    if not isinstance(engine, Engine):
        raise ArgumentError("engine", engine, "an Engine(...)")
    delta = checks.real("delta", delta, low=0, high=1, open=True)
    run = checks.integer("run", run, low=0, high=checks.MAX_RUNS - 1)
    job = Job.checked(
        instance,
        problem,
        rule,
        delta,
        stopping,
        elimination,
        threshold,
        np.array([run]),
        seed,
        max_samples,
        ridge,
        noise,
        (),
        dataclasses.replace(engine, devices=1),
    )
    with scope.engine():
        return _traced(job)


def _simulated(job: Job, progress: Any) -> Result:
    """Run a job, and put what every run hands in, in the order of finishing, in its place."""
    spec = spec_of(job)
    inputs = checked_inputs_of(job, spec)
    queue, places = queue_of(job, spec)
    carry, work = drive(job, spec, progress, inputs, queue)
    raw = carry.out if spec.devices > 1 else jax.tree.map(lambda x: x[None], carry.out)
    finished = np.atleast_1d(carry.finished)
    used = lambda x: np.concatenate([x[d, : finished[d]] for d in range(spec.devices)])  # noqa: E731
    rows = jax.tree.map(used, raw)
    dealt = np.repeat(np.arange(spec.devices), finished)
    which, instance, row = places[:, rows.item * spec.devices + dealt]

    def placed(x):
        """[R, S, D, ..] -> [instance, S, delta, run, ..]."""
        shape = job.instance.size, x.shape[1], job.deltas.size, job.runs.size, *x.shape[3:]
        full = np.zeros(shape, x.dtype)
        if job.shared:
            full[instance, :, :, row] = x
        else:
            full[instance, :, which, row] = x[:, :, 0]
        return full if job.instance.batched else full[0]

    times = jax.tree.map(lambda x: x[:, None], rows.times)
    arrays = jax.tree.map(placed, dataclasses.replace(rows, item=None, times=times))
    return Result.assembled(job, spec, arrays, work)


def _traced(job: Job) -> Trace:
    length = 4096  # powers of two: traces of all lengths share few compiled programs
    longest = job.max_samples if job.noise is None else min(job.max_samples, job.noise.shape[1])
    while length < longest + 2:
        length *= 2
    spec = spec_of(job, log=length)
    inputs = checked_inputs_of(job, spec)
    carry, _ = drive(job, spec, False, inputs, queue_of(job, spec)[0])
    return Trace.assembled(job, carry)


__all__ = ["Engine", "simulate", "trace"]
