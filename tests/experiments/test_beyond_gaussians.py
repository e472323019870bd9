"""The table of what elimination saves beyond Gaussian rewards, at small size."""

import csv

import numpy as np
import pytest

import jaxelim as je
from experiments import beyond_gaussians


def test_the_jobs_cover_the_table():
    found = beyond_gaussians.jobs(beyond_gaussians.Table())
    assert len(found) == 5 * 3 * (3 * 5 + 3)  # the uniform rule has no elimination at sampling
    for (family, problem, rule, column), cell in found.items():
        elimination, place = beyond_gaussians.COLUMNS[column]
        assert cell.elimination is elimination and place < len(cell.stopping)
        assert (rule == "uniform") <= (elimination is None)
        means = np.sort(cell.instance.means)[::-1]
        assert means[2] > means[3] and family.split("-")[0] in repr(cell.instance.family).lower()
        if problem == "osi":
            assert means[-1] < cell.problem.level < means[0]
            assert not np.any(np.isclose(means, cell.problem.level))


@pytest.mark.slow
def test_the_numbers_are_those_of_simulate(tmp_path, capsys):
    arguments = [
        "--runs", "6", "--families", "bernoulli", "--rules", "kl-lucb", "--problems", "osi",
        "--workers=0", "--output", str(tmp_path),
    ]  # fmt: skip
    assert beyond_gaussians.main(arguments) == 0
    page = capsys.readouterr().out
    assert (tmp_path / "beyond_gaussians.md").read_text() in page
    with open(tmp_path / "beyond_gaussians.csv", newline="") as file:
        lines = {line["elimination"]: line for line in csv.DictReader(file)}
    instance, level = beyond_gaussians.instances()["bernoulli"]
    given = dict(delta=0.01, runs=6)
    watched = je.simulate(
        instance, je.Thresholding(level), je.LUCB(), **given,
        stopping=(je.LLR(), je.SelectiveElimination(), je.FullElimination()),
    )  # fmt: skip
    for place, column in enumerate(("none", "selective, stopping", "full, stopping")):
        assert float(lines[column]["mean"]) == watched.samples[place, 0].mean()
    shared = je.simulate(
        instance, je.Thresholding(level), je.LUCB(), **given,
        stopping=je.SelectiveElimination(), elimination=je.SelectiveElimination(),
    )  # fmt: skip
    line = lines["selective, both"]
    assert float(line["mean"]) == shared.samples.mean()
    assert float(line["samples_saved"]) == pytest.approx(
        100 * (1 - shared.samples.mean() / watched.samples[0].mean())
    )
