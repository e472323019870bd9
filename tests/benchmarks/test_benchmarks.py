"""The arithmetic of the benchmarks' figures."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import anchor, report, targets
from benchmarks.__main__ import Options
from benchmarks.measure import Case, Timing, apart, arguments

ROOT = Path(__file__).parents[2]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="the C loop needs gcc")


@needs_gcc
def test_the_c_loop_finds_what_the_library_finds(tmp_path):
    found = anchor.measure(**anchor.build(tmp_path), runs=40)
    assert found["runs"] == 40 and found["errors"] == 0 and 0 < found["us_per_step"] < 100
    # 31,448 and 8,650: mean and standard deviation of the library's tau, 3000 runs.
    assert abs(found["mean_tau"] - 31_448) < 4 * 8_650 / math.sqrt(40)


def test_without_gcc_there_is_no_anchor(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert anchor.build(tmp_path) is None


def test_ratios_use_the_c_loop_just_before_and_just_after():
    samples = {"samples_drawn": 1_000_000, "samples_computed": 1_250_000}
    calls = [{"cpu_seconds": cpu, "wall_seconds": 1.5 * cpu, **samples} for cpu in (2.0, 6.0)]
    found = {"calls": calls, "anchors": [{"us_per_step": x} for x in (0.5, 1.5, 2.5)]}
    assert report.per_sample(found) == [2.0, 6.0] and report.to_anchor(found) == [2.0, 3.0]
    assert report.typical(found) == 4.0 and report.typical(found, "wall") == 6.0
    assert report.useful(found) == 0.8


def test_a_target_is_met_by_whole_runs_alone():
    assert targets.reached(0.94, 0.95, 1.0) is True and targets.reached(0.96, 0.95, 1.0) is False
    assert targets.reached(0.94, 0.95, 0.999) is None is targets.reached(None, 0.95, 1.0)


def test_a_run_alone_goes_on_to_its_cap(monkeypatch):
    """One run, of a delta that no rule reaches; a shorter one meets no target."""
    asked = []

    def found(case, _, anchor):
        asked.append(case)
        call = {"cpu_seconds": 0.2, "samples_drawn": 100_000, "samples_computed": 100_000}
        return {"calls": [call], "anchors": [{"us_per_step": 0.5}, {"us_per_step": 1.5}],
                "first": {"compile_seconds": 1.0}, "process_wall_seconds": 1.0}  # fmt: skip

    monkeypatch.setattr(targets, "apart", found)
    sitting = report.Sitting(quick=False, core=None, cores=1, anchor={})
    rows = targets.alone(sitting).rows
    assert [row["row"] for row in rows] == list(targets.ALONE) == [case.rule for case in asked]
    assert {(row["us/sample"], row["x C"]) for row in rows} == {(2.0, 2.0)}
    assert [row["reached"] for row in rows] == [x.target >= 2 for x in targets.ALONE.values()]
    assert {(case.runs, case.max_samples) for case in asked} == {(1, targets.SAMPLES)}
    fewer = dataclasses.replace(sitting, max_samples=500, rows=("lingape", "tas"))
    short = targets.alone(fewer).rows
    assert [(row["row"], row["reached"]) for row in short] == [("lingape", None)]
    for case in asked:
        given, settings = arguments(case)
        assert given[2].traits.elimination and settings["runs"] == 1


def test_a_failed_case_is_recorded_and_the_others_run(capfd):
    section = report.Section("title")
    bad, good = lambda: apart(Case("no-such-rule"), Timing()), lambda: {"process_wall_seconds": 1.0}
    assert section.attempt("bad", bad, lambda found: {}) is None
    assert section.attempt("good", good, lambda found: {"size": 3}) is not None
    (failed,) = section.failed
    # the last words of the failed process
    assert "'no-such-rule'" in failed.split("it ended with 1: ")[1]
    assert "failed: bad" in str(section)
    assert [row["size"] for row in section.rows] == [3] and "FAILED" in capfd.readouterr().out


@pytest.mark.parametrize(
    "wrong", [{"rows": ("lingape", "nobody")}, {"runs": 0}, {"repeats": 0}, {"core": 10**6}]
)
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Options(**wrong)


def test_every_target_is_a_call_that_the_library_takes():
    for target in targets.TARGETS.values():
        given, settings = arguments(target.case)
        assert (settings["elimination"] is not None) == given[2].traits.elimination
        assert given[2].traits.defined_for(given[1].name) and 0 < target.beyond < target.target


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_all_fields(tmp_path):
    output = tmp_path / "deeper" / "bench.json"
    words = ["--quick", "--sections", "targets", "--rows", "lucb", "--runs", "12"]
    words += ["--max-samples", "150", "--output", str(output)]
    done = subprocess.run([sys.executable, "-m", "benchmarks", *words], cwd=ROOT, text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("lucb", "us/sample", str(output)))
    found = json.loads(output.read_text())
    assert {"commit", "processor", "compiler", "load_average"} <= set(found["environment"])
    section = found["sections"]["targets"]
    (row,), raw = section["rows"], section["rows"][0]["raw"]
    call = raw["calls"][0]
    assert row["row"] == "lucb" and not section["failed"] and row["reached"] is None
    # The cap is too small for any run to stop; the initial pulls are not counted.
    assert row["mean tau"] == 150 and row["stopped"] == 0 == row["errors"]
    assert call["samples_drawn"] == 12 * (150 - 40) and not call["compiled"]
    assert raw["first"]["compiled"] and row["useful/computed"] <= 1
    assert row["us/sample"] == pytest.approx(1e6 * call["cpu_seconds"] / call["samples_drawn"])
    if shutil.which("gcc"):
        times = row["C before"] + row["C after"]
        assert row["x C"] == pytest.approx(2 * row["us/sample"] / times)
