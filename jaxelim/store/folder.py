"""A folder of finished blocks."""

import itertools
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from jaxelim.errors import ArgumentError, ConflictError, DamagedFileError, StoreError
from jaxelim.files import (
    abandoned,
    cannot_write,
    flush_folder,
    listed,
    make_folder,
    write_whole,
)
from jaxelim.interrupts import uninterrupted
from jaxelim.store.block import Block, Entry, slug
from jaxelim.store.held import Held, Stored, joined
from jaxelim.store.settings import differences, digest


class Store:
    """A folder of finished blocks, in its subfolder `blocks`.

    Its subfolder `experiments` has a file a cell, which tells what `load_store` makes of it.

    Args:
        directory: the folder; created with the first block.

    Raises:
        ArgumentError: directory is no path.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        if not isinstance(directory, str | os.PathLike):
            raise ArgumentError("directory", directory, "the path of a folder")
        self.directory = Path(directory)
        self.folder = self.directory / "blocks"
        self._experiments = self.directory / "experiments"

    def __repr__(self) -> str:
        return f"Store({str(self.directory)!r})"

    def exists(self) -> bool:
        """Whether the store exists."""
        return self.folder.is_dir()

    def _files(self) -> list[Path]:
        return listed(self.folder)

    def entries(self) -> list[Entry]:
        """The blocks by their file names, sorted; opens no file."""
        return [entry for path in self._files() if (entry := Entry.of(path))]

    def leftovers(self) -> list[Path]:
        """Temporary files, also of tables and figures, of jobs that are writing or were killed."""
        return [
            path
            for path in [*self._files(), *listed(self.directory), *listed(self._experiments)]
            if path.name.endswith(".part")
        ]

    def set_aside(self) -> list[Path]:
        """Damaged files that a job has set aside and recomputed."""
        return [path for path in self._files() if path.name.endswith(".damaged")]

    def sweep(self) -> list[Path]:
        """Remove and return temporary files whose processes, on this machine, have ended.

        Raises:
            StoreError: a file cannot be removed.
        """
        gone = []
        for path in self.leftovers():
            if abandoned(path):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise StoreError(path, cannot_write(error)) from error
                gone.append(path)
        return gone

    def prepare(self) -> None:
        """Create the folder and test that it can be written to.

        Raises:
            StoreError: it cannot.
        """
        make_folder(self.folder)
        # A new folder is an entry of the one above it, which must be flushed too.
        for folder in (self.folder, self.directory, self.directory.absolute().parent):
            flush_folder(folder)
        probe = self.folder / "probe"
        write_whole(probe, b"jaxelim\n")
        probe.unlink(missing_ok=True)

    def write(self, block: Block) -> Path:
        """Write a block; returns its file.

        Raises:
            ArgumentError: its runs are not consecutive.
            StoreError: it cannot be written.
        """
        runs = block.runs
        if runs.size == 0 or not np.array_equal(runs, np.arange(runs[0], runs[0] + runs.size)):
            raise ArgumentError("block", runs, "consecutive run indexes, at least one")
        path = self.folder / block.filename
        make_folder(self.folder)
        with uninterrupted():
            write_whole(path, block.encoded())
        return path

    def tell(self, digest: str, contents: bytes) -> None:
        """Write the file that tells the experiment of a cell, by the digest of its settings.

        Raises:
            StoreError: it cannot be written.
        """
        make_folder(self._experiments)
        with uninterrupted():
            write_whole(self._experiment(digest), contents)

    def tells(self, digest: str) -> Path | None:
        """The file that tells the experiment of a cell; None where there is none."""
        path = self._experiment(digest)
        return path if path.is_file() else None

    def _experiment(self, digest: str) -> Path:
        return self._experiments / f"{digest}.nc"

    def held(self, settings: dict) -> Held:
        """All runs of one cell's canonical settings; checks every block.

        Raises:
            ConflictError: two blocks disagree on a run.
        """
        wanted = digest(settings)
        return _held(entry for entry in self.entries() if entry.digest == wanted)

    def check_name(self, name: str, settings: dict) -> None:
        """Refuse a cell whose name belongs to other settings in this store.

        Raises:
            ConflictError: the name does; the message lists what differs.
        """
        mine = digest(settings)
        for entry in self.entries():
            if entry.slug != slug(name) or entry.digest == mine:
                continue
            try:
                other = Block.read(entry.path)
            except DamagedFileError:
                continue
            if other.name == name:
                told = differences(other.settings, settings)
                raise ConflictError(
                    entry.path,
                    f"{name!r} stands for other settings there: {told}. Choose another folder",
                )

    def put_aside(self, damaged: Iterable[DamagedFileError]) -> None:
        """Rename damaged files to `*.damaged`, so that they can still be inspected.

        Folders, pipes and links in place of files are renamed too. If the new name is a
        folder's, a number makes it another.

        Raises:
            StoreError: a file cannot be renamed.
        """
        for error in damaged:
            aside = error.path.with_name(error.path.name + ".damaged")
            tries = (aside.with_name(f"{n}-{aside.name}") for n in itertools.count(2))
            while aside.is_dir() or (aside.exists() and error.path.is_dir()):
                aside = next(tries)
            try:
                os.replace(error.path, aside)
            except FileNotFoundError:
                pass
            except OSError as cause:
                raise StoreError(error.path, cannot_write(cause)) from cause

    def cells(self) -> list[Stored]:
        """All cells of the store; reads and checks every block.

        Blocks of equal settings are one cell, which may have several names.

        Raises:
            ConflictError: two blocks disagree on a run.
        """
        cells: dict[str, list[Entry]] = {}
        for entry in self.entries():
            cells.setdefault(entry.digest, []).append(entry)
        stored = []
        for key, entries in cells.items():
            held = _held(entries)
            if held.blocks or held.damaged:
                names = [block.name for block in held.blocks] or [entries[0].slug]
                stored.append(Stored(", ".join(dict.fromkeys(names)), held, key))
        return stored


def _held(entries: Iterable[Entry]) -> Held:
    """The blocks of one cell.

    Another process may set a damaged file aside after it was listed: it is left out.
    """
    blocks, damaged = [], []
    for entry in entries:
        try:
            blocks.append(Block.read(entry.path))
        except DamagedFileError as error:
            damaged.append(error)
        except StoreError:
            if os.path.lexists(entry.path):
                raise
    return Held(joined(blocks), tuple(blocks), tuple(damaged))
