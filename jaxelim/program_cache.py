"""JAX's persistent cache of compiled programs: its folder, and entries that are damaged."""

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import platformdirs


def own_folder() -> Path:
    """The folder of the command line, where the environment names no other."""
    return platformdirs.user_cache_path("jaxelim", appauthor=False)


class Shared:
    """A context of the whole process, held while any thread is inside.

    The first thread to enter it enters it, the last to leave it leaves it.
    """

    def __init__(self, make: Callable[[], contextlib.AbstractContextManager]):
        self._make, self._lock, self._inside = make, threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._held = self._make()
                self._held.__enter__()
            self._inside += 1

    def __exit__(self, *_: Any) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._held.__exit__(None, None, None)


UNREADABLE = "Error reading persistent compilation cache entry for"


@contextlib.contextmanager
def _mended() -> Iterator[None]:
    named: list[str] = []
    show = warnings.showwarning

    def note(message: Any, *more: Any, **named_more: Any) -> None:
        if str(message).startswith(UNREADABLE):
            named.append(str(message).removeprefix(UNREADABLE).split("'")[1])
        else:
            show(message, *more, **named_more)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=UNREADABLE)
        warnings.showwarning = note
        try:
            yield
        finally:
            flags: Any = jax.config
            for name in set(named):
                delete_unreadable(Path(flags.jax_compilation_cache_dir), name)


mended = Shared(_mended)
"""Deletes entries of the compilation cache that JAX could not read, as the last thread leaves.

JAX compiles again and never rewrites such an entry: a process that was killed while it wrote
leaves one for good. Threads share it, as warnings are the process's.
"""


def delete_unreadable(cache: Path, name: str) -> list[Path]:
    """Delete and return the entries of programs of this name that cannot be unpacked."""
    try:
        from jax._src.compilation_cache import decompress_executable as unpacked
    except ImportError:
        unpacked = None  # unknown: all of that name go, and are compiled again
    gone = []
    for path in cache.glob(f"{name}*-cache"):
        try:
            if unpacked is None:
                raise ValueError
            unpacked(path.read_bytes())
        except FileNotFoundError:
            continue
        except Exception:
            path.unlink(missing_ok=True)
            gone.append(path)
    return gone
