"""Laws of runs: rules x problems x elimination, each on a family in turn.

Each row simulates runs of an instance, and as many of the instance with its arms
permuted, at delta = 0.1 with the threshold log((1 + t)/delta).

- Where sampling does not eliminate: tau_full <= tau_selective <= tau_LLR in every run.
- Errors: an observer of a row fails at `critical` wrong answers of an instance. By luck
  any of all rows fails with probability below 5e-7, at an error rate of exactly delta. A
  rate of 0.16 is seen with probability 0.95.
- Permuted arms: the means of log tau of both instances agree within `far` standard errors.
  By luck some row fails with probability below 5e-7. Stopping times 1.3 times as long
  are seen with probability 0.95.
- A run depends on nothing but its number: the first runs again, in other lanes and chunks.
"""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom, norm, t

import jaxelim as je
from jaxelim import catalogue, families
from jaxelim.testing.rules import run_by_run
from tests.calls import checked

pytestmark = pytest.mark.slow
RUNS, AGAIN, DELTA = 2000, 48, 0.1
LUCK, SPREAD = 1e-6, 1.0
LLR, SELECTIVE, FULL = je.LLR(), je.SelectiveElimination(), je.FullElimination()
ELIMINATION = {"none": None, "selective": SELECTIVE, "full": FULL}
ORDER = [2, 0, 3, 1]
FIELDS = ("samples", "stopped", "answer", "pulls", "tests_stopping", "tests_sampling")


@dataclasses.dataclass(frozen=True)
class Place:
    """A family, four arms, a level and a slack."""

    family: je.contracts.Family
    permuted: je.contracts.Family
    means: tuple
    level: float
    slack: float
    features: list | None = None  # with theta in place of the means
    scores: np.ndarray | None = None  # of items, [K, N], whose means these are


def place(family, means, level, slack, permuted=None, features=None, scores=None):
    return Place(family, permuted or family, means, level, slack, features, scores)


STD = np.array([0.5, 1.0, 0.7, 0.8])
FAMILIES = {
    "bernoulli": place(je.Bernoulli(), (0.9, 0.3, 0.65, 0.05), 0.45, 0.3),
    "poisson": place(je.Poisson(), (4.0, 1.0, 2.2, 0.3), 1.5, 0.8),
    "exponential": place(je.Exponential(), (6.0, 0.6, 2.2, 0.2), 1.1, 1.5),
    "gaussian": place(je.Gaussian(), (1.5, -0.5, 0.5, -1.0), 0.0, 0.5),
    "by-arm": place(je.Gaussian(STD), (1.5, -0.5, 0.5, -1.0), 0.0, 0.5, je.Gaussian(STD[ORDER])),
    "unknown-variance": place(je.GaussianUnknownVariance(), (2.0, -0.8, 0.6, -1.5), -0.1, 0.5),
    "bounded": place(je.Bounded(0, 1), (0.95, 0.2, 0.6, 0.05), 0.4, 0.3),
}
OTHERS = {
    "linear": place(je.Gaussian(), (1.5, 0.2), 0.6, 0.0,
                    features=[[1.0, 0.0], [0.0, 1.0], [0.7, -0.6], [-0.6, 0.8]]),
    "logistic": place(je.Logistic(), (0.9, 0.3, 0.65, 0.05), 0.45, 0.0),
    "paired": place(
        je.Paired(items=2000), (0.875, 0.375, 0.625, 0.125), 0.4, 0.2, scores=np.stack([
            np.arange(64) * step % 64 < 64 * mean
            for step, mean in ((1, 0.875), (5, 0.375), (9, 0.625), (3, 0.125))
        ]) * 1.0,
    ),
}  # fmt: skip
"""For rules of linear Gaussian rewards, uniform sampling, and rules of pairs of evidence."""
PLACES = FAMILIES | OTHERS
RULES = {
    "uniform": je.Uniform(),
    "oracle": je.Oracle(),
    "tas": je.TrackAndStop(),
    "tas, C": je.TrackAndStop("C"),
    "lucb": je.LUCB(),
    "lucb, two pulls": je.LUCB(pulls=2),
    "ugape": je.UGapE(),
    "racing": je.Racing(),
    "k-learner": je.LinGame(),
    "fws": je.FWS(),
    "lazy-tas": je.LazyTaS(),
    "eb-tci": je.EBTCI(),
    "ttucb, ids": je.TTUCB("ids"),
    "t3c": je.T3C(),
}
GAUSSIAN = {
    "lingape": je.LinGapE(), "lingifa": je.LinGIFA(), "rage": je.RAGE(),
    "xy-adaptive": je.XYAdaptive(), "lingame": je.LinGame(),
    "optimistic-lingame": je.OptimisticLinGame(),
}  # fmt: skip
EVERY = RULES | GAUSSIAN


