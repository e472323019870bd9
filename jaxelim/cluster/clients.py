"""Dask clusters with the settings that long simulations need."""

import contextlib
import importlib
import importlib.util
import logging
import os
import signal
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxelim import checks
from jaxelim.cluster.dispatch import say
from jaxelim.errors import ArgumentError, SchedulerLost, SetupError, WorkersLost
from jaxelim.interrupts import uninterrupted

if TYPE_CHECKING:
    from distributed import Client

LOOPBACK = "127.0.0.1"
PRELOAD = "jaxelim.cluster.worker"
ALLOWED_FAILURES = 3
"""Workers that a block may end before it counts as the cause."""
SILENCE = "60 s"
"""A worker that gives no sign of life for so long is started again.

Heartbeats come from a thread of their own, also while a block is computed.
"""

GRACE = 2.0
"""Seconds for a worker to end by itself, before its process is killed."""
NEVER_WAIT = tuple(f"distributed.worker.memory.{name}" for name in ("target", "spill", "pause"))
"""Settings under which a worker stores its results on disk or waits for free memory.

JAX frees memory late, so a worker could wait for ever.
"""


def _distributed() -> Any:
    """The package distributed.

    Raises:
        SetupError: it is not installed.
    """
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise SetupError(
            f"clusters need the package distributed: {error}",
            "pip install '.[cluster]' in a checkout of jaxelim",
        ) from error


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def local(
    workers: int | None = None, memory: int | str = "auto", dashboard: str | int | None = None
) -> Iterator["Client"]:
    """Start worker processes on this machine; give a Dask Client of them.

    Workers have one CPU device and one thread each. One that dies is started again. All
    listen on loopback only. The processes end with the context.

    A script that calls it must be guarded by `if __name__ == "__main__":`, as the
    workers import it.

    Args:
        workers: number of processes; None: one a core.
        memory: limit of each process, such as "4 GB" or a number of bytes; "auto": its
            share of the machine's memory.
        dashboard: a port of loopback, or an address, for Dask's dashboard; None for none.
            The dashboard needs the package bokeh.

    Raises:
        ArgumentError: workers is no integer >= 1, or memory is no size.
        SetupError: the package distributed is not installed.
    """
    if workers is not None:
        workers = checks.integer("workers", workers, low=1)
    distributed = _distributed()
    # Without a port of its own a second cluster would warn that the usual one is taken.
    where = dashboard if isinstance(dashboard, str) else f"{LOOPBACK}:{dashboard or 0}"
    with contextlib.ExitStack() as stack:
        _Local.clusters += 1
        stack.callback(_ended)
        with _starting():
            cluster = stack.enter_context(
                _lasting(distributed)(
                    n_workers=cores() if workers is None else workers,
                    threads_per_worker=1,
                    processes=True,
                    host=LOOPBACK,
                    dashboard_address=where,
                    silence_logs=logging.CRITICAL,
                    scheduler_kwargs={"allowed_failures": ALLOWED_FAILURES, "worker_ttl": SILENCE},
                    preload=[PRELOAD],
                    memory_limit=_size(memory),
                    config=dict.fromkeys(NEVER_WAIT, False),
                )
            )
            client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
        try:
            yield client
        finally:
            with uninterrupted():
                stack.close()


class _Local:
    clusters = 0  # of this process: up, starting or ending


def _ended() -> None:
    _Local.clusters -= 1


