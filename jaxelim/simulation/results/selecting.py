"""Parts of results."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.results.descriptions import ARRAYS, hash_of

if TYPE_CHECKING:
    from jaxelim.simulation.results.result import Result


def of_instance(result: "Result", index: int) -> "Result":
    """The result of one instance of a batch; its timings are an equal share of the batch's."""
    one, size = result.instance[index], result.instance.size
    origin = result.origin | {"instance_sha256": hash_of(one)}
    timings = {name: value / size for name, value in result.timings.items()}
    part = _part(result, index, instance=one)
    return dataclasses.replace(part, origin=origin, timings=timings)


def selected(result: "Result", stopping: Any, delta: Any) -> "Result":
    """The part of a result; see `Result.select`."""
    names = [rule.name for rule in result.stopping]
    if stopping is not None:
        names = [stopping] if isinstance(stopping, str) else list(stopping)
    known = {rule.name: s for s, rule in enumerate(result.stopping)}
    rules = [known[checks.choice("stopping", name, known)] for name in names]
    deltas = result.deltas if delta is None else checks.deltas(delta)
    for value in deltas:
        if value not in result.deltas:
            raise ArgumentError("delta", value, f"one of {result.deltas.tolist()}")
    levels = [int(np.argmax(result.deltas == value)) for value in deltas]
    at: tuple = (*[slice(None)] * result.batched, *np.ix_(rules, levels))
    stops = tuple(result.stopping[s] for s in rules)
    return _part(result, at, stopping=stops, delta=deltas)


def _part(result: "Result", at: Any, **changes: Any) -> "Result":
    """The part of all arrays at an index, with the changes of the experiment."""
    arrays = {name: getattr(result, name) for name in ARRAYS}
    return dataclasses.replace(
        result,
        experiment=Experiment.unchecked(**result.experiment.fields | changes),
        **{name: None if x is None else x[at] for name, x in arrays.items()},
    )
