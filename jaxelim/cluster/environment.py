"""The environment of a worker: one device, one thread, the same versions as the client."""

import dataclasses
import os
import platform
import signal
import threading
from importlib import metadata
from typing import Any

import jax
import numpy as np

import jaxelim
from jaxelim import program_cache, scope
from jaxelim.engine import REVISION
from jaxelim.errors import SetupError, WorkerMismatch
from jaxelim.files import host

FRESH = "start workers that have not used JAX: new processes with 'spawn', or `dask worker`"


@dataclasses.dataclass(frozen=True)
class Client:
    """What a worker needs to know of the process that asks for its work.

    Attributes:
        versions: as `versions` gives them.
        host, process: where the client runs.
        cache: the client's folder of compiled programs; None for none.
    """

    versions: dict[str, str]
    host: str
    process: int
    cache: str | None

    @staticmethod
    def here() -> "Client":
        """This process."""
        flags: Any = jax.config
        return Client(versions(), host(), os.getpid(), flags.jax_compilation_cache_dir)


def versions() -> dict[str, str]:
    """All versions that determine numbers or the form of messages."""
    return {
        "jaxelim": jaxelim.__version__,
        "revision": str(REVISION),
        "jax": jax.__version__,
        "jaxlib": metadata.version("jaxlib"),
        "numpy": np.__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
    }


class _Process:
    """What this process knows of its own preparation."""

    ready: Client | None = None


def prepare(client: Client) -> None:
    """Set this process to one device and one thread; once, before JAX starts.

    Raises:
        WorkerMismatch: a version differs from the client's.
        SetupError: this is the client's own process, or JAX has started with other
            settings.
    """
    if _Process.ready == client:
        return
    if (host(), os.getpid()) == (client.host, client.process):
        raise SetupError(
            "the executor runs its tasks in this process, on threads",
            "use spawn: ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))",
        )
    _compare(client.versions)
    set_one_device()
    cache = _cache_of(client)
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", cache)
    _Process.ready = client


def set_one_device() -> None:
    """Set one CPU device and one thread for JAX, and ignore Ctrl-C, which is the client's.

    Raises:
        SetupError: JAX has started with several devices or threads.
    """
    # Ctrl-C reaches the whole process group. Only the main thread may set handlers.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not scope.jax_started():
        os.environ["NPROC"] = "1"
        jax.config.update("jax_num_cpu_devices", 1)
        return
    devices = jax.devices()
    many = len(devices) > 1
    if many or (devices[0].platform == "cpu" and os.environ.get("NPROC") != "1"):
        those = f"{len(devices)} devices" if many else "threads of its own"
        raise SetupError(f"JAX has started with {those} in worker {os.getpid()} on {host()}", FRESH)


def _compare(wanted: dict[str, str]) -> None:
    mine = versions()
    told = [
        f"{name} is {mine.get(name, 'absent')} there and {wanted.get(name, 'absent')} here"
        for name in sorted({*mine, *wanted})
        if mine.get(name) != wanted.get(name)
    ]
    if told:
        raise WorkerMismatch(
            f"worker {os.getpid()} on {host()} has other versions: {'; '.join(told)}",
            "install the same versions there, and start the workers again",
        )


def _cache_of(client: Client) -> str | None:
    """The folder of compiled programs: the client's on its machine, else this machine's own.

    Programs depend on the CPU, so unlike machines must not share a folder.
    """
    if client.cache is None or client.host == host():
        return client.cache
    flags: Any = jax.config
    return flags.jax_compilation_cache_dir or str(program_cache.own_folder())
