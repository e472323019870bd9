"""One arm against a number: K = 1, live and simulated, and who refuses it."""

import numpy as np
import pytest
from scipy.stats import binom

import jaxelim as je
from jaxelim.live import LiveRun

COIN = je.Instance.unstructured([0.7], je.Bernoulli())
LEVELS = [je.Thresholding(0.5), je.BestArm(reference=0.5)]
RULES = [je.Uniform(), je.LUCB(), je.LinGame(), je.FWS(), je.LazyTaS(), je.TrackAndStop(),
         je.EBTC(), je.TTUCB()]  # fmt: skip


@pytest.mark.parametrize("problem", LEVELS, ids=repr)
def test_complexity_is_one_divergence(problem):
    found = je.complexity(COIN, problem)
    d = 0.7 * np.log(0.7 / 0.5) + 0.3 * np.log(0.3 / 0.5)
    np.testing.assert_allclose([found.value, *found.allocation], [d, 1.0], rtol=1e-12)
    costly = je.complexity(COIN.with_costs([4.0]), problem)
    np.testing.assert_allclose(costly.value, d / 4, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("problem", LEVELS, ids=repr)
def test_every_rule_makes_the_same_runs(problem):
    """There is one arm to pull. The order of stops, and three sets of pieces that are one."""
    stops = je.LLR(), je.SelectiveElimination(), je.FullElimination()
    common = dict(runs=40, delta=0.05, stopping=stops, threshold=je.Mixture())
    first = je.simulate(COIN, problem, je.Uniform(), **common)
    assert first.stopped.all() and np.ptp(first.samples, axis=0).max() == 0
    for rule in RULES:
        if rule.traits.defined_for(problem.name):
            one = je.simulate(COIN, problem, rule, **common)
            np.testing.assert_array_equal(one.samples, first.samples)
            np.testing.assert_array_equal(one.answer, first.answer)


@pytest.mark.slow
def test_errors_at_delta():
    """Of 2000 runs at delta = 0.1, wrong at a true rate of 0.1 more than 267 times: below 1e-6.

    The smallest defect that is seen with probability 1/2 is an error rate of 0.134.
    """
    assert binom.sf(267, 2000, 0.1) < 1e-6
    near = je.Instance.unstructured([0.53], je.Bernoulli())
    result = je.simulate(near, LEVELS[0], je.Uniform(), runs=2000, delta=0.1, max_samples=30000,
                         threshold=je.Mixture(), seed=3)  # fmt: skip
    assert result.stopped.mean() > 0.99 and (result.stopped & ~result.correct).sum() <= 267


@pytest.mark.slow
@pytest.mark.parametrize("arms", [1, ["engine"], {"engine": [1.0]}, np.eye(1)], ids=str)
@pytest.mark.parametrize("problem", LEVELS, ids=repr)
def test_a_live_run_is_the_simulated_one(arms, problem):
    trace = je.trace(COIN, problem, je.Uniform(), delta=0.1, threshold=je.Mixture(), seed=4)
    run = LiveRun(arms, problem, je.Uniform(), family=je.Bernoulli(), delta=0.1)
    for reward in trace.rewards[:10]:
        run.tell(run.ask(), float(reward))
    assert "an answer needs" in str(run.summary()) and run.forecast(runs=8).stopped.all()
    for reward in trace.rewards[10:]:
        assert not run.stopped
        run.tell(run.ask(), float(reward))
    assert run.stopped and run.samples == trace.samples and len(run.answer_arms) == 1
    assert "The answer: " in str(run.summary()) and run.known_intervals.low[0] < 0.7


def test_generators_files_and_stacks_have_one_arm(tmp_path):
    one = je.instances.unstructured(1, problem="thresholding", K=1)
    one.to_json(tmp_path / "one.json")
    assert je.load_instance(tmp_path / "one.json") == one and one.K == one.d == 1
    stacks = je.Recorded({"engine": [0, 1, 1, 1]}, "bootstrap")
    assert je.Instance.unstructured(None, je.Bernoulli(), source=stacks).means == [0.75]
    assert je.Instance.unstructured([0.5], je.Gaussian([2.0])).K == 1
