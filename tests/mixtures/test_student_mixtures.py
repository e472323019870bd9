"""Mixtures of Gaussian arms of unknown variance, against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

import jaxelim as je
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext
from jaxelim.families.unknown_variance import StudentStatistics
from jaxelim.lanes import LaneOps
from jaxelim.mixtures import pieces
from jaxelim.mixtures.grid import Grid
from tests.mixtures import cases

FAMILY, GRID = je.GaussianUnknownVariance(), Grid()
SPACE = ArmContext(LaneOps(), jnp.zeros(0))


def random_arms(rng, shape, most=4):
    """Counts, means and variances of arms."""
    counts = np.floor(10 ** rng.uniform(np.log10(2), most, shape))
    means = rng.normal(size=shape)
    return counts, means, np.exp(rng.normal(size=shape)) * rng.chisquare(counts - 1) / counts


def arm(counts, ratio):
    """log mean_j M_j in NumPy."""
    c, n, z = np.asarray(GRID.strengths), counts[..., None], (ratio**2)[..., None]
    value = n / 2 * (np.log1p(z) - np.log1p(z * c / (n + c))) - np.log1p(n / c) / 2
    return cases.mean_exp(value)


def test_equals_the_integral_over_the_prior():
    """The effect N(0, 1/c) and d sigma/sigma, over the plain d sigma/sigma at the tested mean."""
    rng = np.random.default_rng(0)
    counts, means, variances = random_arms(rng, 200, 3)
    at = means + 3 * rng.normal(size=200) * np.sqrt(variances / counts)
    given = counts, means, at, (counts * variances)[:, None]
    found = cases.computed(cases.log_mixture, FAMILY, GRID, *given)
    squares = counts * (variances + (means - at) ** 2)
    below = gammaln(counts / 2) - np.log(2) - counts / 2 * np.log(squares / 2)
    for j, c in enumerate(GRID.strengths):
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


@jax.jit
@jax.vmap
def pairs(counts, means, variances):
    shape = Pairs(jnp.int32(0), jnp.asarray([False, True]))
    stats = StudentStatistics(
        t=jnp.int32(0), counts=counts, means=means, reward_sums=None, rest=(variances * counts,)
    )
    return pieces.log_e(FAMILY, SPACE, stats, shape, GRID)[1]


@pytest.mark.slow
def test_a_pair_is_the_least_over_a_common_mean():
    rng = np.random.default_rng(1)
    counts, means, variances = random_arms(rng, (600, 2))
    counts[:3], variances[3:6, 0], means[6:9] = 1.0, 0.0, 0.0
    found = cases.computed(pairs, counts, means, variances)
    assert not np.isnan(found).any()
    known = (means[:, 0] > means[:, 1]) & (variances > 0).all(1) & (counts > 1).all(1)
    assert np.all(np.isneginf(found[~known]))
    gap, spread = (means[:, 0] - means[:, 1])[known, None], np.sqrt(variances[known])
    n = counts[known]

    def total(x):
        of_a = arm(np.broadcast_to(n[:, :1], x.shape), (1 - x) * gap / spread[:, :1])
        return of_a + arm(np.broadcast_to(n[:, 1:], x.shape), x * gap / spread[:, 1:])

    x = np.broadcast_to(np.linspace(0, 1, 801), (len(n), 801))
    best = total(x).min(1)
    for _ in range(8):  # around the least node, of many
        at, rows = total(x).argmin(1), np.arange(len(n))
        x = np.linspace(x[rows, np.maximum(at - 1, 0)], x[rows, np.minimum(at + 1, 800)], 801).T
        best = np.minimum(best, total(x).min(1))
    e = best - np.log1p(np.maximum(best, 0))
    assert np.all(found[known] <= e + 1e-10 * (1 + np.abs(e)))
    clear = best > 0
    assert clear.sum() > 100
    seen = clear & (e > 1)
    assert np.max((e - found[known])[seen] / e[seen]) < 0.02
    # An e-value: (1 + y) e^-y bounds the probability that two Exp(1) exceed y.
    np.testing.assert_allclose(np.exp(-e[clear]), (1 + best[clear]) * np.exp(-best[clear]))


def test_levels():
    counts, means = np.array([5.0, 9.0, 30.0, 1.0]), np.array([0.7, 0.2, -1.0, 3.0])
    variances = np.array([0.5, 1.0, 2.0, 0.0])
    stats = StudentStatistics(t=np.int32(0), counts=counts, means=means, reward_sums=None,
                              rest=(variances * counts,))  # fmt: skip
    shape = Pairs(None, np.ones(4, bool), np.array([True, True, False, True]), level=0.25)
    found = cases.computed(cases.log_e, FAMILY, SPACE, stats, shape, GRID)
    known = arm(counts, np.abs(means - 0.25) / np.sqrt(np.maximum(variances, 1e-9)))
    np.testing.assert_allclose(found[[0, 2]], known[[0, 2]], rtol=1e-12)
    assert np.all(np.isneginf(found[[1, 3]]))  # the estimate is in the piece; one pull
