"""Files that are there whole or not at all, and what is left of those that a killed process was writing."""

import errno
import os
import re
import socket
from pathlib import Path

from jaxelim.errors import StoreError

_PART = re.compile(r"\..+\.(?P<host>[^.]+)-(?P<process>\d+)\.part")


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file that is there whole or not at all, even if the machine is switched off: temporary name, flush, rename.

    Raises:
        StoreError: the disk is full, the folder cannot be written, or the like; nothing is left behind and an older file of
            that name stays as it was.
    """
    part = path.with_name(f".{path.name}.{host()}-{os.getpid()}.part")
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
