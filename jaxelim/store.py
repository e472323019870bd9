"""Finished blocks of runs on disk: each one NetCDF file that is there whole or not at all.

A block holds the runs first .. last of one cell. Its file is named by the cell, by a digest of the settings (all that decides
the numbers) and by its runs: `table1-bai-LinGapE-watched.2f0c...e1.0000000-0000099.nc`. It is written under a temporary name,
flushed to the disk and renamed, so that a job that is killed, or whose machine is switched off, leaves whole blocks and at
most one temporary file. A checksum of all arrays inside is compared whenever a block is read.

Run r of a seed is the same run in every call, whence blocks of any size, of any order and of any machine fit together.
"""

import dataclasses
import errno
import hashlib
import io
import json
import os
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from jaxelim.errors import ArgumentError, ConflictError, DamagedFileError, StoreError
from jaxelim.instance import Instance

FORMAT = 1
"""Of the files: raised when their layout changes."""
REVISION = 1
"""Of the numbers, and part of all settings: raised by whoever changes what a run draws or does, so that runs of the two kinds
are never joined."""

_NAME = re.compile(r"(?P<slug>[^.]+)\.(?P<digest>[0-9a-f]{20})\.(?P<first>\d{7,10})-(?P<last>\d{7,10})\.nc")
_PART = re.compile(r"\..+\.(?P<host>[^.]+)-(?P<process>\d+)\.part")


def canonical(value: Any) -> Any:
    """`value` as JSON that says all of it, with a hash in the place of each array.

    Names of instances, being labels, are left out. A class is told by its name alone: whoever changes what a rule of their own
    does should give it another name or a field.

    Raises:
        ArgumentError: something that cannot be told by its value, such as a function; a dataclass with __call__ can.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating) and np.isfinite(value):
        return float(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        plain = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        return {"array": list(value.shape), "dtype": value.dtype.name, "sha256": hashlib.sha256(plain.tobytes()).hexdigest()}
    if isinstance(value, list | tuple):
        return [canonical(one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: canonical(one) for key, one in value.items()}
    if isinstance(value, Instance):
        return {"arms": canonical(value.arms), "theta": canonical(value.theta), "noise_std": value.noise_std}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        # Ours go by their public name alone, so that moving a module changes no digest.
        room = "jaxelim" if kind.__module__.startswith("jaxelim.") else kind.__module__
        fields = {field.name: canonical(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"class": f"{room}.{kind.__qualname__}", **fields}
    raise ArgumentError("settings", value, "numbers, strings, arrays and dataclasses of these: results are named by the value")


def digest(settings: dict) -> str:
    """20 hexadecimal digits that stand for canonical settings."""
    return hashlib.sha256(_json(settings).encode()).hexdigest()[:20]


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checksum(data: xr.Dataset, *texts: str) -> str:
    """SHA-256 of all variables: names, dimensions, types, units and contents; and of the texts."""
    total = hashlib.sha256()
    for text in texts:
        total.update(text.encode() + b"\0")
    for name in sorted(map(str, data.variables)):
        variable = data[name]
        values = np.asarray(variable.values)
        if values.dtype.kind in "OU":
            kind, contents = "str", "\0".join(map(str, values.ravel())).encode()
        else:
            kind, contents = values.dtype.name, np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
        head = [name, list(variable.dims), list(values.shape), kind, str(variable.attrs.get("units", ""))]
        total.update(_json(head).encode() + b"\0" + contents + b"\0")
    return total.hexdigest()


@dataclasses.dataclass(frozen=True)
class Block:
    """One finished block.

    Attributes:
        name: of the cell, for people.
        settings: all that decides the numbers, as `canonical` gives it.
        data: the arrays of the block, with a dimension `run` whose coordinate holds consecutive run indexes.
        work: what is no result: seconds, samples drawn, versions; not part of the checksum of the arrays.
        path: its file; None before it is written.
    """

    name: str
    settings: dict
    data: xr.Dataset
    work: dict
    path: Path | None = None

    @property
    def runs(self) -> np.ndarray:
        """Run indexes [run]."""
        return self.data["run"].values

    @property
    def checksum(self) -> str:
        """Of the arrays and of the settings; the name, a label, does not count."""
        return checksum(self.data, _json(self.settings))

    @property
    def key(self) -> tuple[str, int, int]:
        """Digest of the settings, first run, last run."""
        return digest(self.settings), int(self.runs[0]), int(self.runs[-1])

    @property
    def filename(self) -> str:
        """What its file is called."""
        of_settings, first, last = self.key
        return f"{slug(self.name)}.{of_settings}.{first:07d}-{last:07d}.nc"

    def encoded(self) -> bytes:
        """The file's contents. Equal arrays, settings and work give equal bytes."""
        work = _json(self.work)
        data = self.data.copy()
        data.attrs = {
            "jaxelim_block": FORMAT,
            "name": self.name,
            "settings": _json(self.settings),
            "checksum": self.checksum,
            "work": work,
            "label_checksum": _label_checksum(self.name, work),
        }
        # Made in memory: HDF5 on a full disk fails at odd moments, a plain write at one place.
        packed = {str(name): {"zlib": True, "complevel": 4} for name in data.data_vars}
        return bytes(data.to_netcdf(engine="h5netcdf", encoding=packed))

    @staticmethod
    def read(path: Path) -> "Block":
        """The block in a file, checked.

        Raises:
            DamagedFileError: it is not what was written.
            StoreError: it cannot be read, or is of a newer format.
        """
        try:
            contents = path.read_bytes()
        except OSError as error:
            raise StoreError(path, f"cannot be read: {error.strerror}") from error
        try:
            data, attributes = _parsed(contents)
            version = int(np.ravel(attributes["jaxelim_block"])[0])
        except Exception as error:  # HDF5 answers a damaged file with almost any exception
            raise DamagedFileError(path, f"it is no readable NetCDF block ({type(error).__name__})") from error
        if version > FORMAT:
            raise StoreError(path, f"its format is {version}; this version of jaxelim reads up to {FORMAT}")
        try:
            name, work = str(attributes["name"]), str(attributes["work"])
            block = Block(name, json.loads(attributes["settings"]), data, json.loads(work), path)
            if block.checksum != attributes["checksum"]:
                raise DamagedFileError(path, "its arrays do not have the checksum that was written with them")
            if _label_checksum(name, work) != attributes["label_checksum"]:
                raise DamagedFileError(path, "its attributes do not have the checksum that was written with them")
            named = _NAME.fullmatch(path.name)
            if named is None or path.name.split(".", 1)[1] != block.filename.split(".", 1)[1]:
                raise DamagedFileError(path, "its name does not go with its contents")
        except DamagedFileError:
            raise
        except Exception as error:
            raise DamagedFileError(path, f"its attributes cannot be read ({type(error).__name__})") from error
        return block


