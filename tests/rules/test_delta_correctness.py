"""delta-correctness: error rates of runs, enough of them to separate 0.1 from 0.13.

Two small instances per problem, LinGapE, every stopping rule. The same check must fail
for a threshold that is too low. There is no ridge: it would shrink the first estimates,
and even a threshold that is too low would rarely err.

A check counts the wrong answers of `N` independent runs, which are binomial; it fails
at `CRITICAL` or more. At an error rate of exactly 0.1 one check fails by luck with
probability below 5e-8. All 18 checks (three problems, two instances, three stopping
rules) fail with probability below 1e-6. The heuristic threshold errs far less. An error
rate of 0.13, the smallest defect in view, passes a check with probability below 1e-3.
`test_the_error_probabilities_of_the_checks` computes these numbers.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

import jaxelim as je

DELTA, DEFECT = 0.1, 0.13
N = 8_000
CRITICAL = 947
CHECKS = 18

WEAK = 0.2
"""For this delta the threshold is an eighth of that at 0.1: one program serves both."""


def threshold(t, delta):
    beta = jnp.log(1 + t) - jnp.log(DELTA)
    return jnp.where(delta > 0.5 * (DELTA + WEAK), beta / 8, beta)


EYE = np.eye(4)
LINEAR = [[1.0, 0.0], [0.0, 1.0], [0.8, -0.6], [-0.6, 0.8]]
# Gaps below one standard deviation: early stops are often wrong, and runs are short.
INSTANCES = {
    "best-arm": (
        je.BestArm(),
        je.Instance([EYE, EYE], [[0.6, 0.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0]]),
    ),
    "top-m": (je.TopM(2), je.Instance([EYE, EYE], [[0.55, 0.55, 0.0, 0.0], [0.0, 0.5, 0.0, 0.5]])),
    "thresholding": (
        je.Thresholding(),
        je.Instance([LINEAR, LINEAR], [[0.35, -0.3], [-0.25, 0.4]]),
    ),
}


def test_the_error_probabilities_of_the_checks():
    by_luck = binom.sf(CRITICAL - 1, N, DELTA)
    assert by_luck < 5e-8 and CHECKS * by_luck < 1e-6
    assert binom.cdf(CRITICAL - 1, N, DEFECT) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTANCES)
def test_errors_are_rarer_than_delta(name):
    """And an eighth of the threshold errs in at least a fifth of the runs.

    LLR stopping of thresholding is excluded there: it needs all arms at once and errs less.
    """
    problem, instance = INSTANCES[name]
    result = je.simulate(
        instance, problem, je.LinGapE(), delta=[DELTA, WEAK], threshold=threshold, runs=N, seed=20,
        stopping=(je.LLR(), je.SelectiveElimination(), je.FullElimination()), ridge=0.0,
        engine=je.Engine(chunk=32),
    )  # fmt: skip
    assert result.stopped.all()
    wrong = np.sum(~result.correct, -1)  # [instance, stopping rule, (right, weak threshold)]
    assert (wrong[..., 0] < CRITICAL).all(), wrong[..., 0] / N
    weak = wrong[:, 1 if name == "thresholding" else 0 :, 1]
    assert N / 5 > CRITICAL and (weak >= N / 5).all(), weak / N
