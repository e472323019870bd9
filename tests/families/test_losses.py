"""Losses, closest points and bounds of one-parameter families against 50-digit arithmetic.

References evaluate the textbook's divergences at the given floats. That of a pair is a minimum
found by search.
"""

import functools
from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families.arm import End, Stat, shifts
from jaxelim.families.one_parameter import count_loss, excess, time_loss
from tests.families import family_cases
from tests.families.family_cases import Binomial, Faces, Geometric

EPS = 2.0**-53
FAMILIES = {"bernoulli": je.Bernoulli(), "poisson": je.Poisson(), "exponential": je.Exponential()}


@pytest.fixture(autouse=True, scope="module")
def x64_and_fifty_digits():
    with scope.engine(), localcontext(prec=50):
        yield


def compiled(f, name="bernoulli"):
    """f of `family_cases`, of this family."""
    return jax.jit(lambda *x: f(FAMILIES[name], *x))


PAIR, BOUNDS = compiled(family_cases.pair), compiled(family_cases.bounds)
LOSS = {name: jax.jit(lambda m, by, f=f: f.loss(Stat(m, m), by)) for name, f in FAMILIES.items()}


def x_log(x, y):
    return Decimal(0) if x == 0 else x * (x / y).ln()


def divergence(name, x, y):
    """d(x, y) in Decimal."""
    if name == "exponential":
        return x / y - 1 - (x / y).ln()
    if name == "poisson":
        return x_log(x, y) - x + y
    return x_log(x, y) + x_log(1 - x, 1 - y)


def test_logarithms_of_shifts():
    """r - log(1 + r) and log(1 + r) - r/(1 + r): relative error 1e-13, slopes 1e-14."""
    r = np.concatenate([[-0.01, 0.01], np.random.default_rng(1).uniform(-0.99, 3, 300)])
    r = np.concatenate([r, np.sign(r) * 10 ** np.random.default_rng(2).uniform(-12, -1.9, r.size)])
    r = np.concatenate([r, np.nextafter([0.01, -0.01], 0)])
    for f, known, slope in (
        (excess, lambda x: x - (1 + x).ln(), r / (1 + r)),
        (time_loss, lambda x: (1 + x).ln() - x / (1 + x), r / (1 + r) ** 2),
    ):
        ours, by = jax.jit(lambda r, f=f: jax.jvp(f, (r,), (jnp.ones_like(r),)))(r)
        np.testing.assert_allclose(by, slope, rtol=1e-14)
        for x, value in zip(map(Decimal, r.tolist()), np.asarray(ours), strict=True):
            assert abs(Decimal(float(value)) - known(x)) <= Decimal("1e-13") * known(x)
        assert f(jnp.float64(0)) == 0
    assert excess(jnp.float64(-1)) == np.inf


@pytest.mark.parametrize("name", FAMILIES)
def test_losses_are_divergences(name):
    """Relative error 3e-13 from d(m, m + by), at m + by as Decimal has it; far and near."""
    rng = np.random.default_rng(3)
    m = rng.uniform(1e-8, 1 - 1e-8, 400)
    to = np.where(rng.random(400) < 0.5, rng.random(400), m * (1 + 10 ** rng.uniform(-7, -3, 400)))
    by = np.where((to > 0) & (to < 1), to - m, -m / 2)
    for mean, shift, value in zip(m, by, np.asarray(LOSS[name](m, by)), strict=True):
        x, s = Decimal(float(mean)), Decimal(float(shift))
        known = divergence(name, x, x + s)
        assert abs(Decimal(float(value)) - known) <= Decimal("3e-13") * known
    ends = {"bernoulli": ([0.0, 1.0], [0.25, -0.25], [-np.log(0.75)] * 2),
            "poisson": ([0.0, 3.0], [2.5, 0.0], [2.5, 0])}  # fmt: skip
    if name in ends:
        m, by, known = (np.array(x) for x in ends[name])
        np.testing.assert_allclose(LOSS[name](m, by), known, rtol=1e-15)


