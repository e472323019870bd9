"""Writes results to files: one NetCDF file with the arrays and the experiment."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxelim.errors import ArgumentError
from jaxelim.files import writable_file, write_whole
from jaxelim.simulation.results.descriptions import description_of, spoken
from jaxelim.store import checksum
from jaxelim.store.netcdf import encoded

if TYPE_CHECKING:
    from jaxelim.simulation.results.result import Result

FORMAT = 1
"""Version of the files' layout; raise it when the layout changes."""
TABLES = ("settings", "layout", "timings")
"""The parts of a result that are dictionaries."""


def save(result: "Result", path: Any) -> None:
    """Write a result; see `Result.save`."""
    write_whole(writable_file("path", path_of(path)), contents(result))


def contents(result: "Result", labels: dict[str, str] | None = None) -> bytes:
    """The contents of a result's file; `labels` of a study stay with its experiment.

    Raises:
        ArgumentError: a part is an object that a file cannot name.
    """
    parts = as_json(_experiment(result) | ({"labels": labels} if labels else {}))
    data = result.to_xarray()
    lead = ("instance",) if result.batched else ()
    data["arms"] = ((*lead, "arm", "dimension"), result.instance.arms)
    data["theta"] = ((*lead, "dimension"), result.instance.theta)
    if result.instance.costs is not None:
        data["arm_costs"] = (("arm",), result.instance.costs)
    data.attrs |= {
        "jaxelim_result": FORMAT,
        "experiment": parts,
        "checksum": checksum(data, parts),
    }
    return encoded(data)


def path_of(path: Any) -> Path:
    """Check that a path is one."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError("path", path, "the path of a file")
    return Path(path)


def as_json(value: Any) -> str:
    """JSON text without spaces."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _experiment(result: "Result") -> dict[str, Any]:
    """All of a result but its arrays, as JSON."""
    instance = result.instance
    stopping = [
        {**spoken("stopping", rule), "name": rule.name, "eliminates": bool(rule.eliminates)}
        for rule in result.stopping
    ]
    return {
        "name": instance.name,
        "family": spoken("family", instance.family),
        "problem": spoken("problem", result.problem),
        "rule": spoken("rule", result.rule),
        "stopping": stopping,
        "elimination": spoken("elimination", result.elimination),
        "threshold": spoken("threshold", result.threshold),
        **{name: description_of(name, getattr(result, name)) for name in TABLES},
    }
