"""Logistic rewards: evidence against the twin, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.contracts.views import Statistics
from jaxelim.families import logistic as evidence_of
from jaxelim.families.logistic import Logistic, divergence, largest_curvature
from jaxelim.lanes import PLAIN
from tests.twin import logistic


def evidence(arms, counts, ones, theta, y, c):
    """Of one run with these counts and sums, about half-spaces; theta: [d], or None for hat."""
    family = Logistic()
    space, t = family.space(PLAIN, arms, ()), jnp.int32(0)
    if theta is None:
        stats = family._fitted(space, t, counts, ones, jnp.zeros(arms.shape[1]), True)
    else:
        stats = Statistics(t=t, counts=counts, means=evidence_of.sides(arms @ theta)[0],
                           reward_sums=ones, theta_hat=theta)  # fmt: skip
    shape = HalfSpaces(y, c, jnp.ones(c.shape, bool), c.shape[0])
    return stats.theta_hat, family.evidence(space, stats, shape)


@jax.jit
def looked(arms, counts, ones, y, c):
    """theta_hat, values, gradient of piece 0, its closest theta, refuted: of one run."""
    hat, found = evidence(arms, counts, ones, None, y, c)
    values = found.values()
    point = found._closest(y[0], c[0])
    tests = jnp.stack([found.refuted(0.9 * values[0]), found.refuted(1.1 * values[0] + 1e-9)])
    least = jnp.min(values)
    every = found.all_refuted(0.99 * least), found.all_refuted(1.01 * least + 1e-9)
    gradient = found.gradient(jnp.int32(0))
    above = found.above(found.metric())
    return hat, values, gradient, point, tests, above, jnp.stack(every)


def cases(number, seed=0):
    """Arms [8, 3], counts, sums and half-spaces; some samples are separable."""
    rng = np.random.default_rng(seed)
    for n in range(number):
        arms = rng.standard_normal((8, 3))
        counts = np.ceil(rng.exponential(10.0 ** rng.uniform(0, 3), 8)) + 0.0
        p = logistic.mean(arms @ rng.standard_normal(3) * rng.uniform(0, 2))
        ones = (p > 0.5) * counts if n % 5 == 0 else rng.binomial(counts.astype(int), p) + 0.0
        y = rng.standard_normal((4, 3))
        yield arms, counts, ones, y, rng.standard_normal(4) * 0.5


def test_evidence_is_that_of_scipy():
    """120 half-spaces: values to 1e-9 of SciPy's constrained maximum and of the twin's."""
    compared = 0
    for arms, counts, ones, y, c in cases(30):
        with scope.engine():
            found = jax.tree.map(np.asarray, looked(arms, counts, ones, y, c))
        hat, values, gradient, point, tests, above, every = found
        ours = logistic.climb(arms, counts, ones, np.zeros(3))
        np.testing.assert_allclose(hat, ours, rtol=0, atol=1e-9 * (1 + np.abs(ours).max()))
        for p in range(4):
            exact = logistic.llr(arms, counts, ones, ours, y[p], c[p])
            np.testing.assert_allclose(values[p], exact, rtol=1e-9, atol=1e-9)
            if exact > 0:
                by_scipy = logistic.by_scipy(arms, counts, ones, y[p], c[p])
                np.testing.assert_allclose(values[p], by_scipy, rtol=1e-9, atol=1e-9)
            compared += exact > 0
        assert (above >= values).all() and every[0] == (values.min() > 0) and not every[1]
        np.testing.assert_array_equal(tests[1], values > 1.1 * values[0] + 1e-9)
        if values[0] > 0:
            np.testing.assert_array_equal(tests[0], values > 0.9 * values[0])
            np.testing.assert_allclose(y[0] @ point, c[0], atol=1e-10)
            moved = np.sum((point - hat) ** 2) * logistic.RIDGE / 2
            np.testing.assert_allclose(gradient @ counts + moved, values[0], rtol=1e-9)
    assert compared > 48


def test_values_that_stop_early_are_not_above(monkeypatch):
    """After one, two or three Newton steps of the constrained search, at exact estimates."""
    lower = 0
    for steps in (1, 2, 3):
        monkeypatch.setattr(evidence_of, "STEPS", steps)

        cut = jax.jit(lambda *given: evidence(*given)[1].values())
        for arms, counts, ones, y, c in cases(10, seed=1):
            hat = logistic.climb(arms, counts, ones, np.zeros(3))
            with scope.engine():
                # An estimate that is not the maximum is no excuse either.
                found = [np.asarray(cut(arms, counts, ones, at, y, c)) for at in (hat, 0.9 * hat)]
            for p in range(4):
                if y[p] @ hat > c[p]:
                    exact = logistic.llr(arms, counts, ones, hat, y[p], c[p])
                    assert max(found[0][p], found[1][p]) <= exact + 1e-10
                    lower += found[0][p] < exact - 1e-6
    assert lower > 10


def test_divergences():
    """Against the textbook's form, also where one mean is near an end; and their bound."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 3, (2, 500))
    with scope.engine():
        of, most = jax.jit(divergence), jax.jit(largest_curvature)
        d, bound = (np.asarray(v) for v in (of(x, y), most(x)))
        near = np.asarray(of(jnp.asarray([25.0, -25.0]), jnp.asarray([26.0, -24.0])))
        small = np.asarray(most(jnp.asarray([0.0, 9.9e-4, 1.01e-3])))
    p, q = logistic.mean(x), logistic.mean(y)
    exact = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    np.testing.assert_allclose(d, exact, rtol=1e-9, atol=1e-13)
    assert (d <= bound * (x - y) ** 2 / 2 * (1 + 1e-12)).all()
    tail = np.exp(-25.0)
    np.testing.assert_allclose(near, tail * np.array([np.exp(-1), np.e - 2]), rtol=1e-7)
    np.testing.assert_allclose(small, 0.25, atol=1e-6)


