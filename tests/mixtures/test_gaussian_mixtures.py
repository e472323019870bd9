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


@pytest.mark.parametrize("std", [None, (1.0, 2.0, 0.5, 1.5, 3.0, 1.0)])
def test_independent_arms(std):
    """Of {y . mu <= c}: margin^2/(2 sum_k y_k^2/n'_k), less the prices of the arms in y."""
    rng, every, eye = np.random.default_rng(0), np.ones(6, bool), np.eye(6)
    counts, means = np.floor(10 ** rng.uniform(0, 4, 6)), rng.normal(size=6)
    family = LinearGaussian() if std is None else je.Gaussian(list(std))
    n = counts[:, None]
    price = np.log1p(n / C) / 2
    n = n * n / (n + C) / (1.0 if std is None else np.array(std)[:, None] ** 2)
    others, above, z, c = np.arange(6) != 2, means > 0.1, *rng.normal(size=(2, 5, 6))
    z[0, 2:] = 0
    two, off = eye[[2, 4]][:, None] - eye, means[[2, 4]][:, None] - means
    for shape, y, margin in (
        (Pairs(np.int32(2), others, slack=0.3), two[0], off[0] + 0.3),
        (Pairs(np.array([2, 4], np.int32), np.tile(others, 2)), two.reshape(12, 6), off.ravel()),
        (Pairs(None, every, above, level=0.1), eye, np.abs(means - 0.1)),
        (Pairs(None, every, ~above, level=0.1), eye, -np.abs(means - 0.1)),
        (HalfSpaces(z, c[:, 0], every[:5]), z, z @ means - c[:, 0]),
    ):
        norm = np.maximum(y**2 @ (1 / n), 1e-300)
        known = cases.mean_exp(margin[:, None] ** 2 / (2 * norm) - (y != 0) @ price)
        known = np.where((margin > 0) & shape.exists, known, -np.inf)
        found = log_e(family, eye, statistics(counts, means), shape)
        rtol = 1e-12 if isinstance(shape, Pairs) else 1e-10
        np.testing.assert_allclose(found, known, rtol=rtol)
        assert np.isfinite(known).any() == (margin > 0).any()


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
