"""Ctrl-C during a call: noted, so that the runs so far are kept."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from jaxelim.errors import Interrupted

PATIENCE = 3
"""This Ctrl-C of a call is raised at once."""


class Interrupts:
    """While entered, Ctrl-C is noted in `asked` and not raised at once.

    It works in the main thread, where SIGINT has Python's own handler; elsewhere Ctrl-C is
    raised as ever.
    """

    def __init__(self) -> None:
        self.asked = 0  # times
        self.cut = False  # runs were cut off for it
        self._compiling = self._ours = False

    def __enter__(self) -> "Interrupts":
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._ours = True
        return self

    def __exit__(self, *_: Any) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: Any) -> None:
        self.asked += 1
        if self._compiling and self.asked > 1:
            raise KeyboardInterrupt
        if self.asked >= PATIENCE:
            raise Interrupted(f"interrupted {self.asked} times: there is no result")

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """While a program compiles the second Ctrl-C raises KeyboardInterrupt.

        The first waits, as a process that ends while XLA's threads compile crashes.
        """
        self._compiling = True
        try:
            yield
        finally:
            self._compiling = False

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note a KeyboardInterrupt that is raised inside, as by the caller's own function."""
        try:
            yield
        except Interrupted:
            raise
        except KeyboardInterrupt:
            self.asked = max(self.asked, 1)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn a KeyboardInterrupt without a result into an `Interrupted`."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted before a run was started: there is no result") from error
