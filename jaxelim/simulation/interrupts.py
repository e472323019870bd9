"""Ctrl-C during a call: noted, so that the runs so far are kept."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from jaxelim.errors import Interrupted
from jaxelim.interrupts import Signals

PATIENCE = 3
"""This Ctrl-C of a call is raised at once."""


class Interrupts(Signals):
    """While entered, Ctrl-C is noted in `asked` and not raised at once.

    It works in the main thread, where SIGINT has Python's own handler; elsewhere Ctrl-C is
    raised as ever.
    """

    numbers = (signal.SIGINT,)

    def __init__(self) -> None:
        super().__init__()
        self._compiling = False

    def takes(self, handler: Any) -> bool:
        """Whether Ctrl-C is Python's own."""
        return handler is signal.default_int_handler

    def handle(self, number: int, frame: Any) -> None:
        """Wait for the end of the chunk; but not for ever."""
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
