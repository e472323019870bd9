"""Newton's method for w* of best arm: lanes, starts, masks, costs, ties and the fallback."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.families import Bernoulli, Exponential, Gaussian, Poisson
from jaxelim.saddle import best_arm as arm_newton

FAMILY = Bernoulli()


@functools.partial(jax.jit, static_argnames="family")
def traced(means, costs, start, counted, family):
    return arm_newton.best_arm_weights(family, means, costs, start, counted)


def solved(m, costs=None, start=None, counted=None, family=FAMILY):
    """Its result in NumPy; by arrays of one shape, so that few programs are compiled."""
    costs = np.ones(len(m)) if costs is None else costs
    start = np.zeros(m.shape) if start is None else start
    counted = np.ones(m.shape, bool) if counted is None else np.broadcast_to(counted, m.shape)
    with scope.engine():
        given = map(jnp.asarray, (m, costs, start, counted))
        return jax.tree.map(np.asarray, traced(*given, family))


def cold(m, **steps):
    """Of the first family, without an earlier solution."""
    return arm_newton.best_arm_weights(FAMILY, m, None, None, jnp.ones(m.shape, bool), **steps)


def cases(size, seed=0):
    """Means [5, size], with ends of the range and near ties among them."""
    rng = np.random.default_rng(seed)
    m = rng.random((5, size))
    kinds = np.arange(size) % 4
    m[:, kinds == 1] = np.where(rng.random((5, size)) < 0.3, m.round(), m)[:, kinds == 1]
    near = 10.0 ** rng.uniform(-10, 0, size)
    m[:, kinds == 2] = (m[0] * (1 - near * rng.random((5, size))))[:, kinds == 2]
    m[:, kinds == 3] = (1 - m[0] * near * rng.random((5, size)))[:, kinds == 3]
    return m


def test_every_solve_converges_and_meets_the_conditions():
    """512 instances, with equal costs and others: all v_a are equal and sum r_a = 1."""
    m, c = cases(512), np.exp(np.random.default_rng(1).uniform(-3, 3, 5))
    for costs in (None, c):
        found = solved(m, costs)
        assert found.converged.all()
        np.testing.assert_allclose(found.weights.sum(0), 1, rtol=1e-12)
        clear = np.flatnonzero((np.sort(m, 0)[-1] - np.sort(m, 0)[-2] > 1e-4) & (found.value > 0))
        assert clear.size > 230
        for j in clear[::3]:
            n, d = found.weights[:, j] / (1 if costs is None else costs), _divergence
            i = int(np.argmax(m[:, j]))
            u = (n[i] * m[i, j] + n * m[:, j]) / (n[i] + n)
            others = np.arange(5) != i
            up, own = d(m[i, j], u[others]), d(m[others, j], u[others])
            np.testing.assert_allclose(n[i] * up + n[others] * own, found.value[j], rtol=1e-8)
            ratio = 1 if costs is None else (c / c[i])[others]
            np.testing.assert_allclose(np.sum(ratio * up / own), 1, rtol=1e-7)


def _divergence(x, y):
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.where(x > 0, x * np.log(x / y), 0)
        return up + np.where(x < 1, (1 - x) * np.log((1 - x) / (1 - y)), 0)


def test_a_lane_does_not_depend_on_its_neighbours():
    m, places = cases(512), np.random.default_rng(2).permutation(512)
    found, permuted = solved(m), solved(m[:, places])
    for field in found._fields:
        assert np.array_equal(getattr(permuted, field), getattr(found, field)[..., places])
    for j in (1, 2, 3, 4):
        one = solved(m[:, j])
        np.testing.assert_allclose(one.weights, found.weights[:, j], atol=1e-9)


def test_starts_ties_and_masks():
    m = cases(512)
    fresh = solved(m)
    for start in (fresh.log_x, np.roll(fresh.log_x, 1, 0), np.full((5, 512), 600.0)):
        again = solved(m, None, start)
        assert again.converged.all()
        np.testing.assert_allclose(again.weights, fresh.weights, atol=1e-7)
    tie = solved(np.array([0.5, 0.2, 0.5, 0.5, 0.1]))
    assert tie.value == 0 and tie.converged
    np.testing.assert_allclose(tie.weights, [1 / 3, 0, 1 / 3, 1 / 3, 0], rtol=1e-15)
    counted = np.array([True, False, True, True, False])[:, None]
    part = solved(m, None, None, counted)
    copies = solved(np.where(counted, m, -1.0), None, None, counted)  # what they are is not read
    np.testing.assert_allclose(part.weights, copies.weights, atol=1e-9)
    assert (part.weights[[1, 4]] == 0).all() and part.converged.all()
    assert (part.value >= 0).all()
    alone = solved(m[:, 0], None, None, np.arange(5) == 3)
    assert alone.weights.tolist() == [0, 0, 0, 1, 0] and alone.value == np.inf


def test_a_solution_at_the_last_step_of_a_start_stays(monkeypatch):
    """Step 40 starts again from fixed weights, unless it solves: then its solution is returned."""
    m = cases(512)
    right = solved(m)
    monkeypatch.setattr(arm_newton, "_STEPS", 5)
    with scope.engine():
        found = jax.jit(cold)(jnp.asarray(m))
    done = np.asarray(found.converged)
    assert done.sum() > 100
    np.testing.assert_allclose(found.weights[:, done], right.weights[:, done], atol=1e-7)


def test_few_steps_are_no_other_start():
    """One step leaves weights from which Newton's next ones go on; no other start takes part.

    Each squares the error: eight are enough for all cases.
    """
    m = cases(512)
    with scope.engine():
        once, eight = (
            jax.jit(functools.partial(cold, steps=n))(jnp.asarray(m)) for n in (1, 8)
        )
    far = np.abs(np.asarray(once.weights) - solved(m).weights).max(0)
    assert not np.asarray(once.converged)[far > 1e-3].any() and (far > 1e-3).sum() > 100
    assert np.asarray(eight.converged).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", [Poisson(), Exponential(), Gaussian((1.0, 1.0))], ids=repr)
def test_hard_instances(family):
    """8000 instances: sizes of 1e-3 to 1e3, gaps down to 1e-10 of a mean, means at ends."""
    K, rng = 20, np.random.default_rng(20)
    m = rng.gamma(1, size=(K, 8000)) * 10.0 ** rng.uniform(-3, 3, 8000)
    near = np.arange(8000) % 2 == 1
    shares = 10.0 ** rng.uniform(-10, 0, 8000) * rng.random((K, 8000))
    m[:, near] = (m[0] * (1 - shares))[:, near]
    if family == Poisson():
        m[:, ::4] = np.where(rng.random((K, 2000)) < 0.2, 0, m[:, ::4])
    found = solved(m, family=family)
    assert found.converged.all() and np.isfinite(found.weights).all()
    other = solved(m, None, np.roll(found.log_x, 1, 1), family=family)
    assert other.converged.all()
    np.testing.assert_allclose(other.weights, found.weights, atol=1e-5)
