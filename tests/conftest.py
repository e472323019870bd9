"""Flags of the test suite; the library sets none of them.

The x64 flag is off unless the environment turns it on.
"""

import gc
import os
import signal

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")
os.environ.setdefault("NPROC", "1")

import hypothesis
import jax
import pytest

# A shell ignores Ctrl-C for what it starts in the background; tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

hypothesis.settings.register_profile("house", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out tests of two devices where there is one.

    The fast tests of a file go to one worker, as they share fixtures and programs.
    """
    for item in items:
        if not any(item.get_closest_marker(name) for name in ("slow", "xdist_group")):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if len(jax.devices()) == 1:
        left = [item for item in items if item.get_closest_marker("devices")]
        items[:] = [item for item in items if not item.get_closest_marker("devices")]
        config.hook.pytest_deselected(items=left)


def pytest_collection_finish():
    """Collect garbage seldom: tracing makes many objects, and what is imported stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
