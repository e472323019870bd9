"""Whether XLA:CPU compiles calls with its attribute `xla_cpu_small_call`.

The attribute is documented nowhere, and the compiler ends the process where it cannot compile
such a call. So a child process tries one, once for each version of jaxlib. Without it steps
stay in many kernels and runs in many lanes, with the same numbers.
"""

import contextlib
import functools
import os
import platform
import subprocess
import sys

import jaxlib.version

from jaxelim.program_cache import own_folder

SECONDS = 120.0
"""Seconds after which the child has failed; it takes two."""
_CHILD = "from jaxelim.engine.cpu.attribute import attempt; attempt()"


@functools.cache
def works() -> bool:
    """Whether such calls work here: by a file of the user's cache folder, or by a child process.

    Where the file cannot be written, each process asks a child of its own.
    """
    path = own_folder() / f"small-call-{jaxlib.version.__version__}-{platform.machine()}"
    with contextlib.suppress(OSError):
        return path.read_text() == "works"
    verdict = tried()
    if verdict is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f"{path.name}.{os.getpid()}")
            new.write_text("works" if verdict else "fails")
            new.replace(path)
    return bool(verdict)


def tried() -> bool | None:
    """Whether a child process compiles and runs such a call, and has the right numbers.

    None where no child can be started, or it takes too long.
    """
    if "python" not in os.path.basename(sys.executable or "python").lower():
        return None  # Python is in another program, which must not be started again
    child = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    child |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable or "python", "-c", _CHILD]
    try:
        done = subprocess.run(command, env=child, capture_output=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.returncode == 0


def attempt() -> None:
    """Compile a tagged loop with what has ended processes: unread arguments and constants.

    Raises:
        AssertionError: its numbers are wrong.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    from jaxelim.engine.cpu.one_kernel import as_one_kernel, at_run_time

    places, weights = np.arange(4), np.array([3.0, 1.0, 2.0, 5.0], np.float32)

    def step(c):
        n, x, unread, empty = c
        return n + 1, x * weights + places + unread[0] * 0, unread, empty

    def steps(flag, x, unread):
        start = at_run_time(jnp.int32(0), flag), x, unread, jnp.zeros((0, 4))
        taken = as_one_kernel(
            lambda c: jax.lax.while_loop(lambda c: c[0] < 5, step, c), flag, start
        )
        return taken[1] + as_one_kernel(lambda a, b: a + 1, flag, x, unread)

    right = np.ones(4, np.float32)
    for _ in range(5):
        right = right * weights + places
    out = jax.jit(steps)(np.int32(1), np.ones(4, np.float32), np.ones(3, np.float32))
    np.testing.assert_allclose(out, right + 2, rtol=1e-5)
