"""Reads results from files."""

import dataclasses
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from jaxelim import checks
from jaxelim.errors import ArgumentError, DamagedFileError, JaxelimError, StoreError
from jaxelim.files import path_of
from jaxelim.instances.instance import Instance
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.results import descriptions
from jaxelim.simulation.results.descriptions import ARRAYS, FORMAT, TABLES, recovered
from jaxelim.simulation.results.result import Result

_PARTS = ("instance", "problem", "rule", "family", "source", "elimination", "threshold")
"""What a caller may pass, beside stopping rules."""


def load_result(path: str | os.PathLike[str], **parts: Any) -> Result:
    """Read a `Result` that `Result.save` or `jaxelim run --output` wrote.

    Parts that are jaxelim's own come back by themselves. Rules, problems, families, sources,
    stopping rules and thresholds of one's own come back if they are passed; else their
    text stands in their place. Nothing in a file is executed.

    Args:
        path: the file.
        parts: what the file names and is not jaxelim's own: problem, rule, family, source,
            elimination, threshold, and stopping, one rule or several; `HalfSpaces` has a
            function of one's own. An instance is checked against the file's, which comes back
            without it.

    Raises:
        ArgumentError: a part that is passed is not the one in the file.
        DamagedFileError: the file is not as it was written.
        StoreError: the file cannot be read, or holds no result, or one of a newer format.
    """
    path = path_of(path)
    return result_of(path, opened(path, xr.load_dataset), **parts)


def opened(path: Path, read: Any) -> Any:
    """What `read`, of xarray, makes of a NetCDF file."""
    if path.exists() and not path.is_file():  # reading a pipe would wait
        raise StoreError(path, "is no regular file")
    try:
        contents = path.read_bytes()
    except OSError as error:
        raise StoreError(path, f"cannot be read: {error.strerror}") from error
    if not contents.startswith(b"\x89HDF"):
        raise StoreError(path, "it is no NetCDF file")
    try:
        return read(io.BytesIO(contents), engine="h5netcdf")
    except Exception as error:  # HDF5 raises almost any exception for a damaged file
        kind = type(error).__name__
        raise DamagedFileError(path, f"it is no readable NetCDF file ({kind})") from error


def result_of(path: Path, data: xr.Dataset, **passed: Any) -> Result:
    """The result in a dataset of a file, with the parts that are passed."""
    if "jaxelim_result" not in data.attrs:
        raise StoreError(path, "it holds no result of jaxelim")
    try:
        StoreError.refuse_other(path, int(data.attrs["jaxelim_result"]), FORMAT)
        told = str(data.attrs["experiment"])
        if descriptions.checksum(data, told) != data.attrs["checksum"]:
            raise DamagedFileError(path, "it does not have the checksum that was written with it")
        arrays = {str(name): np.asarray(x.values) for name, x in data.variables.items()}
        return assembled(path, json.loads(told), arrays, **passed)
    except JaxelimError:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise DamagedFileError(path, f"its attributes cannot be read ({kind})") from error


def assembled(
    path: Path, told: dict, arrays: Mapping[str, np.ndarray], *, stopping: Any = None, **passed: Any
) -> Result:
    """The result of an experiment; `arrays` has the numbers of its instance too."""
    for name in passed:
        checks.choice("part", name, _PARTS)
    axes = {**told["axes"], "times_axes": tuple(told["axes"]["times_axes"])}
    parts = {
        name: recovered(path, name, one, passed.get(name), **(axes if name == "problem" else {}))
        for name, one in told["arguments"].items()
        if name != "stopping"
    }
    own = {name: parts.pop(name) for name in ("family", "source")}
    instance = Instance(arrays["arms"], arrays["theta"], name=told["name"], **own,
                        costs=arrays.get("arm_costs"))  # fmt: skip
    if passed.get("instance") not in (None, instance):
        raise ArgumentError("instance", passed["instance"], f"{instance!r}, which the file holds")
    usual = {field.name: field.default for field in dataclasses.fields(Experiment)}
    usual |= dict(instance=instance, stopping=_stopping(path, told["stopping"], stopping))
    return Result(
        experiment=Experiment.unchecked(**usual | parts | {"runs": arrays["run"]}),
        **{name: arrays.get(name) for name in ARRAYS},
        **{name: descriptions.made(told[name]) for name in TABLES},
    )  # type: ignore[arg-type]


def _stopping(path: Path, stored: list[dict], own: Any) -> tuple:
    """The stopping rules; those of one's own are found by their names."""
    own = own if isinstance(own, list | tuple) else () if own is None else (own,)
    passed, known = {rule.name: rule for rule in own}, {entry["name"] for entry in stored}
    for name, rule in passed.items():
        if name not in known:
            allowed = f"those in the file: {', '.join(entry['text'] for entry in stored)}"
            raise ArgumentError("stopping", rule, allowed)
    return tuple(
        recovered(path, "stopping", entry, passed.get(entry["name"]), name=entry["name"],
                  eliminates=entry["eliminates"]) for entry in stored
    )  # fmt: skip
