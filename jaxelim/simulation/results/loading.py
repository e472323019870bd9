"""Reads results from files."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from jaxelim import checks
from jaxelim.contracts import Family, Problem, SamplingRule
from jaxelim.errors import (
    ArgumentError,
    DamagedFileError,
    JaxelimError,
    ResultFileError,
    StoreError,
)
from jaxelim.instances.instance import Instance
from jaxelim.simulation.results.descriptions import ARRAYS, StoredFamily, Text, made, recovered
from jaxelim.simulation.results.result import Result
from jaxelim.simulation.results.saving import FORMAT, TABLES, as_json, path_of
from jaxelim.store import checksum
from jaxelim.store.netcdf import parsed

_ARRAYS = tuple(name for name in ARRAYS if name not in ("deltas", "runs"))
_PARTS = ("instance", "problem", "rule", "family", "elimination", "threshold")
"""What a caller may pass, beside stopping rules."""
_OPTIONAL = ("elimination_times", "solves", "means", "variances", "entered")


def load_result(
    path: str | os.PathLike[str],
    *,
    instance: Instance | None = None,
    problem: Problem | None = None,
    rule: SamplingRule | None = None,
    family: Family | None = None,
    stopping: Any = None,
    elimination: Any = None,
    threshold: Any = None,
) -> Result:
    """Read a `Result` that `Result.save` or `jaxelim run --output` wrote.

    Parts that are jaxelim's own come back by themselves. Rules, problems, families,
    stopping rules and thresholds of one's own come back if they are passed; else their
    text stands in their place. Nothing in a file is executed.

    Args:
        path: the file.
        instance: checked against the file's, which comes back without it.
        problem, rule, family, elimination, threshold: what the file names, where that is
            not jaxelim's own; `HalfSpaces` has a function of one's own.
        stopping: a stopping rule of one's own, or several.

    Raises:
        ArgumentError: a part that is passed is not the one in the file.
        DamagedFileError: the file is not as it was written.
        ResultFileError: the file holds no result, or one of a newer format.
        StoreError: the file cannot be read.
    """
    path = path_of(path)
    return from_contents(
        path, opened(path), instance=instance, problem=problem, rule=rule, family=family,
        stopping=stopping, elimination=elimination, threshold=threshold,
    )  # fmt: skip


def from_contents(
    path: Path,
    contents: bytes,
    labels: dict[str, str] | None = None,
    *,
    stopping: Any = None,
    **passed: Any,
) -> Result:
    """The result in the contents of a file; `labels` is filled with those of a study.

    Raises:
        as `load_result`, and UnknownNameError for parts that a result has not.
    """
    for name in passed:
        checks.choice("part", name, _PARTS)
    data, attributes = parsed_file(path, contents)
    parts = dict.fromkeys(_PARTS) | passed
    several = isinstance(stopping, list | tuple)
    own = stopping if several else () if stopping is None else (stopping,)
    if "jaxelim_result" not in attributes:
        what = "no result of jaxelim"
        if "jaxelim_block" in attributes:
            what = "a block of a store, which `jaxelim results` reads"
        raise ResultFileError(path, f"it holds {what}")
    try:
        version = int(np.ravel(attributes["jaxelim_result"])[0])
        ResultFileError.refuse_newer(path, version, FORMAT)
        text = str(attributes["experiment"])
        if checksum(data, text) != attributes["checksum"]:
            raise DamagedFileError(path, "it does not have the checksum that was written with it")
        stored = json.loads(text)
        if labels is not None:
            labels.update(stored.get("labels", {}))
        return _assembled(path, data, stored, parts, own)
    except JaxelimError:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise DamagedFileError(path, f"its attributes cannot be read ({kind})") from error


def with_runs(result: Result, data: xr.Dataset, timings: dict, layout: dict) -> Result:
    """A result with the runs of a store: its arrays, and what tells of the work."""
    arrays = _arrays(data)
    return dataclasses.replace(result, **arrays, timings=timings, layout=layout)


def opened(path: Path) -> bytes:
    """The contents of a file."""
    if path.exists() and not path.is_file():  # reading a pipe would wait
        raise StoreError(path, "is no regular file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(path, f"cannot be read: {error.strerror}") from error


def parsed_file(path: Path, contents: bytes) -> tuple[xr.Dataset, dict]:
    """The arrays and attributes of a NetCDF file."""
    if not contents.startswith(b"\x89HDF"):
        raise ResultFileError(path, "it is no NetCDF file")
    try:
        return parsed(contents)
    except Exception as error:  # HDF5 raises almost any exception for a damaged file
        kind = type(error).__name__
        raise DamagedFileError(path, f"it is no readable NetCDF file ({kind})") from error


def _assembled(path: Path, data: xr.Dataset, stored: dict, passed: dict, own: Any) -> Result:
    """The result in a file, with the parts that are passed."""
    family = recovered(path, "family", stored["family"], passed["family"])
    if isinstance(family, Text):
        family = StoredFamily(str(family), as_json(family.description))
    numbers = data["arms"].values, data["theta"].values
    costs = data["arm_costs"].values if "arm_costs" in data else None
    instance = Instance(*numbers, None, stored["name"], family, costs=costs)
    if passed["instance"] is not None and passed["instance"] != instance:
        raise ArgumentError("instance", passed["instance"], f"{instance!r}, which the file holds")
    parts = {
        name: recovered(path, name, stored[name], passed[name])
        for name in ("rule", "elimination", "threshold")
    }
    return Result(
        instance=instance,
        problem=_problem(path, data, stored["problem"], passed["problem"]),
        stopping=_stopping(path, stored["stopping"], own),
        **parts,
        **_arrays(data),
        **{name: made(stored[name]) for name in TABLES},
    )


def _arrays(data: xr.Dataset) -> dict[str, Any]:
    """The arrays of a result."""
    arrays = {
        name: None if name in _OPTIONAL and name not in data else data[name].values
        for name in _ARRAYS
    }
    return {"deltas": data["delta"].values, "runs": data["run"].values, **arrays}


def _problem(path: Path, data: xr.Dataset, stored: dict, passed: Any) -> Any:
    """The problem; its text has what `Result.to_xarray` reads."""
    of_run = len(data["samples"].dims)
    axis = data["answer"].dims[-1]
    axes = data["elimination_times"].dims[of_run:] if "elimination_times" in data else ()
    named = None if axis in ("arm", "answer_index") else axis
    return recovered(path, "problem", stored, passed, answer_axis=named, times_axes=axes)


def _stopping(path: Path, stored: list[dict], own: Any) -> tuple:
    """The stopping rules; those of one's own are found by their names."""
    passed = {rule.name: rule for rule in own}
    unknown = [rule for rule in own if rule.name not in {entry["name"] for entry in stored}]
    if unknown:
        allowed = f"those in the file: {', '.join(entry['text'] for entry in stored)}"
        raise ArgumentError("stopping", unknown[0], allowed)
    return tuple(
        recovered(
            path, "stopping", entry, passed.get(entry["name"]),
            name=entry["name"], eliminates=entry["eliminates"],
        )
        for entry in stored
    )  # fmt: skip
