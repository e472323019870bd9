"""One interface to executors: how many workers, submit a block, who is lost."""

import concurrent.futures
import contextlib
import os
import queue
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxelim.cluster.environment import Client
from jaxelim.cluster.remote import Task, compute
from jaxelim.errors import ArgumentError, SchedulerLost, WorkersLost

ALLOWED = (
    "None, a concurrent.futures.Executor whose workers are spawned processes, or a Dask Client"
)
SPAWN = "use spawn: ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))"
PATIENCE = 60.0
"""Seconds without any worker, or without an answer of the scheduler, after which a call ends."""
BETWEEN = 1.0
"""Seconds between two looks at the workers of a cluster."""

Progress = tuple[int, int, int, float]
"""The number of a block, its finished runs, samples and seconds."""


class Pool:
    """Any `concurrent.futures.Executor`."""

    def __init__(self, executor: concurrent.futures.Executor):
        self._executor = executor
        self._client = Client.here()

    def workers(self) -> int:
        """How many blocks are computed at a time, at most."""
        return int(getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1)

    def submit(
        self, number: int, label: str, task: Task, runs: np.ndarray
    ) -> concurrent.futures.Future:
        """Submit a block.

        Raises:
            WorkersLost: the executor takes no work any more.
        """
        try:
            return self._executor.submit(compute, task, runs, self._client, "", number)
        except RuntimeError as error:  # BrokenExecutor, or it was shut down
            shut = WorkersLost(f"the executor takes no work: {error}", "start another executor")
            raise self.lost(error) or shut from error

    def progress(self) -> list[Progress]:
        """What workers have told since the last call."""
        return []

    def deaths(self) -> list[list[int]]:
        """For each worker that was lost since the last call, the numbers of its blocks."""
        return []

    def check(self) -> None:
        """Refuse to wait for workers or a scheduler that are gone.

        Raises:
            WorkersLost, SchedulerLost: they are.
        """

    def lost(self, error: BaseException) -> Exception | None:
        """The error to raise where a block failed as its workers are lost; else None."""
        if isinstance(error, concurrent.futures.BrokenExecutor):
            return WorkersLost(
                f"a worker process died, and the executor does not survive that: {error}",
                "start another executor; a Dask cluster survives it (jaxelim.cluster.local)",
            )
        if isinstance(error, concurrent.futures.CancelledError):
            return WorkersLost("the executor was shut down", "start another executor")
        return None

    def ended_workers(self, error: BaseException) -> bool:
        """Whether a block failed as it ended every worker that had it."""
        return False

    def cancel(self, futures: list[concurrent.futures.Future]) -> None:
        """Drop blocks that are not needed any more."""
        for future in futures:
            future.cancel()

    def close(self) -> None:
        """End the connection to this call; the executor stays."""


