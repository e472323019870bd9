"""The JAX settings under which jaxelim computes, independent of the caller's.

Entry points set them and restore the caller's at their end. They refuse to run where
JAX or the process cannot compute.
"""

import contextlib
import functools
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.core
import numpy as np

from jaxelim.errors import SetupError, warn

TRIED = (0, 12, 0, 1)
"""The newest JAX with which the tests have passed; pyproject.toml has the oldest."""
FAULTY: dict[tuple[int, ...], str] = {
    (0, 10, 2): "on CPUs it computes wrong sums over more than 16,384 rows (jax-ml/jax 39103)",
    (0, 11, 0): "it has a known fault (jax-ml/jax 38806)",
    (0, 11, 1): "its loops copy whole arrays at each small write (jax-ml/jax 40101)",
}
"""Versions of JAX that are refused, and why; pyproject.toml leaves them out too."""
ONE_DEVICE = ((0, 11, 2),)
"""Versions of JAX whose compiler ends the process over some programs for several devices."""


def jax_started() -> bool:
    """Whether this process has started a JAX backend."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "backends_are_initialized", lambda: _process["entered"])())


_process = {"entered": False, "started": False, "broken": False}
"""What is known of JAX here, at the last fork, and in a forked child, where it does not survive."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _process.update(started=jax_started()),
        after_in_child=lambda: _process.update(broken=_process["broken"] or _process["started"]),
    )

_FAST_MATH = re.compile(r"--xla_cpu_enable_fast_math(?!\S*=(?:false|False|0)\b)")

if _fault := FAULTY.get(jax.__version_info__):
    _name = ".".join(map(str, jax.__version_info__))
    _remedy = f"install another, as in: pip install 'jax!={_name}'"
    raise SetupError(f"JAX {_name} is refused: {_fault}", _remedy)


def _refuse_what_cannot_work() -> None:
    """Refuse a process or settings under which JAX cannot compute, or computes other numbers."""
    if _process["broken"]:
        said = "this process was forked after JAX had started, and JAX does not survive a fork"
        spawn = "start worker processes with 'spawn': multiprocessing.get_context('spawn')"
        raise SetupError(said, spawn)
    flags: Any = jax.config
    for name in ("jax_no_tracing", "jax_no_execution"):
        if getattr(flags, name, False):
            said = f"{name} is set, so that JAX refuses to work"
            raise SetupError(said, "unset it around calls of jaxelim")
    if _FAST_MATH.search(os.environ.get("XLA_FLAGS", "")):
        said = "XLA_FLAGS has --xla_cpu_enable_fast_math, which allows wrong comparisons with "
        raise SetupError(said + "infinities", "remove it")
    try:
        jax.devices()
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        wanted = os.environ.get("JAX_PLATFORMS") or getattr(flags, "jax_platforms", None)
        asked = f" (JAX_PLATFORMS is {wanted!r})" if wanted else ""
        said = f"JAX finds no device to compute on{asked}: {reason}"
        remedy = "install the JAX plugin of that platform, or leave JAX_PLATFORMS unset"
        raise SetupError(said, remedy) from error
    with jax.transfer_guard("allow"):
        inside = isinstance(jax.device_put(np.float32(0)), jax.core.Tracer)
    if inside:
        said = "a call from inside a function that JAX is tracing (jax.jit, lax.scan, ...)"
        remedy = "call jaxelim outside of it: its calls compile programs of their own"
        raise SetupError(said, remedy)


@functools.cache
def _warn_of_newer() -> None:
    """Warn, once a process, if JAX is newer than any that was tried."""
    if jax.__version_info__ > TRIED:
        tried = ".".join(map(str, TRIED))
        said = f"JAX {jax.__version__} is newer than {tried}, the newest with which jaxelim was "
        said += "tested: numbers may differ from those of other machines"
        warn(said, UserWarning)


@contextlib.contextmanager
def engine() -> Iterator[None]:
    """Set float64, the broadcasting of lanes, and all JAX settings that change numbers.

    The caller's `jax_debug_nans` stays: `jaxelim.testing` reads it, and it
    changes no number.

    Raises:
        SetupError: JAX cannot compute here; see the message.
    """
    _refuse_what_cannot_work()
    _warn_of_newer()
    _process["entered"] = True
    with (
        jax.enable_x64(True),
        jax.default_prng_impl("threefry2x32"),
        jax.threefry_partitionable(True),
        jax.default_matmul_precision("highest"),
        jax.disable_jit(False),
        jax.debug_infs(False),
        jax.debug_key_reuse(False),
        jax.transfer_guard("allow"),
        jax.numpy_rank_promotion("allow"),
    ):
        yield


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """`engine`, on the first CPU device; a SetupError where JAX_PLATFORMS leaves out the CPU."""
    with engine():
        try:
            first = jax.local_devices(backend="cpu")[0]
        except RuntimeError:
            remedy = "add cpu to JAX_PLATFORMS, as in cuda,cpu, or leave it unset"
            raise SetupError("JAX has no CPU device, on which live runs compute", remedy) from None
        with jax.default_device(first):
            yield
