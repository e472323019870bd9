"""What `check_threshold` says of thresholds that err too often, and of ours."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.simulation.results import two_samples
from jaxelim.testing import ErrorRate, check_threshold, hard_instance

PROBLEMS = [je.BestArm(), je.TopM(2), je.Thresholding(0.5)]
FAMILIES = [je.Gaussian(), je.Bernoulli()]


def too_small(t, delta):
    """log(1/delta), which does not grow with t."""
    return -jnp.log(delta) + 0 * t


def test_too_small_a_threshold_is_caught():
    """n = 1000 runs of 1500 samples, two arms.

    The rate is 0.22; it is called above 0.1 from 151 errors on. A threshold with this
    rate has fewer with probability 1e-8. A rate of 0.1 is called above with
    probability 1e-6, and from a rate of 0.22 the check is near certain.
    """
    report = check_threshold(
        too_small, je.BestArm(), arms=2, stopping=(je.LLR(),), runs=1000, steps=1500
    )
    assert report.above and [rate.verdict for rate in report.rates] == ["above", "above"]
    assert report.low == report.rates[0].low > 0.1 and report.probability > 0.15
    assert str(report).split("\n")[0].endswith(": above delta") and "one near, llr" in str(report)
    assert "BestArm(), Gaussian(std=1.0) rewards alone" in str(report).split("\n")[1]


@pytest.mark.slow
def test_a_threshold_that_errs_seldom_is_not():
    """n = 200: at most 3 errors keep the upper bound below 0.1; the rate is below 0.001."""
    threshold = je.thresholds.KaufmannKoolen(1, gaussian=True)
    report = check_threshold(
        threshold, je.BestArm(), arms=2, stopping=(je.LLR(),), runs=200, steps=300
    )
    assert not report.above and [rate.verdict for rate in report.rates] == ["at most"] * 2


@pytest.mark.parametrize("errors, verdict", [(5, "at most"), (100, "undecided"), (300, "above")])
def test_verdicts(errors, verdict):
    _, low, high = two_samples.rate(errors, 1000, 1 - 2e-6)
    rate = ErrorRate("one near", "llr", errors, 1000, 7, 0.1, low, high)
    assert rate.verdict == verdict and low < rate.rate < high
    assert "7 cut off (counted as no error)" in str(rate)


def test_bounds_are_exact():
    from scipy.stats import binom

    _, low, high = two_samples.rate(12, 100, 1 - 2e-6)
    assert binom.sf(11, 100, low) == pytest.approx(1e-6)
    assert binom.cdf(12, 100, high) == pytest.approx(1e-6)
    assert two_samples.rate(0, 10, 0.9)[1] == 0 and two_samples.rate(10, 10, 0.9)[2] == 1


@dataclasses.dataclass(frozen=True)
class Counts(je.Bernoulli):
    """Means of at least 2: one end."""

    low, high = 2.0, np.inf


@pytest.mark.parametrize("problem", [*PROBLEMS[:2], je.Thresholding(0.2)], ids=repr)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("arms", [3, 6])
def test_hard_instances(problem, family, arms):
    for all_near in (False, True):
        made = hard_instance(problem, family, arms, all_near=all_near)
        means = made.means
        centre = {"thresholding": 0.2}.get(problem.name, 0.5 if family.name == "bernoulli" else 0)
        near = np.abs(means - centre) < 1e-3
        one = 1 if problem.name == "thresholding" else 2
        assert near.sum() == (arms if all_near else one) and made.family == family
        best = {"best-arm": 1, "top-m": 2, "thresholding": (arms + 1) // 2}[problem.name]
        assert (means > centre).sum() == best and (means[-best:] > centre).all()
        assert (np.abs(means - centre)[~near] > 0.1).all()


def test_hard_instances_with_one_end():
    made = hard_instance(je.BestArm(), Counts(), 4)
    assert (made.means > 2).all() and made.means.argmax() == 3
    assert np.ptp(made.means[-2:]) == pytest.approx(1e-4) and made.means[0] < 2.2


@pytest.mark.parametrize("arguments, name", [
    (dict(arms=1), "arms"), (dict(gap=0), "gap"), (dict(gap=np.inf), "gap"),
])  # fmt: skip
def test_bad_arguments(arguments, name):
    with pytest.raises(je.errors.ArgumentError, match=f"^{name}: "):
        hard_instance(je.BestArm(), **arguments)


def test_other_problems_need_an_instance():
    quadrants = je.HalfSpaces(lambda theta: jnp.int32(theta[0] > 0), np.eye(5)[None, :1])
    with pytest.raises(je.errors.UnsupportedError, match="for others give an instance"):
        check_threshold(je.Heuristic(), quadrants)


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_our_thresholds(problem, family):
    """n = 2000 runs of 2000 samples each, delta = 0.1.

    A rate above 0.15 is called above with probability 0.9 or more. The most frequent
    errors are those of gk16 in top m, 0.07: it is called above with probability 1e-12.
    log(1/delta) errs in 0.16 to 0.24 of the runs.
    """
    koolen = je.thresholds.KaufmannKoolen().bound(hard_instance(problem, family), problem)
    for threshold in (je.Heuristic(), je.GK16()):
        assert not check_threshold(threshold, problem, family=family).above, threshold
    report = check_threshold(koolen, problem, family=family)
    assert all(rate.verdict == "at most" for rate in report.rates)
    caught = check_threshold(too_small, problem, family=family).rates[:3]
    assert [rate.stopping for rate in caught] == ["llr", "selective", "full"]
    assert all(rate.verdict == "above" for rate in caught)
