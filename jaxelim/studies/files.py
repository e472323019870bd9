"""Reads results and studies from files, and from the blocks of a store."""

import contextlib
import dataclasses
import inspect
import io
import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from jaxelim import checks
from jaxelim.errors import ArgumentError, DamagedFileError, JaxelimError, StoreError, warn
from jaxelim.files import path_of
from jaxelim.instances.instance import Instance
from jaxelim.simulation.blocks import joined
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
            elimination, threshold, and stopping, one rule or several; `HalfSpaces` has a
            function of one's own. An instance is checked against the file's, which comes back
            without it.

    Raises:
        ArgumentError: a part that is passed is not the one in the file.
        DamagedFileError: the file is not as it was written.
        StoreError: the file cannot be read, or holds no result, or one of a newer format.
    """
    path = path_of(path)
    return _result_of(path, opened(path, xr.load_dataset), **parts)


def load_study(path: str | os.PathLike[str], **parts: Any) -> Study:
    """Read a `Study` that `Study.save` or `jaxelim study --output` wrote.

    Args:
        path: the file.
        parts: what is not jaxelim's own, as of `load_result`, for all results.

    Raises:
        ArgumentError, DamagedFileError, StoreError: as `load_result`.
    """
    path = path_of(path)
    tree, found = opened(path, xr.load_datatree), {}
    with _as_written(path, tree.attrs, "study"):
        for group in sorted(tree.children.values(), key=lambda one: int(str(one.name))):
            data = group.to_dataset(inherit=False)
            rule, instance, problem = json.loads(data.attrs.pop("key"))
            found[rule, instance, problem] = _result_of(path, data, **parts)
    return Study(found)


def is_study(path: Path) -> bool:
    """Whether a file is a study; False of what cannot be read."""
    with contextlib.suppress(StoreError), opened(path, xr.open_dataset) as root:
        return "jaxelim_study" in root.attrs
    return False


def load_results(files: Sequence[Path]) -> Study | dict[str, Result]:
    """What figures draw of files: a study, or results by rule, with the file's name if it repeats.

    Raises:
        ArgumentError: there is no file, or two of one rule and name.
        DamagedFileError, StoreError: as `load_result`.
    """
    if len(files) == 1 and is_study(files[0]):
        return load_study(files[0])
    results = [load_result(path) for path in files]
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
        runs = np.concatenate([runs for runs, *_ in parts])  # in order
        arrays, tables = joined(parts, runs)
        arrays |= numbers | {"run": runs}
        return dataclasses.replace(_assembled(path, told["experiment"], arrays, **passed), **tables)
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


@contextlib.contextmanager
def _as_written(path: Path, attributes: Mapping[Any, Any], kind: str) -> Iterator[None]:
    """Refuse a file of another kind or format; an error inside is that of a damaged file."""
    if f"jaxelim_{kind}" not in attributes:
        raise StoreError(path, f"it holds no {kind} of jaxelim")
    try:
        StoreError.refuse_other(path, int(attributes[f"jaxelim_{kind}"]), FORMAT)
        yield
    except JaxelimError:
        raise
    except Exception as error:
        raise DamagedFileError(path, f"it cannot be read ({type(error).__name__})") from error


def _result_of(path: Path, data: xr.Dataset, **passed: Any) -> Result:
    """The result in a dataset of a file, with the parts that are passed."""
    with _as_written(path, data.attrs, "result"):
        told = str(data.attrs["experiment"])
        if descriptions.checksum(data, told) != data.attrs["checksum"]:
            raise DamagedFileError(path, "it does not have the checksum that was written with it")
        arrays = {str(name): np.asarray(x.values) for name, x in data.variables.items()}
        return _assembled(path, json.loads(told), arrays, **passed)


def _assembled(
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
    tests = _stopping(path, told["stopping"], stopping)
    own = dict(instance=instance, stopping=tests, runs=arrays["run"])
    return Result(
        experiment=Experiment.unchecked(**usual | parts | own),
        **{name: arrays.get(name) for name in ARRAYS},
        **{name: made(told[name]) for name in TABLES},
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
