"""Mixtures of Bernoulli, Poisson, exponential and Gaussian arms, against their definitions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.contracts.shapes import Rows
from jaxelim.contracts.slack import SlackRows
from jaxelim.contracts.views import ArmContext, Statistics
from jaxelim.lanes import LaneOps
from jaxelim.mixtures.grid import Grid
from tests.mixtures import cases

CURVED = ("bernoulli", "poisson", "exponential")
SPACE = ArmContext(LaneOps(), jnp.zeros(0))


def grid_of(name, fixed):
    return Grid(prior=cases.PRIORS[name]) if fixed else Grid()


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("name", cases.FAMILIES)
def test_equals_the_integral_over_the_prior(name, fixed):
    rng, grid = np.random.default_rng(1), grid_of(name, fixed)
    counts, means = cases.random_arms(name, rng, 200)
    at = cases.random_means(name, rng, 200)
    near = means + 2 * rng.normal(size=200) * np.abs(means - at) / np.sqrt(counts)
    inside = near > 0.01 if name != "bernoulli" else (near > 0.01) & (near < 0.99)
    at = np.where(inside & (np.arange(200) < 120), near, at)
    with scope.engine():
        given = map(jnp.asarray, (counts, means, at))
        found = np.asarray(cases.FAMILIES[name].log_mixture(*given, grid))
    with np.errstate(over="ignore"):
        known = cases.components(name, counts, means, at, grid)
    assert found.shape == known.shape == (200, grid.size)
    np.testing.assert_array_less(np.abs(found - known), 1e-10 * (1 + np.abs(known)))


@functools.cache
def programs(name, fixed, slack):
    """Jitted: both bounds of a pair [R], and log M_j; arms [R, 2]."""
    family, grid = cases.FAMILIES[name], grid_of(name, fixed)
    first, exists = jnp.int32(0), jnp.asarray([False, True])

    def pair(counts, means):
        shape = SlackRows(first, exists, slack=slack) if slack else Rows(first, exists)
        stats = Statistics(t=first, counts=counts, means=means, reward_sums=None)
        return [f(SPACE, stats, shape, grid)[1] for f in (family.log_e, family.log_e_above)]

    mixture = jax.jit(lambda counts, means, at: family.log_mixture(counts, means, at, grid))
    return jax.jit(jax.vmap(pair)), mixture


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


@pytest.mark.parametrize(
    ("fixed", "slack"), [(False, 0.0), (False, 0.07), (True, 0.0)], ids=["grid", "slack", "prior"]
)
@pytest.mark.parametrize("name", CURVED)
def test_the_infimum_of_a_pair_is_that_of_a_grid_search(name, fixed, slack):
    rng = np.random.default_rng(2)
    pair, mixture = programs(name, fixed, slack)
    counts, means = cases.random_arms(name, rng, (400, 2))
    with scope.engine():
        found, above = map(np.asarray, pair(jnp.asarray(counts), jnp.asarray(means)))
        known, inside, _ = searched(name, mixture, counts, means, slack)
    assert not np.isnan(found).any() and not np.isnan(above).any()
    outside = means[:, 0] - means[:, 1] + slack > 0
    assert np.all(np.isneginf(found[~outside]))
    rounding = 1e-10 * (1 + np.abs(known))
    assert np.all(found[outside] <= (known + rounding)[outside])
    assert np.all(found <= above + rounding)
    # F is least on the boundary, and clearly above 0: the bound is the infimum.
    equal = outside & (known > 1e-6) & (inside >= known)
    assert equal.sum() > (15 if fixed else 60)
    np.testing.assert_array_less((known - found)[equal], rounding[equal])
