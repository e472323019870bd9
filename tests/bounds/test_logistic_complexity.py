"""H*, w* and their derivatives for logistic rewards, against SciPy's optimisers."""

import jax
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import jaxelim as je
from jaxelim import scope
from jaxelim.bounds.pieces import pieces_of
from jaxelim.bounds.truth import each
from tests.twin.logistic import divergences, mean


def information(arms, theta, y, c, weights):
    """H_p(w) and dH_p/dw by SciPy's minimiser in the null space of y."""
    space = scipy.linalg.null_space(y[None])
    base, inside = theta + y * (c - y @ theta) / (y @ y), arms @ space
    scores = arms @ theta

    def cost(z):
        return weights @ divergences(scores, arms @ base + inside @ z)

    def slope(z):
        return inside.T @ (weights * (mean(arms @ base + inside @ z) - mean(scores)))

    def curvature(z):
        p = mean(arms @ base + inside @ z)
        return (inside.T * (weights * p * (1 - p))) @ inside

    found = scipy.optimize.minimize(
        cost, np.zeros(space.shape[1]), jac=slope, hess=curvature, method="trust-exact",
        options={"gtol": 1e-12},
    )  # fmt: skip
    return found.fun, divergences(scores, arms @ (base + space @ found.x))


ARMS, THETA = np.random.default_rng(1).standard_normal((5, 3)), np.array([1.8, -0.9, 1.0])


@jax.jit
def bent(truth, weights):
    evidence = truth.evidence().weighted(weights)
    at = evidence.derivatives()
    return at.value, at.gradient, at.curvature(at.value), evidence.values()


def test_derivatives_in_the_weights():
    """Values and slopes are SciPy's, the curvature that of differences of slopes."""
    instance = je.Instance(ARMS, THETA, family=je.Logistic())
    pieces, weights = pieces_of(instance, je.BestArm())[0], np.array([0.3, 0.05, 0.25, 0.3, 0.1])
    with scope.float64():
        truth = next(each(instance, pieces))
        value, slopes, curvature, plain = map(np.asarray, bent(truth, weights))
        steps = 1e-5 * np.eye(5)
        moved = [(np.asarray(bent(truth, weights + s)[1]) - np.asarray(bent(truth, weights - s)[1]))
                 @ value / 2e-5 for s in steps]  # fmt: skip
    np.testing.assert_allclose(plain, value, rtol=1e-11)
    for p, y in enumerate(pieces.y[0]):
        exact, slope = information(ARMS, THETA, y, 0.0, weights)
        np.testing.assert_allclose(value[p], exact, rtol=1e-10)
        np.testing.assert_allclose(slopes[:, p], slope, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(curvature, -np.array(moved), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_means_items_and_features_of_lower_rank():
    """Independent arms by means; arms in a plane; items; ties by their means."""
    basis = je.Instance.unstructured([0.8, 0.6, 0.5], je.Logistic())
    bernoulli = je.Instance.unstructured([0.8, 0.6, 0.5], je.Bernoulli())
    ours, exact = (je.complexity(x, je.BestArm(), 1e-9) for x in (basis, bernoulli))
    np.testing.assert_allclose(ours.value, exact.value, rtol=1e-8)
    np.testing.assert_allclose(ours.allocation, exact.allocation, atol=1e-4)
    plain = je.Instance(ARMS, THETA, family=je.Logistic())
    plane = np.concatenate([ARMS, ARMS @ np.array([[0.3], [1.0], [0.2]])], 1)
    flat = je.Instance(plane, [*THETA, 0.0], family=je.Logistic())
    one, flat, items = (je.complexity(x, problem, 1e-9) for x, problem in (
        (plain, je.BestArm()), (flat, je.BestArm()), (plain, je.BestArm(items=ARMS))
    ))  # fmt: skip
    np.testing.assert_allclose([flat.value, items.value], [one.value] * 2, rtol=1e-8)
    blind = [0.5, 0.5, 0.0, 0.0, 0.0]  # two arms do not tell the best from others in R^3
    assert je.bounds.information(plain, je.BestArm(), blind) == 0
    tied = je.Instance(np.eye(2), [0.5, 0.5], family=je.Logistic())
    with pytest.raises(je.errors.ArgumentError, match="0.622459"):
        je.complexity(tied, je.BestArm())
