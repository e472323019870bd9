"""Reads studies from files, and from the blocks of a store."""

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from jaxelim.errors import DamagedFileError, JaxelimError, StoreError, warn
from jaxelim.files import path_of
from jaxelim.simulation.blocks import joined, worked
from jaxelim.simulation.results.descriptions import FORMAT, made
from jaxelim.simulation.results.loading import assembled, opened, result_of
from jaxelim.simulation.results.result import Result
from jaxelim.store import CELL, Store
from jaxelim.studies.grid import LONGEST
from jaxelim.studies.study import AXES, Key, Study


def load_study(path: str | os.PathLike[str], **parts: Any) -> Study:
    """Read a `Study` that `Study.save` or `jaxelim study --output` wrote.

    Args:
        path: the file.
        parts: what is not jaxelim's own, as of `load_result`, for all results.

    Raises:
        ArgumentError: a part that is passed is not the one in the file.
        DamagedFileError: the file is not as it was written.
        StoreError: the file cannot be read, or holds no study, or one of a newer format.
    """
    path = path_of(path)
    tree = opened(path, xr.load_datatree)
    if "jaxelim_study" not in tree.attrs:
        raise StoreError(path, "it holds no study of jaxelim")
    StoreError.refuse_other(path, int(tree.attrs["jaxelim_study"]), FORMAT)
    try:
        found = {}
        for group in sorted(tree.children.values(), key=lambda one: int(str(one.name))):
            data = group.to_dataset(inherit=False)
            rule, instance, problem = json.loads(data.attrs.pop("key"))
            found[rule, instance, problem] = result_of(path, data, **parts)
        return Study(found)
    except JaxelimError:
        raise
    except Exception as error:
        raise DamagedFileError(path, f"it cannot be read ({type(error).__name__})") from error


def is_study(path: Path) -> bool:
    """Whether a file is a study; False of what cannot be read."""
    try:
        with opened(path, xr.open_dataset) as root:
            return "jaxelim_study" in root.attrs
    except StoreError:
        return False


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
        runs = np.unique(np.concatenate([runs for runs, *_ in parts]))
        arrays = joined(parts, runs) | numbers | {"run": runs}
        result = assembled(path, told["experiment"], arrays, **passed)
    except KeyError as error:
        warn(f"left out: {path}, which lacks {error}", UserWarning)
        return None
    timings, layout = worked([took for *_, took in parts])
    return dataclasses.replace(result, timings=timings, layout=layout)


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
