"""`information` of traced weights: the plain value, its derivative, ties, refusals."""

import jax
import numpy as np
import pytest

import jaxelim as je
from tests.calls import rows

RNG = np.random.default_rng(0)
ARMS, THETA = RNG.normal(size=(5, 3)), np.array([1.0, 0.4, -0.3])
MEANS = [0.6, 0.5, 0.3, 0.2]
COSTS = [1.0, 2.0, 0.5, 3.0]
LINEAR = je.Instance(ARMS, THETA, noise_std=2.0)
COINS = je.Instance.unstructured(MEANS, je.Bernoulli())
SHARES = [[0.2, 0.4, 0.4], [0.3, 0.4, 0.3], [0.5, 0.4, 0.1], [0.7, 0.2, 0.1]]
POINTS = je.families.Points([0, 0.5, 1], SHARES)
CASES = {
    "linear": (LINEAR, je.BestArm()),
    "costs": (je.Instance.unstructured(MEANS, je.Poisson(), costs=COSTS), je.BestArm()),
    "bounded": (je.Instance.unstructured(source=POINTS, family=je.Bounded()), je.BestArm()),
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("case", rows(CASES, {"linear"}))
def test_values_and_derivatives(case):
    """jit and vmap give the plain value to 1e-9; the derivative agrees with differences."""
    instance, problem = CASES[case]
    weights = RNG.dirichlet(np.full(instance.K, 5.0), 2)

    def value(w):
        return je.bounds.information(instance, problem, w)

    plain = [float(value(w)) for w in weights]
    np.testing.assert_allclose(jax.jit(jax.vmap(value))(weights), plain, rtol=1e-9)
    slope = jax.jit(jax.grad(value))
    step, h = RNG.normal(size=instance.K), 1e-5
    step -= step.mean()
    ends = weights[0] + h * np.array([[1], [-1]]) * step
    difference = (value(ends[0]) - value(ends[1])) / (2 * h)
    at = slope(weights[0])
    assert at @ step == pytest.approx(difference, rel=1e-6, abs=1e-9)
    assert at @ weights[0] == pytest.approx(plain[0], rel=1e-9)  # homogeneous of degree one


@pytest.mark.slow
def test_ties_and_zeros_give_a_supergradient():
    """Two equal pieces, and arms without weight: the value is below its tangent everywhere."""
    tie = je.Instance.unstructured([0.8, 0.5, 0.5], je.Bernoulli())

    def value(w):
        return je.bounds.information(tie, je.BestArm(), w)

    for at in ([0.4, 0.3, 0.3], [0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.0, 1.0]):
        at = np.array(at)
        slope = np.asarray(jax.grad(value)(at))
        assert np.isfinite(slope).all() and (at[1] != at[2] or slope[1] == slope[2])
        for w in RNG.dirichlet(np.ones(3), 20):
            assert value(w) <= value(at) + slope @ (w - at) + 1e-9


def test_a_batch_and_what_is_refused():
    batch = je.Instance.unstructured([[0.9, 0.5, 0.1], [0.7, 0.6, 0.1]], je.Bernoulli())
    weights = RNG.dirichlet(np.ones(3), 2)
    for w in (weights, weights[0]):
        plain = je.bounds.information(batch, je.BestArm(), w)
        traced = jax.jit(lambda w: je.bounds.information(batch, je.BestArm(), w))(w)
        np.testing.assert_allclose(traced, plain, rtol=1e-9)
    with pytest.raises(je.errors.ArgumentError, match=r"shape \(4,\)"):
        jax.grad(lambda w: je.bounds.information(COINS, je.BestArm(), w))(np.full(3, 0.25))
    with jax.enable_x64(False), pytest.raises(je.errors.SetupError, match="enable_x64"):
        jax.grad(lambda w: je.bounds.information(COINS, je.BestArm(), w))(np.full(4, 0.25))
