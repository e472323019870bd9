"""Divergences, pieces and bounds of one-parameter families against 50-digit arithmetic.

References evaluate the textbook formulas at the given floats. The reference of a piece
is a minimum found by search.
"""

from decimal import Decimal, localcontext

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given

from jaxelim import scope
from jaxelim.families.bernoulli import Bernoulli
from jaxelim.families.divergences import g, h, poisson
from jaxelim.lanes import LaneOps
from tests.families.family_cases import Binomial, Faces

FAMILY = Bernoulli()
PAIR, MIDDLE, LEVEL, POISSON = map(jax.jit, (FAMILY.pair, FAMILY.middle, FAMILY.level, poisson))
_BOUNDS, _SIZE = jax.jit(FAMILY.bounds), 3000
DIVERGENCE = jax.jit(FAMILY.divergence)
SLOPE = jax.jit(jax.grad(FAMILY.divergence, 1))
EPS = 2.0**-53
MEANS = st.floats(1e-12, 1 - 1e-12) | st.sampled_from([0.0, 1.0, 1e-300, 2.0**-30, 0.5, 1 - EPS])
INNER = st.floats(1e-6, 1 - 1e-6)
RADII = st.floats(-30, 4).map(np.exp)


@pytest.fixture(autouse=True, scope="module")
def x64():
    with scope.engine():
        yield


@pytest.fixture(autouse=True, scope="module")
def fifty_digits():
    with localcontext(prec=50):
        yield


def array(*x):
    return [jnp.asarray(v, float) for v in x]


def bounds(means, radii):
    """Bounds of at most 3000 means of any shape, by one program."""
    size, shape = np.size(means), np.shape(means)
    padded = (np.concatenate([np.ravel(x), np.full(_SIZE - size, 0.5)])
              for x in map(np.asarray, (means, radii)))  # fmt: skip
    return [np.asarray(x)[:size].reshape(shape) for x in _BOUNDS(*padded)]


def x_log(x, y):
    """x log(x/y) in Decimal."""
    return Decimal(0) if x == 0 else x * (x / y).ln()


def exact(x, y):
    """Bernoulli's d(x, y) in Decimal, inf included."""
    x, y = Decimal(x), Decimal(y)
    if (y == 0 and x > 0) or (y == 1 and x < 1):
        return Decimal("inf")
    return x_log(x, y) + x_log(1 - x, 1 - y)


def exact_pair(n_a, a, n_b, b):
    """The least n_a d(a, u) + n_b d(b, u) over b < u < a by golden section, Decimal.

    After 60 steps u is within 3e-13 of the interval's length; the value has twice as
    many digits.
    """
    ratio = (Decimal(5).sqrt() - 1) / 2
    low, high = Decimal(b), Decimal(a)
    inner = [high - ratio * (high - low), low + ratio * (high - low)]

    def value(u):
        return Decimal(n_a) * exact(a, u) + Decimal(n_b) * exact(b, u)

    values = [value(u) for u in inner]
    for _ in range(60):
        if values[0] < values[1]:
            high, inner = inner[1], [inner[1] - ratio * (inner[1] - low), inner[0]]
            values = [value(inner[0]), values[0]]
        else:
            low, inner = inner[0], [inner[1], inner[0] + ratio * (high - inner[0])]
            values = [values[1], value(inner[1])]
    return min(values)


def some_means(rng, n):
    """Means on the edges, near them and inside."""
    near = 10 ** rng.uniform(-8, 0, n)
    kinds = [rng.integers(0, 2, n) * 1.0, near, 1 - near, rng.random(n)]
    return np.choose(rng.integers(0, 4, n), kinds)


def some_pairs(rng, n):
    """n_a, a, n_b, b with a > b; a third agree to between 1e-7 and 1e-2 of the mean."""
    x, y = some_means(rng, n), some_means(rng, n)
    x = np.where(rng.random(n) < 1 / 3, np.clip(y * (1 - 10 ** rng.uniform(-7, -2, n)), 0, 1), x)
    y = np.where(x == y, 1 - x * 0.5, y)
    counts = np.floor(10 ** rng.uniform(0, 4, (2, n)))
    return counts[0], np.maximum(x, y), counts[1], np.minimum(x, y)


