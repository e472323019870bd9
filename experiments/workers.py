"""Worker processes; the parent writes their results.

Threads that simulate in one process delay each other, even with a device each. Python
runs one at a time, and XLA lends each the other's core.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jaxelim.errors import JaxelimError, RidgeWarning

PATIENCE = 0.1
"""Seconds between two checks whether the caller still wants the answer."""


class WorkerError(JaxelimError):
    """A worker process ended without an answer.

    Args:
        asked: what it was computing.
        code: its exit code; negative for the signal that ended it.
    """

    def __init__(self, asked: str, code: int | None):
        super().__init__(asked, code)
        self.asked, self.code = asked, code

    def __str__(self) -> str:
        likely = "; was the machine out of memory?" if self.code == -signal.SIGKILL else ""
        return (
            f"{self.asked}: the process that computed it ended with exit code {self.code}{likely}"
        )


class Worker(contextlib.AbstractContextManager):
    """A process with one CPU device and thread; it ends with its context or parent."""

    def __init__(self):
        # JAX has threads, so no process that has run it may fork.
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        cache = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
        self._process = context.Process(target=_serve, args=(there, cache), daemon=True)
        self._process.start()
        there.close()

    def compute(
        self, job: Any, runs: np.ndarray, progress: Callable[..., None], check: Callable[[], None]
    ) -> tuple:
        """Run `job.compute(runs, progress)` in the process.

        `check` is called often and may raise to end the wait.

        Raises:
            WorkerError: the process died.
            Exception: the exception of `job.compute`.
        """
        with self._alive(job):
            self._here.send((job, runs))
        while True:
            while not self._here.poll(PATIENCE):
                check()
            with self._alive(job):
                kind, content = self._here.recv()
            if kind == "done":
                return content
            if kind == "error":
                raise content
            progress(*content)

    @contextlib.contextmanager
    def _alive(self, job: Any) -> Iterator[None]:
        try:
            yield
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join(5)
            raise WorkerError(job.name, self._process.exitcode) from None

    def __exit__(self, *_: Any) -> None:
        self._here.close()
        self._process.terminate()
        self._process.join()


def _serve(connection: Any, cache: str | None) -> None:
    """Answer requests until the other end is closed."""
    # Ctrl-C reaches the whole process group; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(
        target=_die_with, args=(multiprocessing.parent_process(),), daemon=True
    ).start()
    os.environ["NPROC"] = "1"
    warnings.simplefilter("ignore", RidgeWarning)  # as in `cells.script`
    jax.config.update("jax_num_cpu_devices", 1)
    jax.config.update("jax_compilation_cache_dir", cache)
    while True:
        try:
            job, runs = connection.recv()
        except EOFError:
            return
        try:
            answer = (
                "done",
                job.compute(runs, lambda *numbers: connection.send(("progress", numbers))),
            )
        except Exception as error:
            answer = "error", error
        connection.send(answer)


def _die_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
