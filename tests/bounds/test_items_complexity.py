"""H* of items, by the library and by sequential quadratic programming on its definition."""

import numpy as np
import pytest
from scipy.optimize import minimize

import jaxelim as je


def by_definition(arms, theta, items, start):
    """max over w of min over items p of ((z_i - z_p) . theta)^2/(2 ||z_i - z_p||^2_{V_w^-1})."""
    means = items @ theta
    best = int(np.argmax(means))
    y = np.delete(items[best] - items, best, 0)
    gap = y @ theta
    K = len(arms)

    def levels(w):
        inverse = np.linalg.inv((arms.T * np.maximum(w, 1e-9)) @ arms)
        return gap**2 / (2 * np.einsum("pd,de,pe->p", y, inverse, y))

    scale = levels(np.full(K, 1 / K)).min()
    found = minimize(
        lambda x: -x[K], np.append(start, levels(start).min() / scale), method="SLSQP",
        bounds=[(1e-8, 1)] * K + [(0, None)], options=dict(maxiter=500, ftol=1e-13),
        constraints=[
            dict(type="eq", fun=lambda x: x[:K].sum() - 1),
            dict(type="ineq", fun=lambda x: levels(x[:K]) / scale - x[K]),
        ],
    )  # fmt: skip
    return levels(found.x[:K] / found.x[:K].sum()).min(), levels


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "basis"])
def test_h_star_by_two_methods(kind):
    """The value, the certificate recomputed from the fields, and H of the allocation."""
    rng = np.random.default_rng(4)
    arms = np.eye(6) if kind == "basis" else rng.normal(size=(6, 6))  # one compiled program
    items, theta = rng.normal(size=(5, 6)), rng.normal(size=6)
    instance, problem = je.Instance(arms, theta, noise_std=0.5), je.BestArm(items=items)
    found = je.complexity(instance, problem, 1e-9)
    start = np.full(len(arms), 1 / len(arms))
    value, levels = by_definition(arms, theta / 0.5, items, start)
    assert float(found.value) == pytest.approx(value, rel=2e-5)
    assert found.gap <= 1e-9 and found.information.shape == (4,)
    np.testing.assert_allclose(levels(found.allocation).min(), found.value, rtol=1e-6)
    assert je.bounds.information(instance, problem, found.allocation) == pytest.approx(
        float(found.value), rel=1e-8
    )


@pytest.mark.slow
def test_items_that_are_the_arms_have_the_same_complexity():
    rng = np.random.default_rng(5)
    instance = je.Instance(rng.normal(size=(6, 3)), rng.normal(size=3))
    ours, known = (
        je.complexity(instance, one, 1e-10)
        for one in (je.BestArm(items=instance.arms), je.BestArm())
    )
    assert float(ours.value) == pytest.approx(float(known.value), rel=1e-9)
    np.testing.assert_allclose(ours.information, known.information, rtol=1e-6)
