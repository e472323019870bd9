"""The file of a live run: a SQLite database of its arguments, its events and its last state.

A transaction is whole or absent, and on the disk before the call that made it returns. An open
run holds the write lock of its file, which the system frees when the process ends.

Arguments are text, as in the files of results.
"""

import contextlib
import io
import json
import sqlite3
import weakref
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxelim
from jaxelim.errors import DamagedFileError, StoreError

FORMAT = 6
"""Version of the file's layout."""
STATE = 5
"""Version of a state; raise it when the engine's lanes or a rule's state change."""
_WAIT = 5000
"""Milliseconds that a transaction waits for others to read."""
_TABLES = (
    "CREATE TABLE head (format INTEGER, settings TEXT)",
    "CREATE TABLE event (n INTEGER PRIMARY KEY, body TEXT, checksum INTEGER)",
    "CREATE TABLE state (after INTEGER, versions TEXT, arrays BLOB)",
)


class Contents(NamedTuple):
    """What a file holds."""

    settings: dict[str, str]  # the text of each argument
    events: list[dict]
    after: int = 0  # the number of events before the kept state
    state: Sequence[np.ndarray] = ()  # of this version; empty where there is none


def read(path: Path) -> Contents:
    """Read a file, and check every event.

    Raises:
        DamagedFileError: it is no file of a live run, or an event is not as it was written.
        StoreError: it cannot be read, or has another format.
    """
    if not path.is_file():
        raise StoreError(path, "cannot be read: No such file or directory")
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_WAIT / 1000)) as base:
            base.execute("BEGIN")
            version, settings = base.execute("SELECT * FROM head").fetchone()
            if version not in (4, 5):  # whose settings lack `most_arms` and `stack` alone
                StoreError.refuse_other(path, version, FORMAT)
            rows = base.execute("SELECT * FROM event ORDER BY n").fetchall()
            kept = base.execute("SELECT * FROM state").fetchone()
    except (sqlite3.Error, TypeError) as error:
        if "locked" in str(error) or "unable to open" in str(error):
            raise StoreError(path, f"cannot be read: {error}") from error
        raise DamagedFileError(path, f"it is no file of a live run ({error})") from error
    for n, (number, body, checksum) in enumerate(rows):
        if number != n or zlib.crc32(body.encode()) != checksum:
            raise DamagedFileError(path, f"event {n} is not as it was written")
    found = Contents(json.loads(settings), [json.loads(body) for _, body, _ in rows])
    if kept is None or kept[1] != _versions():
        return found
    with np.load(io.BytesIO(kept[2])) as file:
        return found._replace(after=kept[0], state=[file[name] for name in file.files])


class Log:
    """An open file of a live run, locked against other processes.

    With `settings` and `events` it is a new file.

    Raises:
        DamagedFileError: it is no database.
        StoreError: another run object has it open, here or elsewhere; or it cannot be written.
    """

    def __init__(self, path: Path, settings: dict | None = None, events: Sequence[dict] = ()):
        self.path = path
        self._base = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        self.close = weakref.finalize(self, self._base.close)
        try:
            self._lock()
            if settings is not None:
                head = ("INSERT INTO head VALUES (?, ?)", (FORMAT, json.dumps(settings)))
                new = [_row(n, event) for n, event in enumerate(events)]
                self._commit([*((one, ()) for one in _TABLES), head, *new])
        except BaseException:
            self.close()
            if settings is not None:
                path.unlink(missing_ok=True)
            raise

    def _lock(self) -> None:
        """Begin a transaction, which locks the file against other writers."""
        try:
            self._base.execute("PRAGMA synchronous = EXTRA")
            self._base.execute("BEGIN IMMEDIATE")
            self._base.execute(f"PRAGMA busy_timeout = {_WAIT}")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise StoreError(self.path, f"cannot be written: {error}") from error
            held = "another process, or another LiveRun of this one, has it open"
            raise StoreError(self.path, f"{held}; close that one first") from error
        except sqlite3.DatabaseError as error:
            raise DamagedFileError(self.path, f"it is no file of a live run ({error})") from error

    def append(self, n: int, event: dict) -> None:
        """Write event n; if it cannot be written, the file stays as it was."""
        self._commit([_row(n, event)])

    def keep(self, after: int, state: Sequence[np.ndarray]) -> None:
        """Write the state after so many events in place of an older one."""
        blob = io.BytesIO()
        np.savez(blob, *state)
        row = after, _versions(), blob.getvalue()
        self._commit([("DELETE FROM state", ()), ("INSERT INTO state VALUES (?, ?, ?)", row)])

    def _commit(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        try:
            for text, values in statements:
                self._base.execute(text, values)
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise StoreError(self.path, f"cannot be written: {error}") from error
        finally:
            self._lock()


def _row(n: int, event: dict) -> tuple[str, tuple]:
    body = json.dumps(event, separators=(",", ":"))
    return "INSERT INTO event VALUES (?, ?, ?)", (n, body, zlib.crc32(body.encode()))


def _versions() -> str:
    """What must be equal for a state to be read."""
    return f"jaxelim {jaxelim.__version__}, state {STATE}, JAX {jax.__version__}"
