"""Atomic writes of files."""

import contextlib
import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any

from jaxelim.errors import ArgumentError, StoreError


def path_of(path: Any, name: str = "path") -> Path:
    """A path that a caller passes."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(name, path, "the path of a file")
    return Path(path)


def writable_file(name: str, path: Any) -> Path:
    """Check that a file can be written, by a temporary file in its folder; return its path."""
    path, note = path_of(path, name), ""
    try:
        if path.is_dir():
            note = "it is a folder"
        elif path.exists() and not path.is_file():
            note = "it is no regular file"
        elif not path.parent.is_dir():
            note = f"there is no folder {str(path.parent)!r}"
        else:
            part = _part_of(path)
            part.touch()
            part.unlink()
    except OSError as error:
        note = f"it {cannot_write(error)}"
    except ValueError as error:  # NUL in a name
        note = str(error)
    if note:
        allowed = "a file in a folder that exists and can be written to"
        raise ArgumentError(name, str(path), allowed, note)
    return path


def _part_of(path: Path) -> Path:
    """The temporary file of a file that this thread writes, in the same folder."""
    writer = f"{socket.gethostname()}-{os.getpid()}-{threading.get_native_id()}"
    return path.with_name(f".{path.name}.{writer}.part")


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file under a temporary name, flush it to the disk, and rename it.

    So it is complete, or as it was before, even if the machine is switched off.
    """
    part = _part_of(path)
    try:
        with open(part, "wb", buffering=0) as file:
            rest = memoryview(contents)
            while rest:
                rest = rest[os.write(file.fileno(), rest) :]
            os.fsync(file.fileno())
        os.replace(part, path)
        _flush(path.parent)
    except BaseException as error:  # an interrupt too
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StoreError(path, cannot_write(error)) from error
        raise


def cannot_write(error: OSError) -> str:
    """The cause of a failed write, in words, with advice."""
    kept = "files that were there before are kept"
    again = "Free some space and give the same command again"
    permission, part = "there is no permission to write there", "a part of the path is a file"
    advice = {
        errno.ENOSPC: f"the disk is full; {kept}. {again}",
        errno.EDQUOT: f"the quota is used up; {kept}. {again}",
        errno.EFBIG: f"the file would be larger than allowed here; {kept}",
        errno.EROFS: "the file system is read-only",
        **dict.fromkeys((errno.EACCES, errno.EPERM), permission),
        **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), f"{part}, not a folder"),
    }
    words = advice.get(error.errno or 0, error.strerror or type(error).__name__)
    return f"cannot be written: {words}"


def _flush(folder: Path) -> None:
    """Flush a folder to the disk, so that a rename in it is permanent."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot flush folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, if they do not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(folder, cannot_write(error)) from error


def listed(folder: Path) -> list[Path]:
    """The entries of a folder, sorted; empty if it does not exist."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(folder, f"cannot be read: {error.strerror}") from error
