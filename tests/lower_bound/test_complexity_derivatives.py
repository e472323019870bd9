"""Derivatives of H*, T* and w* against differences of certified solves."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim.errors import ArgumentError, TieError, UnsupportedError
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound import (
    PrecisionError,
    characteristic_time,
    complexity,
    complexity_gradients,
    derivatives,
    optimal_allocation,
    optimal_information,
)
from jaxelim.problems import BestArm, HalfSpaces, Thresholding, TopM
from tests.lower_bound.complexity_cases import Box

RNG = np.random.default_rng(12)
ARMS = RNG.standard_normal((6, 3))
THETA = RNG.standard_normal(3)
PROBLEMS = [TopM(2), Thresholding(0.1), pytest.param(BestArm(), marks=pytest.mark.slow)]


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


def solved(field, problem, noise_std=1.0):
    def of_theta(theta):
        return getattr(complexity(Instance(ARMS, theta, noise_std), problem, gap=1e-12), field)

    def of_arms(arms):
        theta = np.broadcast_to(THETA, (len(arms), 3))
        return getattr(complexity(Instance(arms, theta, noise_std), problem, gap=1e-12), field)

    return of_theta, of_arms


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_gradients_against_differences(problem):
    found = complexity_gradients(Instance(ARMS, THETA, noise_std=2.0), problem)
    assert found.stable and found.value.dtype == np.float64
    for field, by_theta, by_arms in (
        ("value", found.value_theta, found.value_arms),
        ("time", found.time_theta, found.time_arms),
    ):
        of_theta, of_arms = solved(field, problem, 2.0)
        numeric = differences(of_theta, THETA, 1e-4)
        assert np.abs(by_theta - numeric).max() <= 1e-7 * np.abs(numeric).max()
        numeric = differences(of_arms, ARMS, 1e-4).reshape(6, 3)
        assert np.abs(by_arms - numeric).max() <= 1e-7 * np.abs(numeric).max()
    of_theta, of_arms = solved("allocation", problem, 2.0)
    numeric = differences(of_theta, THETA, 1e-5).T
    assert np.abs(found.allocation_theta - numeric).max() <= 1e-5 * np.abs(numeric).max() + 1e-8
    numeric = differences(of_arms, ARMS, 1e-5).T.reshape(6, 6, 3)
    assert np.abs(found.allocation_arms - numeric).max() <= 1e-5 * np.abs(numeric).max() + 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem", [TopM(2), pytest.param(Thresholding(0.1), marks=pytest.mark.slow)], ids=repr
)
def test_the_optimistic_form_against_differences(problem):
    """Large bonuses: derivatives in theta, in the features and in the bonuses."""
    plain = complexity(Instance(ARMS, THETA), problem)
    bonus = float(plain.value) * np.array([0.3, 0.1, 0.5, 0.2, 0.4, 0.1])
    found = complexity_gradients(Instance(ARMS, THETA), problem, bonus=bonus)
    assert (
        found.stable
        and found.value > plain.value
        and np.abs(found.allocation - plain.allocation).max() > 1e-3
    )

    def of(field, theta=THETA, arms=ARMS, bonus=bonus):
        size = max(
            theta.shape[0] if theta.ndim == 2 else 1,
            len(arms) if arms.ndim == 3 else 1,
            len(np.atleast_2d(bonus)),
        )
        batch = Instance(np.broadcast_to(arms, (size, 6, 3)), np.broadcast_to(theta, (size, 3)))
        return getattr(
            complexity(batch, problem, gap=1e-12, bonus=np.broadcast_to(bonus, (size, 6))), field
        )

    for field, by_theta, by_arms, step, error in (
        ("value", found.value_theta, found.value_arms, 1e-4, 1e-7),
        ("allocation", found.allocation_theta, found.allocation_arms, 1e-5, 1e-5),
    ):
        for exact, name, x in ((by_theta, "theta", THETA), (by_arms, "arms", ARMS)):
            numeric = differences(
                lambda z, field=field, name=name: of(field, **{name: z}), x, step
            ).T
            assert (
                np.abs(exact.reshape(numeric.shape) - numeric).max()
                <= error * np.abs(numeric).max() + 1e-8
            )
    with jax.enable_x64(True):

        def both(bonus):
            weights = optimal_allocation(ARMS, THETA, problem, bonus=bonus)
            return optimal_information(ARMS, THETA, problem, bonus=bonus), weights

        value_slope, weight_slope = map(np.asarray, jax.jit(jax.jacrev(both))(jnp.asarray(bonus)))
    step = 1e-5 * float(plain.value)
    numeric = differences(lambda z: of("value", bonus=z), bonus, step)
    np.testing.assert_allclose(value_slope, numeric, atol=1e-6)
    np.testing.assert_allclose(value_slope, found.allocation, atol=1e-9)  # Danskin
    numeric = differences(lambda z: of("allocation", bonus=z), bonus, step).T
    assert np.abs(weight_slope - numeric).max() <= 1e-6 * np.abs(numeric).max()


@pytest.mark.slow
def test_transformations_agree():
    problem = TopM(2)
    exact = complexity_gradients(Instance(ARMS, THETA), problem)
    with jax.enable_x64(True):
        many = jnp.asarray(THETA)[None] * jnp.asarray([[1.0], [1.1]])
        noise = jnp.asarray(1.0)

        def both(theta, bonus, noise):
            weights = optimal_allocation(ARMS, theta, problem, noise_std=noise)
            return optimal_information(ARMS, theta, problem, noise_std=noise, bonus=bonus), weights

        slopes = jax.jit(jax.vmap(jax.jacrev(both, (0, 1, 2)), (0, None, None)))(
            many, jnp.zeros(6), noise
        )
        forward = jax.jit(jax.jacfwd(lambda t: optimal_allocation(ARMS, t, problem)))(many[0])
    (by_theta, by_bonus, by_noise), (weights_by_theta, _, _) = slopes
    np.testing.assert_allclose(by_theta[0], exact.value_theta, rtol=1e-8)
    # H* is quadratic along rays
    np.testing.assert_allclose(by_theta[1], 1.1 * exact.value_theta, rtol=1e-8)
    np.testing.assert_allclose(weights_by_theta[0], exact.allocation_theta, atol=1e-9)
    np.testing.assert_allclose(forward, exact.allocation_theta, atol=1e-9)
    # Danskin: the derivative in the bonus is the allocation. H* scales with 1/noise^2.
    np.testing.assert_allclose(by_bonus[0], exact.allocation, atol=1e-7)
    np.testing.assert_allclose(by_noise[0], -2 * exact.value, rtol=1e-8)


@pytest.mark.slow
def test_plain_calls_use_float64_and_traced_calls_the_given_precision():
    value = optimal_information(ARMS, THETA, TopM(2))
    assert value.dtype == np.float64 and not jax.config.jax_enable_x64
    assert characteristic_time(ARMS, THETA, TopM(2)) == pytest.approx(1 / value)
    assert optimal_allocation(ARMS, THETA, TopM(2)).shape == (6,)
    theta = jnp.asarray(THETA, jnp.float32)
    with pytest.raises(PrecisionError, match="float64"):
        jax.grad(functools.partial(optimal_information, ARMS, problem=BestArm()))(theta)
    slope = jax.grad(lambda t: optimal_information(ARMS, t, TopM(2), precision="float32"))(theta)
    assert slope.dtype == jnp.float32
    np.testing.assert_allclose(
        slope, complexity_gradients(Instance(ARMS, THETA), TopM(2)).value_theta, rtol=1e-3
    )


@pytest.mark.slow
def test_fixed_directions_do_not_depend_on_features():
    theta = np.array([0.3, -0.2, 0.1])
    found = complexity_gradients(Instance(ARMS, theta), Box(), jacobian=False)
    assert found.allocation_theta is None and found.allocation_arms is None
    numeric = differences(
        lambda arms: (
            complexity(Instance(arms, np.tile(theta, (len(arms), 1))), Box(), gap=1e-12).value
        ),
        ARMS,
        1e-4,
    )
    np.testing.assert_allclose(found.value_arms.ravel(), numeric, rtol=1e-6, atol=1e-9)
    directions, offsets = (x[None] for x in Box().half_spaces(ARMS, theta))
    box = HalfSpaces(lambda theta: jnp.zeros((), jnp.int32), directions, offsets)
    with jax.enable_x64(True):
        slope = jax.grad(lambda a: optimal_information(a, theta, box))(jnp.asarray(ARMS))
        with pytest.raises(UnsupportedError, match="jaxelim.Problem under a transformation"):
            jax.grad(lambda a: optimal_information(a, theta, Box()))(jnp.asarray(ARMS))
    np.testing.assert_allclose(slope, found.value_arms, rtol=1e-9, atol=1e-12)


def test_a_piece_without_mixture_keeps_none(monkeypatch):
    """Arms e_1, e_2; pieces mu_1 <= mu_2 and the far mu_1 <= -9: w* = (1/2, 1/2), q* = (1, 0).

    So for all theta nearby: neither has a derivative.
    """
    best = derivatives.Optimum(jnp.full(2, 0.5), jnp.asarray([1.0, 0.0]), jnp.asarray(0.0))
    monkeypatch.setattr(derivatives.Inputs, "solve", lambda *_: best)

    def optimum(theta):
        directions, offsets = jnp.asarray([[1.0, -1.0], [1.0, 0.0]]), jnp.asarray([0.0, -9.0])
        inputs = derivatives.Inputs.linear(jnp.eye(2), theta, directions, offsets, jnp.zeros(2))
        return derivatives.optimum(inputs, jnp.ones(2))

    with jax.enable_x64(True):
        best = jax.tree.map(lambda x: jnp.asarray(x, float), best)
        theta, toward = jnp.asarray([0.4, 0.1]), jnp.asarray([1.0, 0.3])
        _, change = jax.jit(lambda *x: jax.jvp(optimum, x[:1], x[1:]))(theta, toward)
    np.testing.assert_allclose(change.mixture, [0, 0], atol=1e-12)
    np.testing.assert_allclose(change.allocation, [0, 0], atol=1e-12)


def test_an_allocation_that_is_not_unique_is_flagged():
    # the last two arms are identical: any split of their weight is optimal
    arms = np.concatenate([ARMS[:5], ARMS[4:5]])
    theta = np.array([-0.5, -0.4, -0.8])
    found = complexity_gradients(Instance(arms, theta), TopM(2))  # the program of the test above
    assert found.allocation[4:].min() > 0.1
    assert not found.stable and np.isfinite(found.value_theta).all()
    # H* is still differentiable
    assert found.value_theta @ theta == pytest.approx(2 * found.value)


def test_refusals():
    with pytest.raises(TieError):
        optimal_information(np.eye(2), [1.0, 1.0], BestArm())
    for family in (Gaussian(3.0), Gaussian(std=[1.0, 2.0])):
        for function in (optimal_information, characteristic_time, optimal_allocation):
            with pytest.raises(ArgumentError, match="noise_std: got 2.0.*its default"):
                function(None, [1.0, 0.0], BestArm(), noise_std=2.0, family=family)
    with pytest.raises(ArgumentError, match="precision"):
        optimal_information(ARMS, THETA, BestArm(), precision="float16")
    with pytest.raises(ArgumentError, match="one instance"):
        optimal_information(ARMS[None], THETA[None], BestArm())
    with pytest.raises(ArgumentError, match="theta"):
        optimal_information(ARMS, [1.0, np.nan, 0.0], BestArm())
