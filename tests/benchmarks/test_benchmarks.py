"""The arithmetic of the benchmarks' figures."""

import dataclasses
import math
import shutil
from pathlib import Path

import pytest

from benchmarks import (
    alone,
    anchor,
    gpu,
    kernels,
    measure,
    report,
    rules,
    targets,
)
from benchmarks.__main__ import Options
from benchmarks.calls import arguments
from benchmarks.cases import CHUNK, Case, Timing, whole_chunks
from benchmarks.processes import apart
from jaxelim import catalogue
from tests.calls import checked

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
    assert (
        report.typical(found) == 4.0
        and report.typical(found, "wall") == 6.0
        and report.useful(found) == 0.8
    )


def test_a_target_is_met_by_whole_runs_alone():
    assert targets.reached(0.94, 0.95, 1.0) is True and targets.reached(0.96, 0.95, 1.0) is False
    assert targets.reached(0.94, 0.95, 0.999) is None is targets.reached(None, 0.95, 1.0)


def test_without_a_gpu_there_are_estimates_and_with_one_there_are_none(monkeypatch):
    call = {
        "cpu_seconds": 1.0,
        "wall_seconds": 2.0,
        "samples_drawn": 1_000_000,
        "samples_computed": 1_000_000,
    }
    found = {
        "device": "some device",
        "calls": [call],
        "first": {"compile_seconds": 1.0},
        "process_wall_seconds": 1.0,
        "state_bytes_per_lane": 10_000.0,
        "plan": {"design": "arms"},
    }
    sitting = report.Sitting(quick=False, core=None, cores=1, anchor=None)
    for platform, estimate in (("cpu", True), ("gpu", False)):
        here = {**found, "platform": platform}
        monkeypatch.setattr(gpu, "apart", lambda *_, here=here, **__: here)
        section = gpu.run(sitting)
        assert [row["lanes"] for row in section.rows] == list(gpu.LANES)
        assert {row["estimate"] for row in section.rows} == {estimate} and (
            "ESTIMATES" in str(section)
        ) == estimate
        # Bytes moved are proportional to lanes; launches take the same time.
        if estimate:
            moving = [row["of which moving bytes"] for row in section.rows]
            assert (
                moving[1]
                == pytest.approx(2 * moving[0])
                == pytest.approx(1e6 * gpu.BYTES * 2048 / gpu.BANDWIDTH)
            )
            assert len({row["of which nodes"] for row in section.rows}) == 1
        else:
            assert {row["M samples/s"] for row in section.rows} == {0.5}


def test_every_rule_is_timed_once_where_it_is_defined(monkeypatch):
    first = {"cpu_seconds": 5.0, "compile_seconds": 4.0, "compile_processor_seconds": 3.0}
    first |= {"samples_drawn": 1_000_000, "samples_computed": 2_000_000}
    found = {
        "first": first,
        "calls": [],
        "mean_tau": 9.0,
        "stopped": 1.0,
        "errors": 0,
        "process_wall_seconds": 1.0,
    }
    monkeypatch.setattr(rules, "apart", lambda *_: found)
    sitting = report.Sitting(quick=False, core=None, cores=1, anchor=None)
    rows, cases = rules.run(sitting).rows, rules.cases(sitting)
    assert {row["us/sample"] for row in rows} == {2.0} and {
        row["useful/computed"] for row in rows
    } == {0.5}
    known, seen = (
        catalogue.rules(),
        {(row["rule"], row["problem"], row["instance"], row["sampling"]) for row in rows},
    )
    assert len(seen) == len(rows) == len(cases)
    for structure, instance in rules.INSTANCES.items():
        for problem, places in (
            ("best arm", instance),
            ("top 5", instance),
            ("signs", f"{instance}-osi"),
        ):
            spelled = {"best arm": "best-arm", "top 5": "top-m", "signs": "thresholding"}[problem]
            for name, rule in known.items():
                defined = structure in rule.traits.structures and rule.traits.defined_for(spelled)
                assert ((name, problem, places, "none") in seen) == defined
                assert ((name, problem, places, "selective") in seen) == (
                    defined and rule.traits.elimination
                )
    for case in cases:  # each is a valid call
        given, asked = arguments(case)
        checked(*given, **(asked | {"runs": 1}))


