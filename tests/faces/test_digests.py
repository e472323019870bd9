"""Digest jobs cover the package; comparisons find differences; six of them run."""

import inspect
import itertools
import json

import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue
from tests import digests, jobs
from tests.calls import NAMES

RUNS = [job for job in jobs.JOBS if job.call in (jobs.simulated, jobs.traced)]
FAST = (
    "lingape linear-d20", "lingape resets selective", "lingame deltas on one trajectory",
    "lazy-tas unstructured signs at sampling",
    "oracle signs given weights", "racing best-arm batch",
)  # fmt: skip
"""Jobs that `make test` runs."""


@pytest.mark.parametrize("name", FAST)
def test_digests_of_some_jobs(name):
    """Every array of six jobs, by tests/data/digests.json; without AVX-512 too."""
    (job,) = (job for job in jobs.JOBS if job.name == name)
    recorded = json.loads((digests.ROOT / "tests" / "data" / "digests.json").read_text())
    assert not digests.differences(recorded["jobs"][name], digests.run_job(job))


def test_names_are_unique():
    names = [job.name for job in jobs.JOBS]
    assert len(set(names)) == len(names)


def test_the_jobs_cover_the_package():
    rules, problem = set(catalogue.rules().values()), je.contracts.Problem
    classes = {one for one in NAMES.values() if inspect.isclass(one)}
    problems = {kind for kind in classes if issubclass(kind, problem)} - {problem}
    structures = {one for rule in rules for one in rule.traits.structures}
    assert {type(job.rule) for job in RUNS} >= rules
    pairs = {(type(job.problem), job.instance.structure) for job in RUNS}
    assert pairs >= set(itertools.product(problems, structures))
    solved = {type(job.problem) for job in jobs.JOBS if job.call is jobs.solved}
    assert solved == {je.BestArm, je.TopM, je.Thresholding}

    given = [np.atleast_1d(np.array(job.settings["stopping"], object)) for job in RUNS]
    observed = {type(one) for several in given for one in several}
    assert observed == set(catalogue.stopping_rules().values())
    eliminations = {je.SelectiveElimination, je.FullElimination, je.Resets, type(None)}
    assert {type(job.settings["elimination"]) for job in RUNS} == eliminations
    thresholds = {type(job.settings["threshold"]) for job in RUNS}
    assert thresholds >= {je.Heuristic, je.GK16, je.thresholds.LinearThreshold}

    engines = [job.settings["engine"] for job in RUNS if "engine" in job.settings]
    assert {one.devices for one in engines} == {1, 2}


def test_every_job_says_its_ridge():
    for job in RUNS:
        given = job.settings["ridge"]
        if not job.instance.family.design:
            assert given is None, job.name
            continue
        assert isinstance(given, float), job.name
        assert getattr(job.settings["threshold"], "ridge", given) == given, job.name
    assert {job.settings["ridge"] for job in RUNS} >= {0.0, 1.0}


def test_a_digest_is_of_values_and_shape():
    counts = np.arange(6, dtype=np.int32).reshape(3, 2)
    assert digests.digest(counts) == digests.digest(counts.astype(np.int64))
    assert digests.digest(counts) != digests.digest(counts.reshape(2, 3))
    assert digests.digest(counts > 2) != digests.digest((counts > 2).astype(int))
    real = np.array([[1.0, -0.0], [1e-3, 123.456]])
    assert digests.digest(real) == digests.digest(real * (1 + 1e-13))
    assert digests.digest(real) == digests.digest(np.abs(real))
    assert digests.digest(real) != digests.digest(real * (1 + 1e-7))
    assert digests.digest(np.zeros((2, 1))) != digests.digest(np.ones((2, 1)))


def file(path, jobs, **environment):
    """Write a file of jobs, each given by the samples of its runs."""
    made = {
        name: {"arrays": {"samples": digests.digest(np.array(runs)), "answer": None},
               "numbers": {"mean samples": float(np.mean(runs))}}
        for name, runs in jobs.items()
    }  # fmt: skip
    path.write_text(digests.as_text({"environment": environment, "jobs": made}))
    assert json.loads(path.read_text())["jobs"] == made
    return str(path)


def test_compare_reports_a_planted_difference(tmp_path, capsys):
    before = {"one": [10, 20, 30], "two": [7, 8, 9], "gone": [1, 2]}
    after = {"one": [10, 21, 30], "two": [7, 8, 9], "new": [1]}
    one = file(tmp_path / "one.json", before, processor="A", jax="1")
    other = file(tmp_path / "other.json", after, processor="B", jax="1")

    assert digests.main(["compare", one, other]) == 1
    said = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert said == [
        "processor: 'A' before, 'B' now",
        "one   samples (1 of 3 runs), mean samples 20.0 before, 20.333333333333332 now",
        "two   equal",
        "gone  only before",
        "new   only now",
        "4 jobs: 1 equal, 1 differ, 1 only before, 1 only now",
    ]
    assert digests.main(["compare", one, one]) == 0
    assert "3 jobs: 3 equal, 0 differ" in capsys.readouterr().out
    assert digests.main(["compare", one, other, "--jobs", "tw"]) == 0
    assert digests.main(["compare", one, other, "--jobs", "one", "two"]) == 1
    assert digests.main(["compare", one, other, "--jobs", "none such"]) == 1


def test_another_shape_and_a_missing_array_are_differences():
    job = lambda x: {"arrays": {"pulls": x}, "numbers": {}}  # noqa: E731
    three, two = digests.digest(np.arange(3)), digests.digest(np.arange(2))
    for same in (three, None):
        assert digests.differences(job(same), job(same)) == ""
    assert digests.differences(job(three), job(two)) == "pulls (shape [3] before, [2] now)"
    assert digests.differences(job(three), job(None)) == "pulls (an array before, nothing now)"
    assert digests.differences(job(None), job(two)) == "pulls (nothing before, an array now)"


def test_a_job_that_fails_is_a_difference(tmp_path, capsys, monkeypatch):
    wrong = jobs.simulation("wrong", jobs.EIGHT, je.BestArm(), je.Uniform(), delta=2.0)
    monkeypatch.setattr(digests, "JOBS", (wrong,))
    new = tmp_path / "new.json"
    assert digests.main(["record", str(new)]) == 1 and not new.exists()
    assert "nothing written" in capsys.readouterr().out
    there = file(tmp_path / "one.json", {"wrong": [1]})
    assert digests.main(["compare", there]) == 1
    assert "wrong  failed: ArgumentError: delta: got 2.0" in capsys.readouterr().out
