"""Bounds on stopping and elimination times, near-optimal allocations, searches."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import jaxelim as je
from jaxelim import lower_bound as cx
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.families import Gaussian
from jaxelim.instances import two_dimensional
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound.bounds import first_time, heuristic, region_of, stopping_difference
from jaxelim.problems import BestArm
from jaxelim.thresholds.basic import Heuristic
from tests.lower_bound.complexity_cases import information

K = 5


@pytest.fixture(scope="module")
def example():
    return two_dimensional(K, 0.1)


@pytest.fixture(scope="module")
def region(example):
    return region_of(example, BestArm())


def test_lower_bounds_by_hand():
    assert cx.sample_bound(0.01, 0.5) == pytest.approx(2 * math.log(1 / 0.024))
    assert cx.kl_bound(0.01, 0.5) == pytest.approx(2 * 0.98 * math.log(99))
    deltas = np.array([0.1, 0.01])
    assert (cx.kl_bound(deltas, 1.0) >= cx.sample_bound(deltas, 1.0)).all()
    t = cx.practical_time(0.01, 0.01)
    assert t >= 100 * heuristic(t, 0.01) and t - 1 < 100 * heuristic(t - 1, 0.01)
    assert cx.practical_time(0.9, 1.0) == 1 and cx.practical_time(0.5, 1.0) == 2
    assert [first_time(lambda t, c=c: c) for c in (0, 2, 2.5, 100, 1000.5)] == [2, 2, 3, 100, 1001]


def test_information_of_the_far_arms_in_the_two_dimensional_example(example):
    eps = 0.1
    directions, offsets = BestArm().half_spaces(example.arms, example.theta)
    for w in np.random.default_rng(0).dirichlet(np.ones(K), 100):
        level, _ = information(w, example.arms, example.theta, directions, offsets)
        assert (level[1:] >= ((1 - eps) / eps) ** 2 * level[0] * (1 - 1e-9)).all()


@pytest.mark.slow
def test_near_optimal_allocations_of_the_two_dimensional_example(region):
    eps = 0.1
    gamma = eps**2 / 16
    lower, upper = cx.least_information(region, gamma)
    assert (
        (upper[1:] >= 1 / 64).all()
        and (lower >= region.value - gamma).all()
        and (lower <= upper).all()
    )
    # H_2 = eps^2/2 w1 w2/(w1 + w2) for pulls of these two arms alone.
    # It is above half of H* if w1 >= (1 - 1/sqrt 2)/2.
    least, points = cx.least_weights(region, gamma)
    assert least[2:].max() == 0
    np.testing.assert_allclose(np.diagonal(points)[:2], least[:2], atol=1e-6)
    assert least[0] < (1 - 1 / math.sqrt(2)) / 2 + 1e-6
    sampled = np.random.default_rng(1).dirichlet(np.ones(K), 20000)
    values = region.information(np.concatenate([sampled, 0.5 * sampled + 0.5 * region.allocation]))
    near = values[values.min(axis=1) >= region.value - gamma]
    assert len(near) > 100 and (near >= lower * (1 - 1e-9)).all()


def test_least_information_shrinks_to_the_optimum_and_is_monotone(region):
    at_best = region.information(region.allocation)
    lower, upper = cx.least_information(region, 0.0)
    np.testing.assert_allclose(lower, at_best, rtol=1e-7)
    previous = lower
    for share in (1e-3, 0.1, 0.5):
        lower, upper = cx.least_information(region, share * region.value)
        assert (lower <= previous * (1 + 1e-9)).all() and (lower <= upper).all()
        previous = lower


def test_library_thresholds_match_plain_functions(example):
    for delta in (0.01, 1e-300):
        one, other = (
            cx.elimination_bounds(example, BestArm(), delta, beta)
            for beta in (heuristic, Heuristic())
        )
        assert (
            one.llr == other.llr
            and (one.full == other.full).all()
            and (one.selective == other.selective).all()
        )
    # beyond 32-bit integers, where single precision cannot represent t
    assert cx.practical_time(0.01, 1e-9, Heuristic()) == cx.practical_time(0.01, 1e-9) > 2**34


def test_elimination_bounds(example):
    found = cx.elimination_bounds(example, BestArm(), 0.01)
    H = 0.1**2 / 8
    t = found.llr - 2

    def enough(t):
        return (math.sqrt(heuristic(t, 0.01)) + math.sqrt(heuristic(t, 1 / t**2))) ** 2

    assert t >= enough(t) / H and t - 1 < enough(t - 1) / H
    assert found.full[0] == found.llr and (found.full[1:] < 1000).all()
    assert (found.full <= found.selective).all() and (found.selective <= found.llr).all()
    # the cost of selective elimination does not grow with delta
    sharp = cx.elimination_bounds(example, BestArm(), 1e-60)
    assert (sharp.selective[1:] < sharp.llr / 2).all()
    assert sharp.difference / sharp.llr < found.difference / found.llr
    slower = cx.elimination_bounds(example, BestArm(), 0.01, regret=lambda t: 1e-4 * math.log(t))
    assert (slower.full >= found.full).all() and (slower.full[1:] < found.llr).all()


def test_the_difference_of_the_stopping_times_by_hand():
    """beta = 9 at delta, 4 at 1/t^2 and R = 0.5.

    f = 3 + (9 - log 100 + 2 sqrt(36) + 4 + 0.5 + log 2.4)/H*.
    """
    found = stopping_difference(
        0.01, 0.25, lambda t, delta: 9.0 if delta == 0.01 else 4.0, lambda t: 0.5, 50
    )
    assert found == pytest.approx(3 + 4 * (25.5 + math.log(0.024)))


def test_information_regret_of_known_pulls(example):
    pulls = np.arange(400) % 2
    found = cx.information_regret(pulls, example, BestArm(), times=np.array([1, 2, 3, 400]))
    H = 0.1**2 / 8
    # after 3 pulls (2, 1): H_2 = eps^2/2 * 2/3
    expected = [H, 0, 3 * H - 0.1**2 / 2 * (2 / 3), 0]
    np.testing.assert_allclose(found.regret, expected, atol=1e-9)
    assert found(1) == pytest.approx(H) and found(10**9) == pytest.approx(H)
    bounds = cx.elimination_bounds(example, BestArm(), regret=found)
    assert bounds.llr >= cx.elimination_bounds(example, BestArm()).llr
    for wrong in ([0.5], [], [K], [-1], [[0, 1]]):
        with pytest.raises(ArgumentError, match="trace"):
            cx.information_regret(np.array(wrong), example, BestArm())
    for times in ([0, 1], [2, 1], [401]):
        with pytest.raises(ArgumentError, match="times"):
            cx.information_regret(pulls, example, BestArm(), times=times)
    costly = example.with_costs(np.full(K, 2.0))
    with pytest.raises(UnsupportedError, match="without costs"):
        cx.information_regret(pulls, costly, BestArm())


def test_efficiency():
    ratio, distance = cx.efficiency([100, 200], [[50, 50], [200, 0]], 0.01, 0.1, [0.5, 0.5])
    np.testing.assert_allclose(ratio, np.array([10, 20]) / math.log(1 / 0.024))
    np.testing.assert_allclose(distance, [0, 0.5])
    with pytest.raises(ArgumentError, match="pulls"):
        cx.efficiency([100, 200], [50, 50], 0.01, 0.1, [0.5, 0.5])


def test_sensitivity_and_price(example):
    found = cx.sensitivity(example, BestArm())
    np.testing.assert_allclose(found.noise / found.time, [0.5, 0.5, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(found.relative_gaps, [-2, 0, 0, 0], atol=1e-6)
    assert found.gaps[0] == pytest.approx(-2 * 800 / 0.1, rel=1e-6)
    assert cx.price(example, BestArm(), [0.5, 0.5, 0, 0, 0]) == pytest.approx(1)
    assert cx.price(example, BestArm(), [0.9, 0.1, 0, 0, 0]) == pytest.approx(0.25 / 0.09)
    assert cx.price(example, BestArm(), [1, 0, 0, 0, 0]) == np.inf


@pytest.mark.slow
def test_searches_reach_known_optima():
    instance = Instance(np.eye(2), [1.0, 0.5])  # H* = gap^2/8
    hard = cx.hardest_instance(instance, BestArm(), 0.1, steps=60)
    gap = 0.5 - 0.1 * math.sqrt(2)
    assert hard.before == pytest.approx(32) and hard.after == pytest.approx(8 / gap**2, rel=1e-3)
    assert hard.times.shape == (60,)
    extra = cx.best_extra_arm(instance, BestArm(), starts=2, steps=60)
    # one arm along phi_1 - phi_2 is optimal alone: T* = 2 ||y||^2/gap^2
    assert extra.after == pytest.approx(2 * 2 / 0.25, rel=1e-3) and extra.weight > 0.99
    assert abs(extra.features[0] + extra.features[1]) < 0.05
    easy = cx.design_features(instance, BestArm(), 0.2, steps=40)
    assert (
        easy.after < easy.before
        and np.linalg.norm(easy.instance.arms - np.eye(2), axis=1).max() <= 0.2 + 1e-9
    )
    with pytest.raises(ArgumentError, match="radius"):
        cx.hardest_instance(instance, BestArm(), 1.0)


@pytest.mark.slow
def test_the_hardest_theta_is_that_of_a_grid_on_the_sphere():
    angles = np.linspace(0, np.pi, 5)
    instance = Instance(np.stack([np.cos(angles), np.sin(angles)], 1), [1.0, 0.7])
    around = np.linspace(0, 2 * np.pi, 512, endpoint=False)
    thetas = instance.theta + 0.13 * np.stack([np.cos(around), np.sin(around)], 1)
    grid = cx.complexity(Instance(np.tile(instance.arms, (512, 1, 1)), thetas), BestArm(), 1e-9)
    hard = cx.hardest_instance(instance, BestArm(), 0.13, steps=40)
    assert hard.after >= grid.time.max() * (1 - 1e-4)
    assert np.linalg.norm(hard.instance.theta - instance.theta) <= 0.13 * (1 + 1e-9)


@pytest.mark.parametrize(
    "family",
    [je.Bernoulli(), *(pytest.param(x, marks=pytest.mark.slow) for x in (
        je.Poisson(), je.Exponential(), je.Gaussian([1.0, 2.0, 1.5]), je.Logistic()))],
    ids=lambda family: family.name,
)  # fmt: skip
def test_the_hardest_means_are_those_of_scipy(family):
    """SciPy's maximum of T* in the ball, to 1e-6; status 8: it sees no way up from there."""
    means, radius = np.array([0.7, 0.5, 0.3]), 0.08
    theta = family.link(means) if family.linear else means

    def instance(theta):
        if family.linear:
            return Instance(np.eye(3), theta, family=family)
        return Instance.unstructured(theta, family)

    def hardness(shift):
        return -np.log(cx.complexity(instance(theta + radius * shift), BestArm(), 1e-11).time)

    inside = {"type": "ineq", "fun": lambda shift: 1 - shift @ shift}
    known = minimize(hardness, np.zeros(3), method="SLSQP", constraints=[inside],
                     options={"ftol": 1e-12})  # fmt: skip
    hard = cx.hardest_instance(instance(theta), BestArm(), radius)
    assert known.status in (0, 8) and hard.after == pytest.approx(np.exp(-known.fun), rel=1e-6)
    assert np.linalg.norm(hard.instance.theta - theta) <= radius * (1 + 1e-9)
    assert hard.instance.family == family and hard.after > 1.3 * hard.before
    if family.name == "bernoulli":
        with pytest.raises(ArgumentError, match="end of the range, 0.02"):
            cx.hardest_instance(instance([0.98, 0.5, 0.3]), BestArm(), 0.1)


