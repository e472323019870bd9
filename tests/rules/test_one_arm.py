"""One arm against a number: K = 1."""

import numpy as np
import pytest

import jaxelim as je

COIN = je.Instance.unstructured([0.7], je.Bernoulli())
LEVELS = [je.Thresholding(0.5), je.BestArm(reference=0.5)]
RULES = je.LUCB(), je.LinGame(), je.FWS(), je.LazyTaS(), je.TrackAndStop(), je.EBTC()


@pytest.mark.parametrize("problem", LEVELS, ids=repr)
def test_complexity_is_one_divergence_by_cost(problem):
    found = je.complexity(COIN.replace(costs=[4.0]), problem)
    d = 0.7 * np.log(0.7 / 0.5) + 0.3 * np.log(0.3 / 0.5)
    np.testing.assert_allclose([found.value, *found.allocation], [d / 4, 1.0], rtol=1e-12)


@pytest.mark.slow
def test_every_rule_makes_the_same_runs():
    """There is one arm to pull, and three sets of pieces that are one."""
    stops = je.LLR(), je.SelectiveElimination(), je.FullElimination()
    common = dict(runs=40, delta=0.05, stopping=stops)
    first = je.simulate(COIN, LEVELS[0], je.Uniform(), **common)
    assert first.stopped.all() and np.ptp(first.samples, axis=0).max() == 0
    for rule in RULES:
        one = je.simulate(COIN, LEVELS[0], rule, **common)
        np.testing.assert_array_equal(one.samples, first.samples)
        np.testing.assert_array_equal(one.answer, first.answer)


def test_generators_files_and_stacks_have_one_arm(tmp_path):
    one = je.instances.unstructured(1, problem="thresholding", K=1)
    one.to_json(tmp_path / "one.json")
    assert je.load_instance(tmp_path / "one.json") == one and one.K == one.d == 1
    stacks = je.Recorded({"engine": [0, 1, 1, 1]}, "bootstrap")
    assert je.Instance.unstructured(None, je.Bernoulli(), source=stacks).means == [0.75]
    assert je.Instance.unstructured([0.5], je.Gaussian([2.0])).K == 1
