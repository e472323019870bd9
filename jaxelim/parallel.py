"""Blocks of runs on many processes: any `concurrent.futures.Executor`.

with jaxelim.parallel.processes() as executor:
    result = je.simulate(instance, problem, rule, runs=10**6, executor=executor)

`processes` starts workers on this machine. Of a Dask cluster it is `client.get_executor()`.
A run is a function of the arguments, the seed and its index, so a block is the same on every
worker.
"""

import concurrent.futures
import contextlib
import multiprocessing
import os
import platform
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import platformdirs

from jaxelim import checks, scope
from jaxelim.engine import REVISION
from jaxelim.errors import SetupError, WorkerError

_SPAWN = "use spawn: ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))"
UNREADABLE = "Error reading persistent compilation cache entry for"
_FRESH = "start workers that have not used JAX: new processes with 'spawn', or `dask worker`"


def cores() -> int:
    """The number of cores that this process may use."""
    some = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if some else os.cpu_count() or 1


def use_all_cores(cache: bool = True) -> None:
    """Set JAX to one CPU device per core, one thread each, and a persistent compilation cache.

    Call it before JAX starts. The command line and the experiments call it, the library
    never does. Settings in the environment stay. See `delete_unreadable` too.

    Args:
        cache: whether compiled programs are kept, in JAX_COMPILATION_CACHE_DIR or in the
            user's cache folder for jaxelim.
    """
    os.environ.setdefault("NPROC", "1")
    if "JAX_NUM_CPU_DEVICES" not in os.environ:
        if scope.jax_started():
            remedy = "call use_all_cores before anything that uses JAX, or set JAX_NUM_CPU_DEVICES"
            raise SetupError("JAX has started, so the number of its CPU devices is fixed", remedy)
        jax.config.update("jax_num_cpu_devices", cores())
    if not cache:
        jax.config.update("jax_enable_compilation_cache", False)
    elif "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = platformdirs.user_cache_path("jaxelim", appauthor=False)
        jax.config.update("jax_compilation_cache_dir", str(folder))
    delete_unreadable()


def delete_unreadable() -> None:
    """From now on delete compiled programs that JAX cannot read, in place of its warning.

    JAX compiles again and never rewrites such an entry: a process that was killed while it
    wrote leaves one for good. For processes of our own: warnings are the whole process's.
    """
    show = warnings.showwarning

    def note(message: Any, *more: Any, **named_more: Any) -> None:
        if not str(message).startswith(UNREADABLE):
            return show(message, *more, **named_more)
        flags: Any = jax.config
        name = str(message).removeprefix(UNREADABLE).split("'")[1]
        for path in Path(flags.jax_compilation_cache_dir).glob(f"{name}*-cache"):
            try:
                # Where JAX has no such function all of that name go, and are compiled again.
                from jax._src.compilation_cache import decompress_executable

                decompress_executable(path.read_bytes())
            except FileNotFoundError:  # another process deleted it, and may write it again
                continue
            except Exception:
                path.unlink(missing_ok=True)

    if show.__name__ != note.__name__:  # else it is this function
        warnings.filterwarnings("always", message=UNREADABLE)
        warnings.showwarning = note


@contextlib.contextmanager
def processes(workers: int | None = None) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
    """Start worker processes on this machine, of one CPU device and one thread each.

    They end with the context. A script that calls it must be guarded by
    `if __name__ == "__main__":`, as the workers import it.

    Args:
        workers: number of processes; None: one a core.

    Raises:
        ArgumentError: workers is no integer >= 1.
    """
    workers = cores() if workers is None else checks.integer("workers", workers, low=1)
    before = set(multiprocessing.active_children())
    executor = concurrent.futures.ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_begin
    )
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()