def _parsed(contents: bytes) -> tuple[xr.Dataset, dict]:
    """The arrays and the attributes of a NetCDF file that `encoded` has made.

    With h5py, ten times faster than by `xr.open_dataset`; whether it has read all of it well is the checksum's to say."""
    variables: dict[str, Any] = {}
    with h5py.File(io.BytesIO(contents), "r") as file:
        attributes = dict(file.attrs)
        for name, found in file.items():
            own = found.attrs
            scale = own.get("CLASS") == b"DIMENSION_SCALE"
            if scale and bytes(own.get("NAME", b"")).startswith(b"This is a netCDF dimension but not"):
                continue
            dims = (name,) if scale else tuple(axis[0].name.removeprefix("/") for axis in found.dims)
            values = found.asstr()[()].astype(str) if h5py.check_string_dtype(found.dtype) else found[()]
            if own.get("dtype") == "bool":
                values = values.astype(bool)
            variables[name] = (dims, values, {"units": own["units"]} if "units" in own else {})
    coordinates = {name: one for name, one in variables.items() if one[0] == (name,)}
    return xr.Dataset({k: v for k, v in variables.items() if k not in coordinates}, coordinates), attributes


def _label_checksum(name: str, work: str) -> str:
    return hashlib.sha256(f"{name}\0{work}".encode()).hexdigest()


def slug(name: str) -> str:
    """A cell's name as part of a file's: letters, digits, + and _, anything else one hyphen."""
    return re.sub(r"[^A-Za-z0-9+_]+", "-", name).strip("-") or "cell"


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file that is there whole or not at all, even if the machine is switched off: temporary name, flush, rename.

    Raises:
        StoreError: the disk is full, the folder cannot be written, or the like; nothing is left behind and an older file of
            that name stays as it was.
    """
    part = path.with_name(f".{path.name}.{_host()}-{os.getpid()}.part")
    try:
        try:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            try:
                rest = memoryview(contents)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                os.fsync(handle)
            finally:
                os.close(handle)
            os.replace(part, path)
            _flush_folder(path.parent)
        except OSError as error:
            raise StoreError(path, _cannot_write(error)) from error
    except BaseException:  # an interrupt too
        try:
            part.unlink(missing_ok=True)
        except OSError:
            pass
        raise


def _cannot_write(error: OSError) -> str:
    advice = {
        errno.ENOSPC: "the disk is full; what was finished before is kept. Free some space and give the same command again",
        errno.EDQUOT: "the quota is used up; what was finished before is kept. Free some space and give the same command again",
        errno.EFBIG: "the file would be larger than allowed here; what was finished before is kept",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "there is no permission to write there",
        errno.EPERM: "there is no permission to write there",
        errno.ENOTDIR: "a part of the path is a file, not a folder",
        errno.EEXIST: "a part of the path is a file, not a folder",
    }
    words = advice.get(error.errno or 0, error.strerror or type(error).__name__)
    return f"cannot be written: {words}"


def _flush_folder(folder: Path) -> None:
    """Make a rename last: it is an entry of the folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # file systems that have no such thing
            raise
    finally:
        os.close(handle)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname()) or "host"


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a block's file name says."""

    path: Path
    slug: str
    digest: str
    first: int
    last: int

    @staticmethod
    def of(path: Path) -> "Entry | None":
        """None for a file that is no block."""
        found = _NAME.fullmatch(path.name)
        return found and Entry(path, found["slug"], found["digest"], int(found["first"]), int(found["last"]))