PROBLEMS = {
    "best-arm": lambda where: je.BestArm(),
    "top-m": lambda where: je.TopM(2),
    "signs": lambda where: je.Thresholding(where.level),
    "slack": lambda where: je.BestArm(epsilon=where.slack),
    "reference": lambda where: je.BestArm(reference=where.level),
}


def supported(family, problem, rule, elimination):
    """Whether the library takes the combination; it refuses the others by name."""
    where, ours, by = PLACES[family], EVERY[rule], ELIMINATION[elimination]
    if rule == "oracle" and not where.family.has("truth"):
        return False  # refused by name when the run begins, for want of an H*
    for stopping in (by,) if by else (LLR, je.Native()):
        try:
            checked(instances(where)[0], PROBLEMS[problem](where), ours, stopping=stopping,
                    elimination=by)  # fmt: skip
            return True
        except je.errors.UnsupportedError:
            continue
    return False


VARIANTS = ("tas, C", "lucb, two pulls", "ttucb, ids")
"""Settings of rules that have rows of their own."""


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
        je.Instance.unstructured(means[ORDER], where.permuted),
    )


def cases():
    """Of every problem and rule a family, without elimination and with one of the two."""
    for p, problem in enumerate(PROBLEMS):
        for r, rule in enumerate(RULES):
            for e in (0, 1):
                elimination = ("none", ("selective", "full")[(p + r) % 2])[e]
                names = [list(FAMILIES)[(p + r + e + n) % len(FAMILIES)] for n in range(7)]
                known = [one for one in names if supported(one, problem, rule, elimination)]
                yield from ((family, problem, rule, elimination) for family in known[:1])


def other_cases():
    """Rules of Gaussian rewards on linear arms, uniform sampling of logistic ones, paired items."""
    for problem, rule in (("best-arm", "uniform"), ("top-m", "lucb"), ("slack", "eb-tci")):
        yield "paired", problem, rule, "none"
    for problem, rule in (("best-arm", "eb-tci"), ("top-m", "eb-tci"), ("best-arm", "lucb")):
        yield "paired", problem, rule, "selective"
    for problem in list(PROBLEMS)[:3]:
        yield "logistic", problem, "uniform", "none"
        for rule in GAUSSIAN:
            for elimination in ("none", "selective"):
                if supported("linear", problem, rule, elimination):
                    yield "linear", problem, rule, elimination


CASES = [*cases(), *other_cases()]


def job(where, problem, rule, elimination):
    """What all calls of a row have in common."""
    by = ELIMINATION[elimination]
    every = tuple(one for one in (LLR, SELECTIVE, FULL) if one.name in rule.traits.stopping)
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


def limits():
    """The wrong answers and the standard errors at which a row fails.

    Six checks of errors a row at most, three of permuted arms, each two-sided.
    """
    each = LUCK / (2 * 6 * len(CASES))
    return binom.isf(each, RUNS, DELTA) + 1, t.isf(each, 2 * RUNS - 2)


