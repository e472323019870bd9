"""Derivatives of H*, w* and information: against differences, at ties, of traced weights."""

from types import SimpleNamespace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.bounds import complexity, information, optimal, optimum
from jaxelim.bounds.pieces import Truth
from jaxelim.contracts import pieces as pieces_lib
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, Thresholding, TopM
from tests.bounds.cases import box
from tests.calls import rows

RNG = np.random.default_rng(12)
ARMS = RNG.standard_normal((6, 3))
THETA = RNG.standard_normal(3)
MEANS = np.array([0.52, 0.31, 0.4, 0.2, 0.6])
SLOW = pytest.mark.slow


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def differences(function, x, step):
    """Fourth-order central differences of a function in one batch.

    Args:
        function: [N, *x.shape] -> [N, ...].

    Returns:
        [x.size, ...].
    """
    basis = step * np.eye(x.size).reshape(-1, *x.shape)
    shifts = [-2, -1, 1, 2]
    values = function(np.concatenate([x + s * basis for s in shifts]))
    far, near, near_, far_ = np.split(values, 4)
    return (far - 8 * near + 8 * near_ - far_) / (12 * step)


def close(slope, numeric, error):
    """`slope` [.., *x.shape] against differences [x.size, ..], relative to the largest."""
    expected = np.moveaxis(numeric, 0, -1).reshape(np.shape(slope))
    assert np.abs(slope - expected).max() <= error * np.abs(expected).max() + 1e-8


STEPS, ROUGH = (1e-4, 1e-7, 1e-5, 1e-5), (1e-5, 1e-5, 1e-5, 1e-3)
"""A step and an error of the value, and of the allocation; for rough solves."""
CASES = {
    "bernoulli, thresholding": (None, MEANS, Thresholding(0.43), je.Bernoulli(), (2e-4, 1e-6) * 2),
    "exponential, best arm": (None, MEANS, BestArm(), je.Exponential(), (2e-4, 1e-6) * 2),
    "linear, top-m": (ARMS, THETA, TopM(2), Gaussian(2.0), STEPS),
    "logistic": (ARMS[:5], np.array([1.8, -0.9, 1.0]), BestArm(), je.Logistic(), ROUGH),
}


@pytest.mark.parametrize("name", rows(CASES, {"bernoulli, thresholding"}))
def test_derivatives_are_those_of_certified_solves(name):
    """Of H* and w*, in features and theta or means, in reverse; of w* forward too."""
    arms, theta, problem, family, steps = CASES[name]
    given = (theta,) if arms is None else (theta, arms)

    def both(theta, arms=None):
        found = optimum(arms, theta, problem, family)
        return found.value, found.allocation

    found = jax.jit(jax.jacrev(both, tuple(range(len(given)))))(*given)
    if arms is not None:
        forward = jax.jit(jax.jacfwd(lambda *x: both(*x)[1]))(*given)
        np.testing.assert_allclose(forward, found[1][0], atol=1e-12)
    for at, field in enumerate(("value", "allocation")):
        for place, x in enumerate(given):

            def solved(moved, place=place, field=field):
                many = [np.tile(one, (len(moved), *[1] * one.ndim)) for one in given]
                many[place] = moved
                one = Instance.unstructured(many[0], family) if arms is None else (
                    Instance(many[1], many[0], family=family)
                )  # fmt: skip
                return getattr(complexity(one, problem, 1e-12), field)

            step, error = steps[2 * at : 2 * at + 2]
            close(found[at][place], differences(solved, x, step), error)


@SLOW
def test_values_batches_and_second_derivatives():
    def value(theta):
        return optimum(ARMS, theta, TopM(2)).value

    many = THETA * np.array([[1.0], [1.1]])
    found = jax.jit(jax.vmap(jax.value_and_grad(value)))(many)
    known = complexity(Instance(ARMS, THETA), TopM(2), 1e-11)
    np.testing.assert_allclose(found[0], known.value * np.array([1, 1.21]), rtol=1e-10)
    np.testing.assert_allclose(found[1][1], 1.1 * found[1][0], rtol=1e-7)  # quadratic along rays
    curvature = jax.jit(jax.jacfwd(jax.grad(value)))(THETA)
    expected = differences(lambda t: np.asarray(jax.vmap(jax.grad(value))(t)), THETA, 1e-4)
    close(curvature, expected, 1e-6)
    plain = optimum(None, MEANS, BestArm())
    np.testing.assert_allclose(plain.value, optimum(np.eye(5), MEANS, BestArm()).value, rtol=1e-12)


@SLOW
def test_fixed_directions_do_not_depend_on_features():
    theta = np.array([0.3, -0.2, 0.1])
    slope = jax.grad(lambda a: optimum(a, theta, box(3)).value)(ARMS)

    def solved(arms):
        return complexity(Instance(arms, np.tile(theta, (len(arms), 1))), box(3), gap=1e-12).value

    close(slope, differences(solved, ARMS, 1e-4), 1e-6)


