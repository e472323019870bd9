"""Several initial pulls of each arm: rounds in index order, then the first check."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.rules.parts import tracking
from tests import twin

MEANS = np.array([2.2, 0.6, 0.0])
PLAIN = je.Instance.unstructured(MEANS, noise_std=1.5)
ARMS = np.random.default_rng(0).normal(size=(5, 3))
LINEAR = je.Instance(ARMS, [3.2, -2.4, 2.0])
ONE = je.Engine(lanes=16, devices=1, shrink=False)


def test_the_first_check_follows_the_initial_rounds():
    """Given noise: rounds in index order, rewards, the stop and the threshold at t = n K."""
    n = 15
    noise = np.random.default_rng(3).standard_normal((12, 400))
    result = je.simulate(
        PLAIN, je.BestArm(), je.Uniform(), delta=0.3, noise=noise, runs=12, engine=ONE,
        initial_pulls=n,
    )  # fmt: skip
    world, known = twin.Linear(np.eye(3), MEANS, 1.5, ridge=0.0), []
    for row in noise:
        stop = twin.run(world, ("bai",), "uniform", noise=row, delta=0.3, initial=n).stops["llr"]
        known.append(stop.samples)
        assert stop.stopped
    assert min(known) == 45 < max(known)
    np.testing.assert_array_equal(result.samples[0, 0], known)
    assert result.settings["initial_pulls"] == n and (result.pulls >= n).all()
    found = je.trace(PLAIN, je.BestArm(), je.Uniform(), delta=0.3, noise=noise[0], initial_pulls=n)
    assert found.samples == known[0] and len(found.active) == known[0] - 3 * n + 1
    np.testing.assert_array_equal(found.arms, np.arange(found.samples) % 3)
    rewards = MEANS[found.arms] + 1.5 * noise[0, : found.samples]
    np.testing.assert_allclose(found.rewards, rewards, rtol=1e-12)


def test_the_statistics_after_the_start():
    """theta_hat is that of least squares, and the run goes on."""
    noise = np.random.default_rng(1).standard_normal(900)
    found = je.trace(
        LINEAR, je.BestArm(), je.LinGapE(), noise=noise, delta=1e-9, initial_pulls=7, ridge=0.5,
        engine=ONE, max_samples=900,
    )  # fmt: skip
    arms = np.arange(35) % 5
    phi = ARMS[arms]
    known = np.linalg.solve(phi.T @ phi + np.eye(3) / 2, phi.T @ (LINEAR.means[arms] + noise[:35]))
    np.testing.assert_allclose(found.theta_hat_0, known, rtol=1e-11)
    np.testing.assert_array_equal(found.arms[:35], arms)
    assert found.samples > 36 and found.pulls.sum() == found.samples


@pytest.mark.slow
def test_a_rule_starts_after_the_initial_pulls():
    found = je.trace(LINEAR, je.BestArm(), je.LazyTaS(), initial_pulls=4, max_samples=3000,
                     delta=0.1)  # fmt: skip
    np.testing.assert_array_equal(found.arms[:20], np.arange(20) % 5)
    assert found.stopped and found.answer[LINEAR.means.argmax()]


@pytest.mark.parametrize("start", [3, 12])
def test_schedules_count_from_the_first_choice(start):
    t = jnp.arange(start + 1, start + 30)
    view = types.SimpleNamespace(t=t, start=start)
    every = np.asarray(tracking.due(7, view))
    np.testing.assert_array_equal(np.flatnonzero(every), [0, 7, 14, 21, 28])