@pytest.mark.parametrize("function", ["g", "h"])
def test_series_join_the_closed_forms(function):
    """Relative error 1e-13: half an ulp of r = 0.01 is 1e-14 of r^2/2."""
    r = np.concatenate([[-0.01, 0.01, 0.0], np.random.default_rng(1).uniform(-1, 3, 300)])
    r = np.concatenate([r, np.sign(r) * 10 ** np.random.default_rng(2).uniform(-12, -1.9, r.size)])
    r = np.concatenate([r, np.nextafter([0.01, -0.01], 0)])
    r = np.concatenate([r, [-1.0]])
    *ours, end = np.asarray(jax.jit({"g": g, "h": h}[function])(r))
    for x, value in zip(map(Decimal, r[:-1].tolist()), ours, strict=True):
        known = {"g": (1 + x) * (1 + x).ln() - x, "h": x - (1 + x).ln()}[function]
        assert abs(Decimal(float(value)) - known) <= Decimal("1e-13") * known
    assert end == {"g": 1, "h": np.inf}[function]


def test_poisson_and_its_edges():
    x, far = 10 ** np.random.default_rng(3).uniform(-8, 4, (2, 300))
    near = x * (1 + 10 ** np.random.default_rng(4).uniform(-7, -2, 300))
    for y in (far, near):
        ours = np.asarray(POISSON(*array(x, y))).tolist()
        for a, b, value in zip(x.tolist(), y.tolist(), ours, strict=True):
            a, b = Decimal(a), Decimal(b)
            known = x_log(a, b) - a + b
            assert abs(Decimal(value) - known) <= Decimal("2e-13") * known
    x, y = array([0.0, 1e-9, 3.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 2.5, 1e-9, 1e-306])
    known = [0, np.inf, np.inf, 2.5, 1e-9, 306 * np.log(10) - 1]
    np.testing.assert_allclose(POISSON(x, y), known, rtol=1e-15)


def test_divergence_against_fifty_digits():
    """Relative error 2e-13; with 1 - x and 1 - y rounded it would be 1e-10."""
    n_a, a, n_b, b = some_pairs(np.random.default_rng(5), 500)
    for x, y in ((a, b), (b, a)):
        ours = np.asarray(DIVERGENCE(*array(x, y))).tolist()
        for u, v, value in zip(x.tolist(), y.tolist(), ours, strict=True):
            known = exact(u, v)
            if known == Decimal("inf"):
                assert value == np.inf
            else:
                assert abs(Decimal(value) - known) <= Decimal("2e-13") * known


def test_pair_against_a_numerical_minimum():
    """200 cases with counts 1 to 1e4: relative error 1e-12."""
    cases = some_pairs(np.random.default_rng(6), 200)
    ours = np.asarray(PAIR(*array(*cases)))
    worst = 0
    for case, value in zip(zip(*(x.tolist() for x in cases), strict=True), ours, strict=True):
        known = exact_pair(*case)
        worst = max(worst, abs(Decimal(float(value)) / known - 1))
    assert worst <= Decimal("1e-12")


def test_pair_on_the_edges():
    one, half = array(1.0, 0.5)
    edge = PAIR(one, one, one, one * 0)
    np.testing.assert_allclose(edge, 2 * np.log(2), rtol=1e-15)
    assert PAIR(one, half, one, half) == 0 == PAIR(one, half, one, one)
    n, a, b = array(1e6, 1.0, 1 - EPS)
    assert MIDDLE(n, a, n, b) == b  # not 1, where d(b, .) is inf
    assert 0 < PAIR(n, a, n, b) < np.inf


def test_middle_is_no_end_by_rounding():
    """1 count against 1e20, means at both ends of (-2, -1), (0, 5) and (0, 1)."""
    for family, ends in ((Faces(), (-2.0, -1.0)), (Binomial(), (0.0, 5.0)), (FAMILY, (0.0, 1.0))):
        few, many, b, a = array(1, 1e20, *ends)
        for n_a, n_b in ((few, many), (many, few)):
            u = family.middle(n_a, a, n_b, b)
            assert ends[0] < u < ends[1]
            assert 0 < family.pair(n_a, a, n_b, b) < np.inf


@given(MEANS, MEANS, INNER)
def test_middle_lies_between(a, b, share):
    n = array(share, 1 - share)
    u = float(MIDDLE(n[0], *array(a), n[1], *array(b)))
    assert min(a, b, 1 - EPS) <= u <= max(a, b)
    np.testing.assert_allclose(u, share * a + (1 - share) * b, rtol=1e-15, atol=2 * EPS)


