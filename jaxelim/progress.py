"""Progress of long work, shown at a terminal, in a notebook, or line by line in a file."""

import contextvars
import io
import multiprocessing
import os
import sys
import threading
import time
import warnings
from typing import Any

from tqdm import tqdm

from jaxelim.errors import ArgumentError

MINUTE = 60.0  # seconds between two lines where there is no terminal, and before the first
_QUIET = ("PYTEST_CURRENT_TEST", "CI", "READTHEDOCS")  # of tests and builds of documentation
INSIDE = contextvars.ContextVar("inside", default=False)  # of what shows a line for its parts


def refuse_other(progress: Any) -> None:
    """Refuse what is not None, a bool or a callable."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        allowed = "None, True, False or a callable of (runs done, runs, samples, seconds)"
        raise ArgumentError("progress", progress, allowed)


def _may_show() -> bool:
    """Whether progress may show by itself here, if only a line a minute.

    Not in threads and worker processes, tests, builds of documentation, and `INSIDE`.
    """
    here = threading.current_thread() is threading.main_thread()
    apart = not here or multiprocessing.parent_process() is not None or INSIDE.get()
    quiet = any(map(os.environ.get, _QUIET)) or "sphinx" in sys.modules
    return not apart and not quiet and (sys.stderr is not None or _in_notebook())


def _terminal() -> bool:
    return bool(sys.stderr and sys.stderr.isatty())


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)


class _Lines(io.TextIOBase):
    """Standard error that is no terminal: each state of a bar is a line."""

    encoding: Any = "utf-8"

    def write(self, text: str) -> int:
        """Print what is not blank."""
        if text.strip() and sys.stderr is not None:
            print(text.strip(), file=sys.stderr, flush=True)
        return len(text)


def _bar(show: Any, **settings: Any) -> Any:
    """A tqdm bar, or None where `show` and the surroundings ask for none."""
    if show is not True and not (show is None and _may_show()):
        return None
    if _in_notebook():
        with warnings.catch_warnings():  # without ipywidgets the bar is text
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm as in_notebook
        return in_notebook(**settings)
    if _terminal():
        return tqdm(file=sys.stderr, dynamic_ncols=True, **settings)
    pause = 1.0 if show else MINUTE
    lines: Any = dict(file=_Lines(), delay=0 if show else MINUTE, miniters=0, ncols=100)
    return tqdm(**settings | lines | {"mininterval": pause, "maxinterval": pause})


class Progress:
    """Shows finished runs, samples a second and time left. A context, which closes the bar.

    Args:
        show: False for nothing, True for a bar on standard error, None for a bar at a
            terminal and in a notebook. Where standard error is no terminal, lines take the place
            of a bar: at most one a second for True, one a minute for None. Or a callable of
            (runs done, runs, samples, seconds), called at every update.
        total: number of runs, or of parts.
        unit: of these.
    """

    def __init__(self, show: Any, total: int, unit: str = "run"):
        self._began, self._total, self._unit = time.perf_counter(), total, unit
        self._over = 0, 0  # runs and samples, beside those of `update`
        self._call = show if callable(show) else None
        self._bar = _bar(show, total=total, unit=unit, smoothing=0)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def compiling(self) -> None:
        """Say that a program compiles, until the next update."""
        self._show("compiling ")

    def running(self) -> None:
        """Begin to measure time: the first program is compiled."""
        if self._over[0]:
            return
        self._began = time.perf_counter()
        if self._bar is not None:
            self._bar.start_t = self._bar.last_print_t = time.time()

    def over(self, runs: int, samples: int) -> None:
        """Count runs and samples of a part that is over, beside those of `update`."""
        self._over = self._over[0] + runs, self._over[1] + samples

    def update(self, finished: int = 0, samples: int = 0, name: str = "") -> None:
        """Show `finished` runs and `samples` samples so far, of the present part, and its name."""
        finished, samples = self._over[0] + finished, self._over[1] + samples
        seconds = max(time.perf_counter() - self._began, 1e-9)
        if self._call is not None:
            self._call(finished, self._total, samples, seconds)
        rate = f"{samples / seconds / 1e6:.2f} M samples/s" if self._unit == "run" else ""
        self._show(f"{name}: " if name else "", finished, rate)

    def _show(self, description: str, done: int | None = None, postfix: str = "") -> None:
        if self._bar is None:
            return
        self._bar.set_description_str(description, refresh=False)
        if done is not None:
            self._bar.set_postfix_str(postfix, refresh=False)
            self._bar.update(done - self._bar.n)
        if self._bar.mininterval < 1:  # no lines of a file
            self._bar.refresh()
