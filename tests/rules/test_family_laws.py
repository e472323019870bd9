"""Laws of runs: every rule on every family and problem, without and with elimination.

Each row simulates runs of an instance, and as many of the instance with its arms
permuted, at delta = 0.1 with the threshold log((1 + t)/delta). The rows of `CASES` have
`RUNS` runs each. The rows of `QUICK` have `QUICK_RUNS` each, and meet every pair of a family,
a problem and an elimination, and of a rule and the latter two. Those of `FAST` run in the
fast suite, and meet every family, problem, rule and elimination.

- Where sampling does not eliminate: tau_full <= tau_selective <= tau_LLR in every run.
- Errors: an observer of a row fails at `critical` wrong answers of an instance. By luck
  any of all rows fails with probability below 5e-7, at an error rate of exactly delta. A
  rate of 0.16 is seen with probability 0.95; in a quick row, a rate of 0.25.
- Permuted arms: the means of log tau of both instances agree within `far` standard errors.
  By luck some row fails with probability below 5e-7. Stopping times 1.3 times as long
  are seen with probability 0.95; in a quick row, 1.8 times.
- A run depends on nothing but its number: the first runs again, in other lanes, other
  chunks and on two devices. Quick rows: in another order, so in other lanes; some in
  other chunks too.
"""

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom, norm, t

import jaxelim as je
from jaxelim import catalogue, families

pytestmark = pytest.mark.devices
RUNS, QUICK_RUNS, AGAIN, DELTA = 2000, 384, 48, 0.1
LUCK, SPREAD = 1e-6, 1.0
LLR, SELECTIVE, FULL = je.LLR(), je.SelectiveElimination(), je.FullElimination()
ELIMINATION = {"none": None, "selective": SELECTIVE, "full": FULL}
ORDER = [2, 0, 3, 1]
FIELDS = ("samples", "stopped", "answer", "pulls", "tests_stopping", "tests_sampling")


@dataclasses.dataclass(frozen=True)
class Place:
    """A family, the means of four arms and a level for signs."""

    family: je.contracts.Family
    permuted: je.contracts.Family
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


VARIANTS = ("tas, C", "lucb, two pulls", "ttucb, ids")
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


def row(family, problem, rule, elimination="none"):
    return family, problem, rule, elimination


QUICK = [
    row("bernoulli", "best-arm", "lazy-tas", "selective"), row("bernoulli", "best-arm", "eb-tci"),
    row("bernoulli", "top-m", "ugape"), row("bernoulli", "signs", "fws", "full"),
    row("poisson", "best-arm", "fws", "selective"), row("poisson", "top-m", "uniform"),
    row("poisson", "signs", "tas", "full"),
    row("exponential", "best-arm", "oracle"), row("exponential", "best-arm", "tas", "selective"),
    row("exponential", "best-arm", "racing"), row("exponential", "best-arm", "k-learner"),
    row("exponential", "top-m", "lucb"), row("exponential", "signs", "eb-tci", "full"),
    row("gaussian", "best-arm", "ugape"), row("gaussian", "best-arm", "t3c"),
    row("gaussian", "best-arm", "t3c", "selective"),
    row("gaussian", "top-m", "oracle"), row("gaussian", "top-m", "tas"),
    row("gaussian", "top-m", "racing"), row("gaussian", "top-m", "fws"),
    row("gaussian", "top-m", "eb-tci", "full"),
    row("gaussian", "signs", "eb-tci", "selective"), row("gaussian", "signs", "uniform"),
    row("gaussian", "signs", "k-learner", "full"),
    row("gaussian", "signs", "lazy-tas", "full"),
    row("by-arm", "best-arm", "tas"), row("by-arm", "best-arm", "lucb", "selective"),
    row("by-arm", "best-arm", "t3c", "full"), row("by-arm", "top-m", "lazy-tas"),
    row("by-arm", "top-m", "eb-tci", "selective"), row("by-arm", "signs", "oracle"),
    row("unknown-variance", "best-arm", "uniform"),
    row("unknown-variance", "top-m", "k-learner", "selective"),
    row("unknown-variance", "signs", "lucb", "full"),
]  # fmt: skip
"""Rows of few runs; each compiles a program."""
FAST = [
    row("bernoulli", "signs", "fws", "full"), row("poisson", "signs", "tas", "full"),
    row("exponential", "signs", "eb-tci", "full"), row("gaussian", "signs", "uniform"),
    row("gaussian", "top-m", "racing"), row("gaussian", "best-arm", "ugape"),
    row("gaussian", "signs", "k-learner", "full"),
    row("gaussian", "best-arm", "t3c", "selective"),
    row("by-arm", "signs", "oracle"), row("by-arm", "top-m", "lazy-tas"),
    row("unknown-variance", "signs", "lucb", "full"),
]  # fmt: skip
"""Those of the fast suite: each rule once."""
OTHER_CHUNKS = [
    row("exponential", "signs", "eb-tci", "full"), row("gaussian", "signs", "lazy-tas", "full"),
    row("unknown-variance", "top-m", "k-learner", "selective"),
]  # fmt: skip
"""Those that compile a second one, of other lanes and chunks."""


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


def limits(runs, rows):
    """The wrong answers and the standard errors at which one of `rows` rows fails.

    Six checks of errors a row at most, three of permuted arms, each two-sided.
    """
    each = LUCK / (2 * 6 * rows)
    return binom.isf(each, runs, DELTA) + 1, t.isf(each, 2 * runs - 2)


