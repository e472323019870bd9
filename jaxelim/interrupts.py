"""Ctrl-C and SIGTERM: counted, and delayed where they would be lost."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Self


class Signals:
    """While entered, Ctrl-C and SIGTERM are counted besides being handled.

    In the main thread, and where Python handles them. Python loses an exception that a
    signal raises within a callback, as where the objects of HDF5's packages are freed.

    Attributes:
        asked: how often one of them came.
    """

    numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.asked = 0
        self._before: dict[int, Any] = {}
        self._delayed: list[tuple[int, Any]] | None = None  # inside `later`

    def takes(self, handler: Any) -> bool:
        """Whether the signals of this handler are counted."""
        return callable(handler)

    def handle(self, number: int, frame: Any) -> None:
        """Do what the process does without this."""
        self._before[number](number, frame)

    def refuse(self) -> None:
        """Raise KeyboardInterrupt if one came."""
        if self.asked:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        """Delay their handling until the end of the context."""
        self._delayed = delayed = []
        try:
            yield
        finally:
            self._delayed = None
            for first in delayed[:1]:
                self.handle(*first)

    def _receive(self, number: int, frame: Any) -> None:
        self.asked += 1
        if self._delayed is None:
            self.handle(number, frame)
        else:
            self._delayed.append((number, frame))

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in self.numbers}
            self._before = {n: handler for n, handler in handlers.items() if self.takes(handler)}
            for number in self._before:
                signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of the context."""
    with Signals() as signals, signals.later():
        yield
