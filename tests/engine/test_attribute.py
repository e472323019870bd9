"""The compiler's undocumented attribute: it is tried in a child, and nothing depends on it."""

import subprocess

import pytest

import jaxelim as je
from jaxelim import engine
from jaxelim.engine.cpu import attribute
from tests.engine.test_in_turn import EASIER, InTurn
from tests.engine.test_invariance import COMMON, equal

pytestmark = pytest.mark.devices


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """How often a child is asked, with an empty cache folder; its exit status is set."""
    calls, status = [], {"code": 0}

    def run(*_, **more):
        calls.append(more)
        if status["code"] is None:
            raise OSError("no child")
        return subprocess.CompletedProcess([], status["code"])

    monkeypatch.setattr(attribute, "own_folder", lambda: tmp_path / "folder")
    monkeypatch.setattr(attribute.subprocess, "run", run)
    attribute.works.cache_clear()
    yield calls, status
    attribute.works.cache_clear()


@pytest.mark.parametrize("code, works, asks", [(0, True, 1), (-6, False, 1), (None, False, 2)])
def test_a_child_is_asked_once_for_each_version(asked, monkeypatch, tmp_path, code, works, asks):
    """A file keeps what it found out, if it could be started."""
    calls, status = asked
    status["code"] = code
    for _ in range(2):
        assert attribute.works() is works
        attribute.works.cache_clear()
    assert len(calls) == asks and "XLA_FLAGS" not in calls[0]["env"]
    monkeypatch.setattr(attribute.jaxlib.version, "__version__", "99.0")
    assert attribute.works() is works and len(calls) == asks + 1


def test_a_folder_that_cannot_be_written(asked, tmp_path):
    calls, _ = asked
    (tmp_path / "folder").write_text("a file")
    assert attribute.works() and len(calls) == 1


def test_a_program_that_holds_python_is_not_started(asked, monkeypatch):
    monkeypatch.setattr(attribute.sys, "executable", "/usr/bin/uwsgi")
    assert not attribute.works() and asked[0] == []


def test_the_child_compiles_a_tagged_call():
    """Its unread arguments, constants and empty arrays end the process with the bare tag."""
    assert attribute.tried() is True


@pytest.mark.parametrize("rule", [je.LinGapE(), InTurn()], ids=repr)
def test_without_it_the_numbers_are_the_same(monkeypatch, rule):
    """Steps are in many kernels then, and no lane takes the last runs."""
    layout, common = je.Engine(devices=1, shrink=True), {**COMMON, "stopping": je.LLR()}
    before = set(engine.program.values())
    expected = je.simulate(EASIER, je.BestArm(), rule, engine=layout, **common)
    monkeypatch.setattr(attribute, "works", lambda: False)
    known = set(engine.program.values())
    refused = je.simulate(EASIER, je.BestArm(), rule, engine=layout, **common)
    equal(expected, refused)
    assert any(p.spec.execution.in_kernel for p in known - before)
    made = [p.spec.execution for p in set(engine.program.values()) - known]
    assert not any(execution.in_kernel for execution in made)
