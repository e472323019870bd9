"""The transductive instance at a tiny size, from its command line."""

import csv
import dataclasses

import numpy as np
import pytest

import jaxelim as je
from experiments import transductive
from jaxelim import figures

TINY = ["--runs", "4", "--sizes", "2", "--rules", "uniform", "--workers=0"]


@pytest.mark.slow
def test_the_table_and_its_numbers(tmp_path, capsys):
    """Uniform sampling, n = 2: the numbers are those of `simulate`; it resumes."""
    arguments = [*TINY, "--output", str(tmp_path)]
    assert transductive.main(arguments) == 0
    page = capsys.readouterr().out
    with open(tmp_path / "transductive.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["stopping"] for line in lines] == ["llr", "selective", "full"]
    instance, problem = transductive.instance(2)
    known = je.simulate(
        instance, problem, je.Uniform(), delta=0.05, stopping=transductive.OBSERVERS, runs=4
    )
    drawn = figures.active_arms_figure({"uniform": known})
    assert drawn.axes[0].get_ylabel().startswith("active items")
    for place, line in enumerate(lines):
        tau = known.samples[place, 0]
        assert float(line["mean"]) == pytest.approx(tau.mean())
        assert float(line["median"]) == np.median(tau)
        assert line["errors"] == str((~known.correct[place]).sum()) and line["truncated"] == "0"
        assert f"| uniform | {line['stopping']} | {tau.mean():.0f} ± " in page
    assert (tmp_path / "transductive.md").read_text() in page
    assert all((tmp_path / f"transductive_2.{one}").stat().st_size > 5000 for one in ("png", "pdf"))
    stored = je.load_store(tmp_path)["transductive/2/uniform"].to_xarray()
    assert stored["answer"].dims[-1] == stored["elimination_times"].dims[-1] == "item"


def test_blocks_are_named_by_the_items():
    """Other items are another cell."""
    cell = transductive.jobs(transductive.Table(sizes=(2,)))[2, "uniform"]
    items = cell.problem.items.copy()
    same = dataclasses.replace(cell, problem=je.BestArm(items=items))
    items[3, 0] += 1e-9
    other = dataclasses.replace(cell, problem=je.BestArm(items=items))
    first, second, third = (one.call(np.arange(1)).key for one in (cell, same, other))
    assert first == second != third


def test_the_instance():
    """The gaps and T* of one piece alone: the two coordinates of y share all weight."""
    instance, problem = transductive.instance(2)
    assert instance.K == instance.d == 4 and problem.items.shape == (4, 4)
    means = problem.items @ instance.theta
    assert np.argmax(means) == 0 and means[2] == pytest.approx(np.cos(0.1))
    y = problem.items[0] - problem.items[2]
    least = 2 * np.abs(y).sum() ** 2 / (1 - np.cos(0.1)) ** 2
    assert float(je.complexity(instance, problem).time) > least > 800
    with pytest.raises(je.errors.ArgumentError, match="rage"):
        transductive.Table(rules=("raga",))
    with pytest.raises(je.errors.ArgumentError, match="sizes"):
        transductive.Table(sizes=(5, 5))
