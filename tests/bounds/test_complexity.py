"""H* and w*: values, certificates, invariances, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from jaxelim import bounds
from jaxelim.bounds import complexity
from jaxelim.errors import ArgumentError
from jaxelim.instances import load_instance, two_dimensional
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, HalfSpaces, Thresholding, TopM
from tests.bounds.complexity_cases import box, half_spaces, information

# H* of the shipped instances, from the brackets of `cutting_planes` to 1e-9.
SHIPPED = [
    ("linear-d10", BestArm(), 3.1058326695e-3),
    ("linear-d10-topm", TopM(3), 2.5188200354e-3),
    ("linear-d20", BestArm(), 4.7531302083e-4),
    ("linear-d20", TopM(5), 2.7054128950e-4),
    ("linear-d20-osi", Thresholding(), 9.3370839189e-4),
    ("unstructured-k40", BestArm(), 9.6485123116e-4),
    ("unstructured-k40", TopM(3), 8.0828318638e-4),
    ("unstructured-k40-osi", Thresholding(), 2.3614260211e-3),
]


def small(count, seed=0, K=6, d=3):
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((count, K, d))
    return Instance(arms, rng.standard_normal((count, d)))


@pytest.mark.parametrize(
    "name, problem, value",
    [one if i in (0, 5) else pytest.param(*one, marks=pytest.mark.slow)
     for i, one in enumerate(SHIPPED)],
    ids=str,
)  # fmt: skip
def test_the_instances_of_the_paper(name, problem, value):
    """H*, and the certificate recomputed from the fields alone."""
    one = load_instance(name)
    found = complexity(one, problem, gap=1e-10)
    assert found.converged and found.gap <= 1e-10
    np.testing.assert_allclose(found.value, value, rtol=1e-8)
    w, q = found.allocation, found.mixture
    assert w.min() >= 0 and abs(w.sum() - 1) < 1e-9 and abs(q.sum() - 1) < 1e-12
    level, slope = information(w, one.arms, one.theta, *half_spaces(problem, one.arms, one.theta))
    np.testing.assert_allclose(found.information, level, rtol=1e-9)
    assert np.max(q @ slope) <= level.min() * (1 + 2e-10)


def cutting_planes(arms, theta, directions, offsets, rounds=60):
    """A bracket of H* from linear programs.

    H_p is concave in w, so linear programs over its tangents bound H* from above.
    """
    K = len(arms)
    w = np.full(K, 1 / K)
    cuts, low, high = [], 0.0, np.inf
    for _ in range(rounds):
        level, slope = information(w, arms, theta, directions, offsets)
        low = max(low, level.min())
        cuts += [np.append(-row, 1) for row in slope]
        lp = linprog(np.append(np.zeros(K), -1), A_ub=np.array(cuts), b_ub=np.zeros(len(cuts)),
                     A_eq=[np.append(np.ones(K), 0)], b_eq=[1])  # fmt: skip
        high = min(high, -lp.fun)
        w = 0.8 * np.maximum(lp.x[:K], 1e-9) + 0.2 * w
        w /= w.sum()
    return low, high


@pytest.mark.slow_rows("BestArm()", "Thresholding(level=0.1)")
@pytest.mark.parametrize("problem", [BestArm(), TopM(2), Thresholding(0.1)], ids=str)
def test_random_instances_against_linear_programs_and_scipy(problem):
    batch = small(3, seed=1)
    found = complexity(batch, problem, gap=1e-10)
    assert found.converged.all()
    for i in range(3):
        arms, theta = batch.arms[i], batch.theta[i]
        pieces = half_spaces(problem, arms, theta)
        low, high = cutting_planes(arms, theta, *pieces)
        assert low * (1 - 1e-9) <= found.value[i] * (1 + 1e-10) and found.value[i] <= high * (
            1 + 1e-9
        )
        # sequential quadratic programming in epigraph form, scaled to values near 1
        scale = found.value[i]
        start = np.append(
            np.full(6, 1 / 6), information(np.full(6, 1 / 6), arms, theta, *pieces)[0].min() / scale
        )
        answer = minimize(
            lambda x: -x[6],
            start,
            jac=lambda x: np.append(np.zeros(6), -1),
            method="SLSQP",
            bounds=[(1e-9, 1)] * 6 + [(0, None)],
            options=dict(maxiter=500, ftol=1e-12),
            constraints=[
                dict(type="eq", fun=lambda x: x[:6].sum() - 1),
                dict(
                    type="ineq",
                    fun=lambda x, a=arms, t=theta, y=pieces, s=scale: (
                        information(x[:6], a, t, *y)[0] / s - x[6]
                    ),
                ),
            ],
        )
        assert -answer.fun == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_a_thousand_small_instances_all_converge():
    # Newton steps with a second-order correction cycle on some of these.
    for problem in (TopM(2), Thresholding(0.1)):
        found = complexity(small(1000, seed=5), problem, gap=1e-10)
        assert found.converged.all()


@pytest.mark.slow
def test_two_dimensional_example():
    for eps in (0.3, 0.01):
        found = complexity(two_dimensional(5, eps), BestArm(), gap=1e-10)
        assert found.value == pytest.approx(eps**2 / 8, rel=1e-9)
        assert found.time == pytest.approx(8 / eps**2, rel=1e-9)
        np.testing.assert_allclose(found.allocation, [0.5, 0.5, 0, 0, 0], atol=1e-6)
        assert found.mixture[0] == pytest.approx(1, abs=1e-6)
        assert found.information.argmin() == 0


def test_two_arms_have_a_closed_form_and_a_singular_design():
    # two arms in R^3: V_w has rank 2
    instance = Instance([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]], [1.0, 0.2, 5.0])
    found = complexity(instance, BestArm(), gap=1e-10)
    assert found.value == pytest.approx(0.6**2 / 8, rel=1e-9)


@pytest.mark.slow
def test_optimum_on_a_singular_face_stays_finite():
    # One piece along e_1: the first arm alone is optimal, so V is singular at w*.
    positive = HalfSpaces(lambda theta: jnp.zeros((), jnp.int32), [[[1.0, 0.0]]], [[0.0]])
    instance = Instance([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0.5, 0.3])
    found = complexity(instance, positive, gap=1e-9)
    assert found.converged and found.value == pytest.approx(0.5**2 * 4 / 2, rel=1e-8)
    np.testing.assert_allclose(found.allocation, [1, 0, 0], atol=1e-7)


@pytest.mark.slow
def test_batch_equals_single_instances_and_scaling():
    batch = small(3, seed=2)
    found = complexity(batch, BestArm(), gap=1e-10)
    one = complexity(batch[1], BestArm(), gap=1e-10)
    assert np.ndim(one.value) == 0 and one.allocation.shape == (6,)
    assert one.value == pytest.approx(found.value[1], rel=1e-9)
    noisy = complexity(Instance(batch.arms, batch.theta, noise_std=3.0), BestArm(), gap=1e-10)
    np.testing.assert_allclose(noisy.value * 9, found.value, rtol=1e-9)
    level = complexity(
        Instance(3 * batch.arms, batch.theta, noise_std=3.0), Thresholding(0.3), gap=1e-10
    )
    np.testing.assert_allclose(
        level.value, complexity(batch, Thresholding(0.1), gap=1e-10).value, rtol=1e-9
    )
    mixed = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0] @ np.diag(
        [1.0, 10.0, 0.1]
    )
    moved = Instance(batch.arms @ mixed, batch.theta @ np.linalg.inv(mixed).T)
    np.testing.assert_allclose(
        complexity(moved, BestArm(), gap=1e-10).value, found.value, rtol=1e-8
    )


@pytest.mark.slow
def test_nearly_tied_and_padded_batches_of_fixed_half_spaces():
    arms = small(1).arms[0]
    theta = np.random.default_rng(5).uniform(-0.5, 0.5, (3, 3))
    theta[0, 0] = 1 - 1e-4
    found = complexity(Instance(arms, theta), box(3), gap=1e-9)
    assert found.converged.all() and found.value[0] < 1e-7


def test_float64_under_any_flag_and_the_flag_is_unchanged():
    flag = jax.config.jax_enable_x64
    assert complexity(small(3), TopM(2)).value.dtype == np.float64
    assert jax.config.jax_enable_x64 == flag


@pytest.mark.slow
def test_the_value_of_a_fixed_allocation():
    batch = small(3, seed=2)
    best = complexity(batch, BestArm(), gap=1e-9)
    weights = best.allocation
    np.testing.assert_allclose(bounds.information(batch, BestArm(), weights), best.value, rtol=1e-7)
    uniform = bounds.information(batch, BestArm(), np.full(6, 1 / 6))
    assert (uniform < best.value).all()
    # an allocation that leaves a direction unexplored has value 0
    assert bounds.information(two_dimensional(4, 0.1), BestArm(), [1, 0, 0, 0]) == 0


def test_the_solve_is_compiled_once_per_shape():
    from jaxelim.bounds.complexities import _solved

    complexity(small(3, seed=6), TopM(2))
    before = _solved._cache_size()
    complexity(small(11, seed=7), TopM(2), gap=1e-9)
    assert _solved._cache_size() == before


@pytest.mark.parametrize(
    "arms, theta, problem, words",
    [
        ([[1, 0], [0, 1], [-1, 0]], [1, 1], BestArm(), "arms 0 and 1"),
        ([[1, 0], [0, 1], [-1, 0]], [1, 0], Thresholding(), "arm 1 is on the threshold"),
        ([[1, 0], [1, 0], [-1, 0]], [1, 1], BestArm(), "arms 0 and 1"),
    ],
)
def test_ties_are_refused(arms, theta, problem, words):
    with pytest.raises(ArgumentError, match=words):
        complexity(Instance(arms, theta), problem)


def test_a_tie_across_the_boundary_of_top_m():
    with pytest.raises(ArgumentError, match=r"arms \[1, 2\] tied across the top-2"):
        TopM(2).check(np.eye(4), np.array([3.0, 1.0, 1.0, 0.0]))
    TopM(2).check(np.eye(4), np.array([1.0, 1.0, 0.5, 0.0]))  # a tie within the answer


def test_half_spaces_of_signs():
    """The normals are the arms themselves, towards the answer."""
    arms, theta = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]]), np.array([1.0, -0.5])
    pieces = complexity(Instance(arms, theta), Thresholding(0.3)).pieces
    np.testing.assert_array_equal(pieces.y[0], [[2, 0], [1, 1], [0, -3]])
    np.testing.assert_array_equal(pieces.c[0], [0.3, 0.3, -0.3])


def test_ties_in_a_batch_name_the_instance():
    with pytest.raises(ArgumentError, match="instance 1"):
        complexity(Instance([[1, 0], [0, 1]], [[1, 0.5], [1, 1]]), BestArm())


def test_other_refusals():
    instance = Instance([[1, 0], [0, 1], [1, 1]], [1, 0.5])
    with pytest.raises(ArgumentError, match="the answer has none"):
        complexity(instance, TopM(3))
    with pytest.raises(ArgumentError, match="jaxelim.contracts.Problem"):
        complexity(instance, "best-arm")
    with pytest.raises(ArgumentError, match="instance"):
        complexity(np.eye(3), BestArm())
    with pytest.raises(ArgumentError, match="rank 1 and do not span"):
        complexity(Instance([[1, 0], [2, 0]], [0.1, 0.1]), box(2))
    for gap in (0, -1e-6, np.nan, "small", True):
        with pytest.raises(ArgumentError, match="gap"):
            complexity(instance, BestArm(), gap=gap)
    for weights in ([0.5, 0.5], [0.5, 0.6, 0], [1.5, -0.5, 0], [np.inf, 0, 0]):
        with pytest.raises(ArgumentError, match="weights"):
            bounds.information(instance, BestArm(), weights)


@pytest.mark.slow
@pytest.mark.parametrize(
    "K, d, count, problem",
    [
        (200, 50, 40, BestArm()),
        (200, 50, 8, Thresholding()),
        (40, 12, 200, TopM(3)),
        (30, None, 200, BestArm()),
    ],
    ids=str,
)
def test_large_nearly_tied_and_unstructured_instances_are_certified(K, d, count, problem):
    rng = np.random.default_rng(K + count)
    arms = (
        np.tile(np.eye(K), (count, 1, 1))
        if d is None
        else rng.standard_normal((count, K, d)) / d**0.5
    )
    theta = rng.standard_normal((count, K if d is None else d))
    if isinstance(problem, BestArm):  # in every other instance the best gap is 1e-4
        order = np.argsort((arms @ theta[..., None])[..., 0], 1)
        for i in range(0, count, 2):
            first, second = arms[i, order[i, -1]], order[i, -2]
            if d is None:
                theta[i, second] = theta[i, order[i, -1]] - 1e-4
            else:
                arms[i, second] = (
                    first - 1e-4 * theta[i] / (theta[i] @ theta[i]) + 0.3 * _across(rng, theta[i])
                )
    found = complexity(Instance(arms, theta), problem, gap=1e-8)
    assert found.converged.all() and (found.gap <= 1e-8).all()
    for i in range(0, count, 7):  # the certificate, recomputed from the fields alone
        w, q = found.allocation[i], found.mixture[i]
        level, slope = information(w, arms[i], theta[i], *half_spaces(problem, arms[i], theta[i]))
        assert np.max(q @ slope) <= level.min() * (1 + 2e-8)


def _across(rng, theta):
    """A unit vector orthogonal to theta: moving along it changes no mean."""
    z = rng.standard_normal(theta.size)
    z -= z @ theta / (theta @ theta) * theta
    return z / np.linalg.norm(z)