@contextlib.contextmanager
def asked_for(
    workers: int | None = None, scheduler: str | os.PathLike[str] | None = None
) -> Iterator[concurrent.futures.Executor | None]:
    """The executor that a command line asks for; None for this process.

    That is where workers are 0 or 1, and None of them on a GPU; else None is one a core. A
    scheduler, of Dask, is an address or a file.
    """
    if scheduler is not None:
        file = str(scheduler).endswith(".json")
        given: Any = {"scheduler_file": str(scheduler)} if file else {"address": scheduler}
        try:
            from distributed import Client

            client = Client(**given, set_as_default=False)
        except ImportError as error:
            raise SetupError(f"a scheduler needs distributed: {error}", "install it") from error
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            said = f"no scheduler answers at {scheduler}: {error}"
            raise WorkerError(said, "start one: dask scheduler --host ADDRESS") from error
        with client:
            yield client.get_executor(retries=3)
        return
    if workers is None:
        workers = cores() if jax.default_backend() == "cpu" else 0
    with processes(workers) if workers > 1 else contextlib.nullcontext() as executor:
        yield executor


def workers_of(executor: Any) -> int:
    """How many blocks an executor computes at a time, about; 1 without one."""
    return 1 if executor is None else int(getattr(executor, "_max_workers", None) or 16)


def dealt(
    compute: Callable, parts: Sequence[Any], executor: Any, bar: Any
) -> Iterator[tuple[int, Any]]:
    """The index of each part with compute(part, bar), in a worker compute(part), as they end."""
    if executor is None:
        for number, part in enumerate(parts):
            yield number, compute(part, bar)
        return
    flags: Any = jax.config
    client = versions(), (socket.gethostname(), os.getpid()), flags.jax_compilation_cache_dir
    futures: dict[concurrent.futures.Future, int] = {}
    platforms: set[str] = set()
    try:
        for number, part in enumerate(parts):
            futures[executor.submit(_in_worker, compute, part, *client)] = number
        for future in concurrent.futures.as_completed(futures):
            found, where = future.result()
            platforms.add(where)
            if len(platforms) > 1:
                said = f"workers have different platforms: {', '.join(sorted(platforms))}"
                raise WorkerError(said, "use workers of one platform")
            yield futures[future], found
    except (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError) as error:
        raise WorkerError(f"a worker died: {error}", "start another executor") from error
    finally:
        for future in futures:
            future.cancel()


def versions() -> dict[str, str]:
    """All versions that determine numbers or the form of messages."""
    packages = {name: metadata.version(name) for name in ("jaxelim", "jax", "jaxlib", "numpy")}
    python = ".".join(platform.python_version_tuple()[:2])
    return {**packages, "revision": str(REVISION), "python": python, "machine": platform.machine()}


def _in_worker(
    compute: Callable, part: Any, wanted: dict[str, str], client: tuple[str, int], cache: str | None
) -> tuple[Any, str]:
    """What `compute` returns in a worker, and JAX's platform there."""
    here = socket.gethostname(), os.getpid()
    if here == client:
        raise SetupError("the executor runs its tasks in this process, on threads", _SPAWN)
    other = [f"{name} is {mine} there and {wanted.get(name)} here"
             for name, mine in versions().items() if mine != wanted.get(name)]  # fmt: skip
    if other:
        said = f"a worker has other versions: {'; '.join(other)}"
        raise WorkerError(said, "install the same versions there, and start the workers again")
    _set_one_device()
    if cache is not None and here[0] == client[0]:  # unlike machines must not share programs
        jax.config.update("jax_compilation_cache_dir", cache)
    delete_unreadable()
    return compute(part), jax.default_backend()


def _begin() -> None:
    """Prepare a worker of `processes`: it leaves Ctrl-C to its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _set_one_device()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _set_one_device() -> None:
    """Set one CPU device and one thread for JAX."""
    if not scope.jax_started():
        os.environ["NPROC"] = "1"
        jax.config.update("jax_num_cpu_devices", 1)
        return
    devices = jax.devices()
    if len(devices) > 1 or (devices[0].platform == "cpu" and os.environ.get("NPROC") != "1"):
        those = f"{len(devices)} devices" if len(devices) > 1 else "threads of its own"
        raise SetupError(f"JAX has started with {those} in worker {os.getpid()}", _FRESH)


__all__ = ["cores", "processes"]
