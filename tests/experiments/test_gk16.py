"""The table of Garivier & Kaufmann at a tiny size, from its command line."""

import csv
import math

import numpy as np
import pytest

import jaxelim as je
from experiments import gk16

TINY = ["--runs", "6", "--instances", "2", "--workers=0"]


@pytest.mark.slow
def test_the_table_and_its_numbers(tmp_path, capsys):
    """KL-Racing on the second instance: the numbers are those of `simulate`; it resumes."""
    arguments = [*TINY, "--rules", "kl-racing", "--output", str(tmp_path)]
    assert gk16.main(arguments) == 0
    page = capsys.readouterr().out
    with open(tmp_path / "gk16.csv", newline="") as file:
        (line,) = csv.DictReader(file)
    known = je.simulate(
        je.Instance.unstructured(gk16.MEANS["2"], je.Bernoulli()), je.BestArm(),
        je.Racing(), delta=0.1, threshold=je.GK16(), stopping=je.Native(), runs=6,
    )  # fmt: skip
    tau = known.samples[0, 0]
    assert float(line["mean"]) == pytest.approx(tau.mean())
    assert float(line["se"]) == pytest.approx(tau.std(ddof=1) / math.sqrt(6))
    assert float(line["median"]) == np.median(tau)
    assert line["errors"] == str((~known.correct).sum()) and line["stopped"] == "6"
    assert (line["paper"], line["other"], line["truncated"]) == ("3334", "3188", "0")
    assert f"| kl-racing | {tau.mean():.0f} ± " in page
    assert (tmp_path / "gk16.md").read_text() in page
    assert all((tmp_path / f"gk16_2.{one}").stat().st_size > 5000 for one in ("png", "pdf"))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("blocks/*/*.npz")}
    assert gk16.main(arguments) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("blocks/*/*.npz")} == before
    study = je.load_store(tmp_path)
    assert list(study) == [("kl-racing", "2", "best-arm")] and study["kl-racing"].equals(known)


@pytest.mark.slow
def test_runs_that_are_cut_off_are_flagged(tmp_path, capsys):
    arguments = [*TINY, "--rules", "kl-racing", "--max-samples", "100", "--output", str(tmp_path)]
    assert gk16.main(arguments) == 0
    page = capsys.readouterr().out
    assert "| 100 ± 0† |" in page and "| 6/6 |" in page and "restricted mean" in page
    (result,) = je.load_store(tmp_path).results.values()
    assert result.settings["max_samples"] == 100 and not list(tmp_path.glob("*.png"))


def test_the_cells_are_those_of_the_paper():
    instances, problem, rules = gk16.grid(gk16.Table())
    assert len(instances) == 2 and problem == je.BestArm() and len(rules) == 4
    for row, one in rules.items():
        assert one["stopping"] == (je.LLR() if row.startswith("tas") else je.Native())
    assert rules["kl-lucb"]["rule"] == je.LUCB(pulls=2)
    with pytest.raises(je.errors.ArgumentError, match="kl-racing"):
        gk16.Table(rules=("kl-racin",))
    with pytest.raises(je.errors.ArgumentError, match="instances"):
        gk16.Table(instances=("1", "1"))
