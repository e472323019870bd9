"""Derivatives of H*, T* and w* in the means, against differences of certified solves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.families import Bernoulli, Gaussian, Poisson
from jaxelim.lower_bound import (
    characteristic_time,
    complexity,
    complexity_gradients,
    optimal_allocation,
    optimal_information,
)
from tests.lower_bound.family_cases import FAMILIES
from tests.lower_bound.test_complexity_derivatives import differences

MEANS = np.array([0.52, 0.31, 0.4, 0.2, 0.6])
PROBLEMS = {"best arm": je.BestArm(), "top m": je.TopM(2), "signs": je.Thresholding(0.43)}
FAST = {("bernoulli", "signs")}
GRID = [
    pytest.param(
        FAMILIES[family], PROBLEMS[problem], id=f"{family} {problem}",
        marks=() if (family, problem) in FAST else pytest.mark.slow,
    )
    for family in FAMILIES for problem in PROBLEMS
]  # fmt: skip


def arms(means, family):
    return je.Instance.unstructured(means, family)


@pytest.mark.parametrize(("family", "problem"), GRID)
def test_gradients_against_differences(family, problem):
    found = complexity_gradients(arms(MEANS, family), problem)
    assert found.stable and found.value_arms is None and found.allocation_arms is None
    for field, slope in (
        ("value", found.value_theta),
        ("time", found.time_theta),
        ("allocation", found.allocation_theta.T),
    ):

        def solved(means, field=field):
            return getattr(complexity(arms(means, family), problem, 1e-12), field)

        expected = differences(solved, MEANS, 2e-4)
        np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6 * np.abs(slope).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem", [PROBLEMS["signs"], je.BestArm()], ids=str
)
def test_functions_of_means_under_transformations(problem):
    """Under grad and jit, and in a batch, as `complexity_gradients` has it."""
    family = Bernoulli()
    found = complexity_gradients(arms(MEANS, family), problem)
    batch = complexity_gradients(arms(np.stack([MEANS, MEANS]), family), problem)
    np.testing.assert_allclose(batch.allocation_theta[1], found.allocation_theta, rtol=1e-9)
    with jax.enable_x64(True):
        means = jnp.asarray(MEANS)
        slope = jax.grad(lambda m: characteristic_time(None, m, problem, family=family))(means)
        jacobian = jax.jit(
            jax.jacrev(lambda m: optimal_allocation(None, m, problem, family=family))
        )(means)
    np.testing.assert_allclose(slope, found.time_theta, rtol=1e-12)
    np.testing.assert_allclose(
        jacobian, found.allocation_theta, atol=1e-12 * np.abs(jacobian).max()
    )
    plain = optimal_information(None, MEANS, problem, family=family)
    np.testing.assert_allclose(plain, found.value, rtol=1e-12)


@pytest.mark.slow
def test_the_second_derivative_and_a_tie():
    family, problem = Bernoulli(), je.BestArm()
    with jax.enable_x64(True):

        def value(m):
            return optimal_information(None, m, problem, family=family)

        curvature = jax.jacfwd(jax.grad(value))(jnp.asarray(MEANS))
        slope = jax.jit(jax.vmap(jax.grad(value)))
        expected = differences(lambda m: np.asarray(slope(jnp.asarray(m))), MEANS, 2e-4)
        np.testing.assert_allclose(curvature, expected, atol=1e-5 * np.abs(expected).max())
        tie = jnp.asarray([0.5, 0.5, 0.2])
        assert jax.jit(value)(tie) == 0
        assert np.isfinite(jax.jit(jax.grad(value))(tie)).all()


@pytest.mark.slow
def test_arms_without_features_are_unit_vectors():
    """`None` as arms, for Gaussian rewards too."""
    problem, std = je.BestArm(), [1.0, 0.5, 2.0, 1.0, 1.5]
    plain = optimal_information(None, MEANS, problem)
    np.testing.assert_allclose(
        plain, optimal_information(np.eye(5), MEANS, problem), rtol=1e-12
    )
    family = Gaussian(std)
    found = optimal_information(None, MEANS, problem, family=family)
    np.testing.assert_allclose(found, complexity(arms(MEANS, family), problem).value, rtol=1e-9)


def test_what_is_refused():
    def refused(call, *words):
        with pytest.raises(je.ArgumentError) as error:
            call()
        assert all(word in str(error.value) for word in words)

    for family, means in ((Bernoulli(), [1.0, 0.5]), (Poisson(), [0.0, 1.0])):
        refused(lambda m=means, f=family: complexity_gradients(arms(m, f), je.BestArm()), "inside")
    coin = Bernoulli()
    refused(lambda: characteristic_time(np.eye(5), MEANS, je.BestArm(), family=coin), "None")
    refused(
        lambda: characteristic_time(None, MEANS, je.BestArm(), family=coin, noise_std=2.0),
        "noise_std",
    )
