"""Wrong answers of whole runs under `Mixture`, and its samples beside other thresholds.

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
def bounded(points, shares):
    return make(source=Points(points, shares), family=je.Bounded())


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
    "bernoulli reference": (
        make([0.55, 0.5, 0.2], je.Bernoulli()), je.BestArm(reference=0.48), je.EBTCI()
    ),
    "no bernoulli arm": (
        make([0.42, 0.4, 0.3], je.Bernoulli()), je.BestArm(reference=0.48), je.EBTCI()
    ),
    "a long tail": (
        bounded([0, 0.1, 1], [[0.05, 0.55, 0.4], [0.2, 0.6, 0.2], [0.6, 0.25, 0.15]]),
        je.BestArm(), je.EBTCI(),
    ),
    "two ends": (
        bounded([0, 1], [[0.55, 0.45], [0.75, 0.25], [0.8, 0.2]]), je.BestArm(), je.Uniform()
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


@pytest.mark.parametrize("means", [(0.0, 0.1), (0.9, 1.0), (0.01, 0.11)])
def test_errors_near_an_end_are_rarer_than_delta(means):
    """As above, of bounded runs whose wrong answer is just worse than best by the slack."""
    found = je.simulate(make(means, je.Bounded()), je.BestArm(epsilon=np.nextafter(0.1, 0)),
                        je.Uniform(), delta=DELTA, runs=RUNS, seed=12, threshold=je.Mixture(),
                        max_samples=2000)  # fmt: skip
    assert int((found.stopped & (found.answer.argmax(-1) == 0)).sum()) <= MOST


RATIOS = {
    "gaussian": ((0.5, 0.4, 0.3, 0.2, 0.1), je.Gaussian(), 0.55, 0.80),
    "gaussian, near": ((0.5, 0.45, 0.43, 0.4, 0.3), je.Gaussian(), 0.57, 0.72),
    "bernoulli": ((0.5, 0.4, 0.3, 0.2, 0.1), je.Bernoulli(), 0.30, 0.85),
    "poisson": ((2.0, 1.6, 1.4, 1.0), je.Poisson(), 0.65, 0.90),
    "exponential": ((1.0, 0.8, 0.6, 0.4), je.Exponential(), 0.65, 0.85),
}
"""Means, family, and the most of Kaufmann & Koolen's and of the heuristic's samples."""


@pytest.mark.parametrize("case", RATIOS)
def test_samples_beside_other_thresholds(case):
    """Means over 1000 runs of the same noise, EB-TCI, LLR stops, delta = 0.01."""
    means, family, of_koolen, of_heuristic = RATIOS[case]
    instance, best = make(means, family), je.BestArm()
    mean = {
        name: je.simulate(
            instance,
            best,
            je.EBTCI(),
            delta=0.01,
            runs=1000,
            seed=7,
            threshold=threshold,
            max_samples=2_000_000,
            progress=False,
        ).samples.mean()
        for name, threshold in (
            ("heuristic", je.Heuristic()),
            ("koolen", je.thresholds.KaufmannKoolen().bound(instance, best)),
            ("mixture", je.Mixture()),
        )
    }
    print(f"{case}: {', '.join(f'{name} {value:.0f}' for name, value in mean.items())}")
    assert mean["mixture"] <= of_koolen * mean["koolen"]
    assert mean["mixture"] <= of_heuristic * mean["heuristic"]


def test_samples_beside_a_model():
    """Uniform sampling, delta = 0.05, 1000 runs of 0/1 rewards, all with a proof.

    At most 1.15 of Bernoulli's mixture, at most 0.6 of Gaussian rewards of std 1/2.
    """

    def mean(means, family):
        found = je.simulate(make(means, family), je.BestArm(), je.Uniform(),
                            delta=0.05, runs=1000, seed=1, threshold=je.Mixture())  # fmt: skip
        assert found.proven is True and found.stopped.all()
        return found.samples.mean()

    for means, other, most in (
        ((0.5, 0.4), je.Bernoulli(), 1.15),
        ((0.9, 0.8), je.Gaussian(0.5), 0.6),
    ):
        ours, theirs = mean(means, je.Bounded()), mean(means, other)
        print(f"{means}: {ours:.0f}, {other!r} {theirs:.0f}, ratio {ours / theirs:.3f}")
        assert ours <= most * theirs