def has_local() -> bool:
    """Whether this process has a cluster of `local`, which takes seconds to end."""
    return _Local.clusters > 0


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Delay Ctrl-C, and keep it from processes that start inside: it reaches the whole group.

    Dask prints tracebacks where it ends a start, of a cluster or of a worker.
    """
    resource_tracker.ensure_running()  # its start would unblock the signal
    with uninterrupted():
        block = getattr(signal, "pthread_sigmask", None)
        if block is None:
            yield
            return
        before = block(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            block(signal.SIG_SETMASK, before)


def _size(memory: Any) -> Any:
    parse = importlib.import_module("dask.utils").parse_bytes
    try:
        return memory if memory == "auto" else parse(memory)
    except (ValueError, TypeError, AttributeError) as error:
        raise ArgumentError(
            "memory", memory, "'auto', or a size such as '4 GB' or a number of bytes"
        ) from error


def _lasting(distributed: Any) -> type:
    """A LocalCluster that never gives up a worker that died, and ends one that is frozen.

    Dask's own closes a nanny whose worker is not back 15 s after its death, which JAX's
    start can take. The cluster would lose its workers one by one. At its end it asks each
    worker to leave, and waits for the answer of a frozen one.
    """

    import asyncio  # only here: the package is imported sooner without it

    class Lasting(distributed.LocalCluster):
        def _update_worker_status(self, op: str, msg: Any) -> None:
            above: Any = super(distributed.SpecCluster, self)
            above._update_worker_status(op, msg)

        async def _close(self) -> None:
            ends = [worker.close(timeout=GRACE) for worker in self.workers.values()]
            await asyncio.gather(*ends, return_exceptions=True)
            await super()._close()

    return Lasting


@contextlib.contextmanager
def connect(address: str | os.PathLike[str], timeout: float = 60) -> Iterator["Client"]:
    """Give a Dask Client of a cluster that runs already; the cluster stays.

    Args:
        address: of the scheduler, such as "tcp://10.0.0.1:8786"; or the path of a
            scheduler file.
        timeout: seconds to wait for the scheduler, and then for a worker.

    Raises:
        ArgumentError: address is no text, or timeout is not above 0.
        SchedulerLost: no scheduler answers.
        WorkersLost: no worker joins.
        SetupError: the package distributed is not installed.
    """
    if not isinstance(address, str | os.PathLike) or not str(address):
        raise ArgumentError("address", address, "an address such as 'tcp://10.0.0.1:8786'")
    timeout = checks.real("timeout", timeout, low=0, open=True)
    distributed = _distributed()
    quiet = importlib.import_module("distributed.utils").silence_logging_cmgr
    file = isinstance(address, os.PathLike) or Path(address).suffix == ".json"
    scheduler = {"scheduler_file": str(address)} if file else {"address": address}
    with quiet(logging.CRITICAL):  # errors come from here, in words
        try:
            client = distributed.Client(**scheduler, timeout=timeout, set_as_default=False)
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise SchedulerLost(
                f"no scheduler answers at {address} within {timeout:g} s: {error}",
                "start one: dask scheduler --host ADDRESS",
            ) from error
        with client:
            _wait_for_a_worker(client, str(address), timeout)
            yield client


def _wait_for_a_worker(client: Any, address: str, timeout: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError as error:
        raise WorkersLost(
            f"no worker joined {address} within {timeout:g} s",
            f"start workers: dask worker {address} --nthreads 1 --preload {PRELOAD}",
        ) from error


@contextlib.contextmanager
def chosen(
    blocks: int,
    workers: int | None = None,
    scheduler: str | os.PathLike[str] | None = None,
    dashboard: str | None = None,
) -> Iterator["Client | None"]:
    """The executor that a command line asks for; None for this process.

    Args:
        blocks: so many workers at most are started.
        workers: processes on this machine; 0: none; None: one a core. On a GPU this process
            computes, as one process has the device.
        scheduler: address or file of a running cluster, in place of workers here.
        dashboard: as for `local`.
    """
    if blocks and scheduler is not None:
        with connect(scheduler) as client:
            yield client
        return
    here = min(cores() if workers is None else workers, blocks)
    if workers is None and here:
        here = _useful(here)
    if here == 0:
        yield None
        return
    with local(here, dashboard=dashboard) as client:
        yield client


def _useful(workers: int) -> int:
    """The number of processes to start without being told; none where one alone would work."""
    import jax  # it starts here

    if workers < 2 or jax.default_backend() != "cpu":
        return 0
    if importlib.util.find_spec("distributed") is None:
        say("one process: more need `pip install '.[cluster]'`")
        return 0
    return workers
