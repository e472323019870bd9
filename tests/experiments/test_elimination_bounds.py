"""The bounds on elimination times, on the two-dimensional example."""

import math

import numpy as np
import pytest

import jaxelim as je
from experiments.elimination_bounds import (
    Example,
    InformationRegret,
    elimination_bounds,
    stopping_difference,
)
from jaxelim.bounds.bounds import heuristic
from jaxelim.instances import two_dimensional
from tests import twin

K, EPS = 5, 0.1


@pytest.fixture(scope="module")
def instance():
    return two_dimensional(K, EPS)


def test_information_of_the_far_arms(instance):
    example = Example(instance, je.BestArm())
    world = twin.Linear(instance.arms, instance.theta)
    seen = world.truth(world.pieces(("bai",)))
    labels = seen.pieces.of(seen.answer)
    for w in np.random.default_rng(0).dirichlet(np.ones(K), 20):
        level, slope = seen.values(labels, w), seen.gradients(labels, w)
        assert (level[1:] >= ((1 - EPS) / EPS) ** 2 * level[0] * (1 - 1e-9)).all()
        np.testing.assert_allclose(example.information(w), level, rtol=1e-9)
        np.testing.assert_allclose(example.slopes(w), slope, rtol=1e-8)


@pytest.mark.slow
def test_least_weights_and_information_of_near_optimal_allocations(instance):
    """H_2 = eps^2/2 w1 w2/(w1 + w2): above half of H* if w1 >= (1 - 1/sqrt 2)/2."""
    example, gamma = Example(instance, je.BestArm()), EPS**2 / 16
    least, lower = example.least_weights(gamma), example.least_information(gamma)
    bound = (1 - 1 / math.sqrt(2)) / 2
    assert least[2:].max() == 0 and least[:2].max() < bound + 1e-6
    sampled = np.random.default_rng(1).dirichlet(np.ones(K), 2000)
    sampled = 0.5 * sampled + 0.5 * example.optimum.allocation
    values = np.array([example.information(w) for w in sampled])
    near = values[values.min(1) >= example.value - gamma]
    assert len(near) > 20 and (near >= lower * (1 - 1e-9)).all()
    # A regret makes bounds larger.
    slower = elimination_bounds(instance, je.BestArm(), regret=lambda t: 1e-4 * math.log(t))
    assert slower.full.tolist() == [slower.llr, 157, 128, 114]


def test_elimination_bounds(instance):
    found = elimination_bounds(instance, je.BestArm(), 0.01)
    H, t = EPS**2 / 8, found.llr - 2

    def enough(t):
        return (math.sqrt(heuristic(t, 0.01)) + math.sqrt(heuristic(t, 1 / t**2))) ** 2

    assert t >= enough(t) / H and t - 1 < enough(t - 1) / H
    assert found.full.tolist() == [found.llr, 148, 119, 106]
    assert (found.full <= found.selective).all() and (found.selective <= found.llr).all()
    # the cost of selective elimination does not grow with delta
    sharp = elimination_bounds(instance, je.BestArm(), 1e-60)
    assert (sharp.selective[1:] < sharp.llr / 2).all()
    assert sharp.difference / sharp.llr < found.difference / found.llr


def test_the_difference_of_the_stopping_times_by_hand():
    """beta = 9 at delta, 4 at 1/t^2 and R = 0.5.

    f = 3 + (9 - log 100 + 2 sqrt(36) + 4 + 0.5 + log 2.4)/H*.
    """
    beta = lambda t, delta: 9.0 if delta == 0.01 else 4.0  # noqa: E731
    found = stopping_difference(0.01, 0.25, beta, lambda t: 0.5, 50)
    assert found == pytest.approx(3 + 4 * (25.5 + math.log(0.024)))


def test_information_regret_of_known_pulls(instance):
    found = InformationRegret(np.arange(400) % 2, instance, je.BestArm())
    H = EPS**2 / 8
    # after 3 pulls (2, 1): H_2 = eps^2/2 * 2/3
    expected = [H, 0, 3 * H - EPS**2 / 2 * (2 / 3)]
    np.testing.assert_allclose(found.regret[:3], expected, atol=1e-9)
    assert found(1) == pytest.approx(H) and found(10**9) == pytest.approx(H)