LINEAR = np.random.default_rng(1).standard_normal((5, 3)) / 3**0.5, np.array([3.2, -1.6, 1.8])
INSTANCE = je.Instance(*LINEAR, family=je.Logistic())


def test_means_are_those_of_rewards():
    np.testing.assert_allclose(INSTANCE.means, logistic.mean(LINEAR[0] @ LINEAR[1]), rtol=1e-15)
    basis = je.Instance.unstructured([0.8, 0.4, 0.3], je.Logistic())
    np.testing.assert_allclose(basis.means, [0.8, 0.4, 0.3], rtol=1e-14)
    np.testing.assert_allclose(basis.theta, np.log([4, 2 / 3, 3 / 7]), rtol=1e-14)
    batch = je.Instance.unstructured([[0.8, 0.4], [0.1, 0.2]], je.Logistic(ridge=0.01))
    np.testing.assert_allclose(batch[1].means, [0.1, 0.2], rtol=1e-14)
    for means in ([1.0, 0.5], [0.0, 0.5]):
        with pytest.raises(je.errors.ArgumentError, match="means above 0 and below 1"):
            je.Instance.unstructured(means, je.Logistic())
    with pytest.raises(je.errors.ArgumentError, match="from -30 to 30"):
        je.Instance([[1.0], [31.0]], [1.0], family=je.Logistic())
    for ridge in (0, -1.0, "a"):
        with pytest.raises(je.errors.ArgumentError, match="ridge"):
            je.Logistic(ridge)


def test_what_is_not_defined_is_refused_by_name():
    """Levels that are no means, slack, a ridge, proofs, ties."""

    def refused(words, problem=je.BestArm(), instance=INSTANCE, **settings):  # noqa: B008
        with pytest.raises(je.errors.JaxelimError, match=words):
            je.simulate(instance, problem, je.Uniform(), runs=1, **settings)

    for level in (0.0, 1.0, -2.0):
        refused("level: .* inside .0, 1. for Logistic", je.Thresholding(level))
    refused("epsilon=0", je.BestArm(0.1))
    refused("ridge", ridge=1.0)
    refused("Logistic", threshold=je.Mixture())
    refused("same largest mean", instance=je.Instance.unstructured([0.6, 0.6], je.Logistic()))
    assert je.Logistic().stated_law().startswith("no threshold is proven")


@pytest.mark.slow
def test_live_runs_are_simulated_runs():
    """With the rewards of a trace a live run has the twin's evidence, and stops with it."""
    noise = np.random.default_rng(4).random(3000)
    given = dict(delta=0.1, threshold=je.Heuristic())
    traced = je.trace(INSTANCE, je.BestArm(), je.Uniform(), noise=noise, max_samples=3000, **given)
    assert traced.stopped
    live = je.LiveRun(arms=INSTANCE.arms, problem=je.BestArm(), rule=je.Uniform(),
                      family=je.Logistic(), **given)  # fmt: skip
    length = min(traced.samples - 1, 200)
    live.tell(traced.arms[:length], traced.rewards[:length])
    counts, ones = (np.bincount(traced.arms[:length], weights, 5) + 0.0
                    for weights in (None, traced.rewards[:length]))  # fmt: skip
    arms, best = LINEAR[0], int(np.argmax(live.means))
    hat = logistic.climb(arms, counts, ones, np.zeros(3))
    llrs = [logistic.llr(arms, counts, ones, hat, arms[best] - arms[k], 0.0)
            for k in range(5) if k != best]  # fmt: skip
    np.testing.assert_allclose(live.means, logistic.mean(LINEAR[0] @ hat), atol=1e-9)
    np.testing.assert_allclose(sorted(live.evidence.llr), sorted(llrs), atol=1e-8)
    assert live.proven is not True and live.summary() is not None
    with pytest.raises(je.errors.ArgumentError, match="0 or 1"):
        live.tell(0, 0.5)
    live.tell(traced.arms[length:], traced.rewards[length:])
    assert live.stopped and live.samples == traced.samples
    np.testing.assert_array_equal(live.answer, traced.answer)


BASIS = je.Instance(np.eye(4), [1.2, 0.5, -0.9, 0.4], family=je.Logistic())


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule, instance", [(je.FWS(), INSTANCE), (je.TopTwo("eb", "tci", 0.5), BASIS)], ids=str
)
def test_rules_of_evidence_find_the_right_arm(rule, instance):
    found = je.simulate(instance, je.BestArm(), rule, runs=4, delta=0.1, max_samples=2000, seed=3)
    assert found.stopped.all() and found.correct.all()
