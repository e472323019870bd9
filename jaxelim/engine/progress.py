"""Progress of long work, shown at a terminal, in a notebook, or line by line in a file."""

import contextvars
import importlib
import math
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tqdm import tqdm

from jaxelim.errors import ArgumentError

AFTER = 5.0
"""Seconds of running after which the cost of the call is predicted."""
FIRST = 2.0
"""Seconds of running before the first estimate of the time left."""
_ENOUGH = 0.02
"""The share of the runs that must be over for an estimate without a forecast."""
TICK = 1.0
"""Seconds between two looks at the clock of a bar that has nothing new to say."""
MINUTE = 60.0
"""Seconds between two lines where there is no terminal, and before the first."""
_QUIET = ("PYTEST_CURRENT_TEST", "CI", "READTHEDOCS")
"""Variables of the environment in tests and in builds of documentation."""
_AROUND: contextvars.ContextVar["Progress | None"] = contextvars.ContextVar("around", default=None)
"""The line of `by_parts`, which has the words of the calls inside."""


def check(progress: Any) -> None:
    """Raises:
    ArgumentError: `progress` is not None, a bool or a callable.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        allowed = "None, True, False or a callable of (runs done, runs, samples, seconds)"
        raise ArgumentError("progress", progress, allowed)


def automatic() -> bool:
    """Whether progress is shown by itself: at a terminal and in a notebook.

    Not in threads and worker processes, tests, builds of documentation, and `by_parts`.
    """
    return _may_show() and (_in_notebook() or _terminal())


def _may_show() -> bool:
    """Whether progress may show by itself here, if only a line a minute."""
    worker = multiprocessing.parent_process() is not None
    if worker or threading.current_thread() is not threading.main_thread():
        return False
    if any(os.environ.get(name) for name in _QUIET) or "sphinx" in sys.modules:
        return False
    return _AROUND.get() is None and (sys.stderr is not None or _in_notebook())


def _terminal() -> bool:
    return bool(sys.stderr and sys.stderr.isatty())


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)


class _Output:
    """A file whose last line is an output of a notebook's cell, replaced at each write.

    So an executed notebook keeps one line, where standard error would leave one a tick.
    """

    encoding = "utf-8"
    _shown: Any = None

    def write(self, text: str) -> None:
        """Show a line; what is blank changes nothing."""
        if line := text.strip():
            if self._shown is None:
                display = importlib.import_module("IPython.display").display
                self._shown = display({"text/plain": line}, raw=True, display_id=True)
            else:
                self._shown.update({"text/plain": line}, raw=True)

    def flush(self) -> None:
        """Nothing waits."""


class _Lines:
    """Standard error that is no terminal: so many seconds, at least, from line to line.

    Args:
        every: these seconds.
        at_once: whether the first line does not wait for them.
    """

    encoding = "utf-8"

    def __init__(self, every: float, at_once: bool):
        self._every, self._waits, self.began = every, "", at_once
        self._last = -math.inf if at_once else time.perf_counter()

    def write(self, text: str) -> None:
        """Show a line, or keep it until its time."""
        self._waits = text.strip() or self._waits
        if self._waits and time.perf_counter() - self._last >= self._every:
            self.end()

    def end(self) -> None:
        """Show the line that waits."""
        if self._waits and sys.stderr is not None:
            print(self._waits, file=sys.stderr, flush=True)
        self._waits, self._last, self.began = "", time.perf_counter(), True

    def flush(self) -> None:
        """Lines are flushed as they are shown."""


def stream() -> Any:
    """Where a bar is written: standard error, or an output of a notebook's cell."""
    return _Output() if _in_notebook() else sys.stderr


def in_words(seconds: float) -> str:
    """A duration in words, of two digits."""
    for name, size, least in (("days", 86400, 2), ("h", 3600, 2), ("min", 60, 2)):
        if seconds >= least * size:
            return f"about {_rounded(seconds / size)} {name}"
    return f"about {_rounded(max(seconds, 1))} s"


def _rounded(value: float) -> str:
    """Two digits."""
    digits = math.floor(math.log10(value)) - 1
    return f"{round(value / 10**digits) * 10**digits:,.0f}" if digits >= 0 else f"{value:.1f}"


