"""Paired items: beside the twin, the definition, laws of e-values, and errors."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext
from jaxelim.lanes import LaneOps
from tests import twin
from tests.families.family_cases import best_stop
from tests.twin import paired

LOW, HIGH, N = -1.0, 3.0, 60
DELTA = 0.1


def scores(correlation, n=N, K=4, seed=0, gap=0.15):
    """Scores [K, n] in [-1, 3] of items that are hard or easy for all arms, without ties."""
    rng = np.random.default_rng([seed, n, K])
    common, own = rng.uniform(size=n), rng.uniform(size=(K, n))
    share = correlation * common + (1 - correlation) * own
    return LOW + (HIGH - LOW) * (0.5 * share + gap * np.arange(K)[::-1, None])


def on(matrix, order="bootstrap", family=None):
    family = je.Paired(LOW, HIGH) if family is None else family
    return je.Instance.unstructured(source=je.Recorded(matrix, order, True), family=family)


def plain(t, delta):
    return jnp.log(3 / delta) + 0 * t


RULES = {
    "lucb": (je.LUCB(), paired.Lucb, {}),
    "ebtc, 0.5": (je.EBTC(0.5, "tracking"), "top_two", {"select": "tracking"}),
    "ebtci, ids": (je.EBTCI("ids", "tracking"), paired.Behind,
                   {"challenger": "tci", "share": "ids", "select": "tracking"}),
}  # fmt: skip
PROBLEMS = {
    "best": (je.BestArm(), ("bai",)),
    "slack": (je.BestArm(epsilon=0.3), ("slack", 0.3)),
    "top": (je.TopM(2), ("topm", 2)),
}


@pytest.mark.parametrize("rule, problem, order, wait", [
    ("ebtci, ids", "slack", "permuted", {"batch": 3, "delay": 4}),
    *(pytest.param(*row, marks=pytest.mark.slow) for row in (
        ("ebtc, 0.5", "top", "bootstrap", {}), ("ebtci, ids", "best", "bootstrap", {}),
        ("lucb", "top", "bootstrap", {"batch": 5}),
    )),
])  # fmt: skip
def test_runs_are_those_of_the_twin(rule, problem, order, wait):
    """Every pull, each score of which is that of (run, item, arm), and the ends of the runs."""
    instance, compared = on(scores(0.7), order), 0
    (ours, theirs, settings), (asked, spec) = RULES[rule], PROBLEMS[problem]
    for run in range(3):
        every = je.trace(instance, asked, je.Uniform(), delta=1e-300, run=run, threshold=plain,
                         max_samples=4 * N)  # fmt: skip
        table = np.stack([every.rewards[every.arms == k] for k in range(4)], 1)
        found = je.trace(instance, asked, ours, delta=DELTA, run=run, threshold=plain,
                         max_samples=4 * N, **wait)  # fmt: skip
        size = N if order == "permuted" else None
        known = twin.run(
            paired.Paired(table, HIGH - LOW, size), spec, theirs, noise=np.zeros(4 * N),
            delta=DELTA, beta=lambda t, delta: np.log(3 / delta), follow=found.arms,
            **settings, **wait,
        )  # fmt: skip
        np.testing.assert_array_equal(found.arms, known.arms)
        np.testing.assert_array_equal(found.rewards, known.rewards)
        stop = known.stops["llr"]
        assert found.stopped == stop.stopped
        np.testing.assert_array_equal(found.answer, stop.answer)
        compared += len(known.arms)
    assert compared > 60


LANES = 120
"""Of all tests here, whose operations are compiled once: the most that one of them needs."""


def fed(family, pulls, slack=0.0, size=None):
    """log e of every ordered pair [3, 3, B], after pulls (arm, score [B] or [], item or None)."""
    with scope.engine():
        space = ArmContext(LaneOps(), jnp.eye(3))
        size = None if size is None else jnp.full(LANES, float(size))
        stats = family.empty(jnp.zeros((3, LANES)), size)
        for arm, score, item in pulls:
            item = None if item is None else jnp.full(LANES, item, jnp.int32)
            stats = family._entered(
                space.lanes, slack, stats, jnp.full(LANES, arm, jnp.int32),
                jnp.asarray(np.resize(score, LANES)), jnp.ones(LANES, bool), item,
            )  # fmt: skip
        rows = []
        for i in range(3):
            first = jnp.full(LANES, i, jnp.int32)
            shape = Pairs(first, jnp.arange(3, dtype=jnp.int32)[:, None] != first, slack=slack)
            rows.append(np.asarray(family.evidence(space, stats, shape).values()))
        return np.stack(rows)[..., : np.size(pulls[0][1])]


@pytest.mark.parametrize("size", [None, 12])
@pytest.mark.parametrize("slack", [0.0, 0.7])
def test_log_e_is_its_definition(slack, size):
    """In whatever order arms and items come; items that one arm lacks do not count."""
    rng = np.random.default_rng(3)
    matrix = scores(0.5, 12, 3)
    pulls = [(k, matrix[k, j], j) for k in range(3) for j in range(12) if (k, j) not in
             ((0, 3), (1, 0), (1, 11), (2, 5))]  # fmt: skip
    family = je.Paired(LOW, HIGH, items=12)
    for _ in range(3):
        pulls = [pulls[n] for n in rng.permutation(len(pulls))]
        found = fed(family, pulls, slack=slack, size=size)[..., 0]
        for i, k in itertools.permutations(range(3), 2):
            of = [{j: x for arm, x, j in pulls if arm == one} for one in (i, k)]
            both = [j for arm, _, j in pulls if arm in (i, k)]
            items = [j for n, j in enumerate(both) if j in both[:n]]  # as the pair gets them
            known = paired.log_e(*([own[j] for j in items] for own in of), HIGH - LOW, slack, size)
            assert found[i, k] == pytest.approx(known, abs=1e-12)


def test_one_arm_ahead_changes_nothing():
    """To the bit: the pair's items come in their order, whichever arm is ahead."""
    matrix, family = scores(0.5, 9, 2), je.Paired(LOW, HIGH, items=12)
    pulls = [[(k, matrix[k, j], None) for j in range(9)] for k in range(2)]
    turns = [pull for both in zip(*pulls, strict=True) for pull in both]
    known = fed(family, turns)
    late = turns[:6] + pulls[1][3:] + pulls[0][3:]
    for order in (pulls[0] + pulls[1], pulls[1] + pulls[0], late):
        np.testing.assert_array_equal(fed(family, order), known)


