"""Wrong answers of whole runs under `Mixture`.

n = 10,000 runs a case at delta = 0.1, where all runs end. A rate of delta passes 1150 wrong
answers with probability below 1e-6, and a rate of 0.13 is seen with probability above 0.999.
`pytest -s` prints the counts.
"""

import numpy as np
import pytest

import jaxelim as je
from jaxelim.families import Points

pytestmark = pytest.mark.slow

RUNS, DELTA, MOST = 10_000, 0.1, 1150
make = je.Instance.unstructured
CASES = {
    "gaussian best arm": (make([0.4, 0.2, 0.2, 0.2]), je.BestArm(), je.EBTCI()),
    "gaussian top 2": (make([0.5, 0.4, 0.1, 0.0]), je.TopM(2), je.Uniform()),
    "gaussian signs": (make([0.25, -0.25, 0.3]), je.Thresholding(0.0), je.Uniform()),
    "gaussian slack": (make([0.3, 0.28, 0.0]), je.BestArm(epsilon=0.15), je.Uniform()),
    "gaussian by arm": (
        make([0.5, 0.2, 0.2], je.Gaussian(std=[1.0, 2.0, 0.5])), je.BestArm(), je.Uniform()
    ),
    "gaussian items": (
        make([0.5, 0.2, 0.0]), je.BestArm(items=[[1, 1, 0.0], [0, 1, 1.0], [1, 0, 1.0]]),
        je.Uniform(),
    ),
    "bernoulli": (make([0.6, 0.4, 0.4], je.Bernoulli()), je.BestArm(), je.EBTCI()),
    "bernoulli signs": (make([0.6, 0.4], je.Bernoulli()), je.Thresholding(0.5), je.Uniform()),
    "poisson": (make([1.5, 1.0, 1.0], je.Poisson()), je.BestArm(), je.EBTCI()),
    "exponential": (make([1.5, 1.0, 1.0], je.Exponential()), je.BestArm(), je.EBTCI()),
    "unknown variance": (
        make([0.5, 0.2, 0.2], je.GaussianUnknownVariance()), je.BestArm(), je.Uniform()
    ),
    "no bernoulli arm": (
        make([0.42, 0.4, 0.3], je.Bernoulli()), je.BestArm(reference=0.48), je.EBTCI()
    ),
    "a long tail": (
        make(source=Points([0, 0.1, 1], [[0.05, 0.55, 0.4], [0.2, 0.6, 0.2], [0.6, 0.25, 0.15]]),
             family=je.Bounded()), je.BestArm(), je.EBTCI(),
    ),
    "linear": (
        je.Instance([[1.0, 0.0], [0.7, 0.5], [0.0, 1.0]], [1.0, 0.3]), je.BestArm(), je.LinGame()
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_errors_are_rarer_than_delta(case):
    instance, problem, rule = CASES[case]
    result = je.simulate(
        instance, problem, rule, delta=DELTA, runs=RUNS, seed=11, threshold=je.Mixture(),
        stopping=(je.LLR(), je.SelectiveElimination()), max_samples=20_000, progress=False,
    )  # fmt: skip
    assert result.proven is True
    for s, stopping in enumerate(result.stopping):
        stopped, correct = result.stopped[s, 0], result.correct[s, 0]
        wrong, mean = int((~correct[stopped]).sum()), result.samples[s, 0][stopped].mean()
        print(f"{case}, {stopping.name}: {wrong} of {RUNS} wrong, {stopped.mean():.3f} ended, "
              f"mean {mean:.0f}")  # fmt: skip
        assert stopped.mean() > 0.95 and wrong <= MOST


def test_errors_near_an_end_are_rarer_than_delta():
    """As above, of bounded runs whose wrong answer is just worse than best by the slack."""
    for means in ((0.0, 0.1), (0.9, 1.0), (0.01, 0.11)):
        found = je.simulate(make(means, je.Bounded()), je.BestArm(epsilon=np.nextafter(0.1, 0)),
                            je.Uniform(), delta=DELTA, runs=RUNS, seed=12, threshold=je.Mixture(),
                            max_samples=2000)  # fmt: skip
        assert int((found.stopped & (found.answer.argmax(-1) == 0)).sum()) <= MOST
