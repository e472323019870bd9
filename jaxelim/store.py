"""Finished blocks of runs on disk: a folder a cell, with one JSON file and a .npz file a block.

A cell is a call without its runs: see docs/reference/file-formats.md. Files are renamed when
they are complete, so a process that is killed leaves complete blocks. Run r of a seed is the
same run in every call. So blocks of any size, order and machine can be joined.
"""

import io
import itertools
import json
import os
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxelim.errors import ArgumentError, StoreError, warn
from jaxelim.files import cannot_write, listed, make_folder, write_whole

_NAME = re.compile(r"(\d{7,10})-(\d{7,10})\.npz")
CELL = "cell.json"
Part = tuple[np.ndarray, dict[str, np.ndarray], dict]
"""Run indices, their arrays, and what the work has taken."""


class Store:
    """A folder of finished blocks, in its subfolder `blocks`; created with the first block.

    Raises:
        ArgumentError: directory is no path.
        StoreError: by its methods, a file or a folder cannot be read or written.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        if not isinstance(directory, str | os.PathLike):
            raise ArgumentError("store", directory, "the path of a folder")
        self.directory = Path(directory)
        self.folder = self.directory / "blocks"

    def cells(self) -> dict[str, dict[str, Any]]:
        """The cells by their keys, hashes that name their folders: the contents of `cell.json`.

        These tell the call, and `labels`, its names in studies.
        """
        if not self.folder.is_dir():
            raise StoreError(self.directory, "is no store: there is no folder 'blocks' in it")
        places = [path for path in listed(self.folder) if (path / CELL).is_file()]
        return {path.name: _told(path / CELL) for path in places}

    def blocks(self, key: str) -> list[tuple[int, int, Path]]:
        """The first and last run of each block of a cell, in order, and its file; opens none."""
        named = [(path, _NAME.fullmatch(path.name)) for path in listed(self.folder / key)]
        return sorted((int(runs[1]), int(runs[2]), path) for path, runs in named if runs)

    def damaged(self) -> list[Path]:
        """Files that were set aside, as they cannot be read."""
        return sorted(self.folder.glob("*/*.damaged"))

    def read(self, key: str, wanted: np.ndarray | None = None) -> list[Part]:
        """The wanted runs of a cell by blocks, each run once; None: all.

        Blocks that have no further wanted run are not opened. A file that is damaged is set
        aside, under a name that ends in `.damaged`.
        """
        wanted = None if wanted is None else np.sort(wanted)
        parts: list[Part] = []
        start = 0  # blocks are in order: what was opened has all wanted runs below
        for first, last, path in self.blocks(key):
            runs = np.arange(max(first, start), last + 1)
            if wanted is not None:
                runs = wanted[slice(*np.searchsorted(wanted, (max(first, start), last + 1)))]
            if runs.size and (found := opened(path, last + 1 - first)) is not None:
                arrays, work = found
                axis = arrays["samples"].ndim - 1
                arrays = {name: np.take(x, runs - first, axis) for name, x in arrays.items()}
                parts.append((runs, arrays, work))
                start = last + 1
        return parts

    def write(self, key: str, runs: np.ndarray, arrays: dict, work: dict) -> Path:
        """Write the arrays of consecutive runs [n], and JSON on the work; returns the file."""
        contents = io.BytesIO()
        np.savez_compressed(contents, work=np.array(json.dumps(work)), **arrays)
        path = self.folder / key / f"{runs[0]:07d}-{runs[-1]:07d}.npz"
        make_folder(path.parent)
        write_whole(path, contents.getvalue())
        return path

    def tell(self, key: str, told: dict[str, Any]) -> None:
        """Write what tells a cell, as of `cells`, with the labels that it has already."""
        path = self.folder / key / CELL
        known = _told(path)["labels"] if path.is_file() else []
        more = [one for one in told["labels"] if one not in known]
        if more or not path.is_file():
            make_folder(path.parent)
            told = {**told, "labels": known + more}
            write_whole(path, json.dumps(told, indent=1, allow_nan=False).encode())

    def __repr__(self) -> str:
        return f"Store({str(self.directory)!r})"


def _told(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(path, f"cannot be read: {error}") from error


def opened(path: Path, size: int) -> tuple[dict[str, np.ndarray], dict] | None:
    """The arrays of a block of so many runs, and of its work; None if it is damaged and renamed."""
    try:
        with np.load(io.BytesIO(path.read_bytes())) as file:
            arrays = {name: file[name] for name in file.files}
        work = json.loads(str(arrays.pop("work")))
        if arrays["samples"].shape[-1] != size:
            raise ValueError
        return arrays, work
    except OSError as error:
        raise StoreError(path, f"cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        aside = path.with_name(f"{path.name}.damaged")
        try:
            path.replace(aside)
        except OSError as error:
            raise StoreError(path, cannot_write(error)) from error
        warn(f"damaged, and set aside: {aside}", UserWarning)
        return None


def merge(sources: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str]) -> list[Path]:
    """Copy the blocks of stores into `output`, which may be a store already.

    The sources stay as they are, but for damaged files, which are set aside.

    Returns:
        The files that were written.

    Raises:
        ArgumentError: there is no source.
        StoreError: a source is no store, or the output cannot be written. Or two blocks of
            one cell have other numbers for a run.
    """
    target, copied = Store(output), []
    if not sources:
        raise ArgumentError("sources", list(sources), "at least one folder")
    cells = [(one, *cell) for one in map(Store, sources) for cell in one.cells().items()]
    for store, key, told in cells:
        target.tell(key, told)
        for first, last, path in store.blocks(key):
            runs = np.arange(first, last + 1)
            if (found := opened(path, runs.size)) is None:
                continue
            known, axis = target.read(key, runs), found[0]["samples"].ndim - 1
            for (have, others, _), (name, x) in itertools.product(known, found[0].items()):
                mine = np.take(x, have - first, axis)
                if not np.array_equal(mine, others[name], equal_nan=x.dtype.kind == "f"):
                    words = f"has other numbers than the output for {name} of a run"
                    raise StoreError(path, f"{words} of the same call")
            if sum(have.size for have, *_ in known) < runs.size:
                copied.append(target.write(key, runs, *found))
    return copied


__all__ = ["Store", "merge"]
