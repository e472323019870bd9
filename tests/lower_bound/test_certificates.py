"""Certificates of badly conditioned instances, against rational numbers."""

from fractions import Fraction

import numpy as np
import pytest

import jaxelim as je
from jaxelim.errors import ArgumentError
from jaxelim.lower_bound.exact import ExactInstance, Integers, reached
from jaxelim.lower_bound.pieces import pieces_of
from jaxelim.problems import BestArm
from jaxelim.sampling.parts.allocation import frames
from tests.lower_bound.exact_cases import KINDS, SHAPES, bracket, draw
from tests.lower_bound.test_complexity_derivatives import ARMS, THETA

GAP = 1e-6


def collinear(e):
    """Two arms whose directions differ by e; H* is margin^2/8."""
    return np.array([[0.6, 0.8], [0.78 - 0.8 * e, 1.04 + 0.6 * e]]), np.array([1, -0.5])


def exact_margin(arms, theta):
    one, two = ([Fraction(float(x)) for x in row] for row in arms)
    point = [Fraction(float(x)) for x in theta]
    return sum((b - a) * x for a, b, x in zip(one, two, point, strict=True))


def drawn(shape, count, seed):
    """Instances of all kinds whose features pass the checks of `pieces_of`."""
    K, d, problem = shape
    rng = np.random.default_rng([seed, K, d])
    kept = []
    while len(kept) < count:
        kind = KINDS[len(kept) % len(KINDS)]
        one = draw(rng, K, d, kind, 10 ** rng.uniform(0, 14))
        try:
            pieces_of(je.Instance(*one), problem)
        except ArgumentError:
            continue
        kept += [one] if reached(one[0]) is not None else []
    return kept


def held(shape, count, seed):
    """The number of instances whose certificate was checked: it held for all."""
    problem, given = shape[2], drawn(shape, count, seed)
    batch = je.Instance(*(np.stack(x) for x in zip(*given, strict=True)))
    found = je.complexity(batch, problem, GAP)
    assert found.converged.all() and (found.gap <= GAP).all()
    for i, (arms, theta) in enumerate(given):
        low, high = bracket(problem, arms, theta, found.allocation[i], found.mixture[i])
        value, gap = Fraction(float(found.value[i])), Fraction(float(found.gap[i]))
        if high > value * (1 + gap):  # low <= H* <= high, both exact; a finer pair is nearer
            fine = je.complexity(je.Instance(arms, theta), problem, 1e-11)
            high = bracket(problem, arms, theta, fine.allocation, fine.mixture)[1]
        assert value <= low and high <= value * (1 + gap)
    return len(given)


def test_certificates_hold_for_thirty_random_instances_of_condition_1_to_1e14():
    assert held(SHAPES[0], 30, 0) == 30


@pytest.mark.slow
def test_certificates_hold_for_two_thousand_random_instances_of_condition_1_to_1e14():
    assert sum(held(shape, 400, 1) for shape in SHAPES) == 2000


@pytest.mark.parametrize("e", [1e-3, 1e-11, 1e-12, 1e-14])
def test_two_nearly_collinear_arms(e):
    arms, theta = collinear(e)
    instance = je.Instance(arms, theta)
    value = exact_margin(arms, theta) ** 2 / 8
    found = je.complexity(instance, BestArm(), GAP)
    assert Fraction(float(found.value)) <= value
    assert value <= Fraction(float(found.value)) * (1 + Fraction(float(found.gap)))
    assert found.converged
    np.testing.assert_allclose(found.allocation, 0.5, atol=1e-3)
    plain = je.lower_bound.optimal_information(arms, theta, BestArm())
    np.testing.assert_allclose(plain, float(value), rtol=1e-10)


def test_values_of_allocations_of_nearly_collinear_arms():
    arms = [[-0.02759151, -1.66930244], [-0.03586896, -2.17009317]]
    instance = je.Instance(arms, (-2.24781633, 2.31513435))
    margin = exact_margin(np.array(arms), instance.theta)
    for share in (0.5, 0.1, 1e-9):
        w = [1 - share, share]
        value = margin**2 / 2 / sum(1 / Fraction(x) for x in w)
        np.testing.assert_allclose(
            je.allocation_value(instance, BestArm(), w), float(value), rtol=1e-9
        )
    assert je.allocation_value(instance, BestArm(), [1, 0]) == 0
    np.testing.assert_allclose(je.price(instance, BestArm(), [0.5, 0.5]), 1, rtol=1e-9)


def test_scales_of_arms_cost_no_digits():
    rng = np.random.default_rng(3)
    arms = rng.standard_normal((5, 3)) * 10.0 ** np.array([[0], [-7], [-3], [0], [-7]])
    theta = rng.standard_normal(3)
    found = je.complexity(je.Instance(arms, theta), BestArm(), 1e-9)
    low, high = bracket(BestArm(), arms, theta, found.allocation, found.mixture)
    assert Fraction(float(found.value)) <= low and high <= low * (1 + Fraction(1, 10**9))