def test_refusals(example):
    with pytest.raises(UnsupportedError, match="one instance"):
        cx.elimination_bounds(Instance(example.arms[None], example.theta[None]), BestArm())
    with pytest.raises(ArgumentError, match="threshold"):
        cx.elimination_bounds(example, BestArm(), threshold=lambda t, delta: math.nan)
    with pytest.raises(ArgumentError, match="threshold"):
        cx.practical_time(0.01, 0.1, threshold=lambda t, delta: t)
    with pytest.raises(ArgumentError, match="regret"):
        cx.elimination_bounds(example, BestArm(), regret=lambda t: -1.0)
    for delta in (0, 1, math.nan, "0.1"):
        with pytest.raises(ArgumentError, match="delta"):
            cx.elimination_bounds(example, BestArm(), delta)


def test_bounds_with_a_standard_deviation_for_each_arm():
    """They are those of arms e_k/std_k with unit noise and the same half-spaces."""
    std, means = np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.4, 0.1])

    class Pairs:
        def half_spaces(self, arms, theta):
            return np.array([[1.0, -1, 0], [1, 0, -1]]), np.zeros(2)

    by_arm = Instance.unstructured(means, Gaussian(tuple(std)))
    linear = Instance(np.diag(1 / std), means)
    one = cx.elimination_bounds(by_arm, BestArm(), 0.05, regret=lambda t: 1e-3 * math.log(t))
    other = cx.elimination_bounds(linear, Pairs(), 0.05, regret=lambda t: 1e-3 * math.log(t))
    assert one.llr == other.llr
    np.testing.assert_allclose(one.value, cx.complexity(by_arm, BestArm(), 1e-10).value, rtol=1e-9)
    for name in ("full", "selective", "lower"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6)
