"""Each experiment at a tiny size from its command line, and its tables."""

import math
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import jaxelim as je
from experiments import __main__, cells, paper, tables
from jaxelim import figures

ROOT = Path(__file__).parents[2]
HERE = "--workers=0"  # reuse what this process has compiled


def run(name: str, arguments: list[str]) -> int:
    return __main__.main([name, *arguments])


def test_the_tables_have_all_cells_of_the_paper():
    seen = []
    for name, layout in tables.LAYOUTS.items():
        found = tables.rows(name, tables.TableOptions())
        seen += [(name, row.problem, row.algorithm, row.column) for row in found if row.reproduces]
        assert {row.column for row in found} == set(layout.columns)
        exact = [row for row in found if not row.reproduces]
        assert len(exact) == sum(row.algorithm == "Oracle" for row in found)
        assert len(tables.jobs(found)) == len({row.name for row in found})
        # Columns without elimination at sampling observe the same runs.
        for row in found:
            watched = row.column in ("none", "stopping") or (
                name == "table3" and "elim" not in row.algorithm
            )
            native = row.experiment.rule.traits.stopping == ("native",)
            end = "native" if native else "watched" if watched else "-at-both"
            assert row.name.endswith(end)
            assert (row.experiment.elimination is None) == (native or watched)
            assert row.stopping in [one.name for one in row.experiment.stopping]
    assert sorted(seen) == sorted(paper.cells()) and len(seen) == 145


def test_cells_are_those_of_the_paper():
    rows = {(row.problem, row.algorithm, row.column): row
            for row in tables.rows("table1", tables.TableOptions())}  # fmt: skip
    cell = rows["topm", "MisLid", "stopping+sampling"].experiment
    assert (cell.rule, cell.problem) == (je.LinGame(), je.TopM(5))
    assert cell.instance == je.load_instance("linear-d20")
    assert cell.stopping == (je.SelectiveElimination(),) == (cell.elimination,)
    assert cell.delta.tolist() == [0.01] and cell.max_samples == 10**6
    assert cell.threshold == je.Heuristic() and cell.ridge == 1
    assert rows["osi", "Oracle", "none"].experiment.instance == je.load_instance("linear-d20-osi")
    np.testing.assert_array_equal(
        rows["osi", "Oracle", "none"].experiment.rule.weights,
        paper.oracle_weights("linear-d20-osi", "osi"),
    )
    assert rows["osi", tables.EXACT, "none"].experiment.rule == je.Oracle()
    full = {(row.algorithm, row.column): row
            for row in tables.rows("table3", tables.TableOptions(problems=("topm",)))}  # fmt: skip
    assert full["MisLid + elim", "full"].experiment.elimination == je.FullElimination()
    three = (je.LLR(), je.SelectiveElimination(), je.FullElimination())
    assert full["MisLid", "full"].experiment.stopping == three
    assert full["MisLid", "full"].experiment.problem == je.TopM(3)
    for table, options, words in (
        ("table1", dict(rules=("lingap",)), "lingape"), ("table1", dict(problems=("top",)), "topm"),
        ("table3", dict(rules=("lucb",)), "table3"),
    ):  # fmt: skip
        with pytest.raises(je.errors.ArgumentError, match=words):
            tables.rows(table, tables.TableOptions(**options))


@pytest.mark.parametrize("table, count", [("table1", 9), ("table3", 10), ("table4", 9)])
def test_rules_without_the_papers_numbers(table, count):
    found = tables.rows(table, tables.TableOptions(rules=("tas",)))
    assert len(found) == count and all(row.paper == {} for row in found)
    assert {row.experiment.rule for row in found} == {je.TrackAndStop()}
    both = tables.rows(table, tables.TableOptions(rules=("tas", "lingape"), problems=("topm",)))
    assert [row.problem for row in both] == ["topm"] * len(both) and len(both) > count / 3


