"""Reads results from files."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from jaxelim import instances
from jaxelim.contracts import Family, Problem, SamplingRule
from jaxelim.errors import (
    ArgumentError,
    DamagedFileError,
    JaxelimError,
    ResultFileError,
    StoreError,
)
from jaxelim.instances.instance import Instance
from jaxelim.simulation.described import ARRAYS, StoredFamily, Text, made, older, recovered
from jaxelim.simulation.result import Result
from jaxelim.simulation.saving import FORMAT, TABLES, as_json, path_of
from jaxelim.store import checksum
from jaxelim.store.netcdf import parsed

_ARRAYS = tuple(name for name in ARRAYS if name not in ("deltas", "runs"))
_OPTIONAL = ("elimination_times", "solves", "log_e")


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
        instance: needed only for files of jaxelim without arms and theta, written before
            `Result.save`.
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
    data, attributes = _opened(path)
    given = dict(instance=instance, problem=problem, rule=rule, family=family,
                 elimination=elimination, threshold=threshold)  # fmt: skip
    several = isinstance(stopping, list | tuple)
    own = stopping if several else () if stopping is None else (stopping,)
    if "jaxelim_result" not in attributes:
        return _older(path, data, attributes, given, own)
    try:
        version = int(np.ravel(attributes["jaxelim_result"])[0])
        if version > FORMAT:
            known = f"this version of jaxelim reads up to {FORMAT}"
            raise ResultFileError(path, f"its format is {version}; {known}")
        text = str(attributes["experiment"])
        if checksum(data, text) != attributes["checksum"]:
            raise DamagedFileError(path, "it does not have the checksum that was written with it")
        return _assembled(path, data, json.loads(text), given, own)
    except JaxelimError:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise DamagedFileError(path, f"its attributes cannot be read ({kind})") from error


def _opened(path: Path) -> tuple[xr.Dataset, dict]:
    """The arrays and attributes of a NetCDF file."""
    if path.exists() and not path.is_file():  # reading a pipe would wait
        raise StoreError(path, "is no regular file")
    try:
        contents = path.read_bytes()
    except OSError as error:
        raise StoreError(path, f"cannot be read: {error.strerror}") from error
    if not contents.startswith(b"\x89HDF"):
        raise ResultFileError(path, "it is no NetCDF file")
    try:
        return parsed(contents)
    except Exception as error:  # HDF5 raises almost any exception for a damaged file
        kind = type(error).__name__
        raise DamagedFileError(path, f"it is no readable NetCDF file ({kind})") from error


def _assembled(path: Path, data: xr.Dataset, stored: dict, given: dict, own: Any) -> Result:
    """The result in a file of the present format."""
    family = recovered(path, "family", stored["family"], given["family"])
    if isinstance(family, Text):
        family = StoredFamily(str(family), as_json(family.description))
    instance = Instance(data["arms"].values, data["theta"].values, None, stored["name"], family)
    if given["instance"] is not None and given["instance"] != instance:
        raise ArgumentError("instance", given["instance"], f"{instance!r}, which the file holds")
    parts = {
        name: recovered(path, name, stored[name], given[name])
        for name in ("rule", "elimination", "threshold")
    }
    return Result(
        instance=instance,
        problem=_problem(path, data, stored["problem"], given["problem"]),
        stopping=_stopping(path, stored["stopping"], own),
        **parts,
        **_arrays(data),
        **{name: made(stored[name]) for name in TABLES},
    )


def _arrays(data: xr.Dataset) -> dict[str, Any]:
    """The arrays of a result."""
    found = {name: data[name].values if name in data else None for name in _ARRAYS}
    missing = [name for name, one in found.items() if one is None and name not in _OPTIONAL]
    if missing:
        raise KeyError(missing[0])
    return {"deltas": data["delta"].values, "runs": data["run"].values, **found}


def _problem(path: Path, data: xr.Dataset, stored: dict, given: Any) -> Any:
    """The problem; its text has what `Result.to_xarray` reads."""
    of_run = len(data["samples"].dims)
    axis = data["answer"].dims[-1]
    axes = data["elimination_times"].dims[of_run:] if "elimination_times" in data else ()
    named = None if axis in ("arm", "answer_index") else axis
    return recovered(path, "problem", stored, given, answer_axis=named, times_axes=axes)


def _stopping(path: Path, stored: list[dict], own: Any) -> tuple:
    """The stopping rules; those of one's own are found by their names."""
    passed = {one.name: one for one in own}
    unknown = [one for one in own if one.name not in {entry["name"] for entry in stored}]
    if unknown:
        allowed = f"those in the file: {', '.join(entry['text'] for entry in stored)}"
        raise ArgumentError("stopping", unknown[0], allowed)
    return tuple(
        recovered(
            path, "stopping", one, passed.get(one["name"]),
            name=one["name"], eliminates=one["eliminates"],
        )
        for one in stored
    )  # fmt: skip


