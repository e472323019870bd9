"""Settings that the entry points change, and their restoration."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.simulation import plan


def test_float64_inside_and_the_callers_settings_outside():
    before = jax.config.jax_enable_x64
    with pytest.raises(ZeroDivisionError), scope.engine():
        with scope.engine():
            assert jax.config.jax_enable_x64
        assert jax.config.jax_enable_x64
        raise ZeroDivisionError
    assert jax.config.jax_enable_x64 == before


def test_float64_is_enabled_in_one_file():
    root = Path(je.__file__).parent
    calls = re.compile(r"^ *jax\.enable_x64\(", re.MULTILINE)
    assert [p.name for p in root.rglob("*.py") if calls.search(p.read_text())] == ["scope.py"]


def test_a_newer_jax_warns_once(monkeypatch):
    """With what was tried, at the caller's line; the next call says nothing."""
    monkeypatch.setattr(jax, "__version_info__", (99, 1, 0))
    monkeypatch.setattr(jax, "__version__", "99.1.0")
    scope._warn_of_newer.cache_clear()
    tried = re.escape(".".join(map(str, scope.TRIED)))
    with pytest.warns(UserWarning, match=f"JAX 99.1.0 is newer than {tried}") as seen:
        with scope.engine():
            pass
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with scope.engine():
            pass
    scope._warn_of_newer.cache_clear()


@pytest.mark.parametrize("version", scope.FAULTY)
def test_a_faulty_jax_is_refused(version):
    """By name, at import; the declared range leaves it out too."""
    name = ".".join(map(str, version))
    declared = (Path(je.__file__).parents[1] / "pyproject.toml").read_text()
    assert declared.count(f"!={name},") == 3
    child = f"import jax; jax.__version_info__ = {version}; import jaxelim"
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
    assert done.returncode == 1 and f"SetupError: JAX {name} is refused: " in done.stderr


def test_a_jax_that_fails_on_several_devices_takes_one(monkeypatch):
    """With a warning where several are asked for."""
    monkeypatch.setattr(jax, "__version_info__", scope.ONE_DEVICE[0])
    assert plan.used_devices(je.Engine()) == 1
    with pytest.warns(UserWarning, match="runs take one device"):
        assert plan.used_devices(je.Engine(devices=2)) == 1
