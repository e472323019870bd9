"""Files that are there whole or not at all, and what is left of those that a killed process was writing."""

import errno
import os
import re
import socket
from pathlib import Path
from typing import Any

from jaxelim.errors import ArgumentError, StoreError

_PART = re.compile(r"\..+\.(?P<host>[^.]+)-(?P<process>\d+)\.part")


def writable_file(name: str, path: Any) -> Path:
    """The path of a file that can be written: tried with a temporary one beside it.

    An older file of that name stays as it is.

    Args:
        name: the argument's name, for the message.
        path: where the file will go.

    Raises:
        ArgumentError: a folder, a device, or a file in a folder that takes none or is not there.
    """
    path = Path(path)
    allowed = "a file in a folder that exists and can be written to"
    note = ""
    try:
        if path.is_dir():
            note = "it is a folder"
        elif path.exists() and not path.is_file():
            note = "it is no regular file"
        elif not path.parent.is_dir():
            note = f"there is no folder {str(path.parent)!r}"
        else:
            part = _part_of(path)
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666))
            part.unlink()
    except OSError as error:
        note = f"it {cannot_write(error)}"
    except ValueError as error:  # NUL in a name
        note = str(error)
    if note:
        raise ArgumentError(name, str(path), allowed, note)
    return path


def _part_of(path: Path) -> Path:
    """The temporary file beside a file that this process writes."""
    return path.with_name(f".{path.name}.{host()}-{os.getpid()}.part")


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file that is there whole or not at all, even if the machine is switched off: temporary name, flush, rename.

    Raises:
        StoreError: the disk is full, the folder cannot be written, or the like; nothing is left behind and an older file of
            that name stays as it was.
    """
    part = _part_of(path)
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
            flush_folder(path.parent)
        except OSError as error:
            raise StoreError(path, cannot_write(error)) from error
    except BaseException:  # an interrupt too
        try:
            part.unlink(missing_ok=True)
        except OSError:
            pass
        raise


def cannot_write(error: OSError) -> str:
    """What hinders a write, in words, and what to do about it."""
    kept = "files that were there before are kept"
    again = "Free some space and give the same command again"
    advice = {
        errno.ENOSPC: f"the disk is full; {kept}. {again}",
        errno.EDQUOT: f"the quota is used up; {kept}. {again}",
        errno.EFBIG: f"the file would be larger than allowed here; {kept}",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "there is no permission to write there",
        errno.EPERM: "there is no permission to write there",
        errno.ENOTDIR: "a part of the path is a file, not a folder",
        errno.EEXIST: "a part of the path is a file, not a folder",
    }
    words = advice.get(error.errno or 0, error.strerror or type(error).__name__)
    return f"cannot be written: {words}"


def flush_folder(folder: Path) -> None:
    """Make a rename last: it is an entry of the folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # file systems that have no such thing
            raise
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are not there.

    Raises:
        StoreError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(folder, cannot_write(error)) from error


def host() -> str:
    """This machine, as part of a temporary file's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname()) or "host"


def abandoned(path: Path) -> bool:
    """Whether this is the temporary file of a process of this machine that is no more."""
    found = _PART.fullmatch(path.name)
    return found is not None and found["host"] == host() and not _alive(int(found["process"]))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # there is one, of another user
    return True


def listed(folder: Path) -> list[Path]:
    """What is in a folder, sorted; nothing where there is none."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(folder, f"cannot be read: {error.strerror}") from error
