"""`make gpu-check` without a GPU: what it compares, times and says."""

import importlib.metadata
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import jaxelim as je
from benchmarks import gpu_check, measure
from benchmarks.gpu_check import Options
from benchmarks.measure import MeasurementError
from tests import digests

ROOT = Path(__file__).parents[2]
JOB = "lingape near-identical arms"
SMALL = {"jobs": 1, "rules": ("lingape", "lucb"), "lanes": (16,)}
NEVER = float("inf")


def read(folder: Path) -> dict:
    return json.loads((folder / "gpu-check.json").read_text())


@pytest.fixture
def here(monkeypatch):
    """All in this process; the default device's runs are changed where a test says so."""
    changed: dict = {}

    def on_device(platform, ends, *asked):
        found = gpu_check.computed(*asked)
        return found if platform == "cpu" else changed.get("by", dict)(found)

    call = {"wall_seconds": 2.0, "samples_drawn": 1_000_000, "samples_computed": 1_000_000}
    found = {"calls": [call], "first": {"compile_seconds": 1.0},
             "device_peak_bytes": 2**20, "peak_memory_bytes": 2**20,
             "platform": "cpu", "device": "some H200"}  # fmt: skip

    def apart(case, timing, **_):
        if case is not None and case.rule == "lucb":
            raise MeasurementError("no memory")
        return found

    monkeypatch.setattr(gpu_check, "on_device", on_device)
    monkeypatch.setattr(gpu_check, "apart", apart)
    monkeypatch.setattr("benchmarks.__main__.apart", apart)
    monkeypatch.setattr(gpu_check, "JOBS", (JOB,))
    monkeypatch.setattr(gpu_check, "TRACES", (JOB,))
    return changed


@pytest.mark.slow
def test_equal_runs_times_and_failures(here, tmp_path, capsys):
    output = tmp_path / "deeper" / "check"
    assert gpu_check.main(Options(**SMALL, output=output)) == 1
    found, said = read(output), capsys.readouterr().out
    assert (output / "gpu-check.txt").read_text() in said
    assert [row.get("parted", row.get("first apart")) for row in found["runs"]] == [0, None]
    assert found["runs"][0]["runs"] == 12 and found["runs"][1]["pulls"] > 100
    (row,) = found["times"]
    # 2 us a sample of 16 lanes
    assert row["us/step"] == pytest.approx(32) and row["M samples/s"] == 0.5
    assert (row["device MiB"], row["compile s"]) == (1, 1)
    assert found["failed"] == ["lucb, 16 lanes: no memory"] and not found["left out"]
    for words in ("No GPU", "jaxlib", "FAILED: lucb", JOB, str(output)):
        assert words in said


@pytest.mark.slow
def test_where_runs_part_there_is_a_pull_with_its_margin(here, monkeypatch):
    """Half of the noise changes late pulls; the initial ones have no margin."""
    monkeypatch.setattr(gpu_check, "SHIFTS", (1e-15, 0.5))

    def other(found):
        for name, x in found.items():
            x = x.copy()
            if name.startswith("trace"):
                x[380 if name.endswith("/5") else 2] += 1
            else:
                x[5, 0] += 1
            found[name] = x
        return found

    here["by"] = other
    runs, first, fifth = gpu_check.compared(JOB, NEVER)
    assert (runs["runs"], runs["parted"]) == (12, 1)
    assert (first["run"], first["first apart"]) == (0, 3) and np.isnan(first["margin"])
    assert (fifth["run"], fifth["first apart"], fifth["margin"]) == (5, 381, 0.5)


def test_a_check_that_is_killed_leaves_its_finished_parts(here, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu_check, "timed", killed)
    with pytest.raises(KeyboardInterrupt):
        gpu_check.checked(Options(**SMALL, output=tmp_path))
    assert len(read(tmp_path)["runs"]) == 2


def test_the_order_of_the_parts_on_a_gpu(here, tmp_path, monkeypatch, capsys):
    """Runs, the usual lanes; then more lanes, and no graphs."""
    device = {"platform": "gpu", "device": "some H100"}
    monkeypatch.setattr("benchmarks.__main__.environment", lambda: ENVIRONMENT | {"device": device})
    found = gpu_check.checked(Options(jobs=1, rules=("lingape",), output=tmp_path))
    rows = [(row["lanes"], row["graphs"]) for row in found["times"]]
    assert rows == [(8192, True), (65_536, True), (1024, True), (8192, False)]
    said = [line.split("s  ")[1] for line in capsys.readouterr().out.splitlines()]
    assert said == [JOB, "lingape, 8192 lanes", "lingape, 65536 lanes",
                    "lingape, 1024 lanes", "lingape, 8192 lanes, without graphs"]  # fmt: skip
    assert not found["failed"] + found["left out"]


def test_what_lasts_too_long_is_stopped_and_left_out(here, tmp_path, monkeypatch):
    """The process ends with the minutes; a part that is not over is no failure."""
    monkeypatch.undo()
    began = time.monotonic()
    with pytest.raises(MeasurementError, match="stopped after 1 s"):
        gpu_check.on_device("cpu", began + 1, JOB, True, [], [])
    assert time.monotonic() - began < 5
    ended = MeasurementError("it was stopped")
    monkeypatch.setattr("benchmarks.__main__.environment", lambda: ENVIRONMENT)
    monkeypatch.setattr(gpu_check, "compared", lambda name, ends: wait(ends, ended))
    found = gpu_check.checked(Options(jobs=2, rules=(), minutes=1e-3, output=tmp_path))
    assert found["left out"] == list(gpu_check.JOBS[:2]) and not found["failed"]


ENVIRONMENT = {"device": {"platform": "cpu", "device": "c"}, "versions": {}, "cores": 1}


def wait(until, error):
    time.sleep(max(0.0, until - time.monotonic()))
    raise error


def test_a_version_of_a_package_that_is_not_installed(here, monkeypatch):
    """As on a machine that has the tree alone."""
    from benchmarks.__main__ import environment

    def version(name):
        if name == "jaxelim":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert environment()["versions"]["jaxelim"] == je.__version__


def test_processes_find_the_packages_of_a_folder(tmp_path, monkeypatch):
    """A child keeps the caller's PYTHONPATH, where wheels are carried."""
    (tmp_path / "carried.py").write_text("import pathlib, sys, benchmarks\n"
                                         "pathlib.Path(sys.argv[1]).touch()\n")  # fmt: skip
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    measure.child("carried", str(tmp_path / "ran"))
    assert (tmp_path / "ran").exists()
    with pytest.raises(MeasurementError, match="it ended with 1: .*IndexError"):
        measure.child("carried")


def test_unknown_rules_are_refused():
    with pytest.raises(ValueError, match="no nothing; there are lingape"):
        Options(rules=("nothing",))


def test_the_jobs_are_jobs_of_the_digests():
    names = {job.name for job in digests.JOBS}
    assert {*gpu_check.JOBS, *gpu_check.TRACES} <= names


@pytest.mark.slow
def test_the_command_at_its_smallest(tmp_path):
    words = ["--jobs", "2", "--rules", "lingape", "--chunks", "1"]
    command = [sys.executable, "-m", "benchmarks.gpu_check", *words, "--repeats", "1"]
    done = subprocess.run([*command, "--output", str(tmp_path)], cwd=ROOT, text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    found = read(tmp_path)
    assert [(row["job"], row["parted"]) for row in found["runs"]] == [
        (name, 0) for name in gpu_check.JOBS[:2]
    ]
    assert found["times"][0]["us/sample"] > 0
