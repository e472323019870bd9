"""Joins folders of results into one."""

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
    """What `merge` did."""

    copied: tuple[Path, ...]  # files written to the output
    present: tuple[Path, ...]  # files whose blocks the output had already
    damaged: tuple[DamagedFileError, ...]  # one for each damaged file; these are not copied


def merge(sources: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str]) -> Merged:
    """Copy the blocks of stores into `output`, which may be a store already.

    Reads and checks all blocks before it copies the first. The sources stay
    as they are.

    Raises:
        ArgumentError: there is no source.
        StoreError: a source is no store, or the output cannot be written.
        ConflictError: one cell name belongs to different settings, or blocks of the
            same settings disagree on a run.
    """
    stores, target = [Store(source) for source in sources], Store(output)
    if not stores:
        raise ArgumentError("sources", list(sources), "at least one folder")
    for store in stores:
        if not store.exists():
            raise StoreError(store.directory, "is no store: there is no folder 'blocks' in it")
    damaged, blocks = [], []
    for store in [target, *stores]:
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
            raise ConflictError(
                block.path, f"{block.name!r} stands for other settings in {first.path}: {told}"
            )
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
        key = block.key[0]
        if (told := store.tells(key)) is not None and target.tells(key) is None:
            target.tell(key, told.read_bytes())
        copied.append(target.write(block))
        there.add(block.key)
    return Merged(tuple(copied), tuple(present), tuple(damaged))