def exact_pair(name, n_a, a, n_b, b):
    """The least n_a d(a, u) + n_b d(b, u) over b < u < a by golden section, in Decimal."""
    n_a, a, n_b, b = (Decimal(float(x)) for x in (n_a, a, n_b, b))
    ratio, low, high = (Decimal(5).sqrt() - 1) / 2, b, a

    def cost(u):
        return n_a * divergence(name, a, u) + n_b * divergence(name, b, u)

    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if cost(left) < cost(right) else (left, high)
    return cost((low + high) / 2)


@pytest.mark.parametrize("name", FAMILIES)
def test_pairs_against_a_numerical_minimum(name):
    """100 cases with counts 1 to 1e4: relative error 1e-12."""
    rng = np.random.default_rng(6)
    b, a = np.sort(rng.uniform(1e-6, 1 - 1e-6, (2, 100)), axis=0)
    a[:20] = b[:20] * (1 + 10 ** rng.uniform(-6, -3, 20))
    n_a, n_b = 10 ** rng.uniform(0, 4, (2, 100))
    ours = np.asarray(compiled(family_cases.pair, name)(n_a, a, n_b, b))
    for case, value in zip(zip(n_a, a, n_b, b, strict=True), ours, strict=True):
        assert abs(Decimal(float(value)) / exact_pair(name, *case) - 1) <= Decimal("1e-12")
    assert not compiled(family_cases.pair, name)(n_a, b, n_b, a).any()


@pytest.mark.slow
def test_pairs_at_the_ends_of_the_range():
    """Finite, where a closest point may round to an end at which a loss is infinite."""
    one = np.float64(1)
    np.testing.assert_allclose(PAIR(one, one, one, one * 0), 2 * np.log(2), rtol=1e-15)
    for family, ends in ((Faces(), (-2.0, -1.0)), (Binomial(), (0.0, 5.0)), (Geometric(), (0, 9.0)),
                         (je.Bernoulli(), (0.0, 1.0)), (je.Poisson(), (0.0, 1.0))):  # fmt: skip
        b, a = map(np.float64, ends)
        for n_a, n_b in ((1, 1e20), (1e20, 1), (1e6, 1)):
            value = jax.jit(lambda *x, f=family: family_cases.pair(f, *x))(n_a * one, a, n_b, b)
            assert 0 < value < np.inf


def test_bounds_invert_the_loss():
    """3000 (m, r): 8 ulps of the mean before the bound d <= r, 8 beyond d >= r, up to 2e-14."""
    rng = np.random.default_rng(8)
    means = np.where(rng.random(3000) < 0.2, rng.choice([0.0, 1.0], 3000), rng.random(3000))
    means[:300] = 10 ** rng.uniform(-9, -3, 300)
    radii = 10 ** rng.uniform(-12, 1.7, 3000)
    radii[300:320] = 0
    lower, upper = map(np.asarray, BOUNDS(means, radii))
    assert np.all((lower >= 0) & (lower <= means) & (means <= upper) & (upper <= 1))
    for found, end, way in ((lower, 0.0, 1), (upper, 1.0, -1)):
        for m, r, y in zip(means.tolist(), radii.tolist(), found.tolist(), strict=True):
            if m == end:
                assert y == end
                continue
            x, ulp, off = Decimal(m), Decimal(8 * np.spacing(max(m, y)) * way), 2e-14 * (1 + r)
            before, beyond = Decimal(y) + ulp, Decimal(y) - ulp
            assert (x - before) * way <= 0 or divergence("bernoulli", x, before) <= r + off
            assert not 0 < beyond < 1 or divergence("bernoulli", x, beyond) >= r - off


