"""Certificates against rational numbers; condition numbers."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim.testing import exact_bracket

KINDS = ("singular values", "scales of arms", "scales of coordinates", "near arms", "near ties")


def draw(rng, K, d, kind, condition):
    """Features [K, d] and theta [d] of about that condition number."""
    arms, theta = rng.standard_normal((K, d)), rng.standard_normal(d)
    spread = condition ** -np.linspace(0, 1, d)
    if kind == "singular values":
        u, _, vt = np.linalg.svd(arms, full_matrices=False)
        arms = (u * spread) @ vt
        return arms, vt.T @ ((vt @ theta) / spread ** rng.uniform(0, 1))
    if kind == "scales of arms":
        return arms * condition ** -rng.uniform(0, 1, (K, 1)), theta
    if kind == "scales of coordinates":
        return arms * spread, theta / spread ** rng.uniform(0, 1)
    if kind == "near arms":
        arms[1] = arms[0] * rng.uniform(0.5, 2) + rng.standard_normal(d) / condition
        return arms, theta
    means = arms @ theta
    first, second = np.argsort(-means)[:2]
    arms[second] += theta * (means[first] - means[second]) / (theta @ theta) * (1 - 3 / condition)
    return arms, theta


def collinear(e):
    """Two arms whose directions differ by e; H* is margin^2/8."""
    return je.Instance([[0.6, 0.8], [0.78 - 0.8 * e, 1.04 + 0.6 * e]], [1, -0.5])


def checked(instance, problem, gap=1e-6, loss=1e-8):
    """The certificate, and the exact one: both sides agree but for rounding."""
    found = je.complexity(instance, problem, gap)
    exact = exact_bracket(instance, problem, found.allocation, found.mixture)
    low, high = map(float, exact)
    assert found.converged
    assert low == pytest.approx(float(found.value), rel=loss)
    assert high == pytest.approx(float(found.value * (1 + found.gap)), rel=loss)
    return found


def test_certificates_of_random_instances():
    """Condition numbers up to 1e5 cost no more than six digits."""
    rng = np.random.default_rng([5, 3])
    for i in range(15):
        instance = je.Instance(*draw(rng, 5, 3, KINDS[i % 5], 10 ** rng.uniform(0, 5)))
        checked(instance, je.TopM(2), loss=1e-9)


def test_costs_and_the_scale_of_the_noise():
    instance = je.Instance([[1, 0], [0.5, 1]], [1, 0.2], noise_std=2.0, costs=[1.0, 3.0])
    checked(instance, je.BestArm(), 1e-9, 1e-13)


@pytest.mark.parametrize("e", [1e-3, 1e-7])
def test_two_nearly_collinear_arms(e):
    found = checked(collinear(e), je.BestArm())
    np.testing.assert_allclose(found.allocation, 0.5, atol=1e-3)


def test_coordinates_of_any_scale_and_rank_are_allowed():
    flat = je.Instance([[1.0, 0, 1], [0, 2.0, 0], [1, 2, 1]], [1.0, 0.2, 5.0])
    assert je.complexity(flat, je.BestArm()).converged
    scaled = je.Instance([[1e12, 0], [0, 1e-3], [1e12, 1e-3]], [1e-12, 500.0])
    assert je.complexity(scaled, je.BestArm()).converged
