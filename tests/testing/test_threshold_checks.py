"""What the check says of thresholds that err too often, and of ours."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxelim as je
from jaxelim import scope
from jaxelim.testing import ContractError, ErrorRate, Report, check, hard_instance, rules
from jaxelim.testing.report import World


def too_small(t, delta):
    """log(1/delta), which does not grow with t."""
    return -jnp.log(delta) + 0 * t


def test_too_small_a_threshold_is_caught():
    """n = 1000 runs of 1500 samples, two arms.

    The rate is 0.22; it is called above 0.1 from 158 errors on. A threshold with this
    rate has fewer with probability 1e-7. A rate of 0.1 is called above with
    probability 1e-8, and from a rate of 0.22 the check is near certain.
    """
    hard = hard_instance(je.BestArm(), arms=2)
    with pytest.raises(ContractError, match="one near, llr: .*: above delta") as caught:
        check(too_small, je.BestArm(), hard, stopping=(je.LLR(),), runs=1000, steps=1500)
    (rate,) = caught.value.report.rates
    assert rate.verdict == "above" and rate.errors > 150 and rate.bounds[0] > 0.1


@pytest.mark.parametrize("threshold, words", [
    (lambda t, delta: -jnp.log(delta) - 0 * t - 1, "it has to be above 0"),
    (lambda t, delta: 40 - jnp.log(t) - jnp.log(delta), "falls in t"),
    (lambda t, delta: jnp.log1p(t) + delta, "rises in delta"),
    (lambda t, delta: jnp.float64(3.0), "of t and delta of shape"),
])  # fmt: skip
def test_values_of_wrong_thresholds(threshold, words):
    with pytest.raises(ContractError, match=words), scope.engine():
        rules.monotone(World(threshold))


@pytest.mark.parametrize("threshold", [
    je.Heuristic(), je.GK16(), je.thresholds.KaufmannKoolen(3, gaussian=True), je.Mixture(),
    je.thresholds.LinearThreshold(3, 1.0, 1.0), too_small,
], ids=lambda threshold: type(threshold).__name__)  # fmt: skip
def test_values_of_right_thresholds(threshold):
    with scope.engine():
        assert "2400 points" in rules.monotone(World(threshold))


@pytest.mark.parametrize("errors, verdict", [(5, "at most"), (100, "undecided"), (300, "above")])
def test_verdicts(errors, verdict):
    rate = ErrorRate("one near", "llr", errors, 1000, 7, 0.1)
    low, high = rate.bounds
    assert rate.verdict == verdict and low < errors / 1000 < high
    assert "7 runs were cut off, which count as no error" in str(rate)


def test_bounds_are_exact():
    """Each fails with probability 1e-8. Of 1000 runs a rate of 0.2 is seen."""
    rate = ErrorRate("", "llr", 12, 100, 0, 0.1)
    low, high = rate.bounds
    assert stats.binom.sf(11, 100, low) == pytest.approx(1e-8)
    assert stats.binom.cdf(12, 100, high) == pytest.approx(1e-8)
    most = next(n for n in range(1000) if ErrorRate("", "", n, 1000, 0, 0.1).verdict == "above")
    seen = ErrorRate("", "llr", 12, 1000, 0, 0.1).seen
    assert stats.binom.sf(most - 1, 1000, seen) == pytest.approx(0.999, abs=2e-4) and seen < 0.22


def test_a_rule_that_seldom_stops_is_said_to():
    """A report begins with its verdict; runs that were cut off are said at any share."""
    rates = [ErrorRate(what, "llr", 0, 400, cut, 0.1, ends) for what, cut, ends in (
        ("near", 400, False), ("easy", 1, True), ("equal", 390, True))]  # fmt: skip
    report = Report("X()", "2 laws", ("one",), "all else", rates=tuple(rates))
    assert report.verdict == "passed, but 390 of 400 runs (equal) were cut off"
    lines = str(report).splitlines()
    assert lines[:3] == [f"X(): {report.verdict}", "  tried: 2 laws", "  not shown: all else"]
    assert ["says little" in line for line in lines[4:]] == [False, False, True]


def test_other_problems_need_an_instance():
    quadrants = je.HalfSpaces(lambda theta: jnp.int32(theta[0] > 0), np.eye(5)[None, :1])
    with pytest.raises(je.errors.UnsupportedError, match="for others give an instance"):
        check(je.Heuristic(), quadrants)


@pytest.mark.slow
@pytest.mark.parametrize("problem, family", [
    (je.BestArm(), je.Gaussian()), (je.TopM(2), je.Bernoulli()),
    (je.Thresholding(0.5), je.Bernoulli()),
], ids=repr)  # fmt: skip
def test_our_thresholds(problem, family):
    """n = 2000 runs of 2000 samples each, delta = 0.1.

    A rate above 0.15 is called above with probability 0.9 or more. The most frequent
    errors are those of gk16 in top m, 0.07: it is called above with probability 1e-12.
    log(1/delta) errs in 0.16 to 0.24 of the runs.
    """
    hard = [hard_instance(problem, family, all_near=near) for near in (False, True)]
    koolen = je.thresholds.KaufmannKoolen().bound(hard[0], problem)
    for instance in hard:
        for threshold in (je.Heuristic(), je.GK16()):
            check(threshold, problem, instance)
        assert all(rate.verdict == "at most" for rate in check(koolen, problem, instance).rates)
    with pytest.raises(ContractError, match="above delta"):
        check(too_small, problem, hard[0])