def test_a_piece_without_mixture_keeps_none(monkeypatch):
    """Arms e_1, e_2; pieces mu_1 <= mu_2 and the far mu_1 <= -9: w* = (1/2, 1/2), q* = (1, 0).

    So for all theta nearby: neither has a derivative.
    """
    half, zero = jnp.full(2, 0.5), jnp.zeros(())
    pair = SimpleNamespace(w=half, q=jnp.asarray([1.0, 0.0]))
    best = SimpleNamespace(pair=pair, value=zero + 0.01, gap=zero, levels=half)
    monkeypatch.setattr(optimal, "climb", lambda *_, **__: best)

    def at(theta):
        y, c = jnp.asarray([[1.0, -1.0], [1.0, 0.0]]), jnp.asarray([0.0, -9.0])
        pieces = pieces_lib.HalfSpaces(y, c, jnp.ones(2, bool))
        truth = Truth(Gaussian(), jnp.eye(2), theta, jnp.ones(2), pieces)
        return optimal._optimum(truth, 2, 1e-11)

    theta, toward = jnp.asarray([0.4, 0.1]), jnp.asarray([1.0, 0.3])
    _, change = jax.jit(lambda *x: jax.jvp(at, x[:1], x[1:]))(theta, toward)
    np.testing.assert_allclose(change.mixture, [0, 0], atol=1e-12)
    np.testing.assert_allclose(change.allocation, [0, 0], atol=1e-12)


# Ties.


def slopes(case):
    """Values, and derivatives in reverse and forward, of H* and sum_k k w*_k."""
    arms, theta, problem, family = case
    arms = None if arms is None else jnp.asarray(arms, float)

    def every(theta, arms):
        found = optimum(arms, theta, problem, family)
        weights = found.allocation @ jnp.arange(len(found.allocation), dtype=float)
        numbers = jnp.stack([found.value, weights])
        return numbers, numbers

    at, which = (jnp.asarray(theta), arms), (0,) if arms is None else (0, 1)
    forward, values = jax.jacfwd(every, which, has_aux=True)(*at)
    return values, jax.jacrev(every, which, has_aux=True)(*at)[0], forward


@SLOW
@pytest.mark.parametrize("tied", [
    (None, [0.5, 0.4, 0.6, 0.2], Thresholding(0.5), je.Bernoulli()),
    ([[1, 0], [0, 1], [0.5, 0.5]], [1.0, 1.0], BestArm(), Gaussian()),
], ids=["on a level", "linear"])  # fmt: skip
def test_a_tie_of_the_answer(tied):
    """H* = 0, with derivatives 0, also of w*, in both modes."""
    values, *both = slopes(tied)
    assert values[0] == 0 and np.isfinite(values[1])
    for slope in jax.tree.leaves(both):
        np.testing.assert_array_equal(slope, 0)


@SLOW
def test_other_ties():
    """Two equal arms: forward and reverse agree; H* changes by a small step as they say."""
    given = arms, theta, *_ = [[1, 0], [0, 1], [0, 1]], [1.0, 0.5], BestArm(), Gaussian()
    values, reverse, forward = slopes(given)
    chex.assert_tree_all_finite((values, reverse))
    for a, b in zip(jax.tree.leaves(reverse), jax.tree.leaves(forward), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * np.abs(b).max())
    step, h = np.linspace(1, -0.5, len(theta)), 2e-5
    ends = [optimum(arms, theta + s * h * step, BestArm()).value for s in (1, -1)]
    assert reverse[0][0] @ step == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)


# Information of traced weights.

COINS = je.Instance.unstructured([0.6, 0.5, 0.3, 0.2], je.Bernoulli())
SHARES = [[0.2, 0.4, 0.4], [0.3, 0.4, 0.3], [0.5, 0.4, 0.1], [0.7, 0.2, 0.1]]
POINTS = je.families.Points([0, 0.5, 1], SHARES)
TRACED = {
    "linear": Instance(ARMS[:5], [1.0, 0.4, -0.3], noise_std=2.0),
    "costs": Instance.unstructured(COINS.means, je.Poisson(), costs=[1.0, 2.0, 0.5, 3.0]),
    "bounded": Instance.unstructured(source=POINTS, family=je.Bounded()),
}


@pytest.mark.parametrize("case", rows(TRACED, {"linear"}))
def test_information_of_traced_weights(case):
    """jit and vmap give the plain value to 1e-9; the derivative agrees with differences."""
    instance = TRACED[case]
    weights = RNG.dirichlet(np.full(instance.K, 5.0), 2)

    def value(w):
        return information(instance, BestArm(), w)

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


@SLOW
def test_ties_and_zeros_give_a_supergradient():
    """Two equal pieces, and arms without weight: the value is below its tangent everywhere."""
    tie = je.Instance.unstructured([0.8, 0.5, 0.5], je.Bernoulli())

    def value(w):
        return information(tie, BestArm(), w)

    for at in ([0.4, 0.3, 0.3], [0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.0, 1.0]):
        at = np.array(at)
        slope = np.asarray(jax.grad(value)(at))
        assert np.isfinite(slope).all() and (at[1] != at[2] or slope[1] == slope[2])
        for w in RNG.dirichlet(np.ones(3), 20):
            assert value(w) <= value(at) + slope @ (w - at) + 1e-9


def test_traced_weights_of_a_batch_and_what_is_refused():
    batch = je.Instance.unstructured([[0.9, 0.5, 0.1], [0.7, 0.6, 0.1]], je.Bernoulli())
    weights = RNG.dirichlet(np.ones(3), 2)
    for w in (weights, weights[0]):
        plain = information(batch, BestArm(), w)
        traced = jax.jit(lambda w: information(batch, BestArm(), w))(w)
        np.testing.assert_allclose(traced, plain, rtol=1e-9)
    with pytest.raises(je.errors.ArgumentError, match=r"shape \(4,\)"):
        jax.grad(lambda w: information(COINS, BestArm(), w))(np.full(3, 0.25))
    with jax.enable_x64(False), pytest.raises(je.errors.SetupError, match="enable_x64"):
        jax.grad(lambda w: information(COINS, BestArm(), w))(np.full(4, 0.25))