class Dask(Pool):
    """A Dask Client."""

    def __init__(self, client: Any):
        super().__init__(client.get_executor(pure=False))
        self._dask = client
        self._topic = f"jaxelim-{uuid.uuid4().hex}"
        self._told: queue.SimpleQueue[Progress] = queue.SimpleQueue()
        self._died: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        self._count, self._looked, self._seen = 0, -BETWEEN, time.monotonic()
        client.subscribe_topic(self._topic, lambda event: self._told.put(event[1]))
        client.subscribe_topic("all", self._note_death)

    def _note_death(self, event: Any) -> None:
        said = event[1]
        if not isinstance(said, dict) or said.get("action") != "remove-worker":
            return
        keys = [str(key).split("|") for key in said.get("processing-tasks", ())]
        mine = [int(key[2]) for key in keys if len(key) > 2 and key[1] == self._topic]
        if mine:
            self._died.put(mine)

    def workers(self) -> int:
        self._look()
        return max(self._count, 1)

    def _look(self) -> None:
        """Ask how many workers there are, at most every second."""
        if time.monotonic() < self._looked + BETWEEN:
            return
        try:
            cores = self._dask.sync(self._dask.scheduler.ncores, callback_timeout=PATIENCE / 6)
        except Exception:  # closed, timed out, or no connection: `check` decides
            self._looked = time.monotonic()
            return
        self._count, self._looked = len(cores), time.monotonic()
        if cores:
            self._seen = self._looked

    def submit(
        self, number: int, label: str, task: Task, runs: np.ndarray
    ) -> concurrent.futures.Future:
        # "|" separates the parts that `_note_death` reads; a retry needs another key.
        key = f"{label.replace('|', '/')}|{self._topic}|{number}|{uuid.uuid4().hex[:8]}"
        try:
            named = {"key": key}
            return self._executor.submit(
                compute, task, runs, self._client, self._topic, number, **named
            )
        except Exception as error:
            if self._dask.status != "running":
                raise self._gone() from error
            raise

    def progress(self) -> list[Progress]:
        return _emptied(self._told)

    def deaths(self) -> list[list[int]]:
        return _emptied(self._died)

    def check(self) -> None:
        if self._dask.status != "running" and not self._reconnecting():
            raise self._gone()
        self._look()
        if time.monotonic() < self._seen + PATIENCE:
            return
        if self._dask.status != "running" or not self._answers():
            raise self._gone()
        raise WorkersLost(
            f"{self._name()} has had no worker for {PATIENCE:.0f} s",
            f"start workers: dask worker {self._name()} --nthreads 1 "
            "--preload jaxelim.cluster.worker",
        )

    def _reconnecting(self) -> bool:
        return self._dask.status == "connecting"

    def _answers(self) -> bool:
        try:
            self._dask.sync(self._dask.scheduler.ncores, callback_timeout=PATIENCE / 6)
        except Exception:
            return False
        return True

    def _name(self) -> str:
        return str(getattr(self._dask.scheduler, "address", "the scheduler"))

    def _gone(self) -> SchedulerLost:
        return SchedulerLost(
            f"the scheduler {self._name()} does not answer",
            "start it and its workers again, and give the new Client to the same call",
        )

    def lost(self, error: BaseException) -> Exception | None:
        name = type(error).__name__
        if name == "NoWorkerError":
            return WorkersLost(f"{self._name()} has no worker: {error}", "start workers")
        if isinstance(error, concurrent.futures.CancelledError) or name.endswith("CancelledError"):
            return self._gone()
        return None

    def ended_workers(self, error: BaseException) -> bool:
        return type(error).__name__ == "KilledWorker"

    def cancel(self, futures: list[concurrent.futures.Future]) -> None:
        if self._dask.status == "running":
            super().cancel(futures)

    def close(self) -> None:
        for topic in (self._topic, "all"):
            with contextlib.suppress(Exception):
                self._dask.unsubscribe_topic(topic)


def pool_of(executor: Any) -> Pool:
    """The interface to an executor.

    Raises:
        ArgumentError: it is none, or its workers are threads or forked processes.
    """
    if callable(getattr(executor, "get_executor", None)):
        if getattr(executor, "asynchronous", False):
            raise ArgumentError("executor", executor, ALLOWED, "the Client is asynchronous")
        if executor.status != "running":
            raise ArgumentError("executor", executor, ALLOWED, f"it is {executor.status}")
        return Dask(executor)
    if not isinstance(executor, concurrent.futures.Executor):
        raise ArgumentError("executor", executor, ALLOWED)
    if isinstance(executor, concurrent.futures.ThreadPoolExecutor):
        raise ArgumentError("executor", executor, ALLOWED, f"it has threads; {SPAWN}")
    context = getattr(executor, "_mp_context", None)
    start: Callable | None = getattr(context, "get_start_method", None)
    if start is not None and start() == "fork":
        raise ArgumentError("executor", executor, ALLOWED, f"JAX does not survive a fork; {SPAWN}")
    return Pool(executor)


def workers_of(executor: Any) -> int:
    """The number of an executor's workers, at least 1.

    Raises:
        ArgumentError: see `pool_of`.
    """
    pool = pool_of(executor)
    try:
        return pool.workers()
    finally:
        pool.close()


def _emptied(waiting: queue.SimpleQueue) -> list:
    items = []
    with contextlib.suppress(queue.Empty):
        while True:
            items.append(waiting.get_nowait())
    return items
