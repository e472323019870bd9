"""The ridge: default, refusals, and invariance to offsets of the means."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim.errors import ArgumentError
from tests import calls

SPANNING = je.Instance([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [1.0, 0.3])
FLAT = je.Instance([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], [1.0, 0.2, 0.0])


def ridge_of(instance=SPANNING, **settings):
    """The ridge of a call as `simulate` checks it, without running it."""
    return calls.checked(instance, je.BestArm(), je.Uniform(), **settings).ridge


def test_none_is_zero_where_the_arms_span():
    assert ridge_of() == 0.0 and ridge_of(ridge=None) == 0.0
    assert ridge_of(ridge=0.5) == 0.5


def test_none_is_refused_where_the_arms_do_not_span():
    words = r"^ridge: got None \(the arms of instance 0 span 2 of 3 dimensions\)"
    with pytest.raises(ArgumentError, match=words):
        ridge_of(FLAT)
    assert ridge_of(FLAT, ridge=1) == 1
    batch = je.Instance([np.eye(2), [[1.0, 1.0], [2.0, 2.0]]], [[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ArgumentError, match="instance 1 span 1 of 2"):
        ridge_of(batch)
    with pytest.raises(ArgumentError, match="^ridge: got None"):
        je.trace(FLAT, je.BestArm(), je.Uniform(), max_samples=20)


OFFSETS = (0, 1, 3, 10, 30, 100, 1000)


@pytest.mark.slow
def test_no_offset_breaks_delta_correctness():
    """n = 400 runs per offset, delta = 0.05.

    At an error rate of exactly delta, more than 47 errors have probability 3e-8, and
    2e-7 at any of the seven. A rate of 0.18 passes with probability 4e-4; ridge 1
    has rate 1 at offset 30.
    """
    K = 3
    theta = np.array([[0.0, 0.5, -1.0]]) + np.array(OFFSETS)[:, None]
    instance = je.Instance(np.broadcast_to(np.eye(K), (len(OFFSETS), K, K)), theta)
    result = je.simulate(instance, je.BestArm(), je.LinGame(), delta=0.05, runs=400)
    assert result.stopped.all()
    errors = (~result.correct[:, 0, 0]).sum(-1)
    assert (errors <= 47).all()
    # The rule is invariant: runs are equal at every offset.
    assert (result.samples == result.samples[:1]).all()


MEANS = np.array([0.5, 0.3, 0.1, 0.0, -0.4, 0.25])
SHIFTED = [(je.FWS(), je.TopM(2)), (je.LazyTaS(), je.BestArm()), (je.TTTS(), je.BestArm())]


@pytest.mark.slow
@pytest.mark.parametrize("rule, problem", SHIFTED)
def test_the_first_200_pulls_do_not_depend_on_an_offset_of_the_means(rule, problem):
    for seed in range(3):
        pulls = [
            je.trace(je.Instance(np.eye(6), MEANS + offset), problem, rule, max_samples=206,
                     seed=seed)
            for offset in (0.0, 1.0, 100.0, 1e4)
        ]  # fmt: skip
        for other in pulls[1:]:
            np.testing.assert_array_equal(other.arms, pulls[0].arms)
