"""The arithmetic of the benchmarks' figures."""

import dataclasses
import math
import shutil

import pytest

from benchmarks import anchor, report, targets
from benchmarks.__main__ import Options
from benchmarks.cases import Case, Timing, arguments
from benchmarks.processes import apart

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
    assert (
        report.typical(found) == 4.0
        and report.typical(found, "wall") == 6.0
        and report.useful(found) == 0.8
    )


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
    assert [row["reached"] for row in rows] == [
        one.target >= 2 for one in targets.ALONE.values()
    ]
    assert {(case.runs, case.max_samples) for case in asked} == {(1, targets.SAMPLES)}
    fewer = dataclasses.replace(sitting, max_samples=500, rows=("lingape", "tas"))
    short = targets.alone(fewer).rows
    assert [(row["row"], row["reached"]) for row in short] == [("lingape", None)]
    for case in asked:
        given, settings = arguments(case)
        assert given[2].traits.elimination and settings["runs"] == 1


def test_a_failed_case_is_recorded_and_the_others_run(capfd):
    section = report.Section("title")
    assert (
        section.attempt("bad", lambda: apart(Case("no-such-rule"), Timing()), lambda found: {})
        is None
    )
    assert (
        section.attempt("good", lambda: {"process_wall_seconds": 1.0}, lambda found: {"size": 3})
        is not None
    )
    assert (
        len(section.failed) == 1
        and "no-such-rule" in section.failed[0]
        and "failed: bad" in str(section)
    )
    # the last words of the failed process
    assert "'no-such-rule'" in section.failed[0].split("it ended with 1: ")[1]
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
