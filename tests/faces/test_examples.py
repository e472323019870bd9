"""A problem in one file of one's own: `examples/worst_arm.py`."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import jaxelim as je


def example():
    """The example as a module."""
    path = Path(__file__).parents[2] / "examples" / "worst_arm.py"
    spec = importlib.util.spec_from_file_location("worst_arm", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MEANS, STOPS = np.array([0.6, 0.1, -0.3, -0.9]), (je.LLR(), je.SelectiveElimination())


def test_the_worst_arm_keeps_its_contract():
    assert je.testing.check(example().WorstArm(), draws=80)


@pytest.mark.slow
def test_the_worst_arm_is_the_best_of_mirrored_rewards():
    """Runs are equal to the bit: samples, pulls, answers; with a mixture's proof; with slack."""
    assert je.testing.check(example().WorstArm(0.3), draws=80)
    noise = np.random.default_rng(3).standard_normal((20, 3000))
    common = dict(delta=0.1, threshold=je.Mixture(), stopping=STOPS, runs=20, ridge=0.0)
    here, there = (
        je.simulate(je.Instance.unstructured(sign * MEANS), problem, je.Uniform(),
                    noise=sign * noise, **common)
        for sign, problem in ((1, example().WorstArm(0.3)), (-1, je.BestArm(epsilon=0.3)))
    )  # fmt: skip
    assert here.stopped.all() and here.correct.all() and here.threshold.pieces == 3
    for field in ("samples", "pulls", "answer"):
        np.testing.assert_array_equal(getattr(here, field), getattr(there, field))


def test_its_complexity_is_that_of_the_mirrored_best_arm():
    worst = je.complexity(je.Instance.unstructured(MEANS), example().WorstArm(), gap=1e-9)
    best = je.complexity(je.Instance.unstructured(-MEANS), je.BestArm(), gap=1e-9)
    np.testing.assert_allclose(worst.value, best.value, rtol=2e-9)
    np.testing.assert_allclose(worst.allocation, best.allocation, atol=1e-4)
    with pytest.raises(je.errors.UnsupportedError, match="slack of pairs of one arm i"):
        je.complexity(je.Instance.unstructured(MEANS), example().WorstArm(0.3))
