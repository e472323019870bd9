"""One finished block: its arrays, its file and the file's name."""

import dataclasses
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import xarray as xr

from jaxelim.errors import DamagedFileError, StoreError
from jaxelim.files import irregular
from jaxelim.store.netcdf import encoded, parsed
from jaxelim.store.settings import as_json, digest

FORMAT = 1
"""Version of the files' layout; raise it when the layout changes."""
_NAME = re.compile(
    r"(?P<slug>[^.]+)\.(?P<digest>[0-9a-f]{20})\.(?P<first>\d{7,10})-(?P<last>\d{7,10})\.nc"
)


def checksum(data: xr.Dataset, *texts: str) -> str:
    """SHA-256 of the texts and of all variables: names, dimensions, types, units, contents."""
    total = hashlib.sha256()
    for text in texts:
        total.update(text.encode() + b"\0")
    for name in sorted(map(str, data.variables)):
        variable = data[name]
        values = np.asarray(variable.values)
        if values.dtype.kind in "OU":
            kind, contents = "str", "\0".join(map(str, values.ravel())).encode()
        else:
            kind, contents = (
                values.dtype.name,
                np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes(),
            )
        head = [
            name,
            list(variable.dims),
            list(values.shape),
            kind,
            str(variable.attrs.get("units", "")),
        ]
        total.update(as_json(head).encode() + b"\0" + contents + b"\0")
    return total.hexdigest()


@dataclasses.dataclass(frozen=True)
class Block:
    """One finished block.

    Attributes:
        name: of the cell, a label.
        settings: all that determines the numbers, in the form of `canonical`.
        data: the arrays of the block, with a dimension `run` whose coordinate holds
            consecutive run indices.
        work: seconds, samples drawn, versions; not part of the checksum of the arrays.
        path: its file; None before it is written.
    """

    name: str
    settings: dict
    data: xr.Dataset
    work: dict
    path: Path | None = None

    @property
    def runs(self) -> np.ndarray:
        """Run indices [run]."""
        return self.data["run"].values

    @property
    def checksum(self) -> str:
        """The checksum of the arrays and the settings, without the name."""
        return checksum(self.data, as_json(self.settings))

    @property
    def key(self) -> tuple[str, int, int]:
        """Digest of the settings, first run, last run."""
        return digest(self.settings), int(self.runs[0]), int(self.runs[-1])

    @property
    def filename(self) -> str:
        """The name of its file."""
        of_settings, first, last = self.key
        return f"{slug(self.name)}.{of_settings}.{first:07d}-{last:07d}.nc"

    def encoded(self) -> bytes:
        """The file's contents; of equal blocks the checksums are equal, not always the bytes."""
        work = as_json(self.work)
        data = self.data.copy()
        data.attrs = {
            "jaxelim_block": FORMAT,
            "name": self.name,
            "settings": as_json(self.settings),
            "checksum": self.checksum,
            "work": work,
            "label_checksum": _label_checksum(self.name, work),
        }
        return encoded(data)

    @staticmethod
    def read(path: Path) -> "Block":
        """Read the block in a file and check it.

        Raises:
            DamagedFileError: the file is not as it was written, or there is a folder, a
                pipe or a dangling link in its place.
            StoreError: the file cannot be read, or has a newer format.
        """
        if kind := irregular(path):  # reading a pipe would wait for a writer
            raise DamagedFileError(path, f"it is {kind}, not a file")
        try:
            contents = path.read_bytes()
        except OSError as error:
            raise StoreError(path, f"cannot be read: {error.strerror}") from error
        try:
            data, attributes = parsed(contents)
            version = int(np.ravel(attributes["jaxelim_block"])[0])
        except Exception as error:  # HDF5 raises almost any exception for a damaged file
            kind = type(error).__name__
            raise DamagedFileError(path, f"it is no readable NetCDF block ({kind})") from error
        StoreError.refuse_newer(path, version, FORMAT)
        try:
            name, work = str(attributes["name"]), str(attributes["work"])
            block = Block(name, json.loads(attributes["settings"]), data, json.loads(work), path)
            written = "do not have the checksum that was written with them"
            if block.checksum != attributes["checksum"]:
                raise DamagedFileError(path, f"its arrays {written}")
            if _label_checksum(name, work) != attributes["label_checksum"]:
                raise DamagedFileError(path, f"its attributes {written}")
            named = _NAME.fullmatch(path.name)
            if named is None or path.name.split(".", 1)[1] != block.filename.split(".", 1)[1]:
                raise DamagedFileError(path, "its name does not go with its contents")
        except DamagedFileError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise DamagedFileError(path, f"its attributes cannot be read ({kind})") from error
        return block


def _label_checksum(name: str, work: str) -> str:
    return hashlib.sha256(f"{name}\0{work}".encode()).hexdigest()


def slug(name: str) -> str:
    """A cell's name for use in a file name: all but letters, digits, + and _ become hyphens."""
    return re.sub(r"[^A-Za-z0-9+_]+", "-", name).strip("-") or "cell"


@dataclasses.dataclass(frozen=True)
class Entry:
    """The parts of a block's file name."""

    path: Path
    slug: str
    digest: str
    first: int
    last: int

    @staticmethod
    def of(path: Path) -> "Entry | None":
        """Parse a path; None for a file that is no block."""
        name = _NAME.fullmatch(path.name)
        return name and Entry(
            path, name["slug"], name["digest"], int(name["first"]), int(name["last"])
        )