def check_laws(case):
    """Check a row; returns its runs, what simulates some of them again, and the rule."""
    family, problem, rule, elimination = case
    where, ours = PLACES[family], EVERY[rule]
    if isinstance(ours, je.TrackAndStop) and problem == "top-m":
        ours = dataclasses.replace(ours, schedule=25)  # each solve takes milliseconds
    asked, common = PROBLEMS[problem](where), job(where, problem, ours, elimination)
    names = [one.name for one in common["stopping"]]
    critical, far = limits()

    def simulated(one, runs, layout, rule=ours):
        return je.simulate(one, asked, rule, runs=runs, engine=layout, **common)

    given = instances(where)
    found = [simulated(one, RUNS, je.Engine(devices=1)) for one in given]
    for result in found:
        assert result.stopped.all()
        check_order(result.samples[:, 0], names)
        assert (~result.correct).sum(-1).max() < critical
    logs = [np.log(result.samples[:, 0]) for result in found]
    spread = np.sqrt(sum(one.var(-1, ddof=1) for one in logs) / RUNS)
    assert (np.abs(logs[0].mean(-1) - logs[-1].mean(-1)) < far * spread).all()
    assert max(one.std() for one in logs) < SPREAD
    return found[0], functools.partial(simulated, given[0]), ours


def check_again(found, again, runs):
    """Exactly the same runs."""
    for field in FIELDS:
        one, other = getattr(found, field), getattr(again, field)
        np.testing.assert_array_equal(other, one[:, :, runs], field)


@pytest.mark.parametrize(("family", "problem", "rule", "elimination"), CASES)
def test_laws(family, problem, rule, elimination):
    case = family, problem, rule, elimination
    found, simulated, ours = check_laws(case)
    if elimination == "none":
        layout = je.Engine(lanes=16, chunk=37, devices=1)
        check_again(found, simulated(AGAIN, layout), slice(AGAIN))
    elif ours.traits.lanes_last:  # the form for one run, under jax.vmap
        few = simulated(8, je.Engine(devices=1), run_by_run(ours))
        check_again(found, few, slice(8))


WEAK = {
    "best-arm": (je.BestArm(), [0.6, 0.0, 0.0, 0.0]),
    "top-m": (je.TopM(2), [0.0, 0.5, 0.0, 0.5]),
    "signs": (je.Thresholding(), [0.35, -0.3, 0.46, -0.45]),
}
"""Gaps below one standard deviation, where early stops are often wrong."""


@pytest.mark.parametrize("problem", WEAK)
def test_a_weak_threshold_fails(problem):
    """An eighth of the threshold errs more often than a row of `CASES` allows."""
    asked, means = WEAK[problem]
    found = je.simulate(
        je.Instance.unstructured(means), asked, je.LinGapE(), delta=DELTA, runs=RUNS, seed=20,
        threshold=lambda t, delta: jnp.log((1 + t) / delta) / 8, stopping=(SELECTIVE, FULL),
    )  # fmt: skip
    assert found.stopped.all()
    assert ((~found.correct).sum(-1) >= limits()[0]).all()


def test_rows_have_all_families_and_rules():
    """But for OptimisticTaS, each sample of which solves a saddle point."""
    assert {type(one.family) for one in PLACES.values()} == set(families.NAMES.values())
    rules = {type(rule) for rule in EVERY.values()}
    assert rules == set(catalogue.rules().values()) - {je.OptimisticTaS}


def test_the_chances():
    (critical, far), rows = limits(), len(CASES)
    chance = binom.sf(critical - 1, RUNS, DELTA)
    assert 6 * rows * chance + 3 * rows * 2 * t.sf(far, 2 * RUNS - 2) < 1e-6
    assert binom.sf(critical - 1, RUNS, 0.16) > 0.95
    assert norm.sf(far - np.log(1.3) / (SPREAD * np.sqrt(2 / RUNS))) > 0.95
