"""Rules on families with one parameter: what they need, and a family of one's own."""

import dataclasses

import numpy as np
import pytest

import jaxelim as je


class NoDivergence(je.contracts.Family):
    """A family that gives rules nothing but evidence."""

    name = "nothing"


@pytest.mark.parametrize("rule", [je.LinGame(), je.FWS(), je.LazyTaS(), je.TrackAndStop()])
def test_what_the_rules_need(rule):
    """Evidence alone is enough but for w*."""
    solves = isinstance(rule, je.TrackAndStop)
    assert bool(rule.needs(NoDivergence(), je.BestArm())) == solves
    assert all(map(je.Gaussian().has, rule.needs(je.Gaussian(), je.BestArm())))
    assert bool(rule.needs(NoDivergence(), je.Thresholding(0.1))) == solves
    missing = [one for one in rule.needs(je.Bernoulli(), je.TopM()) if not je.Bernoulli().has(one)]
    assert not missing and je.Gaussian().design and not je.Bernoulli().design


@pytest.mark.slow
@pytest.mark.parametrize("rule", [je.UGapE(), je.Racing(), je.LUCB()], ids=repr)
def test_gaussian_rewards_keep_their_bounds(rule):
    """A family whose divergence is (x - y)^2/2 gives the runs of `je.Gaussian`."""
    means = np.array([1.0, 0.4, -0.3, 0.1])
    common = dict(delta=0.1, runs=20, seed=3, stopping=je.Native(), max_samples=4000)
    for problem in (je.BestArm(), je.TopM(2)):
        one, other = (
            je.simulate(je.Instance.unstructured(means, family), problem, rule, **common)
            for family in (je.Gaussian(), Normal())
        )
        assert one.stopped.any()
        for name in ("samples", "answer", "pulls"):
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name), name)


@dataclasses.dataclass(frozen=True)
class Normal(je.families.OneParameter):
    """Unit Gaussians as a one-parameter family."""

    name = "normal"
    noise = "normal"

    def draw(self, lanes, nature, arm, pull, noise):
        return lanes.take(nature, arm) + noise

    def loss(self, stat, by):
        return by * by / 2
