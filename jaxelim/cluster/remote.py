"""What a worker runs: one block of runs, with progress."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from jaxelim import program_cache, scope
from jaxelim.cluster.environment import Client, prepare
from jaxelim.files import host

EVERY = 0.5
"""Least seconds between two messages of progress from a task."""

Report = Callable[[int, int, int, float], None]
"""Called with runs done, runs, samples and seconds."""


class Task(Protocol):
    """Work that is cut by runs; workers get it by pickling."""

    def compute(self, runs: np.ndarray, progress: Report) -> Any:
        """Compute these runs, a pure function of the task and the runs."""
        ...


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a worker sends back.

    Attributes:
        content: what `compute` returned.
        worker: the worker's address, or its host and process.
        platform: JAX's platform there; empty if JAX has not started.
    """

    content: Any
    worker: str
    platform: str


def compute(task: Task, runs: np.ndarray, client: Client, topic: str, number: int) -> Answer:
    """Prepare this process, and compute a block of a task.

    Args:
        task: the work.
        runs: run indices of the block [n].
        client: who asks.
        topic: under which progress is told to the client, where the executor is Dask.
        number: of the block, told with its progress.

    Raises:
        WorkerMismatch, SetupError: see `prepare`.
        Exception: whatever `task.compute` raises.
    """
    prepare(client)
    worker = _dask_worker()
    said = [time.monotonic()]

    def report(done: int, _: int, samples: int, seconds: float) -> None:
        if worker is not None and time.monotonic() > said[0] + EVERY:
            said[0] = time.monotonic()
            worker.log_event(topic, (number, int(done), int(samples), float(seconds)))

    with program_cache.mended:
        content = task.compute(runs, report)
    platform = ""
    if scope.jax_started():
        import jax

        platform = jax.default_backend()
    address = f"{host()}-{os.getpid()}" if worker is None else worker.address
    return Answer(content, address, platform)


def _dask_worker() -> Any:
    """The Dask worker of this process, or None."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_worker()
    except ValueError:
        return None
