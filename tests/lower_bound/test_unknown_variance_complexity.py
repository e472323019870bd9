"""H*, T* and w* for Gaussian arms of unknown means and variances."""

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxelim as je
from jaxelim.lower_bound import complexity

STD = (1.0, 2.0, 0.5, 1.5, 0.8)
PROBLEMS = (je.BestArm(), je.TopM(2), je.Thresholding(0.43))


def arms(means, std=STD):
    return je.Instance.unstructured(means, je.GaussianUnknownVariance(std))


def tangents(problem, means, weights, std=STD):
    """H_p(w) and cuts at w, by a grid over u: [P] and [P, K]."""
    values, slopes = [], []
    for y, c in zip(*problem.half_spaces(np.eye(len(means)), means), strict=True):
        a, b = np.argmax(y), np.argmin(y)
        level = np.abs(y).sum() == 1
        u = np.array([c * y.sum()]) if level else np.linspace(means[b], means[a], 20001)
        d = np.log1p((means[:, None] - u) ** 2 / np.square(std)[:, None]) / 2 * (y != 0)[:, None]
        slope = d[:, np.argmin(weights @ d)]
        values.append(weights @ slope)
        slopes.append(slope)
    return np.array(values), np.array(slopes)


def means_of(scale, size, seed=0):
    means = np.random.default_rng(seed).random((size, 5)) * scale
    return means[np.abs(means - 0.43).min(1) > 1e-3]


@pytest.mark.parametrize(
    "problem",
    [PROBLEMS[0], *(pytest.param(p, marks=pytest.mark.slow) for p in PROBLEMS[1:])],
    ids=str,
)
def test_against_tangents_on_a_grid(problem):
    """No weights do better: a linear program over tangents around w* says so, to 1e-4.

    Gaps of 0.1 to 30 standard deviations, where a pair has two local minima.
    """
    rng = np.random.default_rng(1)
    for scale in (1.0, 5.0, 20.0):
        means = means_of(scale, 8)
        found = complexity(arms(means), problem, 1e-9)
        assert found.converged.all() and found.gap.max() <= 1e-9
        for m, w, value in list(zip(means, found.allocation, found.value, strict=True))[:3]:
            np.testing.assert_allclose(tangents(problem, m, w)[0].min(), value, rtol=1e-6)
            points = [w * np.exp(0.01 * rng.standard_normal(5)) for _ in range(60)]
            cuts = np.concatenate([tangents(problem, m, x)[1] for x in [w, *points]])
            rows = np.concatenate([-cuts, np.ones((len(cuts), 1))], 1)
            upper = -linprog([0, 0, 0, 0, 0, -1], A_ub=rows, b_ub=np.zeros(len(rows)),
                             A_eq=[[1, 1, 1, 1, 1, 0]], b_eq=[1],
                             bounds=[(0, None)] * 5 + [(None, None)]).fun  # fmt: skip
            assert value * (1 - 1e-6) <= upper <= value * (1 + 1e-4)


def test_small_gaps_are_as_with_known_variances():
    """T* is that of known variances, from above, where gaps are small against std."""
    means = means_of(0.01, 8)
    found = complexity(arms(means), je.BestArm(), 1e-9)
    known = complexity(
        je.Instance.unstructured(means, je.Gaussian(list(STD))), je.BestArm(), 1e-9
    )
    ratio = found.time / known.time
    assert (ratio > 1 - 2e-9).all() and (ratio < 1 + 1e-4).all()


@pytest.mark.slow
@pytest.mark.parametrize("scale", [2.0, 8.0, 32.0])
def test_every_solve_reaches_its_gap(scale):
    """64 instances each, where the interior-point method alone fails on one in a hundred."""
    for std in (STD, (1.0,) * 5, (0.01, 1.0, 10.0, 1.0, 1.0)):
        for problem in PROBLEMS[:2]:
            found = complexity(arms(means_of(scale, 64, 1), std), problem, 1e-9)
            assert found.converged.all() and (found.mixture >= 0).all()
            np.testing.assert_allclose(found.mixture.sum(1), 1, rtol=1e-9)


def test_values_and_refusals():
    means = means_of(2.0, 3)  # a batch: its program is that of the tests above
    w = np.array([0.1, 0.2, 0.3, 0.1, 0.3])
    value = je.allocation_value(arms(means), je.BestArm(), w)
    known = [tangents(je.BestArm(), m, w)[0].min() for m in means]
    np.testing.assert_allclose(value, known, rtol=1e-6)
    assert (je.price(arms(means), je.BestArm(), w) > 1).all()
    assert (je.price(arms(means), je.BestArm(), [0.5, 0.5, 0, 0, 0]) == np.inf).all()
    with pytest.raises(je.UnsupportedError, match="derivatives"):
        je.complexity_gradients(arms(means[0]), je.BestArm())
    with pytest.raises(je.TieError):
        complexity(arms([1.0, 1.0, 0, 0, 0]), je.BestArm())
