"""Laws of runs: every rule on every family and problem, without and with elimination.

Each row simulates `RUNS` runs of an instance, and as many of the instance with its arms
permuted, at delta = 0.1 with the threshold log((1 + t)/delta).

- Where sampling does not eliminate: tau_full <= tau_selective <= tau_LLR in every run.
- Errors: an observer of a row fails at `CRITICAL` wrong answers of an instance. By luck
  any of all rows fails with probability below 1e-6, at an error rate of exactly delta. A
  rate of 0.16 is seen with probability 0.96.
- Permuted arms: the means of log tau of both instances agree within `FAR` standard errors.
  By luck some row fails with probability below 1e-6. Stopping times 1.3 times as long
  are seen with probability above 0.95.
- A run depends on nothing but its number: where sampling does not eliminate, the first runs
  again, in other lanes, other chunks and on two devices.
"""

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom, norm

import jaxelim as je

pytestmark = pytest.mark.devices
RUNS, AGAIN, DELTA, CRITICAL = 2000, 48, 0.1, 290
FAR, SPREAD = 6.5, 1.0
LLR, SELECTIVE, FULL = je.LLR(), je.SelectiveElimination(), je.FullElimination()
ELIMINATION = {"none": None, "selective": SELECTIVE, "full": FULL}
ORDER = [2, 0, 3, 1]
FIELDS = ("samples", "stopped", "answer", "pulls", "tests_stopping", "tests_sampling")


@dataclasses.dataclass(frozen=True)
class Place:
    """A family, the means of four arms and a level for signs."""

    family: je.Family
    permuted: je.Family
    means: tuple
    level: float


def place(family, means, level, permuted=None):
    return Place(family, permuted or family, means, level)


STD = np.array([0.5, 1.0, 0.7, 0.8])
FAMILIES = {
    "bernoulli": place(je.Bernoulli(), (0.9, 0.3, 0.65, 0.05), 0.45),
    "poisson": place(je.Poisson(), (4.0, 1.0, 2.2, 0.3), 1.5),
    "exponential": place(je.Exponential(), (6.0, 0.6, 2.2, 0.2), 1.1),
    "gaussian": place(je.Gaussian(), (1.5, -0.5, 0.5, -1.0), 0.0),
    "by-arm": place(je.Gaussian(STD), (1.5, -0.5, 0.5, -1.0), 0.0, je.Gaussian(STD[ORDER])),
    "unknown-variance": place(je.GaussianUnknownVariance(), (2.0, -0.8, 0.6, -1.5), -0.1),
}
RULES = {
    "uniform": je.Uniform(),
    "oracle": je.Oracle(),
    "tas": je.TrackAndStop(),
    "tas, C": je.TrackAndStop("C"),
    "optimistic-tas": je.OptimisticTaS(),
    "lucb": je.LUCB(),
    "lucb, two pulls": je.LUCB(pulls=2),
    "ugape": je.UGapE(),
    "racing": je.Racing(),
    "chernoff-racing": je.ChernoffRacing(),
    "kl-racing": je.ChernoffRacing(test="interval"),
    "k-learner": je.LinGame(),
    "k-learner, optimistic": je.LinGame(optimistic=True),
    "fws": je.FWS(),
    "lazy-tas": je.LazyTaS(),
    "eb-tci": je.EBTCI(),
    "ttucb, ids": je.TTUCB("ids"),
    "t3c": je.T3C(),
}


PROBLEMS = ("best-arm", "top-m", "signs")


def problem_of(name, level):
    return {"best-arm": je.BestArm(), "top-m": je.TopM(2), "signs": je.Thresholding(level)}[name]


def supported(family, problem, rule, eliminates):
    """Whether the rule is defined here; the other combinations are refused."""
    traits = rule.traits
    return (
        traits.defined_for(problem.name)
        and (traits.families is None or family.name in traits.families)
        and all(family.has(method) for method in rule.needs(family, problem))
        and (traits.elimination or not eliminates)
    )


