"""Bounds on stopping times, prices, searches."""

import math

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxelim as je
from jaxelim import bounds as cx
from jaxelim.bounds.bounds import first_time, heuristic
from jaxelim.errors import ArgumentError
from jaxelim.thresholds import Heuristic

BEST = je.BestArm()


def test_lower_bounds_by_hand():
    assert cx.sample_bound(0.01, 0.5) == pytest.approx(2 * math.log(1 / 0.024))
    assert cx.kl_bound(0.01, 0.5) == pytest.approx(2 * 0.98 * math.log(99))
    deltas = np.array([0.1, 0.01])
    assert (cx.kl_bound(deltas, 1.0) >= cx.sample_bound(deltas, 1.0)).all()
    t = cx.practical_time(0.01, 0.01)
    assert t >= 100 * heuristic(t, 0.01) and t - 1 < 100 * heuristic(t - 1, 0.01)
    assert cx.practical_time(0.9, 1.0) == 1 and cx.practical_time(0.5, 1.0) == 2
    assert [first_time(lambda t, c=c: c) for c in (0, 2, 2.5, 100, 1000.5)] == [2, 2, 3, 100, 1001]
    # beyond 32-bit integers, where single precision cannot represent t
    assert cx.practical_time(0.01, 1e-9, Heuristic()) == cx.practical_time(0.01, 1e-9) > 2**34


def test_bounds_of_a_complexity_and_of_a_number():
    found = je.complexity(je.Instance(np.eye(2), [1, 0.5]), BEST)
    for bound in (cx.sample_bound, cx.kl_bound, cx.practical_time):
        assert bound(0.05, found) == bound(0.05, found.value)
    several = je.complexity(je.Instance(np.eye(2), [[1, 0.5], [1, 0.2]]), BEST)
    assert cx.sample_bound(0.05, several).shape == (2,)
    with pytest.raises(ArgumentError, match="one instance"):
        cx.practical_time(0.05, several)


def test_bounds_count_the_right_answers():
    """kl((1 - delta)/n, delta)/H*: as the plain form for n = 1, and falling in n."""
    for delta in (0.1, 0.01, 1e-6):
        plain = cx.kl_bound(delta, 0.01)
        bounds = [cx.kl_bound(delta, 0.01, n) for n in (1, 2, 3, 2**1100)]
        assert bounds[0] == plain and bounds[0] > bounds[1] > bounds[2] > bounds[3] >= 0
    p, q = 0.45, 0.1
    direct = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    np.testing.assert_allclose(cx.kl_bound(0.1, 0.5, 2), direct / 0.5)


def test_efficiency():
    ratio, distance = cx.efficiency([100, 200], [[50, 50], [200, 0]], 0.01, 0.1, [0.5, 0.5])
    np.testing.assert_allclose(ratio, np.array([10, 20]) / math.log(1 / 0.024))
    np.testing.assert_allclose(distance, [0, 0.5])


def test_the_hardest_theta_of_two_arms():
    """H* = gap^2/8, so the hardest theta in a ball moves both means together."""
    start, radius = np.array([1.0, 0.5]), 0.1

    def project(theta):
        return start + optax.projections.projection_l2_ball(theta - start, radius)

    found = cx.extreme_time(
        lambda theta: 1 / cx.optimum(np.eye(2), theta, BEST).value, start, project,
        largest=True, steps=60, rate=0.02,
    )  # fmt: skip
    gap = 0.5 - radius * math.sqrt(2)
    assert found.time == pytest.approx(8 / gap**2, rel=1e-3) and found.times.shape == (60,)
    assert found.times[0] == pytest.approx(32)
    assert np.linalg.norm(found.point - start) <= radius * (1 + 1e-9)
    certified = je.complexity(je.Instance(np.eye(2), found.point), BEST, 1e-10)
    assert certified.time == pytest.approx(found.time, rel=1e-9)


@pytest.mark.slow
def test_the_best_extra_arm_of_two():
    """One arm along phi_1 - phi_2 is optimal alone: T* = 2 ||y||^2/gap^2."""
    items = je.BestArm(items=np.eye(2))

    def time(row):
        arms = jnp.concatenate([jnp.eye(2), row[None]])
        return 1 / cx.optimum(arms, [1.0, 0.5], items).value

    found = cx.extreme_time(time, [1.0, 0.2], lambda x: x / jnp.linalg.norm(x), steps=60)
    assert found.time == pytest.approx(2 * 2 / 0.25, rel=1e-3)
    assert abs(found.point.sum()) < 0.05
