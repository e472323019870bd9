"""Settings that the entry points change, and their restoration."""

import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.linalg  # noqa: F401  so that its threads are counted, and limited, from the start
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

import jaxelim as je
from jaxelim import scope
from jaxelim.simulation import plan


def threads():
    return {x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def of_two_threads():
    """Give BLAS two threads on any machine, and let any thread change their number."""
    limits = threadpool_limits(limits=2, user_api="blas")
    OpenBLASController.clear_controlling_thread(force=True)
    assert threads() == {2}
    yield
    limits.restore_original_limits()


def test_one_thread_inside_and_the_callers_number_outside():
    with scope.engine():
        assert threads() == {1} and jax.config.jax_enable_x64
        with scope.float64():
            assert threads() == {1}
        assert threads() == {1}  # still inside the outer scope
    assert threads() == {2}
    with pytest.raises(ZeroDivisionError), scope.float64():
        raise ZeroDivisionError
    assert threads() == {2}


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_concurrent_callers_share_the_scope(first_leaves_first):
    """Leaving does not affect the other caller; both gone, the threads are restored."""
    entered = [threading.Event(), threading.Event()]
    leave = [threading.Event(), threading.Event()]

    def caller(i):
        with scope.float64():
            entered[i].set()
            assert leave[i].wait(60)

    workers = [threading.Thread(target=caller, args=(i,)) for i in range(2)]
    for worker, inside in zip(workers, entered, strict=True):
        worker.start()
        assert inside.wait(60)
    for i in (0, 1) if first_leaves_first else (1, 0):
        assert threads() == {1}
        leave[i].set()
        workers[i].join()
    assert threads() == {2}
    with scope.float64():
        assert threads() == {1}
    assert threads() == {2}


def test_a_simulation_runs_in_the_scope():
    seen = []

    def threshold(t, delta):
        seen.append(threads())
        return je.Heuristic()(t, delta)

    easy = je.Instance(np.eye(3), [1.0, 0.5, 0.0])
    je.simulate(easy, je.BestArm(), je.Uniform(), threshold=threshold, runs=1, max_samples=20)
    assert seen and seen[-1] == {1} and threads() == {2}


def test_float64_is_enabled_in_one_file():
    root = Path(je.__file__).parent
    assert [p.name for p in root.rglob("*.py") if re.search(r"enable_x64\(", p.read_text())] == [
        "scope.py"
    ]


def test_a_newer_jax_warns_once(monkeypatch):
    """With what was tried, at the caller's line; the next call says nothing."""
    monkeypatch.setattr(jax, "__version_info__", (99, 1, 0))
    monkeypatch.setattr(jax, "__version__", "99.1.0")
    scope._warn_of_newer.cache_clear()
    tried = re.escape(".".join(map(str, scope.TRIED)))
    with pytest.warns(UserWarning, match=f"JAX 99.1.0 is newer than {tried}") as seen:
        with scope.float64():
            pass
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with scope.float64():
            pass
    scope._warn_of_newer.cache_clear()


@pytest.mark.parametrize("version", scope.FAULTY)
def test_a_faulty_jax_is_refused(version):
    """By name, at import; the declared range leaves it out too."""
    name = ".".join(map(str, version))
    with pytest.raises(je.errors.SetupError, match=f"JAX {re.escape(name)} is refused: "):
        scope.refuse_faulty(version)
    declared = (Path(je.__file__).parents[1] / "pyproject.toml").read_text()
    assert declared.count(f"!={name},") == 3
    child = f"import jax; jax.__version_info__ = {version}; import jaxelim"
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
    assert done.returncode == 1 and f"SetupError: JAX {name} is refused" in done.stderr


def test_a_jax_that_fails_on_several_devices_takes_one(monkeypatch):
    """With a warning where several are asked for."""
    monkeypatch.setattr(jax, "__version_info__", scope.ONE_DEVICE[0])
    assert plan.used_devices(je.Engine()) == 1
    with pytest.warns(UserWarning, match="runs take one device"):
        assert plan.used_devices(je.Engine(devices=2)) == 1