def _older(path: Path, data: xr.Dataset, attributes: dict, given: dict, own: Any) -> Result:
    """The result in a file of `Result.to_xarray`, which has texts in place of the experiment.

    Raises:
        ResultFileError: it is no such file.
    """
    if "jaxelim_block" in attributes:
        raise ResultFileError(path, "it is a block of a store, which `jaxelim results` reads")
    plain = {
        name: np.ravel(value)[0].item() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in attributes.items()
        if not name.startswith("_")
    }
    tables: dict[str, Any] = {
        name: {key[5:]: value for key, value in plain.items() if key.startswith(prefix)}
        for name, prefix in (("layout", "plan_"), ("timings", "work_"))
    }
    settings = {key: value for key, value in plain.items() if key[:5] not in ("plan_", "work_")}
    try:
        arrays = _arrays(data)
        texts = {name: older(settings[name]) for name in ("rule", "elimination", "threshold")}
        names = [str(name) for name in data["stopping"].values]
        each = [older(text) for text in settings["stopping"].split(", ")]
        if len(each) != len(names):
            each = [older(name) for name in names]
        stopping = [
            {**one, "name": name, "eliminates": name in ("selective", "full")}
            for one, name in zip(each, names, strict=True)
        ]
        problem = older(settings["problem"])
        instance = given["instance"] or _shipped(settings, arrays["pulls"])
    except (KeyError, ValueError) as error:
        raise ResultFileError(path, "it holds no result of jaxelim") from error
    if isinstance(instance, Instance) and not _fits(instance, arrays["pulls"]):
        lead = (arrays["pulls"].shape[0],) if arrays["pulls"].ndim == 5 else ()
        allowed = f"the file's instance, of arms {[*lead, arrays['pulls'].shape[-1], 'd']}"
        raise ArgumentError("instance", instance, allowed)
    parts = {name: recovered(path, name, one, given[name]) for name, one in texts.items()}
    return Result(
        instance=instance,
        problem=_problem(path, data, problem, given["problem"]),
        stopping=_stopping(path, stopping, own),
        settings=settings,
        **parts,
        **arrays,
        **tables,
    )


def _shipped(settings: dict, pulls: np.ndarray) -> Any:
    """The shipped instance of an older file's name if it fits, else the name as text."""
    name = settings["instance"]
    found = instances.load_instance(name) if name in instances.names() else None
    same = found is not None and _fits(found, pulls) and found.family_settings == {
        key: settings[key] for key in found.family_settings if key in settings
    }  # fmt: skip
    return found if same else Text(name, {"older": name})


def _fits(instance: Instance, pulls: np.ndarray) -> bool:
    """Whether pulls [(instance), stopping, delta, run, K] can be this instance's."""
    size = pulls.shape[0] if pulls.ndim == 5 else 1
    return (instance.batched, instance.size, instance.K) == (pulls.ndim == 5, size, pulls.shape[-1])
