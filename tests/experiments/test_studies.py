"""Studies beyond the paper, at tiny sizes from their command line; ratios of the paper's."""

import math

import numpy as np
import pandas as pd
import pytest

import jaxelim as je
from experiments import __main__, figure1, studies

HERE = "--workers=0"


@pytest.mark.parametrize("name", studies.STUDIES)
def test_every_study_is_defined(name):
    """Every combination is checked, as before a study runs."""
    from jaxelim.studies.grid import places

    asked = studies.chosen(studies.Options(name=name, runs=2))
    found = places(asked.instances, asked.problem, asked.rules, runs=2, **asked.settings)
    problems = len(asked.problem) if isinstance(asked.problem, dict) else 1
    assert len(found) == len(asked.rules) * len(asked.instances) * problems


def test_names_that_are_none():
    for wrong, nearest in (
        ({"name": "gk17"}, "gk16"), ({"rules": ("tas-e",)}, "tas-"),
        ({"instances": ("3",)}, "'1', '2'"), ({"rules": ("tas-d",) * 2}, "once"),
    ):  # fmt: skip
        with pytest.raises(je.errors.ArgumentError, match=nearest):
            studies.chosen(studies.Options(**wrong))


@pytest.mark.slow
def test_the_table_and_its_numbers(tmp_path, capsys):
    """KL-Racing on the second instance: the numbers are those of `simulate`; it resumes."""
    arguments = ["gk16", "--runs", "6", "--instances", "2", "--rules", "kl-racing", HERE,
                 "--output", str(tmp_path)]  # fmt: skip
    assert __main__.main(["studies", *arguments]) == 0
    page = capsys.readouterr().out
    (line,) = pd.read_csv(tmp_path / "gk16.csv").to_dict("records")
    known = je.simulate(
        je.Instance.unstructured(studies.GK16, je.Bernoulli()), je.BestArm(),
        je.Racing(), delta=0.1, threshold=je.GK16(), stopping=je.Native(), runs=6,
    )  # fmt: skip
    tau = known.samples[0, 0]
    bound = float(je.bounds.kl_bound(0.1, je.complexity(known.instance, known.problem)))
    expected = {"mean": tau.mean(), "se": tau.std(ddof=1) / math.sqrt(6), "median": np.median(tau),
                "over the first": 1, "over the bound": tau.mean() / bound,
                "errors": (~known.correct).sum(), "stopped": 6}  # fmt: skip
    assert {name: line[name] for name in expected} == pytest.approx(expected)
    assert f"| kl-racing | {tau.mean():.0f} ± " in page
    assert (tmp_path / "gk16.md").read_text() in page
    assert all((tmp_path / f"gk16.{one}").stat().st_size > 5000 for one in ("png", "pdf"))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("blocks/*/*.npz")}
    assert __main__.main(["studies", *arguments]) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("blocks/*/*.npz")} == before
    study = je.load_store(tmp_path)
    assert list(study) == [("kl-racing", "2", "best-arm")] and study["kl-racing"].equals(known)


@pytest.mark.slow
def test_runs_that_are_cut_off_are_flagged(tmp_path, capsys):
    arguments = ["transductive", "--runs", "4", "--rules", "uniform", "--max-samples", "100", HERE,
                 "--output", str(tmp_path)]  # fmt: skip
    assert __main__.main(["studies", *arguments]) == 2  # nothing to draw
    capsys.readouterr()
    page = (tmp_path / "transductive.md").read_text()
    assert "| 100 ± 0† |" in page and "† 12 runs were cut off" in page
    stored = je.load_store(tmp_path)["uniform"].to_xarray()
    assert stored["answer"].dims[-1] == stored["elimination_times"].dims[-1] == "item"


def test_a_page_of_several_deltas():
    """A row for each instance and delta, a column for each rule; the bound is of the row."""
    line = {"instance": "a", "problem": "best-arm", "stopping": "llr", "se": 2, "errors": 0,
            "low": 0.0, "high": 0.3, "stopped": 9, "runs": 9,
            "share of the best arm": 0.25}  # fmt: skip
    found = [
        {**line, "rule": rule, "delta": delta, "mean": mean, "over the bound": mean / 50}
        for rule, delta, mean in (
            ("x", 0.1, 100), ("x", 0.01, 200), ("y", 0.1, 300), ("y", 0.01, 400),
        )  # fmt: skip
    ]
    found[2] |= {"errors": 3, "stopped": 8}
    options = studies.Options(name="shares", runs=9)
    text = studies.page(studies.shares(), found, options)
    assert "| instance | delta | bound | x | y |" in text
    assert "| a | 0.1 | 50 | 100 ± 2 | 300 ± 2† |" in text and "| a | 0.1 | 50 | 0.250 |" in text
    assert "Most wrong answers: y on a at delta = 0.1, 3/8 [0.000, 0.300]." in text
    assert "† 1 runs were cut off" in text


@pytest.mark.slow
def test_the_ratio_of_stopping_times_decreases_towards_one():
    """500 paired runs: the ratio is at least 1 and decreases with log(1/delta).

    Source: Figure 1, right, of the paper. The paired slopes of 64 runs had |t| = 2.0 to
    2.8, so 5.5 to 8 for 500 runs. The test misses such a slope with probability below
    0.01.
    """
    delta = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9)
    options = figure1.Right(rules=("lingame",), delta=delta, seed=11)
    study = je.study(
        figure1.INSTANCE, je.BestArm(), figure1.rules_of(options), delta=delta, runs=500,
        seed=11, stopping=figure1.STOPPING, ridge=1.0,
    )  # fmt: skip
    for result in study.results.values():
        ratio = figure1.ratios(result)
        assert ratio.shape == (5, 500) and np.isfinite(ratio).all() and ratio.min() >= 1
        x = np.log(1 / np.array(delta))
        slopes = (x - x.mean()) @ ratio / ((x - x.mean()) ** 2).sum()
        fall = ratio[0] - ratio[-1]
        assert slopes.mean() / (slopes.std(ddof=1) / 500**0.5) < -3
        assert fall.mean() / (fall.std(ddof=1) / 500**0.5) > 3
