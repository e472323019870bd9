"""H*, T* and w* of arms whose pulls have costs."""

import numpy as np
import pytest
from scipy.optimize import minimize

import jaxelim as je
from jaxelim.bounds.truth import each, information_of

FAMILIES = [je.Gaussian(), je.Bernoulli(), je.Poisson(), je.Exponential()]
RANGE = {"gaussian": (-1, 1), "bernoulli": (0.1, 0.9), "poisson": (0.5, 3),
         "exponential": (0.5, 3)}  # fmt: skip


def largest(instance, problem, costs):
    """1/T*_c: max s with H_p(n) >= s over pulls n that cost 1, by SciPy; H_p as of no costs.

    H_p is homogeneous, so it is s of shares of the cost w, at n = w/costs.
    """
    plain, K = instance.without_costs(), instance.K
    truth = next(each(plain, je.complexity(plain, problem).pieces))

    def values(w):
        n = np.maximum(w / costs, 1e-12)
        return information_of(truth, n)[truth.pieces.exists]

    best = 0.0
    for start in (np.full(K, 1 / K), np.random.default_rng(0).dirichlet(np.ones(K))):
        first = np.append(start, values(start).min())
        unit = first[-1]
        found = minimize(
            lambda x: -x[-1], first / np.append(np.ones(K), unit), method="SLSQP",
            bounds=[(1e-9, 1)] * K + [(0, None)],
            constraints=[
                {"type": "eq", "fun": lambda x: x[:-1].sum() - 1},
                {"type": "ineq", "fun": lambda x, unit=unit: values(x[:-1]) / unit - x[-1]},
            ],
            options={"maxiter": 500, "ftol": 1e-13},
        )  # fmt: skip
        w = np.maximum(found.x[:-1], 0)
        best = max(best, values(w / w.sum()).min())
    return best


def drawn(n):
    """A random instance with costs, and a problem."""
    rng = np.random.default_rng(n)
    family, K = FAMILIES[n % 4], 4
    means = np.sort(rng.uniform(*RANGE[family.name], K))[::-1]
    means = means + 0.05 * np.arange(K)[::-1]  # apart
    problem = (je.BestArm(), je.TopM(2), je.Thresholding(float(means[:2].mean())))[n % 3]
    costs = rng.uniform(0.2, 5, K)
    if family.name == "bernoulli":
        means = np.clip(means, 0.02, 0.98) - 0.001 * np.arange(K)
    return je.Instance.unstructured(means, family, costs=costs), problem, costs


@pytest.mark.slow_rows("1", "2", "3", "4", "6", "7", "10")
@pytest.mark.parametrize("n", range(20))
def test_against_an_independent_optimiser(n):
    """No allocation does better by 1e-6, and SciPy reaches H* to 1e-6."""
    instance, problem, costs = drawn(n)
    solved = je.complexity(instance, problem, gap=1e-9)
    known = largest(instance, problem, costs)
    np.testing.assert_allclose(float(solved.value), known, rtol=1e-6)
    assert solved.converged and solved.gap <= 1e-9
    np.testing.assert_allclose(solved.allocation.sum(), 1)
    pulls = solved.allocation / costs
    np.testing.assert_allclose(solved.pulls, pulls / pulls.sum())
    at = je.bounds.information(instance, problem, solved.allocation)
    np.testing.assert_allclose(at, solved.value, rtol=1e-8)
    np.testing.assert_allclose(solved.information.min(), solved.value, rtol=1e-8)


def test_linear_arms():
    """Costs are features over their roots in V, and the pieces stay; the unit scales T*."""
    rng = np.random.default_rng(1)
    arms, theta, costs = rng.normal(size=(6, 3)), rng.normal(size=3), rng.uniform(0.2, 5, 6)
    solved = je.complexity(je.Instance(arms, theta, costs=costs), je.BestArm(), gap=1e-9)
    assert solved.converged
    V = (arms * (solved.allocation / costs)[:, None]).T @ arms
    best = int(np.argmax(arms @ theta))
    y = np.delete(arms[best] - arms, best, 0)
    inverse = np.linalg.inv(V)
    values = (y @ theta) ** 2 / (2 * np.einsum("pd,de,pe->p", y, inverse, y))
    np.testing.assert_allclose(values.min(), solved.value, rtol=1e-8)
    slopes = (arms @ inverse @ y.T) * (y @ theta / np.einsum("pd,de,pe->p", y, inverse, y))
    upper = np.max((slopes**2 / 2) @ solved.mixture / costs)  # a certificate by hand
    np.testing.assert_allclose(upper, solved.value, rtol=1e-6)
    twice = je.complexity(je.Instance(arms, theta, costs=2 * costs), je.BestArm(), gap=1e-9)
    np.testing.assert_allclose(twice.time, 2 * solved.time, rtol=1e-8)


@pytest.mark.parametrize("family", FAMILIES[:3], ids=str)
def test_equal_costs_are_none(family):
    means = np.linspace(*RANGE[family.name], 4)
    plain = je.complexity(je.Instance.unstructured(means, family), je.BestArm(), gap=1e-10)
    instance = je.Instance.unstructured(means, family, costs=[1.0] * 4)
    equal = je.complexity(instance, je.BestArm(), gap=1e-10)
    np.testing.assert_allclose(equal.value, plain.value, rtol=1e-10)
    np.testing.assert_allclose(equal.allocation, plain.allocation, atol=1e-8)
    assert equal.unit == "unit of cost" and plain.unit == "sample"
    np.testing.assert_array_equal(plain.pulls, plain.allocation)
    assert instance.without_costs() == je.Instance.unstructured(means, family) != instance


@pytest.mark.parametrize(
    "costs", [[1.0, 0.0], [1.0, -1.0], [1.0, np.inf], [1.0], "ab", [1.0, 1e9]], ids=str
)
def test_bad_costs_are_refused(costs):
    with pytest.raises(je.errors.ArgumentError, match="costs"):
        je.Instance.unstructured([0.5, 0.2], costs=costs)
