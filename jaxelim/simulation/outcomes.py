"""The arrays of a call's runs: a pure function of the checked call."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxelim.engine import Carry, Inputs, Outcome, Queue, Spec
from jaxelim.errors import ArgumentError
from jaxelim.simulation.advance import drive
from jaxelim.simulation.drive import checked_inputs_of, queue_of, spec_of
from jaxelim.simulation.interrupts import Interrupts
from jaxelim.simulation.job import Job


def outcomes(job: Job, progress: Any) -> tuple[Outcome, dict]:
    """Run a job and order its outcomes, which come in the order of finishing.

    Returns:
        NumPy arrays [stopping, delta, run, ..], with a batch of instances
        [instance, stopping, delta, run, ..]; and timings of the work.
    """
    interrupts = Interrupts()
    found, work = started(job, prepared(job), progress, interrupts)
    if interrupts.asked:  # it was noted while progress was told
        raise KeyboardInterrupt
    assert found is not None
    return found[1], work


class Prepared(NamedTuple):
    """What a job's program is compiled for, and runs on."""

    spec: Spec
    inputs: Inputs
    queue: Queue
    places: np.ndarray  # of `queue_of`


def prepared(job: Job, log: int = 0) -> Prepared:
    """The spec and the checked arguments of a job's program; `log` as for `spec_of`."""
    spec = spec_of(job, log=log)
    return Prepared(spec, checked_inputs_of(job, spec), *queue_of(job, spec))


def started(
    job: Job, given: Prepared, progress: Any, interrupts: Interrupts
) -> tuple[tuple[Job, Outcome, str] | None, dict]:
    """Run a job until it is over or interrupted.

    Returns:
        The runs that were started, as `ordered` gives them; timings of the work.
    """
    carry, work = drive(job, given.spec, progress, given.inputs, given.queue, interrupts)
    return ordered(job, given.spec, carry, given.places, interrupts.cut), work


def ordered(
    job: Job, spec: Spec, carry: Carry, places: np.ndarray, cut: bool = False
) -> tuple[Job, Outcome, str] | None:
    """The outcomes of the last carry, in the order of the runs.

    Args:
        job, spec: of the program.
        carry: its last.
        places: of `queue_of`.
        cut: whether runs were cut off: then only those that were started count.

    Returns:
        The job of these runs, their outcomes, and what is missing, in words. None if no
        run was started.

    Raises:
        ArgumentError: rewards that contradict the family.
    """
    raw = carry.out if spec.devices > 1 else jax.tree.map(lambda x: x[None], carry.out)
    finished = np.atleast_1d(carry.finished)
    used = lambda x: np.concatenate([x[d, : finished[d]] for d in range(spec.devices)])  # noqa: E731
    rows = jax.tree.map(used, raw)
    dealt = np.repeat(np.arange(spec.devices), finished)
    which, instance, row = places[:, rows.item * spec.devices + dealt]
    refuse_degenerate(job, rows.degenerate, row, instance)
    missing, asked = "", job.runs.size
    if cut:
        if not row.size:
            return None
        kept, row = np.unique(row, return_inverse=True)
        job = dataclasses.replace(job, runs=job.runs[kept])
        missing = f"{kept.size} of {asked} runs were started"
        cells = job.instance.size * (1 if job.shared else job.deltas.size)
        if row.size < kept.size * cells:
            missing += "; those of 0 samples were not, on that instance and delta"

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
    return job, jax.tree.map(placed, bare), missing


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