def test_errors_are_counted_among_runs_that_stopped(monkeypatch):
    numbers = {
        "stopped": [True, True, True, False, False], "correct": [True, False, True, False, False],
        "samples": [10, 20, 30, 40, 40], "tests_stopping": [0] * 5, "tests_sampling": [0] * 5,
    }  # fmt: skip
    data = xr.Dataset({name: ("run", x) for name, x in numbers.items()})
    monkeypatch.setattr(tables, "observed", lambda row, held: data)
    row: Any = SimpleNamespace(
        name="x", problem="bai", algorithm="LinGapE", column="none", paper={}, reproduces=True,
        experiment=SimpleNamespace(max_samples=40),
    )  # fmt: skip
    held: Any = {"x": SimpleNamespace(timings={"seconds": 1.0, "samples_drawn": 100})}
    (line,) = tables.measures([row], held)
    assert (line["errors"], line["stopped"], line["truncated"]) == (1, 3, 2)
    (shown,) = tables.shown([line])
    assert shown["errors [95%]"] == "1/3 [0.008, 0.906]" and shown["samples (k)"].endswith("†")
    assert shown["samples (k)"].startswith("0.03 ")
    data["stopped"] = data["samples"] > 40
    (line,) = tables.measures([row], held)
    assert tables.shown([line])[0]["errors [95%]"] == "0/0" and math.isnan(line["error_low"])


def test_rows_of_other_settings():
    """Their cells have other names, the page says so, and nothing is compared with the paper."""
    usual = tables.TableOptions(rules=("lucb",), problems=("osi",))
    other = tables.TableOptions(rules=("lucb",), problems=("osi",), delta=0.1, ridge=0.0)
    assert usual.papers and not other.papers
    row, changed = (tables.rows("table4", one)[0] for one in (usual, other))
    assert changed.name == f"{row.name}/delta=0.1/ridge=0.0" and changed.paper == {}
    assert (changed.experiment.delta, changed.experiment.ridge) == (0.1, 0.0)
    told = ["\n".join(tables.notes([], one)) for one in (usual, other)]
    for words in ("These are not the paper's numbers", "delta = 0.1, threshold log("):
        assert words in told[1] and words not in told[0]
    gk16 = tables.rows("table4", tables.TableOptions(rules=("lucb",), threshold="gk16"))[0]
    assert gk16.experiment.threshold == je.GK16() and gk16.name.endswith("/threshold=gk16")


@pytest.mark.slow
def test_table4(tmp_path, capsys):
    """LUCB on thresholding: every run stops; the numbers are those of `simulate`."""
    arguments = [
        "--runs", "6", "--rules", "lucb", "--problems", "osi", HERE, "--output", str(tmp_path),
    ]  # fmt: skip
    assert run("table4", arguments) == 0
    page = capsys.readouterr().out
    lines = pd.read_csv(tmp_path / "table4.csv").set_index("column")
    instance = je.load_instance("unstructured-k40-osi")
    both = je.SelectiveElimination()
    # One device, as for cells: no further compilation.
    common = dict(runs=6, engine=je.Engine(devices=1), ridge=1.0)
    watched, shared = (
        je.simulate(instance, je.Thresholding(), je.LUCB(), stopping=stopping,
                    elimination=elimination, **common)
        for stopping, elimination in (((je.LLR(), both), None), (both, both))
    )  # fmt: skip
    runs = je.load_study(tmp_path / "table4.nc")
    for name, result in (("watched", watched), ("selective-at-both", shared)):
        assert runs[f"table4/osi/LUCB/{name}"].equals(result)
    for column, result, place in (
        ("none", watched, 0), ("stopping", watched, 1), ("stopping+sampling", shared, 0),
    ):  # fmt: skip
        samples = result.samples[place, 0]
        tau, theirs = samples / 1000, paper.cells()["table4", "osi", "LUCB", column]
        mean, sd = tau.mean(), tau.std(ddof=1)
        z = (mean - theirs["mean"]) / math.sqrt(theirs["sd"] ** 2 / 100 + sd**2 / 6)
        tests = {name: getattr(result, name)[place, 0].sum() / samples.sum()
                 for name in ("tests_stopping", "tests_sampling")}  # fmt: skip
        errors = (~result.correct[place, 0]).sum()
        known = {"samples_k": mean, "sd_k": sd, "z": z, "truncated": 0, "errors": errors, **tests}
        assert lines.loc[column, list(known)].to_dict() == pytest.approx(known, rel=1e-9)
        assert abs(z) < 5 and f"{mean:.2f} ± {sd:.1f} | {theirs['mean']:.2f}" in page
    saved = 100 * (1 - shared.samples.mean() / watched.samples[0].mean())
    assert lines.samples_saved["stopping+sampling"] == pytest.approx(saved)
    paper_saved = lines.paper_time_saved["stopping+sampling"]
    assert paper_saved == pytest.approx(100 * (1 - 0.10 / 0.11))
    assert (tmp_path / "table4.md").read_text() in page
    assert "3 of the paper's cells" in page and "†" not in page
    # More runs: only the new ones are computed, and the first blocks stay.
    before = {path: path.read_bytes() for path in tmp_path.glob("blocks/*/*.npz")}
    arguments[1] = "8"
    assert run("table4", arguments) == 0
    assert all(path.read_bytes() == contents for path, contents in before.items())