@dataclasses.dataclass(frozen=True)
class Held:
    """What a store holds of one cell.

    Attributes:
        data: all runs, sorted, each once; None where there is none.
        blocks: the blocks they come from.
        damaged: one error for each damaged file.
    """

    data: xr.Dataset | None
    blocks: tuple[Block, ...]
    damaged: tuple[DamagedFileError, ...]

    @property
    def runs(self) -> np.ndarray:
        """Run indexes [run], sorted."""
        return np.zeros(0, np.int64) if self.data is None else self.data["run"].values

    def work(self, name: str) -> float:
        """The sum over blocks of one number of their work."""
        return float(sum(block.work.get(name, 0) for block in self.blocks))


class Store:
    """A folder of finished blocks; they lie in its subfolder `blocks`.

    Args:
        directory: the folder; made when the first block is written.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        if not isinstance(directory, str | os.PathLike):
            raise ArgumentError("directory", directory, "the path of a folder")
        self.directory = Path(directory)
        self.folder = self.directory / "blocks"

    def __repr__(self) -> str:
        return f"Store({str(self.directory)!r})"

    def exists(self) -> bool:
        """Whether there is such a store."""
        return self.folder.is_dir()

    def _files(self) -> list[Path]:
        try:
            return sorted(self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(self.folder, f"cannot be read: {error.strerror}") from error

    def entries(self) -> list[Entry]:
        """The blocks by their file names, sorted; nothing is opened."""
        return [entry for path in self._files() if (entry := Entry.of(path))]

    def leftovers(self) -> list[Path]:
        """Temporary files: of a job that writes at this moment, or of one that was killed."""
        return [path for path in self._files() if path.name.endswith(".part")]

    def set_aside(self) -> list[Path]:
        """Damaged files that a job has set aside and computed again."""
        return [path for path in self._files() if path.name.endswith(".damaged")]

    def sweep(self) -> list[Path]:
        """Remove the temporary files of processes of this machine that are no more; returns them."""
        gone = []
        for path in self.leftovers():
            found = _PART.fullmatch(path.name)
            if found and found["host"] == _host() and not _alive(int(found["process"])):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise StoreError(path, _cannot_write(error)) from error
                gone.append(path)
        return gone

    def prepare(self) -> None:
        """Make the folder, and see that it can be written to.

        Raises:
            StoreError: it cannot.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(self.folder, _cannot_write(error)) from error
        probe = self.folder / "probe"
        write_whole(probe, b"jaxelim\n")
        probe.unlink(missing_ok=True)

    def write(self, block: Block) -> Path:
        """Keep a block; returns its file.

        Raises:
            ArgumentError: its runs are not consecutive.
            StoreError: it cannot be written.
        """
        runs = block.runs
        if runs.size == 0 or not np.array_equal(runs, np.arange(runs[0], runs[0] + runs.size)):
            raise ArgumentError("block", runs, "consecutive run indexes, at least one")
        path = self.folder / block.filename
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(self.folder, _cannot_write(error)) from error
        write_whole(path, block.encoded())
        return path

    def held(self, settings: dict) -> Held:
        """All runs of one cell's canonical settings, every block checked.

        Raises:
            ConflictError: two blocks that disagree on a run.
        """
        wanted, blocks, damaged = digest(settings), [], []
        for entry in self.entries():
            if entry.digest == wanted:
                try:
                    blocks.append(Block.read(entry.path))
                except DamagedFileError as error:
                    damaged.append(error)
        return Held(_joined(blocks), tuple(blocks), tuple(damaged))

    def check_name(self, name: str, settings: dict) -> None:
        """Refuse a cell whose name stands for other settings here.

        Raises:
            ConflictError: with what differs.
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
                raise ConflictError(entry.path, f"{name!r} stands for other settings there: {told}. Choose another folder")

    def put_aside(self, damaged: Iterable[DamagedFileError]) -> None:
        """Rename damaged files to `*.damaged`, so that they are in nobody's way and can still be looked at."""
        for error in damaged:
            try:
                os.replace(error.path, error.path.with_name(error.path.name + ".damaged"))
            except FileNotFoundError:
                pass
            except OSError as cause:
                raise StoreError(error.path, _cannot_write(cause)) from cause

    def cells(self) -> list["Stored"]:
        """Everything there is, by cell, every block read and checked."""
        found: dict[tuple[str, str], list[Block]] = {}
        broken: dict[tuple[str, str], list[DamagedFileError]] = {}
        for entry in self.entries():
            key = entry.slug, entry.digest
            blocks, damaged = found.setdefault(key, []), broken.setdefault(key, [])
            try:
                blocks.append(Block.read(entry.path))
            except DamagedFileError as error:
                damaged.append(error)
        stored = []
        for key, blocks in found.items():
            name = blocks[0].name if blocks else key[0]
            stored.append(Stored(name, Held(_joined(blocks), tuple(blocks), tuple(broken[key]))))
        return stored


