"""Flags of the test suite; the library sets none of them.

The x64 flag is off unless the environment turns it on.
"""

import dataclasses
import gc
import os
import signal
from pathlib import Path

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.setdefault("NPROC", "1")

import hypothesis
import jax
import pytest

from jaxelim.engine import execution
from jaxelim.simulation import plan
from tests import slow_parts

# A shell ignores Ctrl-C for what it starts in the background; tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

hypothesis.settings.register_profile("house", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("house")

HERE = Path(__file__).parent
SLOW_ROWS = {
    f"tests/{line}"
    for line in (HERE / "slow_rows.txt").read_text().splitlines()
    if not line.startswith("#")
}


COLLECTED = pytest.StashKey[dict[str, list[str]]]()
"""The slow tests and the shipped ones of a session, whatever `-m` leaves."""


def pytest_addoption(parser):
    parser.addoption("--slow-part", type=int, help="only the slow tests of this part")


def chosen(config, item):
    """Whether the flags and `--slow-part` leave an item: shipped tests run without flags alone."""
    part = config.getoption("slow_part")
    if item.get_closest_marker("shipped"):
        return part is None and not os.environ.get("XLA_FLAGS")
    return part is None or part in slow_parts.parts_of(item.nodeid)


def refuse(config, items, sentence):
    """End the session with a sentence; a worker of xdist runs nothing, and leaves it to say so.

    What a worker raises is an internal error, which hides the sentence.
    """
    if not hasattr(config, "workeroutput"):
        raise pytest.UsageError(sentence)
    config.workeroutput["refused"] = sentence
    items.clear()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Say what a worker refused, as a session without workers does."""
    if sentence := getattr(node, "workeroutput", {}).get("refused"):
        raise pytest.UsageError(sentence)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the rows of slow_rows.txt; a row that no longer exists is an error.

    The fast tests of a file go to one worker, as they share fixtures and programs.
    """
    for item in items:
        if item.nodeid in SLOW_ROWS:
            item.add_marker(pytest.mark.slow)
        if not any(item.get_closest_marker(name) for name in ("slow", "shipped", "xdist_group")):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    files = {Path(path).resolve() for path in config.args}
    missing = SLOW_ROWS - {item.nodeid for item in items}
    if HERE in files and missing:
        refuse(config, items, f"tests/slow_rows.txt: no such tests: {sorted(missing)}")
    marked = {
        name: [item.nodeid for item in items if item.get_closest_marker(name)]
        for name in ("slow", "shipped")
    }
    config.stash[COLLECTED] = marked
    both = set(marked["slow"]) & set(marked["shipped"])
    if both:
        refuse(config, items, f"slow and shipped, of which a test is one: {sorted(both)}")
    left = [item for item in items if not chosen(config, item)]
    items[:] = [item for item in items if chosen(config, item)]
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