@pytest.mark.slow
def test_table3_with_runs_that_are_cut_off(tmp_path, capsys):
    """At 2000 samples every run of the oracle is cut off.

    The table then shows restricted means, daggers and the number of runs.
    """
    tiny = ["--runs", "6", "--max-samples", "2000", "--seed", "3", HERE, "--rules", "oracle",
            "--output", str(tmp_path)]  # fmt: skip
    assert run("table3", [*tiny, "--problems", "bai"]) == 0
    page = capsys.readouterr().out
    lines = pd.read_csv(tmp_path / "table3.csv")
    assert list(lines.algorithm) == ["Oracle"] * 3 + [tables.EXACT] * 3
    assert (lines[["truncated", "samples_k", "stopped"]] == [6, 2.0, 0]).all(axis=None)
    assert lines[["error_low", "z"]].isna().all(axis=None)  # the paper's cap is different
    for words in ("† 36 runs were cut off at 2000 samples", "2.00 ± 0.0†", "6/6"):
        assert words in page
    # Figure 1, left, shares these runs, and refuses to draw runs that were cut off.
    assert run("figure1_left", tiny) == 2
    assert "ArgumentError" in capsys.readouterr().err


def test_an_interrupt_prints_the_command_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(je, "study", interrupted)
    given = ["--runs", "2", "--rules", "oracle", "--output", str(tmp_path)]
    assert run("table1", given) == 130
    assert f"\n  python -m experiments table1 {' '.join(given)}\n" in capsys.readouterr().err


@pytest.mark.slow
def test_a_table_that_is_killed_at_random_moments(tmp_path):
    """Kill -9, ten times, up to 0.15 s after a new block, while others are written.

    Two oracles, 100 runs each: no process finishes them all before it is killed.
    """
    disturbed, whole = tmp_path / "disturbed", tmp_path / "whole"
    given = ["--runs", "100", "--block", "1", "--rules", "oracle", "--problems", "bai",
             "--max-samples", "10000"]  # fmt: skip
    command = [sys.executable, "-m", "experiments", "table1", *given, "--output", str(disturbed)]
    rng = np.random.default_rng(0)
    blocks = lambda: len(list(disturbed.glob("blocks/*/*.npz")))  # noqa: E731
    for _ in range(10):
        there, end = blocks(), time.monotonic() + 120
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)  # fmt: skip
        while blocks() == there and time.monotonic() < end and process.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.15))
        process.kill()
        # its workers hold the other end of the pipes: wait until they end too
        said = process.communicate(timeout=60)
        assert blocks() > there, said
    assert blocks() < 200  # every kill came before the end
    for folder in (disturbed, whole):
        assert run("table1", [*given, HERE, "--output", str(folder)]) == 0
    pages = [pd.read_csv(folder / "table1.csv").drop(columns="us_per_sample")
             for folder in (disturbed, whole)]  # fmt: skip
    assert pages[0].equals(pages[1])
    ran, undisturbed = (je.load_study(folder / "table1.nc") for folder in (disturbed, whole))
    assert ran.equals(undisturbed)


