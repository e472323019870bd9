"""Information and H* for logistic rewards."""

import jax
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.bounds.pieces import pieces_of
from jaxelim.bounds.truth import each
from tests import twin

ARMS, THETA = np.random.default_rng(1).standard_normal((5, 3)), np.array([1.8, -0.9, 1.0])


@jax.jit
def bent(truth, weights):
    evidence = truth.evidence().weighted(weights)
    at = evidence.derivatives()
    return at.value, at.gradient, at.curvature(at.value), evidence.values()


def test_derivatives_in_the_weights():
    """Values and slopes are the twin's, the curvature that of differences of slopes."""
    instance = je.Instance(ARMS, THETA, family=je.Logistic())
    pieces, weights = pieces_of(instance, je.BestArm())[0], np.array([0.3, 0.05, 0.25, 0.3, 0.1])
    with scope.float64():
        truth = next(each(instance, pieces))
        value, slopes, curvature, plain = map(np.asarray, bent(truth, weights))
        steps = 1e-5 * np.eye(5)
        moved = [(np.asarray(bent(truth, weights + s)[1]) - np.asarray(bent(truth, weights - s)[1]))
                 @ value / 2e-5 for s in steps]  # fmt: skip
    np.testing.assert_allclose(plain, value, rtol=1e-11)
    world = twin.Logistic(ARMS, THETA)
    seen = world.truth(world.pieces(("bai",)))
    labels = seen.pieces.of(seen.answer, seen.candidates)
    np.testing.assert_allclose(value, seen.values(labels, weights), rtol=1e-10)
    np.testing.assert_allclose(slopes.T, seen.gradients(labels, weights), rtol=1e-6, atol=1e-9)
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