def test_features_whose_rank_rounding_decides_are_refused():
    with pytest.raises(ArgumentError, match="rank is clear"):
        je.complexity(je.Instance(*collinear(1e-16)), BestArm())
    # a rank below d that does not depend on rounding is allowed
    flat = je.Instance([[1.0, 0, 1], [0, 2.0, 0], [1, 2, 1]], [1.0, 0.2, 5.0])
    assert je.complexity(flat, BestArm()).converged


@pytest.mark.parametrize("e", [1e-3, 1e-12])
def test_derivatives_of_nearly_collinear_arms(e):
    """T* = 8 noise^2/margin^2, whatever the directions of two independent arms."""
    arms, theta = collinear(e)
    found = je.complexity_gradients(je.Instance(arms, theta, noise_std=2.0), BestArm())
    margin = float(exact_margin(arms, theta))
    slope = -64 / margin**3
    np.testing.assert_allclose(found.time_theta, slope * (arms[1] - arms[0]), rtol=1e-9)
    np.testing.assert_allclose(found.time_arms, slope * np.array([-theta, theta]), rtol=1e-9)
    np.testing.assert_allclose(found.time, 32 / margin**2, rtol=1e-9)
    np.testing.assert_allclose(found.allocation, 0.5, atol=1e-6)
    # dw*/dphi is 0, and is told apart from rounding only where features are well conditioned
    size = np.abs(found.allocation_arms).max()
    assert size < 1e-8 if found.stable else e == 1e-12


def test_derivatives_of_badly_conditioned_features_against_well_conditioned_ones():
    """A linear map of features changes derivatives by known factors."""
    map = np.diag([1.0, 2.0**-20, 2.0**20])  # without rounding
    plain = je.complexity_gradients(je.Instance(ARMS, THETA), je.TopM(2))
    moved = je.Instance(ARMS @ map, np.linalg.inv(map) @ THETA)
    moved = je.complexity_gradients(moved, je.TopM(2))
    assert plain.stable and moved.stable
    for name in ("time_arms", "allocation_arms", "time_theta", "allocation_theta"):
        back = map if name.endswith("arms") else np.linalg.inv(map)
        one, other = getattr(plain, name), getattr(moved, name) @ back
        assert np.abs(other - one).max() <= 1e-6 * np.abs(one).max()
        assert np.abs(one).max() > 0.1


def test_the_coordinates_of_track_and_stop_keep_the_directions():
    """Differences of arms in the frame, against exact ones: H_p at uniform weights."""
    arms, _ = collinear(1e-12)
    frame = frames(je.Instance(arms, [1, -0.5]))
    gram = frame.unit.T @ frame.unit
    np.testing.assert_allclose(gram, np.eye(2), atol=1e-12)
    # ||y||^2 in the inverse of the Gram matrix is 2 for two independent arms
    y = (frame.unit[1] - frame.unit[0]) + (frame.rest[1] - frame.rest[0])
    np.testing.assert_allclose(y @ np.linalg.inv(gram) @ y, 2, rtol=1e-12)
    assert frames(je.Instance(np.eye(2), [1, 0.5])).rest is None


def test_exact_integers():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4, 4)) * 10.0 ** rng.integers(-9, 9, (2, 4, 4))
    product = Integers.of(a) @ Integers.of(b)
    for i in range(4):
        for j in range(4):
            true = sum(Fraction(x) * Fraction(y) for x, y in zip(a[i], b[:, j], strict=True))
            assert Fraction(int(product.whole[i, j])) * Fraction(2) ** product.power == true
            assert abs(Fraction(product.rounded()[i, j]) - true) <= abs(true) / 2**52
    found = ExactInstance.of(a, b[0], a[:2], np.zeros(2)).whitened(near=1e-12)
    np.testing.assert_allclose(found.gram().rounded(), np.eye(4), atol=1e-12)


def test_what_is_not_information_is_refused():
    found = je.complexity(je.Instance(np.eye(2), [1, 0.5]), BestArm())
    for bound in (je.sample_bound, je.kl_bound, je.practical_time):
        with pytest.raises(ArgumentError, match=r"information: .*not T\*"):
            bound(0.05, found.time)
        assert bound(0.05, found) == bound(0.05, found.value)
        with pytest.raises(ArgumentError, match="information"):
            bound(0.05, 0)
    easy = je.complexity(je.Instance(np.eye(2), [9, 0.5]), BestArm())
    assert easy.value > 1 and je.sample_bound(0.05, easy) < 1
    several = je.complexity(je.Instance(np.eye(2), [[1, 0.5], [1, 0.2]]), BestArm())
    assert je.sample_bound(0.05, several).shape == (2,)
    with pytest.raises(ArgumentError, match="one instance"):
        je.practical_time(0.05, several)