def test_bad_options_are_refused(tmp_path, capsys):
    common = ["--output", str(tmp_path)]
    assert run("table1", ["--rules", "lingap", *common]) == 2
    assert "lingape" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert run("table1", ["--output", str(tmp_path / "file" / "x"), "--rules", "oracle"]) == 2
    assert "StoreError" in capsys.readouterr().err
    assert run("figure1_middle", ["--rule", "rage", *common]) == 2
    assert "rage" in capsys.readouterr().err
    for bad in (["--runs", "0"], ["--shard", "3/2"], ["--block", "0"], ["--seed", "-1"],
                ["--delta", "2"]):  # fmt: skip
        with pytest.raises(SystemExit) as left:
            code = run("table1", [*bad, *common])
            raise SystemExit(code)
        assert left.value.code == 2 and re.search(bad[0][2:], capsys.readouterr().err)


def test_names_contain_the_seed():
    assert cells.Options().named("x") == "x"
    assert cells.Options(seed=7, max_samples=50).named("x") == "x/seed=7/max_samples=50"


@pytest.mark.slow
def test_figure1_middle(tmp_path, capsys, monkeypatch):
    four = ["--runs", "4", HERE, "--output", str(tmp_path)]
    assert run("figure1_middle", [*four, "--rule", "lingape"]) == 0
    names = capsys.readouterr().out.split()
    stem = "figure1_middle_lingape"
    assert [Path(name).name for name in names] == [f"{stem}.png", f"{stem}.pdf"]
    assert all(Path(name).stat().st_size > 5000 for name in names)
    assert set(je.load_store(tmp_path).rules) == {
        f"table3/bai/LinGapE/{one}" for one in ("watched", "selective-at-both", "full-at-both")
    }
    # A rule outside the table and without elimination at sampling: two curves.
    drawn = []
    monkeypatch.setattr(figures, "save", lambda figure, *_: drawn.append(figure) or ())
    other = ["--runs", "4", "--rule", "uniform", HERE, "--output", str(tmp_path / "other")]
    assert run("figure1_middle", other) == 0
    monkeypatch.undo()
    capsys.readouterr()
    assert je.load_store(tmp_path / "other").rules == ("table3/bai/uniform/watched",)
    (axes,) = drawn[0].axes
    labels = [line.get_label() for line in axes.lines]
    assert labels == ["selective, at stopping", "full, at stopping"]
    assert all(line.get_ydata()[0] == 52 > line.get_ydata()[-1] for line in axes.lines)
    # Figure 1, left, uses the same runs.
    assert run("figure1_left", [*four, "--rules", "lingape"]) == 0
    said = capsys.readouterr()
    assert len(said.out.split()) == 8
    assert all(Path(name).stat().st_size > 5000 for name in said.out.split())


@pytest.mark.slow
def test_figure1_right(tmp_path, capsys):
    """The ratios are those of the runs, none is below 1; deltas share a trajectory."""
    arguments = [
        "--runs", "6", "--rules", "oracle", "--delta", "0.1", "1e-4", "--error", "sd", HERE,
        "--output", str(tmp_path),
    ]  # fmt: skip
    assert run("figure1_right", arguments) == 0
    assert all(Path(name).stat().st_size > 0 for name in capsys.readouterr().out.split())
    study = je.load_store(tmp_path)
    data = {rule: study[rule].to_xarray() for rule in study.rules}
    assert set(data) == {"Oracle", "Oracle, authors' w"}
    lines = pd.read_csv(tmp_path / "figure1_right.csv")
    assert len(lines) == 4
    for line in lines.itertuples():
        one = data[line.rule].sel(delta=line.delta)
        llr, selective = (one["samples"].sel(stopping=x).values for x in ("llr", "selective"))
        ratio = llr / selective
        assert (ratio >= 1).all() and (line.runs, line.cut_off) == (6, 0)
        assert (line.mean_ratio, line.sd) == pytest.approx((ratio.mean(), ratio.std(ddof=1)))
    for one in data.values():
        # each run stops later at the smaller delta
        assert (np.diff(one["samples"].values, axis=1) > 0).all()
    assert study["Oracle"].layout["deltas_per_trajectory"] == 2
