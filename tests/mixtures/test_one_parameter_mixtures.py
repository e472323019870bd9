"""Mixtures of Bernoulli, Poisson, exponential and Gaussian arms, against their definitions."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext, Statistics
from jaxelim.lanes import LaneOps
from jaxelim.mixtures import pieces
from jaxelim.mixtures.grid import Grid
from tests.calls import rows
from tests.families import family_cases
from tests.mixtures import cases

CURVED = ("bernoulli", "poisson", "exponential")
SPACE = ArmContext(LaneOps(), jnp.zeros(0))


@pytest.mark.parametrize("name", cases.FAMILIES)
def test_equals_the_integral_over_the_prior(name):
    rng, grid = np.random.default_rng(1), Grid()
    counts, means = cases.random_arms(name, rng, 200)
    at = cases.random_means(name, rng, 200)
    near = means + 2 * rng.normal(size=200) * np.abs(means - at) / np.sqrt(counts)
    inside = near > 0.01 if name != "bernoulli" else (near > 0.01) & (near < 0.99)
    at = np.where(inside & (np.arange(200) < 120), near, at)
    with scope.engine():
        given = map(jnp.asarray, (counts, means, at))
        found = np.asarray(cases.log_mixture(cases.FAMILIES[name], grid, *given))
    known = cases.components(name, counts, means, at, grid)
    assert found.shape == known.shape == (200, len(grid.strengths))
    np.testing.assert_array_less(np.abs(found - known), 1e-10 * (1 + np.abs(known)))


@functools.cache
def programs(name, slack):
    """Jitted: log e of a pair [R], and log M_j; arms [R, 2]."""
    family, grid = cases.FAMILIES[name], Grid()
    first, exists = jnp.int32(0), jnp.asarray([False, True])

    def pair(counts, means):
        shape = Pairs(first, exists, slack=slack) if slack else Pairs(first, exists)
        given = Statistics(t=first, counts=counts, means=means, reward_sums=None)
        return pieces.log_e(family, SPACE, given, shape, grid)[1]

    return jax.jit(jax.vmap(pair)), functools.partial(cases.log_mixture, family, grid)


def searched(name, mixture, counts, means, slack):
    """The least F(u, u + slack) of a grid refined eight times, and F nearby off the boundary."""
    high = 1 - slack if name == "bernoulli" else np.inf
    place = lambda t: high / (1 + np.exp(-t)) if high < 2 else np.exp(t)  # noqa: E731
    size = len(counts)

    def total(u, v):
        both = ((k, np.broadcast_to(x, u.shape)) for k, x in enumerate((u, v)))
        row = [np.broadcast_to(x[:, None], (size, u.shape[1])) for x in (*counts.T, *means.T)]
        return cases.mean_exp(sum(np.asarray(mixture(row[k], row[2 + k], x)) for k, x in both))

    t = np.broadcast_to(np.linspace(-33, 33, 40), (size, 40))
    for _ in range(12):
        values, rows = total(place(t), place(t) + slack), np.arange(size)
        best = values.argmin(1)
        ends = t[rows, np.maximum(best - 1, 0)], t[rows, np.minimum(best + 1, 39)]
        t = np.linspace(*ends, 40).T
    u = place(t[rows, best])[:, None]
    step = 1e-4 * np.minimum(u, 1 - slack - u) if high < 2 else 1e-4 * u
    inside = np.minimum(total(u - step, u + slack), total(u, u + slack + step))
    return values.min(1), inside[:, 0], best


@pytest.mark.slow
@pytest.mark.parametrize("slack", [0.0, 0.07])
@pytest.mark.parametrize("name", CURVED)
def test_the_infimum_of_a_pair_is_that_of_a_grid_search(name, slack):
    rng = np.random.default_rng(2)
    pair, mixture = programs(name, slack)
    counts, means = cases.random_arms(name, rng, (400, 2))
    with scope.engine():
        found = np.asarray(pair(jnp.asarray(counts), jnp.asarray(means)))
        known, inside, _ = searched(name, mixture, counts, means, slack)
    assert not np.isnan(found).any()
    outside = means[:, 0] - means[:, 1] + slack > 0
    assert np.all(np.isneginf(found[~outside]))
    rounding = 1e-10 * (1 + np.abs(known))
    assert np.all(found[outside] <= (known + rounding)[outside])
    # F is least on the boundary, and clearly above 0: the bound is nearly the infimum.
    near = outside & (known > 1e-3) & (inside >= known)
    assert near.sum() > 60
    np.testing.assert_array_less((known - found)[near], 1e-3)


@pytest.mark.parametrize("name", cases.FAMILIES)
def test_the_mixture_at_the_truth_has_mean_one(name):
    """Sums over all rewards of Bernoulli and Poisson arms, and quadrature elsewhere."""
    grid, family = Grid(), cases.FAMILIES[name]
    for n, mean in ((1, 0.3), (4, 0.7), (60, 0.1), (700, 0.5)):
        if name == "bernoulli":
            s = np.arange(n + 1.0)
            weight = stats.binom.logpmf(s, n, mean)
        elif name == "poisson":
            s = np.arange(40 * n + 300.0)
            weight = stats.poisson.logpmf(s, n * mean)
        else:  # s or log s at t = width sinh(v), by the trapezoidal rule
            v = np.linspace(-7, 7, 20001)
            width = n**-0.5 if name == "exponential" else n**0.5
            t = width * np.sinh(v)
            if name == "exponential":
                kept = (t > -60) & (t < 12)  # the tails have less than 1e-12
                s, v = n * mean * np.exp(t[kept]), v[kept]
                weight = stats.gamma.logpdf(s, n, scale=mean) + np.log(s)
            else:
                s = n * mean + t
                weight = stats.norm.logpdf(t / n**0.5) - np.log(n) / 2
            weight = weight + np.log(width * np.cosh(v) * 14 / 20000)
        with scope.engine():
            given = (jnp.asarray(x) for x in (np.full_like(s, n), s / n, np.full_like(s, mean)))
            value = np.asarray(cases.log_mixture(family, grid, *given))
        total = np.exp(value + weight[:, None]).sum(0)
        np.testing.assert_allclose(total, 1, rtol=1e-10)


@pytest.mark.parametrize("name", rows(CURVED, set(CURVED) - {"bernoulli"}))
def test_levels_are_the_mixture_at_the_level(name):
    rng, grid, family = np.random.default_rng(5), Grid(), cases.FAMILIES[name]
    counts, means = cases.random_arms(name, rng, 300)
    level, above = 0.4, rng.random(300) < 0.5
    with scope.engine():
        given = dict(counts=jnp.asarray(counts), means=jnp.asarray(means))
        statistics = Statistics(t=jnp.int32(0), reward_sums=None, **given)
        shape = Pairs(None, jnp.ones(300, bool), jnp.asarray(above), level=level)
        found = np.asarray(cases.log_e(family, SPACE, statistics, shape, grid))
    side = np.where(above, -1, 1)  # from the level into the piece
    at = level + side[:, None] * np.geomspace(1e-9, 0.39, 200)
    rows = (np.broadcast_to(x[:, None], at.shape) for x in (counts, means))
    rows = [*rows, at]
    with scope.engine():
        inside = np.asarray(cases.log_mixture(family, grid, *map(jnp.asarray, rows)))
    inside = cases.mean_exp(inside)
    known = cases.mean_exp(cases.components(name, counts, means, np.full(300, level), grid))
    beyond = np.where(above, means > level, means < level)
    assert np.all(np.isneginf(found[~beyond]))
    binds = beyond & np.isfinite(found)
    error = np.abs(found - known) / (1 + np.abs(known))
    assert binds.sum() > 60 and error[binds].max() < 1e-10
    assert np.all(found <= inside.min(1) + 1e-9 * (1 + np.abs(known)))
    assert np.all(binds[beyond & (known > 2)])


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVED)
def test_at_most_the_likelihood_ratio(name):
    """e_p <= exp(LLR), as a mixture of likelihoods is at most the largest."""
    rng, family = np.random.default_rng(6), cases.FAMILIES[name]
    counts, means = cases.random_arms(name, rng, (400, 2), 7)
    with scope.engine():
        given = jnp.asarray(counts), jnp.asarray(means)
        for slack in (0.0, 0.07):
            found = np.asarray(programs(name, slack)[0](*given))
            (n, k), (a, b) = given[0].T, given[1].T
            llr = np.asarray(jax.jit(
                lambda *x, slack=slack: family_cases.pair(family, *x, slack)
            )(n, a, k, b))  # fmt: skip
            assert not np.isnan(found).any()
            assert np.all(found <= llr + 1e-9 * (1 + llr))
            assert np.all(found[llr > 40] > 0)  # so the bound is not -inf by accident


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVED)
def test_extreme_statistics_give_numbers(name):
    counts = np.array([1, 1, 2, 1e7, 1e7, 1e7, 5, 1, 1e7, 3.0])
    means = {
        "bernoulli": np.array([0, 1, 0.5, 0, 1, 0.3, 1, 0, 1e-7, 1]),
        "poisson": np.array([0, 1, 0.5, 0, 1000, 0.3, 7, 0, 1e-7, 0]),
        "exponential": np.array([1e-9, 1, 0.5, 1e-3, 1e6, 0.3, 7, 5, 1e-7, 1]),
    }[name]
    pairs = np.array([(i, j) for i in range(10) for j in range(10)] * 4)  # [400, 2], as above
    for slack in (0.0, 0.07):
        with scope.engine():
            given = (jnp.asarray(x[pairs]) for x in (counts, means))
            found = np.asarray(programs(name, slack)[0](*given))
        assert not np.isnan(found).any()
        assert np.all(found < np.inf)


@pytest.mark.slow
@hypothesis.given(
    st.lists(st.tuples(st.integers(1, 5000), st.floats(0.05, 4)), min_size=4, max_size=4),
    st.floats(0.01, 100), st.permutations(range(4)),
)  # fmt: skip
@hypothesis.settings(max_examples=30)
def test_exponential_scale_and_order_of_arms(arms, scale, order):
    """A unit of rewards changes no e-value; permuted arms have permuted ones."""
    counts, means = np.array(arms, float).T
    order = list(order)
    with scope.engine():
        first, second, third = (
            np.asarray(of_four(*map(jnp.asarray, x)))
            for x in ((counts, means), (counts, means * scale), (counts[order], means[order]))
        )
    np.testing.assert_allclose(second, first, rtol=1e-9, atol=1e-9)
    if len(set(means)) == 4:
        np.testing.assert_allclose(third, first[order], rtol=1e-9, atol=1e-9)


@jax.jit
def of_four(counts, means):
    first = jnp.argmax(means).astype(jnp.int32)
    shape = Pairs(first, jnp.arange(4, dtype=jnp.int32) != first)
    statistics = Statistics(t=first, counts=counts, means=means, reward_sums=None)
    return jnp.maximum(pieces.log_e(je.Exponential(), SPACE, statistics, shape, Grid()), 0)


class Counts(je.Poisson):
    """`log_mixture` as on the page on families of one's own."""

    def log_mixture(self, stat, at, c):
        n, s, lgamma = stat.n, stat.n * stat.mean, jax.lax.lgamma
        value = lgamma(s + c * at) - lgamma(c * at) + c * at * jnp.log(c)
        return value - (s + c * at) * jnp.log(n + c) - s * jnp.log(at) + n * at


