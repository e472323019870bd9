"""An indifference zone, and slack of best arm: what is right, H*, elimination, live runs."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

import jaxelim as je
from jaxelim import bounds
from jaxelim.live import LiveRun
from tests.calls import NAMES

ZONE = je.Thresholding(0.1, epsilon=0.05)
MEANS = np.array([0.1, 0.5, 0.13, 0.02])
FAMILIES = {
    "bernoulli": (
        je.Bernoulli(), lambda x, u: x * np.log(x / u) + (1 - x) * np.log((1 - x) / (1 - u))
    ),
    "gaussian": (je.Gaussian(2.0), lambda x, u: (x - u) ** 2 / 8),
}  # fmt: skip


def test_reprs_and_scales():
    assert eval(repr(ZONE), NAMES) == ZONE and repr(ZONE) == "Thresholding(level=0.1, epsilon=0.05)"
    assert je.Thresholding(0.1, epsilon=0.0) == je.Thresholding(0.1) != ZONE
    assert repr(je.Thresholding(0.1)) == "Thresholding(level=0.1)"
    assert ZONE.scaled(2.0) == je.Thresholding(0.05, epsilon=0.025)


def test_what_is_right():
    """An answer is wrong where the truth is in one of its pieces; ends of the zone are right."""
    at = np.array([0.3, 0.15, 0.12, 0.1, 0.05, 0.0])
    for answer in map(np.array, itertools.product([False, True], repeat=6)):
        wrong = (answer & (at <= 0.05)) | (~answer & (at >= 0.15))
        wrong[[1, 4]] = False
        assert ZONE.correct(answer, at >= 0.1, at) == (not wrong.any())
    assert ZONE.right_answers(at) == 2**4
    ZONE.check(np.eye(2), np.array([0.1, 0.3]))
    plain = je.Thresholding(0.1)
    assert plain.right_answers(at) == 1


def test_what_is_right_with_slack():
    """Arms within epsilon, up to rounding, in each instance of a batch; no tie is refused."""
    problem = je.BestArm(epsilon=0.1)
    for means in ([0.8, 0.7, 0.7 - 1e-9, 0.3], [0.3, 0.2, 0.1, 0.3], [-0.3, -0.2, -0.1, -0.25]):
        means = np.array(means)
        order = problem.right(means)
        right = np.round(means - means.max() + 0.1, 12) >= 0
        right[2] &= means[2] != 0.7 - 1e-9
        assert set(order) == set(np.flatnonzero(right)) and (np.diff(means[order]) <= 0).all()
        answers = np.eye(4, dtype=bool)
        np.testing.assert_array_equal(problem.correct(answers, answers[0], means), right)
    problem.check(np.eye(2), np.array([1.0, 1.0]))


def test_epsilon_0_is_best_arm():
    plain = je.BestArm()
    for same in (je.BestArm(epsilon=0), je.BestArm(0.0), je.BestArm(epsilon=-0.0)):
        assert type(same) is je.BestArm and same == plain and hash(same) == hash(plain)
        assert repr(same) == "BestArm()" and same.epsilon == 0
    problem = je.BestArm(epsilon=0.25)
    assert eval(repr(problem), NAMES) == problem != je.BestArm(epsilon=0.5)
    assert problem.scaled(2.0).epsilon == 0.125 and isinstance(problem, je.BestArm)


@pytest.mark.parametrize("name", FAMILIES)
def test_complexity_is_the_largest_over_all_right_answers(name):
    """By brute force over 16 answers, each 1/sum 1/d of its own pieces."""
    family, d = FAMILIES[name]
    found, best = je.complexity(je.Instance.unstructured(MEANS, family), ZONE, gap=1e-10), 0.0
    for answer in map(np.array, itertools.product([False, True], repeat=4)):
        edge = np.where(answer, 0.05, 0.15)
        if np.all(np.where(answer, MEANS > edge, MEANS < edge)):
            rates = d(MEANS, edge)
            if 1 / np.sum(1 / rates) > best:
                best, weights = 1 / np.sum(1 / rates), 1 / rates
    np.testing.assert_allclose(found.value, best, rtol=1e-9)
    np.testing.assert_allclose(found.allocation, weights / weights.sum(), rtol=1e-4)
    even = bounds.information(je.Instance.unstructured(MEANS, family), ZONE, np.full(4, 0.25))
    np.testing.assert_allclose(even, 0.25 / weights.max(), rtol=1e-9)


def test_full_elimination_takes_the_side_that_is_farther():
    """A coin on a level near 0: its estimate says "above" as often as not.

    {mu <= 0.05} is farther from 0.1 than {mu >= 0.15}. Selective elimination waits while the
    estimate says "below", full elimination does not.
    """
    coin = je.Instance.unstructured([0.095], je.Bernoulli())
    stops = je.FullElimination(), je.SelectiveElimination(), je.LLR()
    result = je.simulate(coin, ZONE, je.Uniform(), runs=200, delta=0.05, stopping=stops)
    full, selective, llr = result.samples[:, 0] if result.samples.ndim == 3 else result.samples
    assert (full <= selective).all() and (selective <= llr).all()
    assert (full < selective).sum() > 10
    assert result.correct.all() and 0.5 < result.answer[0, 0].mean() < 1


def test_the_problem_keeps_its_contract():
    assert je.testing.check(je.Thresholding(0.2, epsilon=0.3), draws=80)


@pytest.mark.slow
def test_an_unknown_variance_has_a_zone():
    """One arm against a number needs no closest point of a pair."""
    arms = je.Instance.unstructured([0.0, 0.6], je.GaussianUnknownVariance())
    result = je.simulate(arms, je.Thresholding(0.0, epsilon=0.4), je.Uniform(), runs=50, delta=0.1,
                         threshold=je.Mixture())  # fmt: skip
    assert result.stopped.all() and result.correct.mean() > 0.9


@pytest.mark.slow
def test_a_live_run_on_the_level_ends():
    """Alternating rewards: the mean is the level for ever, and the zone ends the run."""
    run = LiveRun(["engine"], je.Thresholding(0.5, epsilon=0.1), je.Uniform(), delta=0.05,
                  family=je.Bernoulli())  # fmt: skip
    while not run.stopped and run.told < 2000:
        run.tell(run.ask(), run.told % 2)
    assert run.stopped and run.samples < 400
    assert "within 0.1 of the level may be on either side" in str(run.summary())
    (piece,) = run.evidence.piece
    assert piece == ("engine > 0.4" if run.answer_arms else "engine < 0.6")


@pytest.mark.slow
def test_errors_at_the_end_of_the_zone():
    """Of 2000 runs at delta = 0.1, wrong at a true rate of 0.1 more than 267 times: below 1e-6.

    The smallest defect that is seen with probability 1/2 is an error rate of 0.134.
    """
    assert binom.sf(267, 2000, 0.1) < 1e-6
    stops = je.FullElimination(), je.SelectiveElimination(), je.LLR()
    for mean in (0.4, 0.6):
        nudged = 0.5 + (mean - 0.5) * (1 + 1e-9)  # just wrong
        coin = je.Instance.unstructured([nudged], je.Bernoulli())
        result = je.simulate(coin, je.Thresholding(0.5, epsilon=0.1), je.Uniform(), runs=2000,
                             delta=0.1, stopping=stops, threshold=je.Mixture(), seed=8)  # fmt: skip
        assert result.stopped.all() and ((~result.correct).sum(-1) <= 267).all()
        assert (~result.correct).any()