def time_left(
    finished: int, total: int, samples: int, seconds: float, predicted: float | None
) -> float | None:
    """Estimate the seconds that are left.

    By runs it is seconds (total - finished)/finished, which is too short at first, as
    short runs finish first. By samples it is (predicted - samples)/rate. The mean of both
    has the weights finished/total and 1 - finished/total.

    Args:
        finished: runs that are over.
        total: number of runs.
        samples: drawn so far.
        seconds: so far.
        predicted: samples of the whole call; None if unknown.

    Returns:
        Seconds; None where nothing is known.
    """
    by_runs = seconds * (total - finished) / finished if finished else None
    by_samples = None
    if predicted is not None and 0 < samples < predicted:
        by_samples = seconds * (predicted - samples) / samples
    if by_runs is None or by_samples is None:
        return by_samples if by_runs is None else by_runs
    share = finished / total
    return share * by_runs + (1 - share) * by_samples


class Progress:
    """Shows finished runs, samples per second and time left. A context, which closes the bar.

    Args:
        show: False for nothing, True for a bar on standard error, None for a bar where
            `automatic` says so. Where standard error is no terminal, lines take the place
            of a bar: at most one a second for True, one a minute for None. Or a callable of
            (runs done, runs, samples, seconds), called at every update.
        total: number of runs.
        most: the most samples of all runs together.
        forecast: predicts the cost, an object with `total` and `lines(rate)`, or None. It
            is called in a thread after `AFTER` seconds where a bar is shown.
    """

    def __init__(
        self,
        show: Any,
        total: int,
        most: float = math.inf,
        forecast: Callable[[], Any] = lambda: None,
    ):
        self._began, self._total, self._most = time.perf_counter(), total, most
        self._call = show if callable(show) else None
        self._forecast, self._thread, self._forecasts = forecast, None, []
        self._predicted: float | None = None
        self._bar: Any = None
        self._around = _AROUND.get() if show is None else None
        self._compiling, self._compiled = math.inf, 0.0  # since when, and seconds so far
        self._clock: _Clock | None = None
        self._lines: _Lines | None = None
        self._part = ""
        wanted = automatic() if show is None else show is True
        if wanted and not (_in_notebook() or _terminal()):
            self._lines = _Lines(TICK, at_once=True)
        if show is None and not wanted and _may_show():  # without a bar and its clock
            self._lines = _Lines(MINUTE, at_once=False)
        if wanted:
            form = "{desc}{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
            self._bar = tqdm(
                total=total, unit="run", file=self._lines or stream(), dynamic_ncols=True,
                bar_format=form,
            )  # fmt: skip
            self._clock = _Clock(self)
            self._clock.start()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def compiling(self) -> None:
        """Say that a program compiles, and for how long, until the next update."""
        self._compiling = time.perf_counter()
        self._say("compiling ")

    def running(self) -> None:
        """Begin to measure time: the first program is compiled."""
        self._compiles_no_more()
        self._began = time.perf_counter()
        self._say("")

    def update(self, finished: int, samples: int) -> None:
        """Show `finished` runs and `samples` samples so far."""
        self._compiles_no_more()
        seconds = max(time.perf_counter() - self._began, 1e-9)
        if self._call is not None:
            self._call(finished, self._total, samples, seconds)
        if self._around is not None:
            self._around.add(f"{finished}/{self._total} runs")
        if self._bar is not None:
            if seconds >= AFTER:
                self._predict(samples / seconds)
            text = f"{samples / seconds / 1e6:.2f} M samples/s"
            if self._compiled >= TICK:
                text = f"{self._compiled:.0f} s of it compiling, {text}"
            self._bar.set_description_str("", refresh=False)
            self._bar.set_postfix_str(text + self._left(finished, samples, seconds), refresh=False)
            self._bar.update(finished - self._bar.n)
            self._bar.refresh()
        elif self._lines is not None:
            pace = f"{seconds:.0f} s, {samples / seconds / 1e6:.2f} M samples/s"
            left = self._left(finished, samples, seconds)
            self._lines.write(f"{finished}/{self._total} runs, {pace}{left}")

    def begin(self, part: int, name: str) -> None:
        """Show that `part` parts of the work are over, and the name of the next."""
        if self._call is not None:
            self._call(part, self._total, 0, time.perf_counter() - self._began)
        if self._bar is not None:
            self._bar.set_description_str(f"{name}: " if name else "", refresh=False)
            self._bar.set_postfix_str("", refresh=False)
            self._bar.update(part - self._bar.n)
            self._bar.refresh()
        elif self._lines is not None:
            self._part = f"{part}/{self._total} parts{name and ', '}{name}"
            self._lines.write(self._part)

    def add(self, words: str) -> None:
        """Show what a call inside the part is doing."""
        if self._bar is not None:
            self._bar.set_postfix_str(words)
        elif self._lines is not None:
            self._lines.write(f"{self._part}, {words}")

    def _say(self, words: str) -> None:
        if self._around is not None:
            self._around.add(words.strip())
        if self._bar is not None:
            self._bar.set_description_str(words)

    def _compiles_no_more(self) -> None:
        if self._compiling < math.inf:
            self._compiled += time.perf_counter() - self._compiling
            self._compiling = math.inf

    def tick(self) -> None:
        """Show the clock, and how long a program compiles."""
        since = time.perf_counter() - self._compiling
        if since > 0:
            self._bar.set_description_str(f"compiling for {since:.0f} s ", refresh=False)
        self._bar.refresh()

    def _predict(self, rate: float) -> None:
        """Start the forecast, and say what it found."""
        if self._thread is None:
            # No daemon: the process would crash if it ended while a program compiles.
            self._thread = threading.Thread(target=lambda: self._forecasts.append(self._forecast()))
            self._thread.start()
        if self._forecasts and rate > 0:
            forecast = self._forecasts.pop()
            if forecast is not None:
                self._predicted = forecast.total
                lines = [] if _in_notebook() else forecast.lines(rate)  # a cell keeps one line
                for line in lines:
                    self._bar.write(line, file=sys.stderr)

    def _left(self, finished: int, samples: int, seconds: float) -> str:
        """The estimate in words; nothing until it means something."""
        if seconds < FIRST:
            return ""
        if self._predicted is None and finished < _ENOUGH * self._total:
            finished = 0  # the first runs that end are the shortest
        left = time_left(finished, self._total, samples, seconds, self._predicted)
        if left is not None:
            return f", {in_words(left)} left" if finished < self._total else ""
        if samples and samples < self._most < math.inf:
            most = seconds * (self._most - samples) / samples
            return f", {in_words(most).replace('about', 'at most')} left"
        return ""

    def close(self) -> None:
        """Close the bar, on a line of its own."""
        if self._clock is not None:
            self._clock.end()
            self._bar.close()
        if self._lines is not None and self._lines.began:
            self._lines.end()


class _Clock(threading.Thread):
    """Lets the clock of a bar go on while nothing else is told."""

    def __init__(self, of: Progress):
        super().__init__(daemon=True)  # a bar that is left open must not keep the process
        self._of, self._over = of, threading.Event()

    def run(self) -> None:
        """Tick until the end."""
        while not self._over.wait(TICK):
            self._of.tick()

    def end(self) -> None:
        """Wait for the last tick."""
        self._over.set()
        self.join()


def by_parts(parts: Sequence[tuple[str, Callable[[], Any]]], show: Any) -> list[Any]:
    """The results of parts of some work, in order, with one line of progress over all.

    A call in a part that would show progress by itself adds words to this line instead.

    Args:
        parts: pairs of a name and a function without arguments.
        show: as of `Progress`; a callable gets (parts over, parts, 0, seconds).

    Raises:
        ArgumentError: `show` is nothing of this.
    """
    check(show)
    results = []
    with Progress(show, len(parts)) as bar:
        token = _AROUND.set(bar)
        try:
            for name, part in parts:
                bar.begin(len(results), name)
                results.append(part())
            bar.begin(len(parts), "")
        finally:
            _AROUND.reset(token)
    return results
