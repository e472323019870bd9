"""The arrays of a call's runs: a pure function of the checked call."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxelim.engine import Outcome
from jaxelim.errors import ArgumentError
from jaxelim.simulation.drive import checked_inputs_of, drive, queue_of, spec_of
from jaxelim.simulation.job import Job


def outcomes(job: Job, progress: Any) -> tuple[Outcome, dict]:
    """Run a job and order its outcomes, which come in the order of finishing.

    Returns:
        NumPy arrays [stopping, delta, run, ..], with a batch of instances
        [instance, stopping, delta, run, ..]; and timings of the work.
    """
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
    refuse_degenerate(job, rows.degenerate, row, instance)

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
    bare = dataclasses.replace(rows, item=None, times=times, degenerate=None)
    return jax.tree.map(placed, bare), work


def refuse_degenerate(job: Job, found: Any, row: np.ndarray, instance: np.ndarray) -> None:
    """Refuse rewards that contradict the family, of runs [R] at rows of given noise [R].

    Raises:
        ArgumentError: there is such a run; the message names the first.
    """
    if found is None or not found[: row.size].any():
        return
    bad = np.flatnonzero(found[: row.size])
    at = bad[np.lexsort([instance[bad], row[bad]])[0]]
    where = f"run {job.runs[row[at]]}" + (f" of instance {instance[at]}" * job.instance.batched)
    argument, given = ("instance", job.instance) if job.noise is None else ("noise", job.noise)
    note = f"the rewards of arm {int(found[at]) - 1} in {where} are all equal"
    raise ArgumentError(argument, given, f"rewards that {job.instance.family!r} can draw", note)
