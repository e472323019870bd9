"""LLRs of pieces with slack: against plain bisection, differences, and the edges."""

import jax
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.slack import SlackRows
from jaxelim.contracts.views import ArmContext
from jaxelim.lanes import LaneOps
from tests.twin import worlds

FAMILIES = {"bernoulli": je.Bernoulli(), "poisson": je.Poisson(), "exponential": je.Exponential(),
            "gaussian": je.Gaussian([1.0, 1.0])}  # fmt: skip
EPSILONS = (0.001, 0.05, 0.3, 0.9)
CASES = 50
LATER = [
    pytest.param(one, marks=() if one == "bernoulli" else pytest.mark.slow) for one in FAMILIES
]


@pytest.fixture(autouse=True, scope="module")
def x64():
    with scope.engine():
        yield


def drawn(family, rng, size):
    """Means, a third of them at an end of the range where it has one."""
    x = rng.random(size) if family == "bernoulli" else 4 * rng.random(size) + 0.01
    if family == "gaussian":
        x = x - 2
    ends = {"bernoulli": [0.0, 1.0, 0.95], "poisson": [0.0, 0.02]}.get(family)
    return x if ends is None else np.where(rng.random(size) < 1 / 3, rng.choice(ends, size), x)


@pytest.mark.parametrize("family", LATER)
def test_the_llr_is_the_least_cost(family):
    """At most 1e-12 from the cost at the x of 200 bisections; counts from 1 to 10^4."""
    rng, zero, jitted = np.random.default_rng(3), 0, jax.jit(FAMILIES[family].slack_pair)
    point = jax.jit(FAMILIES[family].slack_middle)
    for epsilon in EPSILONS:
        n_a, n_b = 10 ** rng.uniform(0, 4, (2, CASES))
        a, b = drawn(family, rng, (2, CASES))
        got = jitted(n_a, a, n_b, b, epsilon)
        pairs = list(zip(np.stack([n_a, n_b], 1), np.stack([a, b], 1), strict=True))
        problem = worlds.Problem(("slack", epsilon), 2)
        every = [worlds.Seen(worlds.WORLDS[family], problem, None, m) for _, m in pairs]
        want = [one.value((0, 1), w) for one, (w, _) in zip(every, pairs, strict=True)]
        assert np.isfinite(got).all()
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        zero += np.sum(np.asarray(got) == 0)
        apart = np.asarray(got) > 0
        closest = np.stack(point(n_a, a, n_b, b, epsilon), 1)[apart]
        both = [one.closest((0, 1), w) for one, (w, _) in zip(every, pairs, strict=True)]
        known = np.array([list(both[n].values()) for n in np.flatnonzero(apart)])
        np.testing.assert_allclose(closest, known, rtol=1e-10, atol=1e-13)
    assert 0 < zero < 0.6 * len(EPSILONS) * CASES


@pytest.mark.parametrize("family", LATER)
def test_evidence_values_and_gradients(family):
    """H = w . gradient; the gradient is that of differences."""
    rng, epsilon, K, h = np.random.default_rng(5), 0.2, 5, 1e-5
    context = ArmContext(LaneOps(), np.eye(K))
    known = FAMILIES[family] if family != "gaussian" else je.Gaussian([1.0, 0.5, 2.0, 1.0, 0.3])

    @jax.jit
    def asked(means, weights, first, piece):
        shape = SlackRows(first, np.arange(K, dtype=np.int32) != first, K - 1, epsilon)
        stats = known.start(context, je.BestArm(), (), means)
        evidence = known.evidence(context, stats, shape).weighted(weights)
        return evidence.values(), evidence.gradient(piece)

    for _ in range(4):
        means, weights = drawn(family, rng, K), rng.random(K) + 0.1
        first = int(np.argmax(means))
        for piece in np.delete(np.arange(K), first):
            at = np.int32(first), np.int32(piece)
            values, slope = map(np.asarray, asked(means, weights, *at))
            np.testing.assert_allclose(weights @ slope, values[piece], rtol=1e-10)
            for k in range(K):
                step = h * (np.arange(K) == k)
                up, down = (asked(means, weights + s * step, *at)[0][piece] for s in (1, -1))
                np.testing.assert_allclose(slope[k], (up - down) / (2 * h), atol=1e-6)


def test_edges_of_bernoulli_rewards():
    """Above 1 - epsilon a piece costs at least n d(m, 1 - epsilon); ends pin the point."""
    family, e = je.Bernoulli(), 0.25
    jitted = jax.jit(family.slack_pair)
    cost = lambda *x: float(jitted(*map(np.float64, x), e))  # noqa: E731
    least = float(family.divergence(np.float64(0.9), np.float64(0.75)))
    assert 7 * least < cost(7, 0.9, 1e-9, 0.1) < 7 * least + 1e-6
    assert cost(7, 1.0, 5, 0.0) > cost(7, 1.0, 1e-9, 0.0) > 7 * np.log(4 / 3)
    np.testing.assert_allclose(cost(7, 0.9, 5, 1.0), 7 * least, rtol=1e-12)
    np.testing.assert_allclose(cost(7, 0.0, 5, 0.0), -5 * np.log(0.75), rtol=1e-12)
    np.testing.assert_allclose(cost(7, 0.0, 5, 0.1), 5 * (0.1 * np.log(0.4) + 0.9 * np.log(1.2)))
    assert cost(7, 0.0, 5, 0.25) == 0 == cost(7, 0.5, 5, 0.75) == cost(7, 0.3, 5, 0.9)
    assert cost(7, 0.5, 5, 0.5) > 0 and cost(7, 0.0, 5, 1.0) == 0


@pytest.mark.slow
def test_small_slack_is_the_pair():
    for family in FAMILIES.values():
        given = np.float64(30), np.float64(0.7), np.float64(20), np.float64(0.4)
        both = jax.jit(lambda *x, family=family: (family.slack_pair(*x, 1e-9), family.pair(*x)))
        np.testing.assert_allclose(*both(*given), rtol=1e-7)


def test_other_families_refuse_slack():
    """A family of one's own has it if it lists `SlackRows`."""

    class Mine(je.families.OneParameter):
        name = "mine"

    shape = SlackRows(np.int32(0), np.array([False, True]), 1, 0.1)
    problem = je.BestArm(epsilon=0.1)
    for family in (Mine(), je.GaussianUnknownVariance()):
        with pytest.raises(je.errors.UnsupportedError, match="knows no slack"):
            family.check_shape(problem, shape)
    Mine.shapes = (*je.families.OneParameter.shapes, SlackRows)
    Mine().check_shape(problem, shape)
