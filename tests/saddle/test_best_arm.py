"""w* of best arm by Newton's method and by the secular equation.

Certificates, starts, lanes, ties, masks and costs.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.families import Bernoulli, Exponential, Gaussian, Poisson
from jaxelim.lanes import LaneOps
from jaxelim.saddle import best_arm as arm_newton
from jaxelim.saddle.gaussian_best_arm import gaussian_weights

FAMILY = Bernoulli()


@functools.partial(jax.jit, static_argnames="family")
def newton(means, costs, start, counted, family):
    found = arm_newton.best_arm_weights(family, means, costs, start, counted=counted)
    return found.weights, found.log_x, found.converged, found.value


@functools.partial(jax.jit, static_argnames="equal")
def secular(flag, means, best, costs, start, counted, equal):
    given = None if equal else costs
    found = gaussian_weights(LaneOps(flag), means, best, counted, given, start)
    return found.weights, found.root


def by_newton(m, costs=None, start=None, counted=None, family=FAMILY):
    """Weights, log x, whether it converged and the value, of means [K, B], in NumPy."""
    costs = np.ones(len(m)) if costs is None else costs
    start = np.zeros(m.shape) if start is None else start
    counted = np.ones(m.shape, bool) if counted is None else np.broadcast_to(counted, m.shape)
    with scope.engine():
        given = map(jnp.asarray, (m, costs, start, counted))
        return jax.tree.map(np.asarray, newton(*given, family))


def by_secular(m, costs=None, start=None, counted=None):
    """Weights [K, B] and roots [B], in lanes."""
    counted = np.ones(m.shape, bool) if counted is None else np.broadcast_to(counted, m.shape)
    best = np.argmax(np.where(counted, m, -np.inf), 0).astype(np.int32)
    wide = np.broadcast_to(1.0 if costs is None else costs[:, None], m.shape)
    start = np.zeros(m.shape[1]) if start is None else start
    with scope.engine():
        given = map(jnp.asarray, (np.int32(1), m, best, wide, start, counted))
        return jax.tree.map(np.asarray, secular(*given, costs is None))


def coins(K=5, size=512, seed=0):
    """Means [K, size], with ends of the range and near ties among them."""
    rng = np.random.default_rng(seed)
    m = rng.random((K, size))
    kinds = np.arange(size) % 4
    m[:, kinds == 1] = np.where(rng.random((K, size)) < 0.3, m.round(), m)[:, kinds == 1]
    near = 10.0 ** rng.uniform(-10, 0, size)
    m[:, kinds == 2] = (m[0] * (1 - near * rng.random((K, size))))[:, kinds == 2]
    m[:, kinds == 3] = (1 - m[0] * near * rng.random((K, size)))[:, kinds == 3]
    return m


def normal(K=5, size=512, seed=3):
    """Means over nine orders of magnitude."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((K, size)) * 10.0 ** rng.uniform(-6, 3, size)


def of_coins(x, y):
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.where(x > 0, x * np.log(x / y), 0)
        return up + np.where(x < 1, (1 - x) * np.log((1 - x) / (1 - y)), 0)


SOLVERS = {
    "newton": (by_newton, coins, of_coins),
    "secular": (by_secular, normal, lambda x, y: (x - y) ** 2 / 2),
}


def excess(d, means, costs, counted, weights):
    """The relative duality gap, by the best mixture at the weights: H* <= (1 + gap) value.

    Where all pieces have the same information, w maximises it iff some mixture q makes
    sum_p q_p dH_p/dw_k equal for all arms. Its q_p are fixed by the arms other than the best.
    """
    i = int(np.argmax(np.where(counted, means, -np.inf)))
    others = counted & (np.arange(means.size) != i)
    n = weights / costs
    u = (n[i] * means[i] + n[others] * means[others]) / (n[i] + n[others])
    up, down = d(means[i], u) / costs[i], d(means[others], u) / costs[others]
    value = np.min(weights[i] * up + weights[others] * down)
    q = 1 / down / np.sum(1 / down)
    return np.append(q * down, np.sum(q * up)).max() / value - 1


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solve_is_certified(name, costs):
    """A gap below 1e-7, where rounding of u - m costs no more; 0 where an arm does not count."""
    solve, cases, d = SOLVERS[name]
    m, rng = cases(), np.random.default_rng(1)
    counted = rng.random(m.shape) < 0.7
    counted[:2] = True
    c = np.exp(rng.uniform(-3, 3, 5))
    found = solve(m, c if costs else None, None, counted)[0]
    np.testing.assert_allclose(found.sum(0), 1, rtol=1e-12)
    assert np.all(found[~counted] == 0) and np.all(found >= 0)
    checked = 0
    for j in range(512):
        two = np.sort(m[counted[:, j], j])[-2:]
        if name == "secular" or two[1] - two[0] > 1e-3:
            ones = c if costs else np.ones(5)
            assert excess(d, m[:, j], ones, counted[:, j], found[:, j]) < 1e-7
            checked += 1
    assert checked > 200


