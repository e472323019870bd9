"""Reads results and studies from files, and from the blocks of a store."""

import dataclasses
import inspect
import io
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from jaxelim import checks
from jaxelim.errors import ArgumentError, DamagedFileError, JaxelimError, StoreError, warn
from jaxelim.files import path_of
from jaxelim.instances.instance import Instance
from jaxelim.simulation.api import result_of
from jaxelim.simulation.experiment import Engine, Experiment
from jaxelim.simulation.results import descriptions
from jaxelim.simulation.results.descriptions import ARRAYS, FORMAT, TABLES, made, recovered
from jaxelim.simulation.results.result import Result
from jaxelim.store import CELL, Store
from jaxelim.studies.grid import AXES, LONGEST, Key, Study, study
from jaxelim.text import parse

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
            elimination, threshold, and stopping, one rule or several; `HalfSpaces` has a function
            of one's own. An instance is checked against the file's, which comes back without it.

    Raises:
        ArgumentError: a part that is passed is not the one in the file.
        DamagedFileError: the file is not as it was written.
        StoreError: the file cannot be read, or holds no result, or one of a newer format.
    """
    return loaded(path, parts, "result")


def load_study(path: str | os.PathLike[str], **parts: Any) -> Study:
    """Read a `Study` that `Study.save` or `jaxelim study --output` wrote.

    Args:
        path: the file.
        parts: what is not jaxelim's own, as of `load_result`, for all results.

    Raises:
        ArgumentError, DamagedFileError, StoreError: as `load_result`.
    """
    return loaded(path, parts, "study")


def load_results(files: Sequence[Path]) -> Study | dict[str, Result]:
    """What figures draw of files: a study, or results by rule, with the file's name if it repeats.

    Raises:
        ArgumentError: there is no file, or two of one rule and name.
        DamagedFileError, StoreError: as `load_result`.
    """
    kinds = ("study", "result")[len(files) != 1 :]
    results = [loaded(path, {}, *kinds) for path in files]
    if len(files) == 1 and isinstance(results[0], Study):
        return results[0]
    rules = [str(result.rule) for result in results]
    labels = [
        rule if rules.count(rule) == 1 else f"{rule}, {path.stem}"
        for rule, path in zip(rules, files, strict=True)
    ]
    if not files or len(set(labels)) < len(labels):
        raise ArgumentError("files", files, "at least one, of different rules or names")
    return dict(zip(labels, results, strict=True))


def study_arguments(path: Path) -> dict[str, Any]:
    """The arguments of `study` by name that a TOML or JSON file has.

    Raises:
        ArgumentError: it has another ending, cannot be read, or has no table of arguments.
    """
    readers = {".toml": tomllib.loads, ".json": json.loads}
    if path.suffix not in readers:
        raise ArgumentError("file", str(path), "a file that ends in .toml or .json")
    try:
        given = readers[path.suffix](path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # both parsers raise ValueErrors
        raise ArgumentError("file", str(path), "a readable file", str(error)) from error
    known = [name for name in inspect.signature(study).parameters
             if name not in ("executor", "progress")]  # fmt: skip
    if not isinstance(given, Mapping):
        raise ArgumentError("file", str(path), f"a table of {', '.join(known)}")
    for name in given:
        checks.choice("argument", name, known)
    if "instances" not in given:
        raise ArgumentError("instances", None, f"a value in {path}")
    return {**given, "engine": parse(given.get("engine", "Engine"), "engine", {"Engine": Engine})}


def load_store(folder: str | os.PathLike[str], **parts: Any) -> Study:
    """Read all runs of a store: of `study` and `simulate` with `store=`, or of an experiment.

    Results of a study have its names. Others have those of their rule, instance and problem.
    Where several have the same names, as of two studies with other deltas, the rule's tells
    what differs: "LUCB (delta=0.1)". Damaged blocks are set aside, with a warning.

    Args:
        folder: the store.
        parts: what is not jaxelim's own, as of `load_result`, for all results.

    Raises:
        ArgumentError: a part that is passed is not the one in a file.
        StoreError: there is no store, or it cannot be read.
    """
    store = Store(folder)
    found: dict[Key, list[tuple[str, Result]]] = {}
    for cell, told in store.cells().items():
        if (result := _result(store, cell, told, parts)) is None:
            continue
        usual = str(result.rule), str(result.settings["instance"]), str(result.problem)
        for labels in told["labels"] or [{}]:
            key = tuple(labels.get(axis, name) for axis, name in zip(AXES, usual, strict=True))
            found.setdefault(key, []).append((cell, result))
    return Study.of(
        ((f"{rule}{apart}", instance, problem), result)
        for (rule, instance, problem), several in found.items()
        for apart, (_, result) in zip(_apart(several), several, strict=True)
    )


def _result(store: Store, cell: str, told: dict, passed: dict[str, Any]) -> Result | None:
    """The result of a cell; None, with a warning, where it cannot be told."""
    path, parts = store.folder / cell / CELL, store.read(cell)
    if not parts:
        return None
    try:
        numbers = {name: made(x) for name, x in told["numbers"].items()}
        numbers["run"] = np.concatenate([runs for runs, *_ in parts])
        call = _experiment(path, told["experiment"], numbers, **passed)
        return result_of(call, parts, made(told["experiment"]["origin"]))
    except KeyError as error:
        warn(f"left out: {path}, which lacks {error}", UserWarning)
        return None


def _apart(several: Sequence[tuple[str, Result]]) -> list[str]:
    """What follows a name that belongs to several results, so that each has its own."""
    if len(several) == 1:
        return [""]
    told = [{"delta": ", ".join(map(str, x.deltas)), **x.settings} for _, x in several]
    names = dict.fromkeys(name for one in told for name in one if not name.endswith("sha256"))
    names = [n for n in names if any(one.get(n) != told[0].get(n) for one in told)]
    words = [", ".join(f"{name}={one.get(name)}" for name in names) for one in told]
    clear = len(set(words)) == len(words) and max(map(len, words)) <= LONGEST
    return [f" ({text if clear else cell[:8]})"
            for text, (cell, _) in zip(words, several, strict=True)]  # fmt: skip


def loaded(path: Any, parts: dict[str, Any], *kinds: str) -> Any:
    """The study or the result in a NetCDF file, whichever of these kinds it is."""
    path = path_of(path)
    if path.exists() and not path.is_file():  # reading a pipe would wait
        raise StoreError(path, "is no regular file")
    try:
        contents = path.read_bytes()
    except OSError as error:
        raise StoreError(path, f"cannot be read: {error.strerror}") from error
    if not contents.startswith(b"\x89HDF"):
        raise StoreError(path, "it is no NetCDF file")
    try:
        tree = xr.load_datatree(io.BytesIO(contents), engine="h5netcdf")
        for kind in kinds:
            if f"jaxelim_{kind}" in tree.attrs:
                StoreError.refuse_other(path, int(tree.attrs[f"jaxelim_{kind}"]), FORMAT)
                if kind == "result":
                    return _result_of(path, tree.to_dataset(), **parts)
                groups = sorted(tree.children.values(), key=lambda one: int(str(one.name)))
                datas = [group.to_dataset(inherit=False) for group in groups]
                return Study({tuple(json.loads(data.attrs["key"])): _result_of(path, data, **parts)
                              for data in datas})  # fmt: skip
        raise StoreError(path, f"it holds no {' or '.join(kinds)} of jaxelim")
    except JaxelimError:
        raise
    except Exception as error:  # HDF5 raises almost any exception for a damaged file
        note = type(error).__name__
        raise DamagedFileError(path, f"it is no readable NetCDF file ({note})") from error


def _result_of(path: Path, data: xr.Dataset, **passed: Any) -> Result:
    """The result in a dataset of a file, with the parts that are passed."""
    text = str(data.attrs["experiment"])
    if descriptions.checksum(data, text) != data.attrs["checksum"]:
        raise DamagedFileError(path, "it does not have the checksum that was written with it")
    told, tables = json.loads(text), {name: x.values for name, x in data.variables.items()}
    call = _experiment(path, told, tables, **passed)
    fields: Any = {name: tables.get(name) for name in ARRAYS}
    return Result(call, **fields, **{name: made(told[name]) for name in TABLES})


def _experiment(
    path: Path, told: dict, arrays: Mapping[Any, Any], *, stopping: Any = None, **passed: Any
) -> Experiment:
    """The experiment of a file, whose arrays have its runs and the numbers of its instance."""
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
    rules, stored = [] if stopping is None else stopping, told["stopping"]
    by_name = {rule.name: rule for rule in (rules if isinstance(rules, list | tuple) else [rules])}
    for name, rule in by_name.items():
        if name not in [entry["name"] for entry in stored]:
            allowed = f"those in the file: {', '.join(entry['text'] for entry in stored)}"
            raise ArgumentError("stopping", rule, allowed)
    tests = tuple(
        recovered(path, "stopping", entry, by_name.get(entry["name"]), name=entry["name"],
                  eliminates=entry["eliminates"]) for entry in stored
    )  # fmt: skip
    own = dict(instance=instance, stopping=tests, runs=arrays["run"])
    return Experiment.unchecked(**usual | parts | own)
