"""JAX's persistent cache of compiled programs: its folder, and entries that are damaged."""

import warnings
from pathlib import Path
from typing import Any

import jax
import platformdirs

UNREADABLE = "Error reading persistent compilation cache entry for"


def own_folder() -> Path:
    """The folder of the command line, where the environment names no other."""
    return platformdirs.user_cache_path("jaxelim", appauthor=False)


def delete_unreadable() -> None:
    """From now on delete entries that JAX cannot read, in place of its warning.

    JAX compiles again and never rewrites such an entry: a process that was killed while it
    wrote leaves one for good. For processes of our own: warnings are the whole process's.
    """
    show = warnings.showwarning

    def note(message: Any, *more: Any, **named_more: Any) -> None:
        if not str(message).startswith(UNREADABLE):
            return show(message, *more, **named_more)
        flags: Any = jax.config
        name = str(message).removeprefix(UNREADABLE).split("'")[1]
        return _delete(Path(flags.jax_compilation_cache_dir), name)

    if show.__name__ != note.__name__:  # else it is this function
        warnings.filterwarnings("always", message=UNREADABLE)
        warnings.showwarning = note


def _delete(cache: Path, name: str) -> None:
    """Delete the entries of programs of this name that cannot be unpacked."""
    for path in cache.glob(f"{name}*-cache"):
        try:
            # Where JAX has no such function all of that name go, and are compiled again.
            from jax._src.compilation_cache import decompress_executable

            decompress_executable(path.read_bytes())
        except FileNotFoundError:
            continue
        except Exception:
            path.unlink(missing_ok=True)