DIFFERENCES = [(1.0, 1.0, -1.0, -1.0), (0.875, 0.5, 0.125, -0.5, -1.0)]


@pytest.mark.parametrize("slack", [0.0, 0.125])
@pytest.mark.parametrize("values", DIFFERENCES)
def test_no_time_to_stop_makes_an_e_value_worth_more_than_one(values, slack):
    """The best stopping time by backward induction over all orders of the differences.

    Draws are without replacement. Bets as if they were with it are worth up to 1.1.
    """
    values = tuple(np.array(values) - slack - np.mean(values))
    orders = sorted(set(itertools.permutations(values)))
    for size in (len(values), None):
        family = je.Paired(-1.0, 1.0, items=12)
        worth = {(): 1.0}
        for n in range(1, len(values) + 1):
            table = np.array(orders).T
            both = np.maximum(table, 0), np.maximum(-table, 0)
            pulls = [(k, x[j], None) for j in range(n) for k, x in enumerate(both)]
            found = np.exp(fed(family, pulls, slack, size)[0, 1])
            worth |= {order[:n]: x for order, x in zip(orders, found, strict=True)}
        best = best_stop(values, worth)
        assert best <= 1 + 1e-9 if size else best > 1.001


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.95])
def test_errors_are_below_delta(correlation):
    """5000 runs at delta = 0.1 with gaps of a hundredth of a standard deviation.

    It fails by luck with probability below 1e-6 at an error rate of 0.1, and sees one of 0.13
    with probability 0.9.
    """
    critical = int(binom.isf(1e-6, 5000, 0.1))
    assert binom.sf(critical, 5000, 0.13) > 0.9
    instance = on(scores(correlation, 500, gap=0.003), family=je.Paired(LOW, HIGH, items=300))
    found = je.simulate(instance, je.BestArm(), je.EBTCI("ids"), runs=5000, delta=DELTA,
                        threshold=je.Mixture(), max_samples=4000)  # fmt: skip
    assert (found.stopped & ~found.correct).sum() <= critical and found.proven is True
