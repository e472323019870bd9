"""Parts of results."""

import dataclasses
from typing import TYPE_CHECKING

from jaxelim.simulation.results.descriptions import ARRAYS, hash_of

if TYPE_CHECKING:
    from jaxelim.simulation.results.result import Result


def of_instance(result: "Result", index: int) -> "Result":
    """The result of one instance of a batch; its timings are those of the batch."""
    one = result.instance[index]
    arrays = {name: getattr(result, name) for name in ARRAYS if name not in ("deltas", "runs")}
    named = {"instance": one.name or repr(one), "instance_sha256": hash_of(one)}
    return dataclasses.replace(
        result,
        instance=one,
        settings={**result.settings, **named},
        **{name: None if x is None else x[index] for name, x in arrays.items()},
    )
