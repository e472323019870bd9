"""The settings under which our own programs run, whatever the caller's: switched on at our entry points, undone after them."""

import contextlib
import functools
import threading
from collections.abc import Iterator

import jax
from threadpoolctl import OpenBLASController, ThreadpoolController


@functools.cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  XLA's small factorisations are this library's, which has to be there to be found

    return ThreadpoolController()


class _OneThread:
    """Linear algebra on one thread while anyone in the process is inside: set by the first one in, undone by the last one out."""

    def __init__(self):
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self):
        with self._lock:
            if not self._inside:
                self._limit = _libraries().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_):
        with self._lock:
            self._inside -= 1
            if not self._inside:
                # The limit belongs to the thread that set it, which need not be this one.
                OpenBLASController.clear_controlling_thread(force=True)
                self._limit.restore_original_limits()


_one_thread = _OneThread()


@contextlib.contextmanager
def float64() -> Iterator[None]:
    """Float64, and linear algebra on one thread.

    Matrices here are small. From 1024 entries on OpenBLAS deals even those out to threads, which then wait for each other: a
    triangular solve of 20 x 113 takes 17 us on one thread, and 8 ms on two of a busy machine. And a factorisation
    dealt out rounds differently, so that a run would depend on the number of cores.
    """
    with jax.enable_x64(True), _one_thread:
        yield


@contextlib.contextmanager
def engine() -> Iterator[None]:
    """The same, with lanes-last broadcasting."""
    with float64(), jax.numpy_rank_promotion("allow"):
        yield
