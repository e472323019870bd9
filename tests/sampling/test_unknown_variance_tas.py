"""Track-and-Stop with unknown variances: against a twin, and its certificate."""

import numpy as np
import pytest

import jaxelim as je
from tests.twin.student_weights import Problem, choice

STD = (1.0, 0.5, 1.0, 0.8)
PROBLEMS = {"bai": (je.BestArm(), ("bai",)), "topm": (je.TopM(2), ("topm", 2))}


@pytest.mark.parametrize("problem, every", [
    ("bai", 18), pytest.param("bai", 5, marks=pytest.mark.slow),
    pytest.param("topm", 5, marks=pytest.mark.slow),
])  # fmt: skip
def test_pulls_are_those_of_the_twin(problem, every):
    """Some choices on a trace, but those that rounding decides."""
    ours, spec = PROBLEMS[problem]
    compared, rule, family = 0, je.TrackAndStop(gap_share=1e-11), je.GaussianUnknownVariance(STD)
    for seed, means in enumerate(([3.0, 1.4, -0.4, -1.6], [0.2, 0.9, 0.1, 0.5])):
        instance = je.Instance.unstructured(means, family)
        run = je.trace(instance, ours, rule, delta=1e-9, max_samples=68, seed=seed)
        twin = Problem(spec, 4)
        for t in range(12, run.samples, every):
            seen = [run.rewards[:t][run.arms[:t] == k] for k in range(4)]
            counts, centre = np.array([x.size for x in seen]), np.array([x.mean() for x in seen])
            twin.look(np.array([x.var() for x in seen]))
            labels = twin.pieces(twin.answer(centre))
            arm, sure = choice(twin, counts, centre, t + 1, labels)
            assert arm == run.arms[t] or not sure, (seed, t)
            compared += sure
    assert compared > 30 / every


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_counts_approach_the_optimal_allocation(problem):
    """Shares of 16 runs of 3000 samples lie within 0.03 of w*, in the mean over runs."""
    instance = je.Instance.unstructured([1.5, 0.6, 0.0, -0.8], je.GaussianUnknownVariance(STD))
    given = dict(runs=16, max_samples=3000, delta=1e-300, seed=3)
    found = je.simulate(instance, PROBLEMS[problem][0], je.TrackAndStop(), **given)
    share = found.pulls[0, 0].mean(0) / 3000
    known = je.complexity(instance, PROBLEMS[problem][0]).allocation
    np.testing.assert_allclose(share, known, atol=0.03)


@pytest.mark.slow
def test_lanes_and_elimination():
    """Runs do not depend on lanes or devices; elimination at sampling stops with few errors."""
    instance = je.Instance.unstructured([3.0, 1.4, -0.4, -1.6], je.GaussianUnknownVariance(STD))
    selective = je.SelectiveElimination()
    given = dict(delta=0.1, seed=5, stopping=[selective], elimination=selective)
    wide, narrow = (
        je.simulate(instance, je.BestArm(), je.TrackAndStop(), runs=48, **given,
                    engine=je.Engine(lanes=lanes, devices=1, chunk=chunk))
        for lanes, chunk in ((16, 32), (3, 50))
    )  # fmt: skip
    for name in ("samples", "answer", "pulls", "tests_sampling", "solves"):
        np.testing.assert_array_equal(getattr(wide, name), getattr(narrow, name))
    assert wide.stopped.all() and wide.correct.mean() > 0.9
