"""Mixtures of one-parameter arms, and of Gaussian ones of unknown variance, by definition."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import jaxelim as je
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext, Statistics
from jaxelim.families.one_parameter import StudentStatistics
from jaxelim.lanes import LaneOps
from jaxelim.mixtures import Grid, pieces
from tests.families import family_cases
from tests.mixtures import cases

CURVED = ("bernoulli", "poisson", "exponential")
SPACE = ArmContext(LaneOps(), jnp.zeros(0))
STUDENT = je.GaussianUnknownVariance()


def log_mixture(name, grid, *given):
    return cases.computed(cases.log_mixture, cases.FAMILIES[name], grid, *given)


@pytest.mark.parametrize("name", cases.FAMILIES)
def test_equals_the_integral_over_the_prior(name):
    rng, grid = np.random.default_rng(1), Grid()
    counts, means = cases.random_arms(name, rng, 200)
    at = cases.random_means(name, rng, 200)
    near = means + 2 * rng.normal(size=200) * np.abs(means - at) / np.sqrt(counts)
    inside = near > 0.01 if name != "bernoulli" else (near > 0.01) & (near < 0.99)
    at = np.where(inside & (np.arange(200) < 120), near, at)
    found = log_mixture(name, grid, counts, means, at)
    known = cases.components(name, counts, means, at, grid)
    assert found.shape == known.shape == (200, len(grid.strengths))
    np.testing.assert_array_less(np.abs(found - known), 1e-10 * (1 + np.abs(known)))


def programs(name, slack):
    """Jitted: log e of a pair [R], and log M_j; arms [R, 2]."""
    family, grid = cases.FAMILIES[name], Grid()
    first = jnp.int32(0)

    def pair(counts, means):
        shape = Pairs(first, jnp.asarray([False, True]), slack=slack)
        given = Statistics(t=first, counts=counts, means=means, reward_sums=None)
        return pieces.log_e(family, SPACE, given, shape, grid)[1]

    return jax.jit(jax.vmap(pair)), functools.partial(log_mixture, name, grid)


def searched(name, mixture, counts, means, slack):
    """The least F(u, u + slack) of a grid refined eight times, and F nearby off the boundary."""
    high = 1 - slack if name == "bernoulli" else np.inf
    place = lambda t: high / (1 + np.exp(-t)) if high < 2 else np.exp(t)  # noqa: E731
    size = len(counts)

    def total(u, v):
        both = ((k, np.broadcast_to(x, u.shape)) for k, x in enumerate((u, v)))
        row = [np.broadcast_to(x[:, None], (size, u.shape[1])) for x in (*counts.T, *means.T)]
        return cases.mean_exp(sum(mixture(row[k], row[2 + k], x) for k, x in both))

    t = np.broadcast_to(np.linspace(-33, 33, 40), (size, 40))
    for _ in range(12):
        values, rows = total(place(t), place(t) + slack), np.arange(size)
        best = values.argmin(1)
        ends = t[rows, np.maximum(best - 1, 0)], t[rows, np.minimum(best + 1, 39)]
        t = np.linspace(*ends, 40).T
    u = place(t[rows, best])[:, None]
    step = 1e-4 * np.minimum(u, 1 - slack - u) if high < 2 else 1e-4 * u
    inside = np.minimum(total(u - step, u + slack), total(u, u + slack + step))
    return values.min(1), inside[:, 0]


COUNTS = np.array([1, 1, 2, 1e7, 1e7, 1e7, 5, 1, 1e7, 3.0])
EXTREME = {
    "bernoulli": np.array([0, 1, 0.5, 0, 1, 0.3, 1, 0, 1e-7, 1]),
    "poisson": np.array([0, 1, 0.5, 0, 1000, 0.3, 7, 0, 1e-7, 0]),
    "exponential": np.array([1e-9, 1, 0.5, 1e-3, 1e6, 0.3, 7, 5, 1e-7, 1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVED)
def test_a_pair(name):
    """The infimum is that of a grid search, and at most the likelihood ratio; always a number."""
    pairs = np.array([(i, j) for i in range(10) for j in range(10)] * 4)  # [400, 2]
    extreme = COUNTS[pairs], EXTREME[name][pairs]
    for slack in (0.0, 0.07):
        pair, mixture = programs(name, slack)
        llr = jax.jit(lambda *x, slack=slack: family_cases.pair(cases.FAMILIES[name], *x, slack))
        found = cases.computed(pair, *extreme)
        assert not np.isnan(found).any() and np.all(found < np.inf)
        counts, means = cases.random_arms(name, np.random.default_rng(6), (400, 2), 7)
        found = cases.computed(pair, counts, means)
        most = cases.computed(llr, counts[:, 0], means[:, 0], counts[:, 1], means[:, 1])
        assert np.all(found <= most + 1e-9 * (1 + most))
        assert np.all(found[most > 40] > 0)  # so the bound is not -inf by accident
        counts, means = cases.random_arms(name, np.random.default_rng(2), (400, 2))
        found = cases.computed(pair, counts, means)
        known, inside = searched(name, mixture, counts, means, slack)
        outside = means[:, 0] - means[:, 1] + slack > 0
        assert np.all(np.isneginf(found[~outside])) and not np.isnan(found).any()
        assert np.all((found - known - 1e-10 * (1 + np.abs(known)))[outside] <= 0)
        # F is least on the boundary, and clearly above 0: the bound is nearly the infimum.
        near = outside & (known > 1e-3) & (inside >= known)
        assert near.sum() > 60 and np.max((known - found)[near]) < 1e-3


@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_the_mixture_at_the_truth_has_mean_one(name):
    """Sums over all rewards."""
    for n, mean in ((1, 0.3), (4, 0.7), (60, 0.1), (700, 0.5)):
        if name == "bernoulli":
            s = np.arange(n + 1.0)
            weight = stats.binom.logpmf(s, n, mean)
        else:
            s = np.arange(40 * n + 300.0)
            weight = stats.poisson.logpmf(s, n * mean)
        value = log_mixture(name, Grid(), np.full_like(s, n), s / n, np.full_like(s, mean))
        total = np.exp(value + weight[:, None]).sum(0)
        np.testing.assert_allclose(total, 1, rtol=1e-10)


@pytest.mark.parametrize("name", CURVED)
def test_levels_are_the_mixture_at_the_level(name):
    rng, grid = np.random.default_rng(5), Grid()
    counts, means = cases.random_arms(name, rng, 300)
    level, above = 0.4, rng.random(300) < 0.5
    statistics = Statistics(t=np.int32(0), counts=counts, means=means, reward_sums=None)
    shape = Pairs(None, np.ones(300, bool), above, level=level)
    found = cases.computed(cases.log_e, cases.FAMILIES[name], SPACE, statistics, shape, grid)
    side = np.where(above, -1, 1)  # from the level into the piece
    at = level + side[:, None] * np.geomspace(1e-9, 0.39, 200)
    rows = (np.broadcast_to(x[:, None], at.shape) for x in (counts, means))
    inside = cases.mean_exp(log_mixture(name, grid, *rows, at))
    known = cases.mean_exp(cases.components(name, counts, means, np.full(300, level), grid))
    beyond = np.where(above, means > level, means < level)
    assert np.all(np.isneginf(found[~beyond]))
    binds = beyond & np.isfinite(found)
    error = np.abs(found - known) / (1 + np.abs(known))
    assert binds.sum() > 60 and error[binds].max() < 1e-10
    assert np.all(found <= inside.min(1) + 1e-9 * (1 + np.abs(known)))
    assert np.all(binds[beyond & (known > 2)])


@pytest.mark.parametrize("name", CURVED)
def test_digits_at_the_ends_of_the_ranges(name):
    """Against products of ratios, which lose none: ten rewards, of sum S."""
    n, total = 10.0, np.arange(11.0)
    rising = lambda a, m: np.sum(np.log(a + np.arange(m)))  # noqa: E731  log Gamma(a + m)/Gamma(a)

    def known(s, y, a, b):
        if name == "bernoulli":
            value = rising(a, int(s)) + rising(b, int(n - s)) - rising(a + b, int(n))
            return value - s * np.log(y) - (n - s) * np.log1p(-y)
        if name == "poisson":
            value = rising(a, int(s)) - a * np.log1p(n / b) - s * np.log(n + b)
            return value - s * np.log(y) + n * y
        return rising(a, int(n)) - a * np.log1p(s / b) - n * np.log(b + s) + n * np.log(y) + s / y

    tested = np.array([0.03, 0.5, 0.9])
    for c in (1e-3, 1.0, 1e9):
        given = np.full(33, n), np.tile(total, 3) / n, tested.repeat(11)
        found = log_mixture(name, Grid((c,)), *given)[:, 0]
        value = [known(s, y, *cases.centred(name, y, c)) for y in tested for s in total]
        error = np.abs(found - value) / (1 + np.abs(value))
        assert error.max() < 1e-6, (c, error.max())


# Unknown variances.


def student_arms(rng, shape, most=4):
    """Counts, means and variances of arms."""
    counts = np.floor(10 ** rng.uniform(np.log10(2), most, shape))
    means = rng.normal(size=shape)
    return counts, means, np.exp(rng.normal(size=shape)) * rng.chisquare(counts - 1) / counts


def student(counts, ratio):
    """log mean_j M_j in NumPy."""
    c, n, z = np.asarray(Grid().strengths), counts[..., None], (ratio**2)[..., None]
    value = n / 2 * (np.log1p(z) - np.log1p(z * c / (n + c))) - np.log1p(n / c) / 2
    return cases.mean_exp(value)


def test_equals_the_integral_over_effects_and_variances():
    """The effect N(0, 1/c) and d sigma/sigma, over the plain d sigma/sigma at the tested mean."""
    rng = np.random.default_rng(0)
    counts, means, variances = student_arms(rng, 200, 3)
    at = means + 3 * rng.normal(size=200) * np.sqrt(variances / counts)
    given = counts, means, at, (counts * variances)[:, None]
    found = cases.computed(cases.log_mixture, STUDENT, Grid(), *given)
    squares = counts * (variances + (means - at) ** 2)
    below = gammaln(counts / 2) - np.log(2) - counts / 2 * np.log(squares / 2)
    for j, c in enumerate(Grid().strengths):
        # Over the effect e in closed form, at each s = log sigma, by the trapezoidal rule.
        peak = np.log(squares / counts) / 2
        s = peak[:, None] + np.linspace(-1, 1, 4001) * np.minimum(12 / np.sqrt(counts), 25)[:, None]
        n, mean, off = counts[:, None], (means - at)[:, None], squares[:, None]
        value = -n * s - off / (2 * np.exp(2 * s))
        value = value + (n * mean) ** 2 / (2 * (n + c) * np.exp(2 * s)) + np.log(c / (n + c)) / 2
        most = value.max(1)
        total = np.exp(value - most[:, None]).sum(1) * (s[:, 1] - s[:, 0])
        known, far = most + np.log(total) - below, counts >= 20
        error = np.abs(found[:, j] - known) / (1 + np.abs(known))
        assert error[far].max() < 1e-10


def statistics(counts, means, variances):
    return StudentStatistics(t=np.int32(0), counts=counts, means=means, reward_sums=None,
                             rest=(variances * counts,))  # fmt: skip


@jax.jit
@jax.vmap
def student_pairs(*given):
    shape = Pairs(jnp.int32(0), jnp.asarray([False, True]))
    return pieces.log_e(STUDENT, SPACE, statistics(*given), shape, Grid())[1]


@pytest.mark.slow
def test_a_pair_is_the_least_over_a_common_mean():
    rng = np.random.default_rng(1)
    counts, means, variances = student_arms(rng, (600, 2))
    counts[:3], variances[3:6, 0], means[6:9] = 1.0, 0.0, 0.0
    found = cases.computed(student_pairs, counts, means, variances)
    assert not np.isnan(found).any()
    known = (means[:, 0] > means[:, 1]) & (variances > 0).all(1) & (counts > 1).all(1)
    assert np.all(np.isneginf(found[~known]))
    gap, spread = (means[:, 0] - means[:, 1])[known, None], np.sqrt(variances[known])
    n = counts[known]

    def total(x):
        of_a = student(np.broadcast_to(n[:, :1], x.shape), (1 - x) * gap / spread[:, :1])
        return of_a + student(np.broadcast_to(n[:, 1:], x.shape), x * gap / spread[:, 1:])

    x = np.broadcast_to(np.linspace(0, 1, 801), (len(n), 801))
    best = total(x).min(1)
    for _ in range(8):  # around the least node, of many
        at, rows = total(x).argmin(1), np.arange(len(n))
        x = np.linspace(x[rows, np.maximum(at - 1, 0)], x[rows, np.minimum(at + 1, 800)], 801).T
        best = np.minimum(best, total(x).min(1))
    e = best - np.log1p(np.maximum(best, 0))
    assert np.all(found[known] <= e + 1e-10 * (1 + np.abs(e)))
    seen = e > 1
    assert seen.sum() > 100
    assert np.max((e - found[known])[seen] / e[seen]) < 0.02


def test_levels_of_unknown_variance():
    counts, means = np.array([5.0, 9.0, 30.0, 1.0]), np.array([0.7, 0.2, -1.0, 3.0])
    variances = np.array([0.5, 1.0, 2.0, 0.0])
    stats = statistics(counts, means, variances)
    shape = Pairs(None, np.ones(4, bool), np.array([True, True, False, True]), level=0.25)
    found = cases.computed(cases.log_e, STUDENT, SPACE, stats, shape, Grid())
    known = student(counts, np.abs(means - 0.25) / np.sqrt(np.maximum(variances, 1e-9)))
    np.testing.assert_allclose(found[[0, 2]], known[[0, 2]], rtol=1e-12)
    assert np.all(np.isneginf(found[[1, 3]]))  # the estimate is in the piece; one pull
