"""The settings under which jaxelim computes, whatever the caller's: set at our entry points and
undone after them; and what JAX or the process cannot do is said there."""

import contextlib
import functools
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
from threadpoolctl import OpenBLASController, ThreadpoolController

from jaxelim.errors import SetupError


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


def jax_started() -> bool:
    """Whether this process has started a JAX backend."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "backends_are_initialized", lambda: _inherited.entered)())


class _Inherited:
    """What a forked child has to know of its parent: JAX's threads do not survive a fork."""

    entered = False  # one of our entry points was used in this process
    broken = False  # this process was forked from one that had started JAX

    def before_fork(self) -> None:
        self._started = jax_started()

    def in_child(self) -> None:
        self.broken = self.broken or self._started


_inherited = _Inherited()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_inherited.before_fork, after_in_child=_inherited.in_child)

_FAST_MATH = re.compile(r"--xla_cpu_enable_fast_math(?!\S*=(?:false|False|0)\b)")


def _refuse_what_cannot_work() -> None:
    """Raises:
    SetupError: JAX cannot compute here, or not by our definitions.
    """
    if _inherited.broken:
        raise SetupError(
            "this process was forked after JAX had started, and JAX does not survive a fork",
            "start worker processes with 'spawn': multiprocessing.get_context('spawn')",
        )
    flags: Any = jax.config
    for name in ("jax_no_tracing", "jax_no_execution"):
        if getattr(flags, name, False):
            raise SetupError(f"{name} is set, so that JAX refuses to work", "unset it around calls of jaxelim")
    if _FAST_MATH.search(os.environ.get("XLA_FLAGS", "")):
        raise SetupError(
            "XLA_FLAGS has --xla_cpu_enable_fast_math, which allows wrong comparisons with infinities",
            "remove it",
        )
    try:
        jax.devices()
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        wanted = os.environ.get("JAX_PLATFORMS") or getattr(flags, "jax_platforms", None)
        asked = f" (JAX_PLATFORMS is {wanted!r})" if wanted else ""
        raise SetupError(
            f"JAX finds no device to compute on{asked}: {reason}",
            "install the JAX plugin of that platform, or leave JAX_PLATFORMS unset",
        ) from error
    with jax.transfer_guard("allow"):
        inside = isinstance(jnp.zeros(()), jax.core.Tracer)
    if inside:
        raise SetupError(
            "a call from inside a function that JAX is tracing (jax.jit, lax.scan, ...)",
            "call jaxelim outside of it: its calls compile programs of their own",
        )


@contextlib.contextmanager
def float64() -> Iterator[None]:
    """Float64, linear algebra on one thread, and every setting of JAX that could change a number.

    Matrices here are small. A factorisation that OpenBLAS deals out to threads rounds differently,
    so that a run would depend on the number of cores; threads also wait for each other.

    The caller's `jax_debug_nans` stays: `jaxelim.testing` reads it, and it changes no number.

    Raises:
        SetupError: JAX cannot compute here; see the message.
    """
    _refuse_what_cannot_work()
    _inherited.entered = True
    with (
        jax.enable_x64(True),
        jax.default_prng_impl("threefry2x32"),
        jax.threefry_partitionable(True),
        jax.default_matmul_precision("highest"),
        jax.disable_jit(False),
        jax.debug_infs(False),
        jax.debug_key_reuse(False),
        jax.transfer_guard("allow"),
        _one_thread,
    ):
        yield


@contextlib.contextmanager
def engine() -> Iterator[None]:
    """The same, with lanes-last broadcasting."""
    with float64(), jax.numpy_rank_promotion("allow"):
        yield