def check_laws(case, runs, rows, layout, permuted=True):
    """Check a row of so many; returns the first runs, and what simulates some of them again."""
    family, problem, rule, elimination = case
    where, ours = FAMILIES[family], RULES[rule]
    if isinstance(ours, je.TrackAndStop) and problem == "top-m":
        ours = dataclasses.replace(ours, schedule=25)  # each solve takes milliseconds
    asked, common = problem_of(problem, where.level), job(where, problem, ours, elimination)
    names = [one.name for one in common["stopping"]]
    critical, far = limits(runs, rows)

    def simulated(one, runs, layout):
        return je.simulate(one, asked, ours, runs=runs, engine=layout, **common)

    given = instances(where)
    found = [simulated(one, runs, layout) for one in given[: 1 + permuted]]
    for result in found:
        assert result.stopped.all()
        check_order(result.samples[:, 0], names)
        assert (~result.correct).sum(-1).max() < critical
    logs = [np.log(result.samples[:, 0]) for result in found]
    spread = np.sqrt(sum(one.var(-1, ddof=1) for one in logs) / runs)
    assert (np.abs(logs[0].mean(-1) - logs[-1].mean(-1)) < far * spread).all()
    assert max(one.std() for one in logs) < SPREAD
    return found[0], lambda runs, layout: simulated(given[0], runs, layout)


def check_again(found, again, runs):
    """Exactly the same runs."""
    for field in FIELDS:
        one, other = getattr(found, field), getattr(again, field)
        np.testing.assert_array_equal(other, one[:, :, runs], field)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "problem", "rule", "elimination"), CASES)
def test_laws(family, problem, rule, elimination):
    case = family, problem, rule, elimination
    found, simulated = check_laws(case, RUNS, len(CASES), je.Engine(devices=1))
    if elimination == "none":
        layout = je.Engine(lanes=16, chunk=37, devices=2)
        check_again(found, simulated(AGAIN, layout), slice(AGAIN))


@pytest.mark.parametrize(
    ("family", "problem", "rule", "elimination"),
    [pytest.param(*case, marks=() if case in FAST else pytest.mark.slow) for case in QUICK],
)
def test_laws_in_few_runs(family, problem, rule, elimination):
    """A family whose settings follow the arms needs another program for permuted ones."""
    case, layout = (family, problem, rule, elimination), je.Engine(lanes=16, devices=1)
    permuted = FAMILIES[family].permuted is FAMILIES[family].family
    found, simulated = check_laws(case, QUICK_RUNS, len(QUICK), layout, permuted)
    order = np.arange(AGAIN)[::-1]
    check_again(found, simulated(order, layout), order)
    if case in OTHER_CHUNKS:
        layout = je.Engine(lanes=32, chunk=37, devices=1)
        check_again(found, simulated(AGAIN, layout), slice(AGAIN))


NAMES = ("family", "problem", "rule", "elimination")
PAIRS = (
    ("family", "problem"), ("family", "elimination"), ("problem", "elimination"),
    ("problem", "rule"), ("rule", "elimination"),
)  # fmt: skip
"""The pairs that the quick rows meet."""


def pairs(cases, kind):
    first, second = (NAMES.index(name) for name in kind)
    return {(case[first], case[second]) for case in cases}


def test_fast_rows_meet_every_name():
    """Each family, problem, elimination and rule; the quick rows meet their pairs."""
    assert set(FAST) <= set(QUICK) and len(set(FAST)) == len(FAST)
    for column, name in enumerate(NAMES):
        known = {case[column] for case in CASES if case[2] not in VARIANTS}
        assert {case[column] for case in FAST} == known, name


def test_quick_rows_meet_the_pairs():
    """Settings of a rule that are in `VARIANTS` count as no rule."""
    assert set(OTHER_CHUNKS) <= set(QUICK) <= set(CASES) and len(set(QUICK)) == len(QUICK)
    defined = [case for case in CASES if case[2] not in VARIANTS]
    for kind in PAIRS:
        missing = pairs(defined, kind) - pairs(QUICK, kind)
        assert not missing, f"{kind}: the quick rows need {sorted(missing)}"


def test_rows_have_all_families_and_rules():
    """But for rules of Gaussian rewards alone; some rewards have tests of their own.

    Recorded, logistic and bounded ones.
    """
    known = set(families.known().values()) - {je.Logistic, je.Bounded}
    assert {type(one.family) for one in FAMILIES.values()} == known
    rules = {type(rule) for rule in RULES.values()}
    assert rules == {rule for rule in catalogue.rules().values() if rule.traits.families is None}


def test_the_chances():
    for runs, rows, rate, longer in ((RUNS, CASES, 0.16, 1.3), (QUICK_RUNS, QUICK, 0.25, 1.8)):
        critical, far = limits(runs, len(rows))
        chance = binom.sf(critical - 1, runs, DELTA)
        assert 6 * len(rows) * chance + 3 * len(rows) * 2 * t.sf(far, 2 * runs - 2) < 1e-6
        assert binom.sf(critical - 1, runs, rate) > 0.95
        assert norm.sf(far - np.log(longer) / (SPREAD * np.sqrt(2 / runs))) > 0.95
