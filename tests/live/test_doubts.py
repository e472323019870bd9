"""Rewards of a live run that contradict its family; nothing here compiles."""

import types

import numpy as np
import pytest
from scipy import stats

import jaxelim as je
from jaxelim.live import doubts

WORDS = {
    "zeros": ("unknown", "93% of the rewards of b are 0", [0.0] * 93 + [5.0, 9.0, 1.0, 2.0, 3.0,
                                                                        4.0, 7.0]),
    "a wide law": ("known", "standard deviation is 3", 3.1 * np.linspace(-1.7, 1.7, 100)),
    "few": ("unknown", "", [0.0] * 40 + [1.0, 2.0]),
    "rounded": ("unknown", "", np.round(2 * np.random.default_rng(0).standard_normal(100)) / 2),
    "a narrow law": ("known", "", np.linspace(-0.1, 0.1, 100)),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_rewards_that_contradict_the_family_are_named(name):
    """In the summary, beside the family that the guarantee takes for granted."""
    family, words, rewards = WORDS[name]
    families = {"unknown": je.GaussianUnknownVariance(), "known": je.Gaussian()}
    run = types.SimpleNamespace(
        names=("a", "b"),
        _job=types.SimpleNamespace(
            call=types.SimpleNamespace(instance=types.SimpleNamespace(family=families[family]))
        ),
    )
    run._events = [
        {"tell": [0, 0], "rewards": [1.0, 2.0]},
        {"ask": [1]},
        {"tell": [1] * len(rewards), "rewards": list(map(float, rewards))},
        {"counts": [[0, 3.0, 2]]},
    ]  # fmt: skip
    found = doubts.doubt(run)
    assert len(found) == bool(words) and words in "".join(found)
    run._job.call.instance.family = je.Bounded(-100, 100)
    assert doubts.doubt(run) == []


def test_alarms_about_the_family_are_rarer_than_one_in_ten_thousand():
    """Of 100 rewards, rounded to half a standard deviation, over half are equal: exact.

    Of the most frequent value; any other adds less.
    """
    for law, low in ((stats.norm, -0.25), (stats.expon, 0.0)):
        most = law.cdf(0.25) - law.cdf(low)
        assert 2 * stats.binom.sf(doubts.FEWEST // 2, doubts.FEWEST, most) < 1e-8
    assert doubts.ALPHA < 1e-4
