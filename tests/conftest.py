"""Flags of the test suite; the library sets none of them.

The x64 flag is off unless the environment turns it on.
"""

import dataclasses
import gc
import os
import signal

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.setdefault("NPROC", "1")

import hypothesis
import jax
import pytest

from jaxelim.engine import execution
from jaxelim.simulation import plan

# A shell ignores Ctrl-C for what it starts in the background; tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

hypothesis.settings.register_profile("house", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the rows that a test calls slow, and leave out shipped tests under flags.

    The fast tests of a file go to one worker, as they share fixtures and programs.
    """
    for item in items:
        mark = item.get_closest_marker("slow_rows")
        if mark and item.callspec.id in mark.args:
            item.add_marker(pytest.mark.slow)
        if not any(item.get_closest_marker(name) for name in ("slow", "shipped", "xdist_group")):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if os.environ.get("XLA_FLAGS"):
        left = [item for item in items if item.get_closest_marker("shipped")]
        items[:] = [item for item in items if not item.get_closest_marker("shipped")]
        config.hook.pytest_deselected(items=left)


def pytest_collection_finish():
    """Collect garbage seldom: tracing makes many objects, and what is imported stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(autouse=True, scope="module")
def one_device(request):
    """One device where a layout does not name their number, unless the module is marked `devices`.

    A program for two devices compiles for a quarter longer, and computes the same.
    """
    if request.node.get_closest_marker("devices"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        used = plan.used_devices
        patch.setattr(
            plan,
            "used_devices",
            lambda layout: used(dataclasses.replace(layout, devices=layout.devices or 1)),
        )
        yield


@pytest.fixture(autouse=True, scope="module")
def least_optimized(request):
    """LLVM's level 0 where XLA_FLAGS asks for a level, but level 1 in modules marked `long_runs`.

    A family's own level goes before that of XLA_FLAGS. At level 0 a program compiles in two
    thirds of the time and runs for longer.
    """
    if "xla_backend_optimization_level=" not in os.environ.get("XLA_FLAGS", ""):
        yield
        return
    level = "1" if request.node.get_closest_marker("long_runs") else "0"
    with pytest.MonkeyPatch.context() as patch:
        options = execution.cpu_options
        patch.setattr(execution, "cpu_options", lambda _: options(level))
        yield
