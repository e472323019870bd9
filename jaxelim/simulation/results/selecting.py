"""Parts of results."""

import dataclasses
from typing import TYPE_CHECKING

from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.results.descriptions import ARRAYS, hash_of

if TYPE_CHECKING:
    from jaxelim.simulation.results.result import Result


def of_instance(result: "Result", index: int) -> "Result":
    """The result of one instance of a batch; its timings are those of the batch."""
    call, one = result.experiment, result.instance[index]
    arrays = {name: getattr(result, name) for name in ARRAYS}
    return dataclasses.replace(
        result,
        experiment=Experiment.unchecked(**call.fields | {"instance": one}),
        origin=result.origin | {"instance_sha256": hash_of(one)},
        **{name: None if x is None else x[index] for name, x in arrays.items()},
    )
