"""The proof where arms join and leave: its union, an adversary, and many simulated runs."""

import math

import numpy as np
import pytest

import jaxelim as je
from jaxelim.checks import wrong_answers
from tests.live.joining import random_runs
from tests.live.test_joins import SELECTIVE

pytestmark = pytest.mark.xdist_group("live")


def test_the_union_is_of_all_pairs():
    """A reference is a candidate too; slack is of pairs."""
    for problem, most, pairs in ((je.BestArm(), 8, 28), (je.BestArm(0.1), 2, 1),
                                 (je.BestArm(reference=0.5), 3, 6)):  # fmt: skip
        assert wrong_answers(problem, 2, most) == pairs
        run = je.LiveRun(["a", "b"], problem, je.Uniform(), most_arms=most)
        assert run._fold.call.threshold == je.Mixture(pieces=pairs)
    run = je.LiveRun(["a", "b"], je.BestArm(), je.Uniform(), most_arms=3,
                     threshold=je.Mixture((5.0,), pieces=1))  # fmt: skip
    assert run._fold.call.threshold == je.Mixture((5.0,), pieces=3)


def crossing(arms: int, level: float, first: float) -> float:
    """The chance that some pair's wealth, a product of two arms', ever reaches the level.

    Arms are bet on one after the other: to `first`, or to 0. Once one is there, each of the
    rest is bet on to `level/first`.
    """
    found, none = 0.0, 1.0
    for left in range(arms - 1, -1, -1):
        found += none / first * (1 - (1 - first / level) ** left)
        none *= 1 - 1 / first
    return found


def bet(rng: np.random.Generator, goals: np.ndarray) -> np.ndarray:
    """Whether bold play on fair coins takes a wealth of 1 to each goal, or to 0."""
    wealth = np.ones_like(goals)
    while (open := (wealth > 0) & (wealth < goals)).any():
        coin = rng.choice([-1, 1], goals.size)
        stake = np.where(open, np.minimum(wealth, goals - wealth), 0)
        wealth = np.where(open & (coin * stake >= goals - wealth), goals, wealth + coin * stake)
    return wealth > 0


def test_an_adversary_who_bets_on_fair_coins_errs_below_delta():
    """20,000 runs against the level of a live run with 8 arms at most, delta = 0.1.

    Who removes all arms but a pair whose wealth reaches the level has it stop with an error. At
    28 pairs that has probability 0.08: more than 2000 errors then have probability below 1e-20.
    At 7 pairs, M - 1, it is 0.25, and 2000 or fewer have probability below 1e-300. 18 pairs are
    the most that fail with probability 1 - 1e-6.
    """
    run = je.LiveRun(["a", "b"], je.BestArm(), je.Uniform(), delta=0.1, most_arms=8)
    level, rng, rows = run._fold.call.threshold.pieces / 0.1, np.random.default_rng(8), 20000
    first = max(np.linspace(1.5, 40, 400), key=lambda x: crossing(8, level, x))
    won, wrong = np.zeros((2, rows), bool)
    for _ in range(8):
        hit = bet(rng, np.where(won, level / first, first))
        wrong |= won & hit
        won |= hit
    chance = crossing(8, level, first)
    assert abs(wrong.sum() - rows * chance) < 5 * math.sqrt(rows * chance * (1 - chance))
    assert wrong.sum() <= 0.1 * rows


@pytest.mark.slow
def test_the_driver_is_a_live_run():
    """20 runs, pull by pull: the same arms, eliminations, times and answers."""
    level, stops = math.log(15 / 0.4), 0
    driven = random_runs(20, 240, 7, level, 1.5)
    arms, picked = np.full((20, 240), -1), driven._chosen

    def chosen():
        arm = picked()
        n = (arms >= 0).sum(1).max()
        arms[:, n] = arm
        return arm

    driven._chosen = chosen
    first = driven.members.copy()
    driven.ended()
    for r in range(20):
        run = je.LiveRun([str(k) for k in np.flatnonzero(first[r])], je.BestArm(), je.Uniform(),
                         delta=0.4, stopping=SELECTIVE, most_arms=6)  # fmt: skip
        for n in range(240):
            for change in driven.changes:
                if change.after[r] == n and not run.stopped:
                    name = str(change.arm[r])
                    run.add(name) if change.joins[r] else run.remove(name)
            if run.stopped:
                break
            arm = run.ask()
            assert int(arm) == arms[r, n], (r, n)
            run.tell(arm, driven.means[r, int(arm)] + driven.z[r, n])
        stops += run.stopped
        assert (run.samples if run.stopped else 0) == driven.samples[r], r
        if run.stopped:
            assert run.answer_arms == (str(driven.answer[r]),), r
    assert 5 < stops


@pytest.mark.slow
def test_5000_runs_err_with_probability_below_delta():
    """Two arms join and one leaves; half of the runs stop.

    Such runs are far from the bound: they would not miss the union, as the adversary does.
    It sees a rate of 1.2%: at most 25 errors of 5000 then have probability 1e-7.
    """
    runs = random_runs(5000, 3000, 11, math.log(15 / 0.1), 0.4).ended()
    stopped = runs.samples > 0
    wrong = stopped & (runs.means[np.arange(5000), runs.answer] < runs.means[
        np.arange(5000), runs.best_in])  # fmt: skip
    assert stopped.mean() > 0.4
    assert wrong.sum() <= 25 and runs.refuted_truth.sum() <= 25
