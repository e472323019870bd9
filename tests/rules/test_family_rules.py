"""What rules need of a family."""

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
