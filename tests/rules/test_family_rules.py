"""Rules on families with one parameter: what is refused, and published figures."""

import dataclasses

import numpy as np
import pytest

import jaxelim as je


@pytest.mark.parametrize(
    ("rule", "problem", "family"),
    [(je.OptimisticTaS(), je.TopM(2), je.Bernoulli()),
     (je.OptimisticLinGame(), je.BestArm(), je.Gaussian([1.0, 2.0, 3.0])),
     (je.LinGapE(), je.BestArm(), je.Bernoulli())],
    ids=["optimistic-topm", "optimistic-lingame", "lingape"],
)  # fmt: skip
def test_what_is_not_defined_is_refused(rule, problem, family):
    with pytest.raises(je.errors.UnsupportedError, match=r"^(family|instance): got"):
        je.simulate(je.Instance.unstructured([0.5, 0.3, 0.1], family), problem, rule)


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
def test_the_published_experiment():
    """Garivier & Kaufmann 2016, [.3 .21 .2 .19 .18]: 500 runs of TaS-D within 5 standard errors.

    The reference is 1338 +- 34 draws; ours has a standard error of at most 55. A change by
    a quarter is seen. By luck it fails with probability below 1e-6.
    """
    result = je.simulate(
        je.Instance.unstructured([0.3, 0.21, 0.2, 0.19, 0.18], je.Bernoulli()), je.BestArm(),
        je.TrackAndStop(), delta=0.1, threshold=je.GK16(), stopping=je.LLR(), runs=500,
        max_samples=10**5,
    )  # fmt: skip
    assert abs(result.samples.mean() - 1338) < 5 * np.hypot(34, 55)
    assert result.stopped.all() and (~result.correct).sum() <= 50


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