def test_level():
    means, level, n = [0.0, 0.2, 0.5, 0.9, 1.0], 0.5, 7.0
    x, levels, counts = array(means, [level] * 5, [n] * 5)
    known = np.array([float(Decimal(n) * exact(m, level)) for m in means])
    above = LEVEL(counts, x, levels, np.ones(5, bool))
    below = LEVEL(counts, x, levels, np.zeros(5, bool))
    np.testing.assert_allclose(above, known * (np.array(means) > level), rtol=1e-14)
    np.testing.assert_allclose(below, known * (np.array(means) < level), rtol=1e-14)


def test_bounds_invert_the_divergence():
    """3000 (m, r): |d(m, bound) - r| <= 1e-14 (1 + r), plus the effect of an ulp.

    If the bound is an end of the range and the mean is not, the last float before that
    end is still within the radius.
    """
    rng = np.random.default_rng(8)
    means, radii = some_means(rng, 3000), 10 ** rng.uniform(-12, 1.7, 3000)
    lower, upper = bounds(means, radii)
    assert np.all(lower <= means) and np.all(upper >= means)
    assert np.all(lower >= 0) and np.all(upper <= 1)
    for found, end, last in ((lower, 0.0, 1e-307), (upper, 1.0, 1 - EPS)):
        for m, r, y in zip(means.tolist(), radii.tolist(), found.tolist(), strict=True):
            if m == end:
                assert y == end
            elif y == end:
                assert float(exact(m, last)) <= r * (1 + 1e-12)
            else:
                ulp = abs(y - m) / (y * (1 - y)) * np.spacing(y)
                assert abs(float(exact(m, y) - Decimal(r))) <= 1e-14 * (1 + r) + ulp


def test_bounds_on_the_edges():
    r = 10 ** np.random.default_rng(9).uniform(-12, 1.5, 200)
    zeros, ones, radii = array(np.zeros(200), np.ones(200), r)
    lower, upper = bounds(zeros, radii)
    assert np.all(np.asarray(lower) == 0)
    np.testing.assert_allclose(upper, -np.expm1(-r), rtol=1e-14)
    lower, upper = bounds(ones, radii)
    assert np.all(np.asarray(upper) == 1)
    np.testing.assert_allclose(lower, np.exp(-r), rtol=1e-14)
    for bound in bounds(*array([0.0, 0.3, 1.0], [0.0, 0.0, 0.0])):
        np.testing.assert_array_equal(bound, [0.0, 0.3, 1.0])


@given(MEANS, MEANS)
@example(1e-9, np.nextafter(1e-9, 1))
@example(0.0, 1.0)
def test_divergence_is_positive(x, y):
    value = float(DIVERGENCE(*array(x, y)))
    assert value == 0 if x == y else value > 0


@given(INNER, INNER)
@example(0.3, 0.3001)
@example(0.3, 0.3)
def test_derivative_of_the_divergence(x, y):
    """dd/dy = (y - x)/V(y), with the sign of the difference at y = x."""
    x, y = array(x, y)
    known = (y - x) / FAMILY.variance(y)
    np.testing.assert_allclose(SLOPE(x, y), known, rtol=1e-13)
    for n in (1, 2, 3):  # also by differences of the divergence
        step = 1e-4 * float(y * (1 - y))
        high, low = DIVERGENCE(x, y + n * step), DIVERGENCE(x, y - n * step)
        np.testing.assert_allclose((high - low) / (2 * n * step), known, rtol=1e-5, atol=1e-5)


@given(MEANS, RADII, st.floats(1e-3, 2))
def test_bounds_are_monotone(mean, radius, more):
    """In the radius, strictly except at the ends of the range and below rounding."""
    lower, upper = bounds(*array([mean, mean], [radius, radius * (1 + more)]))
    (low, lowest), (high, highest) = np.asarray(lower).tolist(), np.asarray(upper).tolist()
    assert lowest <= low <= mean <= high <= highest
    assert lowest < low or low < 1e-300 or mean - low < 1e-12 * mean
    assert highest > high or high >= 1 - EPS or high - mean < 1e-12 * mean