def test_kernels_are_named_by_the_functions_they_come_from():
    text = """HloModule m
FileNames
1 "/here/jaxelim/lanes.py"
2 "/here/jaxelim/problems/top_m.py"
3 "/there/script.py"

FunctionNames
1 "LaneOps.materialize"
2 "TopM.drop.<locals>.<lambda>"
3 "<module>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=5 end_line=5}
2 {file_name_id=2 function_name_id=2 line=9 end_line=9}
3 {file_name_id=3 function_name_id=3 line=1 end_line=1}

StackFrames
1 {file_location_id=3 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=1 parent_frame_id=2}

%f.1 (x: f64[2,64]) -> f64[2,64] {
  %multiply.1 = f64[2,64]{1,0} multiply(%x, %x), metadata={op_name="d" stack_frame_id=2}
  ROOT %add.1 = f64[2,64]{1,0} add(%multiply.1, %x)
}

%inner (x: f64[2,64]) -> f64[2,64] {
  %bare_fusion = f64[2,64]{1,0} fusion(%x), kind=kLoop, calls=%f.1
  %and_fusion.1 = pred[2,64]{1,0} fusion(%x), calls=%f, metadata={op_name="a" stack_frame_id=3}
  %dot.2 = f64[2]{0} dot(%x, %x), metadata={op_name="b" stack_frame_id=1}
  ROOT %cond.3 = (f64[2,64], s32[]) conditional(%p, %x), metadata={op_name="c" stack_frame_id=3}
}
"""
    found = kernels.functions(text)
    assert {name: found[name] for name in ("and_fusion.1", "bare_fusion", "dot.2")} == {
        "and_fusion.1": "TopM.drop (top_m.py)",
        "bare_fusion": "TopM.drop (top_m.py)",
        "dot.2": "dot.2",
    }


@pytest.mark.slow
def test_a_profile_names_the_functions_of_a_step():
    case = Case("lucb", instance="unstructured-k40", runs=64, max_samples=whole_chunks(1, 40))
    found = kernels.of(*arguments(case))
    assert found["computed"] % (64 * CHUNK) == 0 and found["seconds"] > 0
    by_name = {one["function"]: one for one in found["functions"]}
    assert {"ArmSet.drop (arm_sets.py)", "DiagonalDesign.add (designs.py)"} & set(by_name)
    assert any("lucb.py" in name for name in by_name) and any("step.py" in name for name in by_name)
    assert all(one["ns/sample"] > 0 and one["kernels/step"] > 0 for one in found["functions"])
    order = [one["ns/sample"] for one in found["functions"]]
    assert order == sorted(order, reverse=True) and sum(order) < 1e9 * found["seconds"]


def test_a_run_alone_goes_on_to_its_cap(monkeypatch):
    """One run, of a delta that no rule reaches; a shorter one meets no target."""
    asked = []

    def found(case, _, anchor):
        asked.append(case)
        call = {"cpu_seconds": 0.2, "samples_drawn": 100_000, "samples_computed": 100_000}
        return {"calls": [call], "anchors": [{"us_per_step": 0.5}, {"us_per_step": 1.5}],
                "first": {"compile_seconds": 1.0}, "process_wall_seconds": 1.0}  # fmt: skip

    monkeypatch.setattr(alone, "apart", found)
    sitting = report.Sitting(quick=False, core=None, cores=1, anchor={})
    rows = alone.run(sitting).rows
    assert [row["row"] for row in rows] == list(alone.TARGETS) == [case.rule for case in asked]
    assert {(row["us/sample"], row["x C"]) for row in rows} == {(2.0, 2.0)}
    assert [row["reached"] for row in rows] == [target >= 2 for target in alone.TARGETS.values()]
    assert {(case.runs, case.max_samples) for case in asked} == {(1, alone.SAMPLES)}
    short = alone.run(dataclasses.replace(sitting, max_samples=500, rows=("lingape", "tas"))).rows
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


def test_the_state_of_a_lane_does_not_grow_with_the_number_of_lanes():
    sizes = {}
    for lanes in (16, 64):
        given, settings = arguments(Case("lingape", runs=64, lanes=lanes))
        sizes[lanes] = measure.bytes_per_lane(given, settings, {"chunk": 256})
    assert sizes[16] == sizes[64] and sizes[16]["noise_bytes_per_lane"] == 8 * (50 + 256)
    # V^-1 and some vectors of K entries
    assert 8 * 20 * 20 < sizes[16]["state_bytes_per_lane"] < 2 * 8 * 20 * 20


def test_every_target_is_a_call_that_the_library_takes():
    for target in targets.TARGETS.values():
        given, settings = arguments(target.case)
        assert (settings["elimination"] is not None) == given[2].traits.elimination
        assert given[2].traits.defined_for(given[1].name) and 0 < target.beyond < target.target
