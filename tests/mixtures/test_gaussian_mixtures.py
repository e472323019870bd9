"""Mixtures of Gaussian arms, independent and linear, against their formulas in NumPy."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim.contracts.pieces import HalfSpaces, Pairs
from jaxelim.evidence.half_spaces import LinearContext
from jaxelim.evidence.linear import DiagonalDesign, SquareDesign
from jaxelim.families.gaussian import LinearGaussian, LinearStatistics
from jaxelim.lanes import LaneOps
from jaxelim.mixtures import Grid
from tests.mixtures import cases

C = np.array(cases.STRENGTHS)


def statistics(counts, means, design=None, theta_hat=None):
    return LinearStatistics(
        t=np.int32(0), counts=counts, means=means, reward_sums=None,
        design=design or DiagonalDesign(1 / counts), products=None,
        theta_hat=means if theta_hat is None else theta_hat,
    )  # fmt: skip


def log_e(family, features, stats, shape, constants=()):
    space = LinearContext(LaneOps(), features, constants)
    return cases.computed(cases.log_e, family, space, stats, shape, Grid())


def arms_of(rng, k=6):
    counts = np.floor(10 ** rng.uniform(0, 4, k))
    return counts, rng.normal(size=k)


def by_strength(counts, std=1.0):
    """n' and the price of arms: [K, J] each."""
    n = counts[:, None]
    return n * n / (n + C) / np.broadcast_to(std, counts.shape)[:, None] ** 2, np.log1p(n / C) / 2


def pair_value(margin, n, price, i):
    """log e of arm i against all, the infimum inside the sum."""
    middle = n[i] * n / (n[i] + n)
    value = cases.mean_exp(middle * margin[:, None] ** 2 / 2 - price[i] - price)
    return np.where(margin > 0, value, -np.inf)


@pytest.mark.parametrize("std", [None, (1.0, 2.0, 0.5, 1.5, 3.0, 1.0)])
def test_pairs_slack_rows_and_levels(std):
    rng = np.random.default_rng(0)
    counts, means = arms_of(rng)
    family = LinearGaussian() if std is None else je.Gaussian(list(std))
    n, price = by_strength(counts, 1.0 if std is None else np.array(std))
    others, above, every = np.arange(6) != 2, means > 0.1, np.ones(6, bool)
    slack, several, level, wrong = (
        log_e(family, np.eye(6), statistics(counts, means), shape) for shape in (
            Pairs(np.int32(2), others, slack=0.3),
            Pairs(np.array([2, 4], np.int32), np.tile(others, 2)),
            Pairs(None, every, above, level=0.1), Pairs(None, every, ~above, level=0.1),
        )
    )  # fmt: skip
    known = np.array([pair_value(means[i] - means, n, price, i) for i in (2, 4)])
    np.testing.assert_allclose(several.reshape(2, 6)[:, others], known[:, others], rtol=1e-12)
    known = pair_value(means[2] - means + 0.3, n, price, 2)
    np.testing.assert_allclose(slack[others], known[others], rtol=1e-12)
    known = cases.mean_exp(n * (means - 0.1)[:, None] ** 2 / 2 - price)
    np.testing.assert_allclose(level, known, rtol=1e-12)
    assert np.all(np.isneginf(wrong))


def test_half_spaces_of_independent_arms():
    rng = np.random.default_rng(3)
    counts, means = arms_of(rng)
    y, offsets = rng.normal(size=(5, 6)), rng.normal(size=5)
    y[0, 2:] = 0
    n, price = by_strength(counts)
    margin = y @ means - offsets
    value = margin[:, None] ** 2 / (2 * (y**2 @ (1 / n))) - (y != 0) @ price
    shape = HalfSpaces(y, offsets, np.ones(5, bool))
    found = log_e(LinearGaussian(), np.eye(6), statistics(counts, means), shape)
    known = np.where(margin > 0, cases.mean_exp(value), -np.inf)
    assert np.isfinite(known).any()
    np.testing.assert_allclose(found, known, rtol=1e-10)


def linear_value(features, counts, y, margin):
    """The formula of one prior in R^d, of every strength."""
    priors = [cases.linear(features, counts, y, c) for c in C]
    value = [margin**2 / np.maximum(2 * norm, 1e-300) - price for norm, price in priors]
    return np.where(margin > 0, cases.mean_exp(np.stack(value, -1)), -np.inf)


def test_linear_arms_items_and_half_spaces():
    rng = np.random.default_rng(4)
    features, items = rng.normal(size=(9, 4)), rng.normal(size=(7, 4))
    counts, theta = np.floor(10 ** rng.uniform(0, 4, 9)), rng.normal(size=4)
    v = features.T @ (counts[:, None] * features)
    v_inv = np.linalg.inv(v)
    means = features @ theta
    g = np.einsum("ki,ij,kj->k", features, v_inv, features)
    first, best = int(means.argmax()), int((items @ theta).argmax())
    y, offsets = rng.normal(size=(5, 4)), rng.normal(size=5)
    stats = statistics(counts, means, SquareDesign(g, v_inv), theta)
    sign, others = np.where(means > 0.2, 1, -1), np.arange(7) != best
    for shape, direction, margin in (
        (Pairs(np.int32(first), np.arange(9) != first),
         features[first] - features, means[first] - means),
        (Pairs(None, np.ones(9, bool), means > 0.2, level=0.2),
         sign[:, None] * features, np.abs(means - 0.2)),
        (HalfSpaces(y, offsets, np.ones(5, bool)), y, y @ theta - offsets),
        (Pairs(np.int32(best), others, count=6, items=True),
         items[best] - items, (items[best] - items) @ theta),
    ):  # fmt: skip
        value = linear_value(features, counts, direction, margin)
        constants = items if shape.items else ()
        assert np.isfinite(value).sum() > 1
        found = log_e(LinearGaussian(), features, stats, shape, constants)
        np.testing.assert_allclose(found, value, rtol=1e-9)


def test_strengths_of_a_grid_are_numbers_in_any_form():
    assert Grid([3, 10]) == Grid((3.0, 10.0)) and hash(Grid([3, 10])) == hash(Grid((3.0, 10.0)))
