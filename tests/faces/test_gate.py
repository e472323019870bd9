"""The gate: what runs as shipped, and the parts of the slow suite."""

import re
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import slow_parts
from tests.conftest import COLLECTED, SLOW_ROWS, chosen, pytest_testnodedown, refuse

ROOT = Path(__file__).parents[2]
SHIPPED = {
    "sampling/test_traces.py::test_trace": 4,  # LinGapE, LinGame and Oracle
    "sampling/test_fws.py::test_trace": 1,
    "sampling/test_lazy_tas.py::test_the_first_pulls_of_a_trace": 1,
    "faces/test_digests.py::test_digests_as_shipped": 10,
    "engine/test_lanes_in_one_kernel.py::test_one_kernel_rounds_as_many": 1,
    "engine/test_one_lane.py::test_a_lane_alone_is_one_kernel": 1,
    "engine/test_one_lane.py::test_a_lane_alone_rounds_as_one_of_many": 1,
    "engine/test_one_lane.py::test_a_lane_alone_rounds_as_one_that_waits_for_others": 1,
    "engine/test_devices.py::test_two_devices_and_one": 1,
    "results/test_interrupts.py::test_ctrl_c_in_another_process": 1,
    "cluster/test_simulate_in_blocks.py::test_a_killed_call_is_resumed_by_another_process": 1,
}
"""Tests without XLA_FLAGS, and how many rows of each."""


def whole(config):
    """Whether pytest collected all files."""
    return ROOT / "tests" in {Path(path).resolve() for path in config.args}


def make(*words):
    """The commands that a target would run."""
    done = subprocess.run(
        ["make", "-n", "-o", "install", "-o", "check", *words], cwd=ROOT, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return done.stdout.replace("\\\n", " ").splitlines()


def test_the_gate_runs_what_ships():
    """One call without flags for the marked tests, and one with flags for the others."""
    shipped, others = (line for line in make("test") if "-m pytest" in line)
    assert shipped.startswith("env -u XLA_FLAGS ") and "-m shipped " in shipped
    assert '-m "not slow and not shipped"' in others and "XLA_FLAGS" not in others
    files = subprocess.run(
        re.search(r"\$\((grep .*)\)", shipped)[1], shell=True, cwd=ROOT, capture_output=True,
        text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert {f"tests/{name.partition('::')[0]}" for name in SHIPPED} <= set(files)


def test_what_runs_as_shipped(request):
    """The rows of this file's table, no others."""
    if not whole(request.config):
        pytest.skip("needs all files: pytest tests")
    found = Counter(one.partition("[")[0] for one in request.config.stash[COLLECTED]["shipped"])
    assert found == {f"tests/{name}": rows for name, rows in SHIPPED.items()}


@pytest.mark.parametrize("marker", ["shipped", "slow", None])
def test_shipped_tests_do_not_run_under_flags(marker, request, monkeypatch):
    """pytest then collects nothing, which ends `make`; a part has slow tests alone."""
    names, place = {marker}, "tests/engine/test_devices.py::test"
    item = SimpleNamespace(
        nodeid=place, get_closest_marker=lambda name: True if name in names else None
    )
    for flags, part, runs in (
        ("", None, True),
        ("--xla_backend_optimization_level=1", None, marker != "shipped"),
        ("", slow_parts.parts_of(place)[0], marker != "shipped"),
        ("", slow_parts.parts_of(place)[0] + 1, False),
    ):
        monkeypatch.setenv("XLA_FLAGS", flags)
        monkeypatch.setattr(request.config.option, "slow_part", part)
        assert chosen(request.config, item) == runs


def test_every_slow_test_is_in_one_part(request):
    """Of the tests that pytest collected: all, where it collected all files."""
    slow = request.config.stash[COLLECTED]["slow"]
    wrong = {one: found for one in slow if len(found := slow_parts.parts_of(one)) != 1}
    assert not wrong, "tests/slow_parts.py"
    if whole(request.config):
        assert len(slow) > 2000 and {slow_parts.parts_of(one)[0] for one in slow} == {
            *slow_parts.PARTS
        }


def test_every_file_with_slow_tests_is_in_one_part():
    """Its shares are all there."""
    files = {one.partition("::")[0] for one in SLOW_ROWS} | {
        str(one.relative_to(ROOT))
        for one in (ROOT / "tests").rglob("test_*.py")
        if "mark.slow" in one.read_text()
    }
    assert len(files) > 50
    names = [f"{file}::test_{n}" for file in files for n in range(20)]
    assert not [one for one in names if len(slow_parts.parts_of(one)) != 1]


def test_parts_that_overlap_or_lack_a_test_are_seen(monkeypatch):
    monkeypatch.setattr(
        slow_parts, "PARTS", {1: ("a/",), 2: ("a/test_b.py", "c/test_d.py 1/2"), 3: ()}
    )
    assert slow_parts.parts_of("tests/a/test_b.py::test") == [1, 2]
    assert slow_parts.parts_of("tests/a/test_bc.py::test") == [1]
    assert slow_parts.parts_of("tests/c/test_da.py::test") == []
    found = {len(slow_parts.parts_of(f"tests/c/test_d.py::test[{n}]")) for n in range(20)}
    assert found == {0, 1}


def test_the_page_has_every_part():
    """With what the parts hold; a part that passed did so within its time."""
    text = slow_parts.PAGE.read_text()
    known = slow_parts.rows(text)
    assert list(known) == list(slow_parts.PARTS)
    assert text == slow_parts.with_rows(text, known)
    for row in known.values():
        assert (row.date == "not yet") != bool(row.commit)
        if row.commit:
            assert int(row.minutes) * int(row.cores) <= 2 * slow_parts.LIMIT


def test_a_part_that_passes_is_recorded():
    text = slow_parts.PAGE.read_text()
    row = slow_parts.Passed(2, "", "7", "2026-01-02", "abc1234", "51", "2")
    changed = slow_parts.with_rows(text, slow_parts.rows(text) | {2: row})
    assert slow_parts.rows(changed)[2] == row._replace(what=slow_parts.what(2))
    assert set(text.splitlines()) ^ set(changed.splitlines()) == {
        line for page in (text, changed) for line in page.splitlines() if line.startswith("| 2 |")
    }


def test_a_refusal_is_said_with_and_without_workers():
    """A worker runs nothing and tells the main process, which says the sentence."""
    said = "tests/slow_rows.txt: no such tests"
    with pytest.raises(pytest.UsageError, match=said):
        refuse(SimpleNamespace(), [1], said)
    worker, items = SimpleNamespace(workeroutput={}), [1]
    refuse(worker, items, said)
    assert not items
    with pytest.raises(pytest.UsageError, match=said):
        pytest_testnodedown(worker)
    pytest_testnodedown(SimpleNamespace(workeroutput={}))
    pytest_testnodedown(SimpleNamespace())  # it crashed


def test_the_tests_of_a_file_go_to_one_worker(request):
    """pytest-xdist writes a group behind a test's name; pytest 9.2 loses it without a word."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("for workers of `--dist loadgroup`")
    assert request.node.nodeid.endswith("@tests/faces/test_gate.py")
