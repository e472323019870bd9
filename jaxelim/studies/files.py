"""Reads studies from archives of results, and from the blocks of a store."""

import io
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxelim.errors import DamagedFileError, JaxelimError, ResultFileError, StoreError, warn
from jaxelim.simulation.blocks import timings_and_layout
from jaxelim.simulation.results.loading import from_contents, opened, with_runs
from jaxelim.simulation.results.result import Result
from jaxelim.simulation.results.saving import path_of
from jaxelim.store import Store, digest
from jaxelim.store.settings import differing
from jaxelim.studies.grid import LONGEST
from jaxelim.studies.saving import FORMAT, INDEX
from jaxelim.studies.study import AXES, Study


def load_study(path: str | os.PathLike[str], **parts: Any) -> Study:
    """Read a `Study` that `Study.save` or `jaxelim study --output` wrote.

    Args:
        path: the file.
        parts: what is not jaxelim's own, as of `load_result`, for all results.

    Raises:
        ArgumentError: a part that is passed is not the one in the file.
        DamagedFileError: the file is not as it was written.
        ResultFileError: the file holds no study, or one of a newer format.
        StoreError: the file cannot be read.
    """
    path = path_of(path)
    try:
        archive = zipfile.ZipFile(io.BytesIO(opened(path)))
    except zipfile.BadZipFile as error:
        raise ResultFileError(path, "it is no archive of a study") from error
    try:
        index = json.loads(archive.read(INDEX))
        version = int(index["jaxelim_study"])
    except Exception as error:
        raise ResultFileError(path, "it holds no study of jaxelim") from error
    ResultFileError.refuse_newer(path, version, FORMAT)
    try:
        found = {
            (key[0], key[1], key[2]): from_contents(path, archive.read(name), **parts)
            for name, key in index["results"].items()
        }
    except JaxelimError:
        raise
    except Exception as error:
        raise DamagedFileError(path, f"it cannot be read ({type(error).__name__})") from error
    return Study(found)


def load_store(folder: str | os.PathLike[str], **parts: Any) -> Study:
    """Read all runs of a store: of `study` and `simulate` with `store=`, or of an experiment.

    Results of a study have its names. Others have the name of their cell as the rule's,
    and those of their instance and problem. Where several have the same names, as of two
    studies with other deltas, the rule's tells what differs: "LUCB (delta=0.1)".
    Damaged blocks, and cells without a file of their experiment, as of older versions, are
    left out, with a warning.

    Args:
        folder: the store.
        parts: what is not jaxelim's own, as of `load_result`, for all results.

    Returns:
        A `Study`. Results may differ in runs, stopping rules and deltas.

    Raises:
        ArgumentError: a part that is passed is not the one in a file.
        StoreError: there is no store, or it cannot be read.
        ConflictError: two blocks disagree on a run.
    """
    store = Store(folder)
    if not store.exists():
        raise StoreError(Path(folder), "is no store: there is no folder 'blocks' in it")
    found: dict[tuple[str, str, str], list[tuple[dict, Result]]] = {}
    for cell in store.cells():
        told = store.tells(cell.digest)
        for error in cell.held.damaged:
            warn(f"left out: {error}", UserWarning)
        if cell.held.data is None:
            continue
        if told is None:
            warn(f"left out: {cell.name}, of which {folder} has no experiment", UserWarning)
            continue
        labels: dict[str, str] = {}
        empty = from_contents(told, told.read_bytes(), labels, **parts)
        result = with_runs(empty, cell.held.data, *timings_and_layout(cell.held))
        usual = cell.name, str(empty.settings["instance"]), str(empty.problem)
        rule, instance, problem = (
            labels.get(axis, name) for axis, name in zip(AXES, usual, strict=True)
        )
        settings = cell.held.blocks[0].settings
        found.setdefault((rule, instance, problem), []).append((settings, result))
    return Study.of(
        ((f"{rule}{apart}", instance, problem), result)
        for (rule, instance, problem), several in found.items()
        for apart, (_, result) in zip(_apart([x for x, _ in several]), several, strict=True)
    )


def _apart(settings: Sequence[dict]) -> list[str]:
    """What follows a name that belongs to several settings, so that each has its own."""
    if len(settings) == 1:
        return [""]
    words = [
        ", ".join(f"{k}={v[0] if isinstance(v, list) and len(v) == 1 else v}" for k, v in x.items())
        for x in differing(settings)
    ]
    texts = [one if len(one) <= LONGEST else digest(s)[:8]
             for one, s in zip(words, settings, strict=True)]  # fmt: skip
    return [f" ({text})" for text in texts]