def lanes(shape, seed):
    """Counts, means and radii as after some two hundred pulls."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 400, shape)
    sums = rng.binomial(counts, rng.random(shape))
    return counts * 1.0, sums / counts, rng.uniform(0.1, 12, shape) / counts


@pytest.mark.slow
def test_alone_as_in_a_batch():
    """Bit for bit, in the engine's groups of 16 lanes and as [K] of one run."""
    counts, means, radii = lanes((5, 96), 10)
    means[:, 20], radii[:, 21] = 1, 40  # these need other numbers of iterations
    means[0, 22], radii[0, 23] = 0, 1e-9

    def both(n, m, r):
        pair = FAMILY.pair(n, m, 2 * n, 1 - m)
        return *FAMILY.bounds(m, r), pair, FAMILY.divergence(m, r / 40)

    both = jax.jit(both)
    x = counts, means, radii
    whole = [np.asarray(out) for out in both(*x)]
    for first in range(0, 96, 16):
        part = slice(first, first + 16)
        for one, many in zip(both(*(v[:, part] for v in x)), whole, strict=True):
            np.testing.assert_array_equal(one, many[:, part])
    for lane in (0, 20, 21, 22, 23, 95):
        for one, many in zip(both(*(v[:, lane] for v in x)), whole, strict=True):
            np.testing.assert_array_equal(one, many[:, lane])
    stacked = both(*(np.stack([v, v]) for v in x))
    for one, many in zip(stacked, whole, strict=True):
        np.testing.assert_array_equal(one, np.stack([many, many]))
    vmapped = jax.jit(jax.vmap(both, 1, 1))(*x)
    for one, many in zip(vmapped, whole, strict=True):
        np.testing.assert_array_equal(one, many)


def test_nothing_is_ever_nan():
    """No intermediate value, unselected branches included; finite slopes of pairs."""
    ends = [0, 1e-30, 0.25, 1 - EPS, 1]
    a, b = array(*map(np.ravel, np.meshgrid(ends, ends)))
    n_a, n_b, radius, level = array(*np.full((25, 4), [3.0, 1e-12, 0.7, 0.4]).T)
    with jax.debug_nans(True), jax.disable_jit():
        for name, x in (
            ("divergence", (a, b)),
            ("pair", (n_a, a, n_b, b)),
            ("level", (n_a, a, level, b > 0.5)),
            ("bracket", (a, radius)),
        ):
            getattr(FAMILY, name)(*x)
        for function, x in ((g, (-a,)), (h, (-a,)), (poisson, (a, b))):
            function(*x)
    with jax.debug_nans(True):
        for times in (0, 1, 100):
            assert not np.isnan(bounds(a, radius * times)).any()

    def total(*x):
        return jnp.sum(FAMILY.pair(*x))

    gradient = jax.jit(jax.grad(total, (0, 1, 2, 3)))
    for counts in ((n_a, n_a), (n_a, n_b), (n_b, n_a)):
        slopes = gradient(counts[0], a, counts[1], b)
        assert np.all(np.isfinite(np.stack(slopes)))


def test_derivatives_of_pairs_by_the_counts():
    """dL/dn_a = d(a, u) for fixed u (Danskin)."""
    n_a, a, n_b, b = array(*some_pairs(np.random.default_rng(12), 200))
    u = MIDDLE(n_a, a, n_b, b)
    slopes = jax.grad(lambda n, k: jnp.sum(PAIR(n, a, k, b)), (0, 1))(n_a, n_b)
    for slope, mean in zip(slopes, (a, b), strict=True):
        np.testing.assert_allclose(slope, DIVERGENCE(mean, u), rtol=1e-6, atol=1e-12)


def test_draws():
    """For one run's arm and for lanes: 1 where the noise is below the mean."""
    noise, means = array([0.0, 0.2, 0.3, 0.7, 1 - EPS], [0.0, 1.0, 0.3, 0.7])
    zero = jnp.zeros(5, jnp.int32)
    for arm, known in enumerate((0, 5, 2, 3)):
        rewards = FAMILY.draw(LaneOps(), means, zero + np.int32(arm), zero, noise)
        assert rewards.sum() == known and rewards.dtype == np.float64
        one = FAMILY.draw(LaneOps(), means, jnp.int32(arm), jnp.int32(7), noise[2])
        assert float(one) == (0.3 < float(means[arm])) and one.shape == ()
    assert Bernoulli() == FAMILY and hash(Bernoulli()) == hash(FAMILY)
    assert not jax.tree.leaves(FAMILY)
