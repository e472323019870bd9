"""The arrays of a call's runs, in the order of the call."""

from typing import Any

import jax
import numpy as np

from jaxelim.errors import ArgumentError
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.plan import Plan
from jaxelim.simulation.results.descriptions import ARRAYS
from jaxelim.simulation.results.result import correct
from jaxelim.simulation.run import Ended


def ordered(plan: Plan, ended: Ended) -> dict[str, np.ndarray]:
    """The arrays of the runs in the order of the call; they come in that of finishing.

    They are [stopping, delta, run, ..], with a batch of instances [instance, stopping, delta,
    run, ..]. What was not recorded is left out.
    """
    call, spec, carry = plan.call, plan.spec, ended.carry
    devices, finished = spec.execution.devices, np.atleast_1d(carry.finished)
    raw = carry.out if devices > 1 else jax.tree.map(lambda x: x[None], carry.out)

    def used(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[d, : finished[d]] for d in range(devices)])

    rows = jax.tree.map(used, raw)
    dealt = np.repeat(np.arange(devices), finished)
    which, instance, row = plan.places[:, rows.item * devices + dealt]
    refuse_degenerate(call, rows.degenerate, row, instance)

    def placed(x: np.ndarray) -> np.ndarray:
        """[R, S, D, ..] -> [instance, S, delta, run, ..]."""
        shape = call.instance.size, x.shape[1], call.delta.size, call.runs.size, *x.shape[3:]
        full = np.zeros(shape, x.dtype)
        if call.shared:
            full[instance, :, :, row] = x
        else:
            full[instance, :, which, row] = x[:, :, 0]
        return full if call.instance.batched else full[0]

    estimates, scale = dict(rows.estimates), call.instance.family.scale
    recorded = {name: getattr(rows, name, estimates.get(name)) for name in ARRAYS}
    known = [x for x in rows.times if x is not None]
    if known:
        times = [np.zeros_like(known[0]) if x is None else x for x in rows.times]
        recorded["elimination_times"] = np.stack(times, 1)
    arrays = {name: placed(x) for name, x in recorded.items() if x is not None}
    for name, unit in (("means", scale), ("variances", scale**2)):
        if name in arrays:
            arrays[name] = arrays[name].astype(np.float64) * unit
    if "entered" in arrays:
        arrays["entered"] = arrays["entered"].astype(np.int32)
    return arrays | {"correct": correct(call, arrays["answer"])}


def refuse_degenerate(call: Experiment, arms: Any, row: np.ndarray, instance: np.ndarray) -> None:
    """Refuse rewards that contradict the family, of runs [R] at rows of given noise [R].

    `arms`: 1 + an arm whose rewards are all equal, [R], 0 for none; None: never.
    """
    if arms is None or not arms[: row.size].any():
        return
    bad = np.flatnonzero(arms[: row.size])
    at = bad[np.lexsort([instance[bad], row[bad]])[0]]
    where = f"run {call.runs[row[at]]}" + (f" of instance {instance[at]}" * call.instance.batched)
    argument, value = ("instance", call.instance) if call.noise is None else ("noise", call.noise)
    note = f"the rewards of arm {int(arms[at]) - 1} in {where} are all equal"
    raise ArgumentError(argument, value, f"rewards that {call.instance.family!r} can draw", note)