def test_nothing_is_ever_nan():
    """No intermediate value, unselected branches included."""
    ends = [0, 1e-30, 0.25, 1 - EPS, 1]
    a, b = (np.ravel(x) for x in np.meshgrid(ends, ends))
    with jax.debug_nans(True), jax.disable_jit():
        count_loss(jnp.asarray(a), jnp.asarray(b))
    with jax.debug_nans(True):
        for times in (0.0, 0.7, 70):
            BOUNDS(a, times * np.ones(25))
        for n_a, n_b in ((3.0, 1e-12), (1e-12, 3.0)):
            for slack in (0.0, 0.3):
                value = family_cases.pair(je.Bernoulli(), n_a + 0 * a, a, n_b, b, slack)
                assert np.isfinite(value).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_pairs_with_slack(name):
    """The LLR is at most 1e-12 from the cost at the x of 200 bisections; the x within 1e-10."""
    family, rng = FAMILIES[name], np.random.default_rng(3)

    @functools.partial(jax.jit, static_argnums=4)
    def ours(n_a, a, n_b, b, epsilon):
        ends = End(Stat(n_a, a), n_a), End(Stat(n_b, b), n_b)
        value = family_cases.pair(family, n_a, a, n_b, b, epsilon)
        return value, *shifts(family, *ends, a - b + epsilon, epsilon)

    def slope(x, n_a, a, n_b, b, epsilon):
        """Of the cost in x, over a positive number: (x - a) V(x + epsilon) n_a + .. ."""
        v = {"bernoulli": lambda y: y * (1 - y), "poisson": lambda y: y,
             "exponential": lambda y: y * y}[name]  # fmt: skip
        return n_a * (x - a) * v(x + epsilon) + n_b * (x + epsilon - b) * v(x)

    for epsilon in (0.001, 0.9):
        n_a, n_b = 10 ** rng.uniform(0, 4, (2, 50))
        high = 1 if name == "bernoulli" else np.inf
        a, b = rng.random((2, 50)) if high == 1 else 4 * rng.random((2, 50)) + 0.01
        low, up = np.maximum(b - epsilon, 0), np.minimum(a, high - epsilon)
        for _ in range(200):
            x = (low + up) / 2
            below = slope(x, n_a, a, n_b, b, epsilon) < 0
            low, up = np.where(below, x, low), np.where(below, up, x)
        apart = a > b - epsilon
        want = [n_a * LOSS[name](a, x - a), n_b * LOSS[name](b, x + epsilon - b)]
        value, down, moved = map(np.asarray, ours(n_a, a, n_b, b, epsilon))
        np.testing.assert_allclose(value, np.where(apart, sum(want), 0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose((a + down)[apart], x[apart], rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose((b + moved - a - down)[apart], epsilon, rtol=1e-9)


def test_slack_at_the_ends_of_coins():
    """Above 1 - epsilon a piece costs at least n d(m, 1 - epsilon); ends pin the point."""
    cost = jax.jit(lambda *x: family_cases.pair(je.Bernoulli(), *x, 0.25))
    of = lambda *x: float(cost(*map(np.float64, x)))  # noqa: E731
    least = float(LOSS["bernoulli"](np.float64(0.9), np.float64(-0.15)))
    assert 7 * least < of(7, 0.9, 1e-9, 0.1) < 7 * least + 1e-6
    assert of(7, 1.0, 5, 0.0) > of(7, 1.0, 1e-9, 0.0) > 7 * np.log(4 / 3)
    np.testing.assert_allclose(of(7, 0.9, 5, 1.0), 7 * least, rtol=1e-12)
    np.testing.assert_allclose(of(7, 0.0, 5, 0.0), -5 * np.log(0.75), rtol=1e-12)
    np.testing.assert_allclose(of(7, 0.0, 5, 0.1), 5 * (0.1 * np.log(0.4) + 0.9 * np.log(1.2)))
    assert of(7, 0.0, 5, 0.25) == 0 == of(7, 0.5, 5, 0.75) == of(7, 0.3, 5, 0.9)
    assert of(7, 0.5, 5, 0.5) > 0 and of(7, 0.0, 5, 1.0) == 0
