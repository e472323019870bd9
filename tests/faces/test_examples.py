"""A problem in one file of one's own: `examples/worst_arm.py`."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import jaxelim as je
from tests.calls import equal

FILE = Path(__file__).parents[2] / "examples" / "worst_arm.py"
WorstArm = runpy.run_path(str(FILE), run_name="worst_arm")["WorstArm"]
MEANS, STOPS = np.array([0.6, 0.1, -0.3, -0.9]), (je.LLR(), je.SelectiveElimination())


def test_the_worst_arm_keeps_its_contract():
    assert je.testing.check(WorstArm(), draws=80)


@pytest.mark.slow
def test_the_worst_arm_is_the_best_of_mirrored_rewards():
    """Runs are equal to the bit: samples, pulls, answers; with a mixture's proof; with slack."""
    assert je.testing.check(WorstArm(0.3), draws=80)
    noise = np.random.default_rng(3).standard_normal((20, 3000))
    common = dict(delta=0.1, threshold=je.Mixture(), stopping=STOPS, runs=20, ridge=0.0)
    here, there = (
        je.simulate(je.Instance.unstructured(sign * MEANS), problem, je.Uniform(),
                    noise=sign * noise, **common)
        for sign, problem in ((1, WorstArm(0.3)), (-1, je.BestArm(epsilon=0.3)))
    )  # fmt: skip
    assert here.stopped.all() and here.correct.all() and here.threshold.pieces == 3
    equal(here, there, fields=("samples", "pulls", "answer"))


def test_its_complexity_is_that_of_the_mirrored_best_arm():
    worst = je.complexity(je.Instance.unstructured(MEANS), WorstArm(), gap=1e-9)
    best = je.complexity(je.Instance.unstructured(-MEANS), je.BestArm(), gap=1e-9)
    np.testing.assert_allclose(worst.value, best.value, rtol=2e-9)
    np.testing.assert_allclose(worst.allocation, best.allocation, atol=1e-4)
    with pytest.raises(je.errors.UnsupportedError, match="slack of pairs of one arm i"):
        je.complexity(je.Instance.unstructured(MEANS), WorstArm(0.3))
