"""Gaussian rewards of unknown variances: costs, statistics, the law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.views import Snapshot
from jaxelim.families.one_parameter import Spread, StudentStatistics
from jaxelim.lanes import LaneOps

MU, STD = [3.0, 1.4, -0.4, -1.6], (1.0, 0.5, 1.0, 0.8)
FAMILY = je.GaussianUnknownVariance()
INSTANCE = je.Instance.unstructured(MU, FAMILY, source=je.families.Normal(STD))


def compiled(f, *given):
    with scope.engine():
        return jax.tree.map(np.asarray, jax.jit(f)(*map(jnp.asarray, given)))


def shapes_of_costs(rng, n):
    """f_a, f_b, v_a, v_b for a gap of 1: plain, near triple roots, near double ones, lopsided."""
    plain = [*np.floor(10 ** rng.uniform(0, 4, (2, n))), *10 ** rng.uniform(-8, 8, (2, n))]
    near = 1 + 10 ** rng.uniform(-16, -1, (4, n)) * rng.choice([-1, 1], (4, n))
    triple = near * np.array([50, 50, 0.25, 0.25])[:, None]
    p, x = rng.uniform(0, 1, (2, n))  # c(x) = c'(x) = 0 gives v_a and v_b
    q = 1 - p
    both = -(3 * x**2 - 2 * (1 + q) * x + q)
    v_b = (x**3 - (1 + q) * x**2 + (q + both) * x) / p
    v_a = (both - p * v_b) / q
    good = (v_a > 1e-8) & (v_b > 1e-8)
    double = np.stack([1e3 * p, 1e3 * q, v_a, v_b * near[0]])[:, good]
    lopsided = [*10 ** rng.uniform(-12, 0, (2, n)), *10 ** rng.uniform(-20, 20, (2, n))]
    return [np.array(x) for x in (plain, triple, double, lopsided)]


def arm(mean, v):
    return Spread(jnp.ones_like(v), mean, v)


def pair(f_a, a, v_a, f_b, b, v_b):
    """The LLR of {mu_a <= mu_b}, from where the two arms meet."""
    (a, b), off = (arm(a, v_a), arm(b, v_b)), jnp.maximum(a - b, 0)
    x = FAMILY.meet(f_a, a, f_b, b, off)
    return f_a * FAMILY.loss(a, -x) + f_b * FAMILY.loss(b, off - x)


NEAR = 10.0 ** -np.arange(1.0, 13.0, 0.5)
GRID = np.unique(np.concatenate([np.linspace(0, 1, 201), NEAR, 1 - NEAR]))
GOLDEN = (5**0.5 - 1) / 2


def pair_by_grid(f_a, a, v_a, f_b, b, v_b):
    """The LLR of {mu_a <= mu_b}, a > b, by a grid over the common mean and golden sections."""

    def cost(share):
        """At u = m_b + share (m_a - m_b)."""
        each = (f_a, v_a, 1 - share), (f_b, v_b, share)
        return sum(f * np.log1p(((a - b) * x) ** 2 / v) / 2 for f, v, x in each)

    values = np.stack([cost(share) for share in GRID])
    padded = np.pad(values, [(1, 1)] + [(0, 0)] * a.ndim, constant_values=np.inf)
    low_there = (values <= padded[:-2]) & (values <= padded[2:])
    order = np.argsort(np.where(low_there, values, np.inf), axis=0)[:2]
    least = values.min(0)
    for at in order:
        low, high = GRID[np.maximum(at - 1, 0)], GRID[np.minimum(at + 1, GRID.size - 1)]
        for _ in range(60):
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            better = cost(left) < cost(right)
            low, high = np.where(better, low, left), np.where(better, right, high)
        least = np.minimum(least, cost((low + high) / 2))
    return least


def test_pairs_cost_the_least_over_the_common_mean():
    """Relative error 1e-14 against a grid and a polish over u, and two roundings.

    That of 1 - x, at most 6e-17, and of the logarithms that compare both minima.
    """
    for f_a, f_b, v_a, v_b in shapes_of_costs(np.random.default_rng(0), 600):
        one, zero = np.ones_like(f_a), np.zeros_like(f_a)
        given = f_a, one, v_a, f_b, zero, v_b
        known = pair_by_grid(*given)
        rounded = 1e-32 * (f_a / v_a + f_b / v_b) + 4e-16 * (f_a + f_b)
        assert (np.abs(compiled(pair, *given) - known) <= 1e-14 * known + rounded).all()


def test_costs_at_edges():
    """Equal means, the other order, no variance, no weight, extreme gaps: 0 or finite."""
    f = [3.0, 3, 3, 3, 0, 3, 3, 0]
    a = [1.0, 0, 1, 1, 1, 1e150, 1e-200, 1]
    v = [1.0, 1, 0, 1, 1, 1, 1, 1]
    g, b, w = [3.0, 3, 3, 3, 3, 3, 3, 0], [1.0, 1, 0, 0, 0, 0, 0, 0], [1.0, 1, 1, 0, 1, 1, 1, 1]
    value = compiled(pair, *(np.array(x, float) for x in (f, a, v, g, b, w)))
    assert np.isfinite(value).all() and (value[[0, 1, 2, 3, 4, 6, 7]] < 1e-25).all()
    np.testing.assert_allclose(value[5], 3 * np.log(1e150), rtol=1e-12)  # one of the two means


def seen_of(means, variances, counts, problem, family):
    space = family.space(LaneOps(), jnp.eye(len(means)), ())
    stats = StudentStatistics(
        t=jnp.int32(counts.sum()), counts=counts, means=means, reward_sums=means * counts,
        rest=(variances * counts,),
    )  # fmt: skip
    return Snapshot.of(family, problem, space, stats)


@pytest.mark.parametrize("problem", [je.TopM(2), je.Thresholding(0.1)], ids=repr)
def test_the_gradient_is_that_of_the_values(problem):
    """By differences, in the weights; 0 for arms without variance."""
    rng, family = np.random.default_rng(1), je.GaussianUnknownVariance()

    @jax.jit
    def look(means, variances, w):
        seen = seen_of(means, variances, jnp.full(4, 9.0), problem, family)
        each = jnp.arange(seen.shape.exists.shape[0], dtype=jnp.int32)
        at = lambda w: seen.evidence.weighted(w).values()  # noqa: E731
        by = lambda s: (at(w + s) - at(w - s)) / (2 * jnp.sum(s))  # noqa: E731
        slopes = jax.vmap(by)(1e-5 * jnp.diag(w)).T
        return seen.shape.exists, slopes, jax.vmap(seen.evidence.weighted(w).gradient)(each)

    for case in range(20):
        variances = 10 ** rng.uniform(-1, 1, 4)
        variances[0] *= case % 4 > 0
        with scope.engine():
            given = rng.normal(size=4), variances, rng.dirichlet(np.ones(4)) + 0.01
            exists, slopes, found = map(np.asarray, look(*map(jnp.asarray, given)))
        np.testing.assert_allclose(slopes[exists], found[exists], rtol=1e-5, atol=1e-8)
        assert case % 4 or not found[exists][:, 0].any()


@pytest.mark.parametrize("degrees", ["free", "glr"])
def test_intervals_invert_the_cost_of_a_level(degrees):
    """f log(1 + (m - L)^2/v)/2 = beta; infinite where nothing is known."""
    counts, variances = np.array([2.0, 5, 40, 1, 3]), np.array([0.5, 2, 1, 0, 0])
    family = je.GaussianUnknownVariance(degrees=degrees)

    def look(*of):
        stat = Spread(*of)
        return [family.reach(stat, 2.5 / family.weight(stat), side) for side in (False, True)]

    f = counts - (degrees == "free")
    for by in compiled(look, counts, 0 * counts, counts * variances):
        cost = f[:3] * np.log1p(by[:3] ** 2 / variances[:3]) / 2
        np.testing.assert_allclose(cost, 2.5, rtol=1e-12)
        assert (by[3:] == np.inf).all()


def test_statistics_by_welford():
    """Means and variances of two passes, where the mean is 1e6 standard deviations; equal: 0."""
    family, problem = je.GaussianUnknownVariance(), je.BestArm()
    rng = np.random.default_rng(2)
    rewards, arms = 1e6 + rng.normal(size=(200, 3)), rng.integers(0, 4, 200).astype(np.int32)
    rewards[arms == 3], go = 0.1, rng.random((200, 3)) < 0.8

    def walk(arms, rewards, go):
        space = family.space(LaneOps(), jnp.eye(4), ())
        first = jnp.stack([rewards[0], rewards[1], rewards[2], 0 * rewards[0] + 0.1])
        stats = family.start(space, problem, (), first)

        def more(s, stats):
            seen = Snapshot.of(family, problem, space, stats)
            return family.update(seen, jnp.full(3, arms[s]), rewards[s], go[s])

        return jax.lax.fori_loop(jnp.int32(0), jnp.int32(200), more, stats)

    stats = compiled(walk, arms, rewards, go)
    for lane in range(3):
        for k in range(4):
            drawn = rewards[(arms == k) & go[:, lane], lane]
            x = np.concatenate([[0.1 if k == 3 else rewards[k, lane]], drawn])
            assert stats.counts[k, lane] == x.size > 20
            np.testing.assert_allclose(stats.means[k, lane], x.mean(), rtol=1e-13)
            variance = stats.rest[0][k, lane] / x.size
            np.testing.assert_allclose(variance, 0 if k == 3 else x.var(), rtol=1e-9)
    np.testing.assert_allclose(stats.reward_sums, stats.counts * stats.means, rtol=1e-15)
    np.testing.assert_array_equal(stats.t, 4 + go.sum(0))


@pytest.mark.parametrize("counts, said", [((2, 2, 5), 0), ((2, 3, 5), 2), ((4, 3, 5), 1)])
def test_an_arm_of_equal_rewards_is_told_from_three_on(counts, said):
    """Two rewards may be equal by rounding; from three on it is an error of the model."""
    with scope.engine():
        n, none = jnp.asarray(counts, float), jnp.zeros(3)
        stats = StudentStatistics(t=jnp.int32(9), counts=n, means=none, reward_sums=none,
                                  rest=(jnp.asarray([0.0, 0.0, 1.0]),))  # fmt: skip
        assert int(FAMILY.degenerate(stats)) == said


@pytest.mark.slow
def test_equal_rewards_are_an_error_of_the_model():
    """The call names the run and the arm. LUCB and the LLR never tell such an arm apart."""
    noise = np.random.default_rng(6).standard_normal((60, 260))
    noise[9, 2::4] = 0.25  # the rewards of arm 2 under uniform sampling
    given = dict(
        noise=noise, runs=60, delta=0.2, max_samples=1000,
        stopping=(je.LLR(), je.SelectiveElimination(), je.FullElimination()),
        engine=je.Engine(lanes=16, devices=1, shrink=False),
    )  # fmt: skip
    words = "noise: .* rewards of arm 2 in run 9 are all equal"
    with pytest.raises(je.errors.ArgumentError, match=words):
        je.simulate(INSTANCE, je.BestArm(), je.Uniform(), **given)
    noise[9, 50] = 1.0
    found = je.simulate(INSTANCE, je.BestArm(), je.Uniform(), **given)
    assert found.samples[0, 0, 9] > 50
    with pytest.raises(je.errors.ArgumentError, match="arm 0 in run 0 are all equal"):
        je.trace(INSTANCE, je.BestArm(), je.LUCB(), noise=np.zeros(200), delta=0.2, initial_pulls=3)
