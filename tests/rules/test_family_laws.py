"""Laws of runs: every family, and every problem, by rules in turn.

Each row simulates runs of an instance, and as many of the instance with its arms
permuted, at delta = 0.1 with the threshold log((1 + t)/delta).

- Where sampling does not eliminate: tau_full <= tau_selective <= tau_LLR in every run.
- Errors: an observer of a row fails at `critical` wrong answers of an instance. By luck
  any of all rows fails with probability below 5e-7, at an error rate of exactly delta. A
  rate of 0.16 is seen with probability 0.95.
- Permuted arms: the means of log tau of both instances agree within `far` standard errors.
  By luck some row fails with probability below 5e-7. Stopping times 1.3 times as long
  are seen with probability 0.95.
"""

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom, norm, t

import jaxelim as je
from jaxelim import families

RUNS, DELTA = 2000, 0.1
LUCK, SPREAD = 1e-6, 1.0
LLR, SELECTIVE, FULL = je.LLR(), je.SelectiveElimination(), je.FullElimination()
ORDER = [2, 0, 3, 1]


@dataclasses.dataclass(frozen=True)
class Place:
    """A family, four arms, a level and a slack."""

    family: je.contracts.Family
    means: tuple
    level: float
    slack: float
    permuted: je.contracts.Family | None = None
    features: list | None = None  # with theta in place of the means
    scores: np.ndarray | None = None  # of items, [K, N], whose means these are


STD = np.array([0.5, 1.0, 0.7, 0.8])
PLACES = {
    "bernoulli": Place(je.Bernoulli(), (0.9, 0.3, 0.65, 0.05), 0.45, 0.3),
    "poisson": Place(je.Poisson(), (4.0, 1.0, 2.2, 0.3), 1.5, 0.8),
    "exponential": Place(je.Exponential(), (6.0, 0.6, 2.2, 0.2), 1.1, 1.5),
    "gaussian": Place(je.Gaussian(), (1.5, -0.5, 0.5, -1.0), 0.0, 0.5),
    "by-arm": Place(je.Gaussian(STD), (1.5, -0.5, 0.5, -1.0), 0.0, 0.5, je.Gaussian(STD[ORDER])),
    "unknown-variance": Place(je.GaussianUnknownVariance(), (2.0, -0.8, 0.6, -1.5), -0.1, 0.5),
    "bounded": Place(je.Bounded(0, 1), (0.95, 0.2, 0.6, 0.05), 0.4, 0.3),
    "linear": Place(je.Gaussian(), (1.5, 0.2), 0.6, 0.0,
                    features=[[1.0, 0.0], [0.0, 1.0], [0.7, -0.6], [-0.6, 0.8]]),
    "logistic": Place(je.Logistic(), (0.9, 0.3, 0.65, 0.05), 0.45, 0.0),
    "paired": Place(
        je.Paired(items=2000), (0.875, 0.375, 0.625, 0.125), 0.4, 0.2, scores=np.stack([
            np.arange(64) * step % 64 < 64 * mean
            for step, mean in ((1, 0.875), (5, 0.375), (9, 0.625), (3, 0.125))
        ]) * 1.0,
    ),
}  # fmt: skip
PROBLEMS = {
    "best-arm": lambda where: je.BestArm(),
    "top-m": lambda where: je.TopM(2),
    "signs": lambda where: je.Thresholding(where.level),
    "slack": lambda where: je.BestArm(epsilon=where.slack),
    "reference": lambda where: je.BestArm(reference=where.level),
}
CASES = [
    ("bernoulli", "best-arm", je.T3C(), FULL), ("poisson", "slack", je.LUCB(), FULL),
    ("exponential", "top-m", je.LinGame(), None), ("gaussian", "slack", je.Uniform(), None),
    ("by-arm", "top-m", je.FWS(), SELECTIVE), ("unknown-variance", "signs", je.LazyTaS(), None),
    ("bounded", "reference", je.TrackAndStop(), None), ("paired", "slack", je.EBTCI(), None),
    ("logistic", "signs", je.Uniform(), None), ("linear", "best-arm", je.LinGapE(), SELECTIVE),
]  # fmt: skip


def instances(where):
    """The instance, and the same with its arms permuted."""
    means = np.array(where.means)
    if where.features:
        arms = np.array(where.features)
        return je.Instance(arms, means), je.Instance(arms[ORDER], means)
    if where.scores is not None:
        both = (je.Recorded(x, "bootstrap", True) for x in (where.scores, where.scores[ORDER]))
        return tuple(je.Instance.unstructured(None, where.family, source=one) for one in both)
    return (
        je.Instance.unstructured(means, where.family),
        je.Instance.unstructured(means[ORDER], where.permuted or where.family),
    )


def limits():
    """The wrong answers and the standard errors at which a row fails.

    Six checks of errors a row at most, three of permuted arms, each two-sided.
    """
    each = LUCK / (2 * 6 * len(CASES))
    return binom.isf(each, RUNS, DELTA) + 1, t.isf(each, 2 * RUNS - 2)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "problem", "rule", "elimination"), CASES)
def test_laws(family, problem, rule, elimination):
    where = PLACES[family]
    stopping = (elimination,) if elimination else (LLR, SELECTIVE, FULL)
    ridge = {"ridge": 0.0} if where.family.name == "gaussian" else {}

    def simulated(one, runs=RUNS, **layout):
        return je.simulate(one, PROBLEMS[problem](where), rule, delta=DELTA, stopping=stopping,
                           elimination=elimination, runs=runs, seed=8, max_samples=20_000,
                           engine=je.Engine(devices=1, **layout), **ridge)  # fmt: skip

    found = [simulated(one) for one in instances(where)]
    last = simulated(instances(where)[0], [RUNS - 1], lanes=16, chunk=37)
    np.testing.assert_array_equal(last.samples, found[0].samples[..., -1:])
    critical, far = limits()
    for result in found:
        assert result.stopped.all()
        assert (np.diff(result.samples[:, 0], axis=0) <= 0).all()
        assert (~result.correct).sum(-1).max() < critical
    logs = [np.log(result.samples[:, 0]) for result in found]
    spread = np.sqrt(sum(one.var(-1, ddof=1) for one in logs) / RUNS)
    assert (np.abs(logs[0].mean(-1) - logs[-1].mean(-1)) < far * spread).all()
    assert max(one.std() for one in logs) < SPREAD


def test_rows_have_all_families_and_problems():
    assert {type(one.family) for one in PLACES.values()} == set(families.NAMES.values())
    assert {case[0] for case in CASES} == set(PLACES)
    assert {case[1] for case in CASES} == set(PROBLEMS)


def test_the_chances():
    (critical, far), rows = limits(), len(CASES)
    chance = binom.sf(critical - 1, RUNS, DELTA)
    assert 6 * rows * chance + 3 * rows * 2 * t.sf(far, 2 * RUNS - 2) < 1e-6
    assert binom.sf(critical - 1, RUNS, 0.16) > 0.95
    assert norm.sf(far - np.log(1.3) / (SPREAD * np.sqrt(2 / RUNS))) > 0.95