VARIANTS = ("tas, C", "lucb, two pulls", "k-learner, optimistic", "ttucb, ids")
"""Settings of rules that have rows of their own; on two families only."""


def sampling(family, problem, rule):
    """Eliminations at sampling of a combination: none, and one of the two in turn."""
    places = list(FAMILIES).index(family), PROBLEMS.index(problem), list(RULES).index(rule)
    return "none", ("selective", "full")[sum(places) % 2]


CASES = [
    (family, problem, rule, elimination)
    for family, where in FAMILIES.items()
    for problem in PROBLEMS
    for rule, ours in RULES.items()
    for elimination in sampling(family, problem, rule)
    if supported(where.family, problem_of(problem, where.level), ours, elimination != "none")
    and (rule not in VARIANTS or family in ("bernoulli", "exponential"))
]


def instances(where):
    """The instance, and the same with its arms permuted."""
    means = np.array(where.means)
    return (
        je.Instance.unstructured(means, where.family),
        je.Instance.unstructured(means[ORDER], where.permuted),
    )


def job(where, problem, rule, elimination):
    """What all calls of a row have in common."""
    traits, by = rule.traits, ELIMINATION[elimination]
    every = tuple(one for one in (LLR, SELECTIVE, FULL) if one.name in traits.stopping)
    stopping = (by,) if by else every or (je.Native(),)
    return dict(
        delta=DELTA, stopping=stopping, elimination=by, seed=8, max_samples=20_000,
        **({"ridge": 0.0} if where.family.name == "gaussian" else {}),
    )  # fmt: skip


def check_order(samples, names):
    """samples [stopping, run]."""
    tau = dict(zip(names, samples, strict=True))
    if "llr" in tau:
        assert (tau["full"] <= tau["selective"]).all() and (tau["selective"] <= tau["llr"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("family", "problem", "rule", "elimination"), CASES)
def test_laws(family, problem, rule, elimination):
    where, ours = FAMILIES[family], RULES[rule]
    if isinstance(ours, je.TrackAndStop) and problem == "top-m":
        ours = dataclasses.replace(ours, schedule=25)  # each solve takes milliseconds
    asked, common = problem_of(problem, where.level), job(where, problem, ours, elimination)
    names = [one.name for one in common["stopping"]]
    found = [
        je.simulate(one, asked, ours, runs=RUNS, engine=je.Engine(devices=1), **common)
        for one in instances(where)
    ]
    for result in found:
        assert result.stopped.all()
        check_order(result.samples[:, 0], names)
        assert (~result.correct).sum(-1).max() < CRITICAL
    logs = [np.log(result.samples[:, 0]) for result in found]
    spread = np.sqrt(sum(one.var(-1, ddof=1) for one in logs) / RUNS)
    assert (np.abs(logs[0].mean(-1) - logs[1].mean(-1)) < FAR * spread).all()
    assert max(one.std() for one in logs) < SPREAD
    if elimination != "none":
        return
    layout = je.Engine(lanes=16, chunk=37, devices=2)
    again = je.simulate(instances(where)[0], asked, ours, runs=AGAIN, engine=layout, **common)
    for field in FIELDS:
        one, other = getattr(found[0], field), getattr(again, field)
        np.testing.assert_array_equal(other, one[:, :, :AGAIN], field)


def test_the_chances():
    """Six checks of errors a row at most, three of permuted arms."""
    chance = binom.sf(CRITICAL - 1, RUNS, DELTA)
    assert 6 * len(CASES) * chance + 3 * len(CASES) * 2 * norm.sf(FAR) < 1e-6
    assert binom.sf(CRITICAL - 1, RUNS, 0.16) > 0.96
    assert norm.sf(FAR - np.log(1.3) / (SPREAD * np.sqrt(2 / RUNS))) > 0.95