@pytest.mark.parametrize("name", SOLVERS)
def test_a_lane_does_not_depend_on_its_neighbours(name):
    """Nor on where they start; any start of its own gives the same weights."""
    solve, cases, _ = SOLVERS[name]
    m, places = cases(), np.random.default_rng(2).permutation(512)
    found = solve(m)
    for one, other in zip(found, solve(m[:, places]), strict=True):
        np.testing.assert_array_equal(other, one[..., places])
    alone = solve(np.repeat(m[:, 9:10], 512, 1))
    np.testing.assert_array_equal(alone[0][:, 0], found[0][:, 9])
    root = found[1]
    for start in (root, np.roll(root, 1, -1), np.abs(root) * 1e9 if name == "secular" else (
            np.full(m.shape, 600.0))):  # fmt: skip
        np.testing.assert_allclose(solve(m, None, start)[0], found[0], atol=1e-7)


@pytest.mark.parametrize("name", SOLVERS)
def test_ties_share_and_one_arm_takes_all(name):
    means = np.array([[0.5, 0.5, 0.9], [0.5, 0.7, 0.9], [0.2, 0.7, 0.9], [0.1, 0.7, 0.1]])
    counted = np.array([[1, 1, 1], [1, 0, 0], [1, 0, 1], [1, 0, 1]], bool)
    found = SOLVERS[name][0](means, None, None, counted)[0]
    np.testing.assert_array_equal(found, [[0.5, 1, 0.5], [0.5, 0, 0], [0, 0, 0.5], [0, 0, 0]])


def test_newton_converges_and_reads_no_arm_that_does_not_count():
    m, counted = coins(), np.array([True, False, True, True, False])[:, None]
    weights, _, converged, value = by_newton(m, None, None, counted)
    copies = by_newton(np.where(counted, m, -1.0), None, None, counted)[0]
    np.testing.assert_allclose(weights, copies, atol=1e-9)
    assert converged.all() and (value >= 0).all() and by_newton(m)[2].all()
    alone = by_newton(m[:, :1], None, None, (np.arange(5) == 3)[:, None])
    assert alone[0].ravel().tolist() == [0, 0, 0, 1, 0] and alone[3] == np.inf


def test_a_solution_at_the_last_step_of_a_start_stays(monkeypatch):
    """Where Newton's method ends at the very step that would start again, its solution counts."""
    m = coins()
    right = by_newton(m)[0]
    monkeypatch.setattr(arm_newton, "_STEPS", 5)
    with scope.engine():
        found = jax.jit(lambda m: arm_newton.best_arm_weights(FAMILY, m))(jnp.asarray(m))
    done = np.asarray(found.converged)
    assert done.sum() > 100
    np.testing.assert_allclose(found.weights[:, done], right[:, done], atol=1e-7)


def test_few_steps_are_no_other_start():
    """One step leaves weights from which Newton's next ones go on; no other start takes part.

    Each squares the error: eight are enough for all cases.
    """
    m = coins()
    with scope.engine():
        once, eight = (
            jax.jit(lambda m, n=n: arm_newton.best_arm_weights(FAMILY, m, steps=n))(jnp.asarray(m))
            for n in (1, 8)
        )
    far = np.abs(np.asarray(once.weights) - by_newton(m)[0]).max(0)
    assert not np.asarray(once.converged)[far > 1e-3].any() and (far > 1e-3).sum() > 100
    assert np.asarray(eight.converged).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [Bernoulli(), Poisson(), Exponential(), Gaussian((1.0, 1.0))], ids=repr
)
@pytest.mark.parametrize("K", [2, 20])
def test_hard_instances(family, K):
    """8000 instances: sizes of 1e-3 to 1e3, gaps down to 1e-10 of a mean, means at ends."""
    rng = np.random.default_rng(K)
    m = rng.random((K, 8000))
    if family != FAMILY:
        m = rng.gamma(1, size=m.shape) * 10.0 ** rng.uniform(-3, 3, 8000)
    near = np.arange(8000) % 2 == 1
    shares = 10.0 ** rng.uniform(-10, 0, 8000) * rng.random((K, 8000))
    m[:, near] = (m[0] * (1 - shares))[:, near]
    if family in (FAMILY, Poisson()):
        m[:, ::4] = np.where(rng.random((K, 2000)) < 0.2, 0, m[:, ::4])
    weights, log_x, converged, _ = by_newton(m, family=family)
    assert converged.all() and np.isfinite(weights).all()
    other = by_newton(m, None, np.roll(log_x, 1, 1), family=family)
    assert other[2].all()
    np.testing.assert_allclose(other[0], weights, atol=1e-5)


@pytest.mark.slow
def test_both_are_equal_on_gaussian_arms():
    m, std = normal(6, 64, 6), np.array([1.0, 0.2, 3.0, 0.7, 1.5, 0.9])
    counted = np.random.default_rng(6).random(m.shape) < 0.7
    counted[:2] = True
    one = by_newton(m, std**2, None, counted, Gaussian(tuple(std)))[0]
    other = by_secular(m, std**2, None, counted)[0]
    np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-14)
