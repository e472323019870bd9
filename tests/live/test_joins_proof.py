"""The proof where arms join and leave: its union, and an adversary."""

import math

import numpy as np
import pytest

import jaxelim as je
from jaxelim.checks import wrong_answers

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
