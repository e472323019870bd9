"""Folders of results joined into one."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from jaxelim.errors import ArgumentError, ConflictError, DamagedFileError, StoreError
from jaxelim.store.block import Block
from jaxelim.store.folder import Store
from jaxelim.store.held import joined
from jaxelim.store.settings import differences, digest


@dataclasses.dataclass(frozen=True)
class Merged:
    """What `merge` did: files copied, files that were there already, and damaged ones, which were left where they are."""

    copied: tuple[Path, ...]
    present: tuple[Path, ...]
    damaged: tuple[DamagedFileError, ...]


def merge(sources: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str]) -> Merged:
    """Join stores into `output`, which may be a store already; the sources stay as they are.

    Everything is read and checked before the first file is copied.

    Raises:
        StoreError: a source is no store, or the output cannot be written.
        ConflictError: a cell's name that stands for different settings, or blocks of the same settings that disagree on a run.
    """
    given, target = [Store(one) for one in sources], Store(output)
    if not given:
        raise ArgumentError("sources", list(sources), "at least one folder")
    for store in given:
        if not store.exists():
            raise StoreError(store.directory, "is no store: there is no folder 'blocks' in it")
    damaged, blocks = [], []
    for store in [target, *given]:
        for entry in store.entries():
            try:
                blocks.append((store, Block.read(entry.path)))
            except DamagedFileError as error:
                damaged.append(error)
    names: dict[str, Block] = {}
    cells: dict[str, list[Block]] = {}
    for _, block in blocks:
        first = names.setdefault(block.name, block)
        if digest(first.settings) != digest(block.settings):
            told = differences(first.settings, block.settings)
            raise ConflictError(block.path, f"{block.name!r} stands for other settings in {first.path}: {told}")
        cells.setdefault(digest(block.settings), []).append(block)
    for same in cells.values():
        joined(same)
    there = {block.key for store, block in blocks if store is target}
    copied, present = [], []
    target.prepare()
    for store, block in blocks:
        if store is target:
            continue
        if block.key in there:
            present.append(block.path)
            continue
        copied.append(target.write(block))
        there.add(block.key)
    return Merged(tuple(copied), tuple(present), tuple(damaged))