class Bare(je.families.OneParameter):
    """A family without mixtures."""


@pytest.mark.slow
def test_a_family_of_ones_own_inherits_e_values():
    family, first = Counts(), jnp.int32(0)
    assert family.has("log_mixture") and not Bare().has("log_mixture")
    with scope.engine():
        given = [jnp.asarray(x) for x in (np.array([900.0, 700, 800]), np.array([3.0, 2, 2.5]))]
        given = Statistics(t=first, counts=given[0], means=given[1], reward_sums=None)
        shape = Pairs(first, jnp.asarray([False, True, True]), slack=0.1)
        found, known = (
            np.asarray(cases.log_e(one, SPACE, given, shape, Grid()))
            for one in (family, je.Poisson())
        )
    assert np.all(known[1:] > 10) and np.isneginf(known[0])
    np.testing.assert_allclose(found, known, rtol=1e-9)


@pytest.mark.parametrize("name", ("bernoulli", "poisson", "exponential"))
def test_digits_at_the_ends_of_the_ranges(name):
    """Against products of ratios, which lose none: ten rewards, of sum S."""
    n, family, total = 10.0, cases.FAMILIES[name], np.arange(11.0)
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
    grids = [(Grid((c,)), lambda y, c=c: cases.centred(name, y, c)) for c in (1e-3, 1.0, 1e9)]
    with scope.engine():
        given = [jnp.asarray(x) for x in (np.full(33, n), np.tile(total, 3) / n, tested.repeat(11))]
        for grid, prior in grids:
            found = np.asarray(cases.log_mixture(family, grid, *given))[:, 0]
            value = np.array([known(s, y, *prior(y)) for y in tested for s in total])
            error = np.abs(found - value) / (1 + np.abs(value))
            assert error.max() < 1e-6, (grid, error.max())