@dataclasses.dataclass(frozen=True)
class Stored:
    """A cell of a store."""

    name: str
    held: Held

    def rows(self) -> list[dict]:
        """One row per stopping rule and delta: runs, those cut off, mean and sd of tau, errors. A cell of which nothing can be
        read has one row without numbers."""
        data = self.held.data
        shared = {"cell": self.name, "runs": ranges(self.held.runs)}
        if data is None or not {"samples", "stopped", "correct"} <= set(data.data_vars) or "instance" in data.dims:
            return [{**shared, "stopping": "", "delta": "", "cut off": "", "mean tau": "", "sd": "", "wrong": ""}]
        rows = []
        for s, stopping in enumerate(data["stopping"].values):
            for k, delta in enumerate(data["delta"].values):
                one = data.isel(stopping=s, delta=k)
                stopped = one["stopped"].values
                tau = one["samples"].values[stopped].astype(float)
                rows.append({
                    **shared,
                    "stopping": str(stopping),
                    "delta": float(delta),
                    "cut off": int((~stopped).sum()),
                    "mean tau": float(tau.mean()) if tau.size else float("nan"),
                    "sd": float(tau.std(ddof=1)) if tau.size > 1 else float("nan"),
                    "wrong": f"{int((~one['correct'].values[stopped]).sum())}/{tau.size}",
                })
        return rows


def ranges(runs: Sequence[int] | np.ndarray) -> str:
    """Sorted run indexes in words: '0-99, 200-299'."""
    runs = np.asarray(runs)
    if runs.size == 0:
        return "none"
    ends = np.flatnonzero(np.diff(runs) != 1)
    firsts, lasts = runs[np.concatenate([[0], ends + 1])], runs[np.concatenate([ends, [runs.size - 1]])]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))


def differences(there: dict, here: dict) -> str:
    """Where two canonical settings differ, in words."""
    flat_there, flat_here = _flat(there), _flat(here)
    differing = [key for key in sorted({*flat_there, *flat_here}) if flat_there.get(key) != flat_here.get(key)]
    shown = [f"{key} is {flat_there.get(key, 'absent')} there and {flat_here.get(key, 'absent')} here" for key in differing[:6]]
    more = f", and {len(differing) - 6} more" if len(differing) > 6 else ""
    return "; ".join(shown) + more


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        return {k: v for key, one in value.items() for k, v in _flat(one, f"{prefix}.{key}" if prefix else key).items()}
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return {k: v for i, one in enumerate(value) for k, v in _flat(one, f"{prefix}[{i}]").items()}
    return {prefix: value}


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # there is one, of another user
    return True


def _joined(blocks: Sequence[Block]) -> xr.Dataset | None:
    """All runs of blocks of the same settings, sorted, each once.

    Raises:
        ConflictError: two blocks disagree on a run that both have.
    """
    if not blocks:
        return None
    order = sorted(blocks, key=lambda block: (int(block.runs[0]), -block.runs.size))
    parts: list[xr.Dataset] = []
    kept, end = [], -1
    for block in order:
        runs = block.runs
        for other in kept:
            both = np.intersect1d(runs, other.runs)
            if both.size and not block.data.sel(run=both).identical(other.data.sel(run=both)):
                raise ConflictError(
                    block.path, f"it has other numbers than {other.path} for the same settings and runs {ranges(both)}"
                )
        kept.append(block)
        fresh = runs > end
        if fresh.any():
            parts.append(block.data.isel(run=np.flatnonzero(fresh)))
            end = int(runs[-1])
    if len(parts) == 1:
        return parts[0]
    return xr.concat(parts, "run", data_vars="minimal", coords="minimal", compat="equals", join="exact")


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
        _joined(same)
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


__all__ = [
    "Block",
    "Entry",
    "Held",
    "Merged",
    "Store",
    "Stored",
    "canonical",
    "checksum",
    "differences",
    "digest",
    "merge",
    "ranges",
    "slug",
    "write_whole",
]
