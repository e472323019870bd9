"""The file of a live run: its settings, every event, and sometimes its state.

One line of text for each entry: JSON, a tab, and a checksum. Lines are appended and
flushed to the disk one by one, so a killed process loses nothing that a call returned.
`Book.rewrite` replaces the file by rename, with a new state. A state of another version
is passed over: the events give it again.
"""

import base64
import hashlib
import json
import os
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxelim.errors import DamagedFileError, StoreError
from jaxelim.files import cannot_write, write_whole

try:
    import fcntl
except ImportError:  # a system without it; then no file is locked
    fcntl = None  # type: ignore[assignment]

FORMAT = 2
"""Version of the file's layout."""


class Contents(NamedTuple):
    """What a file holds."""

    settings: dict
    events: list[dict]
    state: dict | None  # the last state
    at: int  # number of events before it
    length: int  # bytes of the lines that are whole
    torn: str  # what was dropped at the end, in words; empty for nothing


def line(entry: dict) -> bytes:
    """One entry as a line."""
    text = json.dumps(entry, separators=(",", ":"))
    return f"{text}\t{_checksum(text)}\n".encode()


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _entry(raw: bytes) -> dict | None:
    """The entry of a line without its end; None if it is damaged."""
    try:
        text, _, mark = raw.decode().rpartition("\t")
        return json.loads(text) if mark == _checksum(text) else None
    except ValueError:
        return None


def read(path: Path) -> Contents:
    """Read a file and check every line.

    Raises:
        DamagedFileError: a line other than the last is damaged, or the file begins
            otherwise.
        StoreError: the file cannot be read, or has a newer format.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise StoreError(path, f"cannot be read: {error.strerror}") from error
    lines = raw.split(b"\n")
    rest, torn, length = lines.pop(), "", len(raw)
    if rest:
        torn, length = "a line without an end", length - len(rest)
    entries = [_entry(raw) for raw in lines]
    if entries and entries[-1] is None and not rest:
        torn, length = "a line whose checksum is wrong", length - len(lines[-1]) - 1
        entries.pop()
    for n, entry in enumerate(entries, 1):
        if entry is None:
            raise DamagedFileError(path, f"line {n} does not have the checksum written with it")
    if not entries or "jaxelim_live" not in (entries[0] or {}):
        raise DamagedFileError(path, "it does not begin as the file of a live run")
    head, *others = [entry for entry in entries if entry is not None]
    StoreError.refuse_other(path, head["jaxelim_live"], FORMAT)
    events, state, at = [], None, 0
    for n, entry in enumerate(others, 2):
        if "state" in entry:
            state, at = entry["state"], len(events)
            continue
        if entry.get("n") != len(events):
            raise DamagedFileError(path, f"line {n} is event {entry.get('n')}, not {len(events)}")
        events.append(entry)
    return Contents(head["settings"], events, state, at, length, torn)


class Book:
    """An open file of a live run, locked against other processes."""

    def __init__(self, path: Path):
        self.path = path
        self._lock = _locked(path)
        self._closed = weakref.finalize(self, os.close, self._lock)

    def rewrite(self, settings: dict, events: list[bytes], state: dict | None) -> None:
        """Replace the file by rename: settings, lines of events, and the state after them.

        Raises:
            StoreError: it cannot be written; the older file stays.
        """
        head = {"jaxelim_live": FORMAT, "settings": settings}
        last = [] if state is None else [line({"state": state})]
        write_whole(self.path, b"".join([line(head), *events, *last]))

    def append(self, event: dict) -> None:
        """Append an event and flush it to the disk.

        Raises:
            StoreError: it cannot be written; the file stays as it was.
        """
        contents = line(event)
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            try:
                before = os.fstat(handle).st_size
                try:
                    if os.write(handle, contents) < len(contents):
                        raise OSError(28, "the disk is full")
                    os.fsync(handle)
                except BaseException:
                    os.ftruncate(handle, before)
                    raise
            finally:
                os.close(handle)
        except OSError as error:
            raise StoreError(self.path, cannot_write(error)) from error

    def cut(self, length: int) -> None:
        """Drop what follows the first `length` bytes.

        Raises:
            StoreError: the file cannot be written.
        """
        try:
            os.truncate(self.path, length)
        except OSError as error:
            raise StoreError(self.path, cannot_write(error)) from error

    def close(self) -> None:
        """Release the file."""
        self._closed()


def _locked(path: Path) -> int:
    """A handle that holds the lock of a file; the system frees it when the process ends.

    The lock is a file of its own, since a rename gives the file another identity.

    Raises:
        StoreError: another run object holds it, here or in another process.
        StoreError: the lock cannot be written.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreError(path, cannot_write(error)) from error
    if fcntl is None:
        return handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        held = "another process, or another LiveRun of this one, has it open"
        raise StoreError(path, f"{held}; close that one first") from error
    return handle


def leaf(x: Any) -> dict:
    """An array as JSON."""
    little = x.astype(x.dtype.newbyteorder("<"))
    data = base64.b64encode(little.tobytes()).decode()
    return {"shape": list(x.shape), "dtype": x.dtype.name, "data": data}


def array(written: dict) -> np.ndarray:
    """The array of `leaf`."""
    kind = np.dtype(written["dtype"]).newbyteorder("<")
    values = np.frombuffer(base64.b64decode(written["data"]), kind).reshape(written["shape"])
    return values.astype(written["dtype"])
