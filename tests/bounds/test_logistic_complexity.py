"""H*, w* and their derivatives for logistic rewards, against SciPy's optimisers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import jaxelim as je
from jaxelim import scope
from jaxelim.bounds.pieces import pieces_of
from jaxelim.bounds.truth import each
from jaxelim.evidence.boundaries import Boundaries
from tests.twin.logistic import answer_and_pieces, mean

PROBLEMS = {
    "best-arm": (("bai",), je.BestArm()),
    "top-2": (("topm", 2), je.TopM(2)),
    "signs": (("osi", 0.45), je.Thresholding(0.45)),
}


def divergences(x, y):
    """d of the means at scores x and y, from logarithms of both probabilities."""
    p = mean(x)
    ones, zeros = np.logaddexp(0, -y) - np.logaddexp(0, -x), np.logaddexp(0, y) - np.logaddexp(0, x)
    return p * ones + (1 - p) * zeros


def information(arms, theta, y, c, weights):
    """H_p(w) and dH_p/dw by SciPy's minimiser in the null space of y."""
    space = scipy.linalg.null_space(y[None])
    base, inside = theta + y * (c - y @ theta) / (y @ y), arms @ space
    scores = arms @ theta

    def cost(z):
        return weights @ divergences(scores, arms @ base + inside @ z)

    def slope(z):
        return inside.T @ (weights * (mean(arms @ base + inside @ z) - mean(scores)))

    def curvature(z):
        p = mean(arms @ base + inside @ z)
        return (inside.T * (weights * p * (1 - p))) @ inside

    found = scipy.optimize.minimize(
        cost, np.zeros(space.shape[1]), jac=slope, hess=curvature, method="trust-exact",
        options={"gtol": 1e-12},
    )  # fmt: skip
    return found.fun, divergences(scores, arms @ (base + space @ found.x))


def by_slsqp(arms, theta, pieces):
    """The least H_p(w) at the w of SLSQP over weights and a level below every log H_p(w)."""
    K = len(arms)

    def all_of(x):
        return [information(arms, theta, y, c, np.maximum(x[:K], 1e-9)) for _, y, c in pieces]

    start = np.log(min(value for value, _ in all_of(np.full(K, 1 / K))))
    levels = {
        "type": "ineq",
        "fun": lambda x: np.array([np.log(value) for value, _ in all_of(x)]) - x[K],
        "jac": lambda x: np.array([[*slope / value, -1.0] for value, slope in all_of(x)]),
    }
    simplex = {"type": "eq", "fun": lambda x: x[:K].sum() - 1, "jac": lambda x: [1.0] * K + [0.0]}
    found = scipy.optimize.minimize(
        lambda x: -x[K], [*np.full(K, 1 / K), start], jac=lambda x: np.eye(K + 1)[K] * -1.0,
        bounds=[(0, 1)] * K + [(None, None)], constraints=[levels, simplex], method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 200},
    )  # fmt: skip
    weights = np.maximum(found.x[:K], 1e-9)
    return min(value for value, _ in all_of(weights)) / weights.sum()


def instances(size, seed):
    """Instances of K = 5 and d = 3, with scores apart by 0.05 and from that of 0.45."""
    rng, theta, arms = np.random.default_rng(seed), [], []
    while len(arms) < size:
        phi, parameter = rng.standard_normal((5, 3)), rng.standard_normal(3)
        near = [*(phi @ parameter), np.log(0.45 / 0.55)]
        if np.diff(np.sort(near)).min() > 0.05:
            arms.append(phi)
            theta.append(parameter)
    return je.Instance(np.array(arms), np.array(theta), family=je.Logistic())


@pytest.mark.slow_rows("best-arm-7", "top-2-7")
@pytest.mark.parametrize(("name", "size"), [("best-arm", 7), ("top-2", 7), ("signs", 6)])
def test_complexity_is_that_of_slsqp(name, size):
    """20 instances: H* to 1e-6, between the value and its certified bound."""
    spec, problem = PROBLEMS[name]
    batch = instances(size, seed=len(name))
    found = je.complexity(batch, problem, 1e-9)
    assert found.converged.all() and (found.gap <= 1e-9).all()
    np.testing.assert_allclose(found.information.min(1), found.value, rtol=1e-9)
    for i in range(size):
        _, pieces = answer_and_pieces(spec, batch.arms[i], batch.theta[i])
        exact = by_slsqp(batch.arms[i], batch.theta[i], pieces)
        np.testing.assert_allclose(found.value[i], exact, rtol=1e-6)
        assert exact <= found.value[i] * (1 + found.gap[i]) * (1 + 1e-9)
        least = min(information(batch.arms[i], batch.theta[i], y, c, found.allocation[i])[0]
                    for _, y, c in pieces)  # fmt: skip
        np.testing.assert_allclose(least, found.value[i], rtol=1e-9)
    assert 0 < je.bounds.information(batch[0], problem, np.full(5, 0.2)) < found.value[0]
    again = je.bounds.information(batch[0], problem, found.allocation[0])
    assert again == pytest.approx(found.value[0])


ARMS, THETA = np.random.default_rng(1).standard_normal((5, 3)), np.array([1.8, -0.9, 1.0])


@jax.jit
def bent(truth, weights):
    evidence = truth.evidence().weighted(weights)
    at = evidence.derivatives()
    return at.value, at.gradient, at.curvature(at.value), evidence.values()


def test_derivatives_in_the_weights():
    """Values and slopes are SciPy's, the curvature that of differences of slopes."""
    instance = je.Instance(ARMS, THETA, family=je.Logistic())
    pieces, weights = pieces_of(instance, je.BestArm())[0], np.array([0.3, 0.05, 0.25, 0.3, 0.1])
    with scope.float64():
        truth = next(each(instance, pieces))
        value, slopes, curvature, plain = map(np.asarray, bent(truth, weights))
        steps = 1e-5 * np.eye(5)
        moved = [(np.asarray(bent(truth, weights + s)[1]) - np.asarray(bent(truth, weights - s)[1]))
                 @ value / 2e-5 for s in steps]  # fmt: skip
    np.testing.assert_allclose(plain, value, rtol=1e-11)
    for p, y in enumerate(pieces.y[0]):
        exact, slope = information(ARMS, THETA, y, 0.0, weights)
        np.testing.assert_allclose(value[p], exact, rtol=1e-10)
        np.testing.assert_allclose(slopes[:, p], slope, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(curvature, -np.array(moved), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_derivatives_of_h_and_w():
    """In theta and features, against differences."""
    problem, family, step = je.BestArm(), je.Logistic(), 1e-5

    def both(arms, theta):
        found = je.bounds.optimum(arms, theta, problem, family)
        return found.value, found.allocation

    with jax.enable_x64(True):
        value, weights = jax.jit(jax.jacrev(both, (0, 1)))(ARMS, THETA)
        k = int(np.argmax(both(ARMS, THETA)[1]))
    for moved, slope, change in (
        ((0 * ARMS, step * np.eye(3)[1]), value[1][1], weights[1][:, 1]),
        ((step * np.outer(np.eye(5)[k], [1, 0, 0]), 0 * THETA), value[0][k, 0],
         weights[0][:, k, 0]),
    ):  # fmt: skip
        signs = np.array([1.0, -1.0])
        features, theta = (
            x + np.multiply.outer(signs, change)
            for x, change in zip((ARMS, THETA), moved, strict=True)
        )
        ends = je.complexity(je.Instance(features, theta, family=family), problem, 1e-11)
        np.testing.assert_allclose(np.subtract(*ends.value) / (2 * step), slope, rtol=1e-5)
        np.testing.assert_allclose(
            np.subtract(*ends.allocation) / (2 * step), change, rtol=1e-3, atol=1e-5
        )


@pytest.mark.slow
def test_means_items_and_features_of_lower_rank():
    """Independent arms by means; arms in a plane; items; ties by their means."""
    basis = je.Instance.unstructured([0.8, 0.6, 0.5], je.Logistic())
    bernoulli = je.Instance.unstructured([0.8, 0.6, 0.5], je.Bernoulli())
    for problem in (je.BestArm(), je.Thresholding(0.55)):
        ours, exact = (je.complexity(x, problem, 1e-9) for x in (basis, bernoulli))
        np.testing.assert_allclose(ours.value, exact.value, rtol=1e-8)
        np.testing.assert_allclose(ours.allocation, exact.allocation, atol=1e-4)
    plane = np.concatenate([ARMS, ARMS @ np.array([[0.3], [1.0], [0.2]])], 1)
    flat = je.Instance(plane, [*THETA, 0.0], family=je.Logistic())
    one = je.complexity(je.Instance(ARMS, THETA, family=je.Logistic()), je.BestArm(), 1e-9)
    np.testing.assert_allclose(je.complexity(flat, je.BestArm(), 1e-9).value, one.value, rtol=1e-8)
    items = je.complexity(
        je.Instance(ARMS, THETA, family=je.Logistic()), je.BestArm(items=ARMS), 1e-9
    )
    np.testing.assert_allclose(items.value, one.value, rtol=1e-8)
    blind = [0.5, 0.5, 0.0, 0.0, 0.0]  # two arms do not tell the best from others in R^3
    assert (
        je.bounds.information(
            je.Instance(ARMS, THETA, family=je.Logistic()), je.BestArm(), blind
        )
        == 0
    )
    tied = je.Instance(np.eye(2), [0.5, 0.5], family=je.Logistic())
    with pytest.raises(je.errors.ArgumentError, match="0.622459"):
        je.complexity(tied, je.BestArm())


@pytest.mark.parametrize("number", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_features_of_rank_1_in_two_dimensions(number):
    """H* is that of the one dimension that they span."""
    cases = []
    for seed in range(number):
        rng = np.random.default_rng(seed)
        cases.append((rng.standard_normal((4, 1)), rng.standard_normal(1)))
    arms, theta = (np.stack(x) for x in zip(*cases, strict=True))
    own, twice = (
        je.complexity(je.Instance(*pair, family=je.Logistic()), je.BestArm())
        for pair in (
            (arms, theta),
            (np.concatenate([arms, arms], 2), np.concatenate([theta, 0 * theta], 1)),
        )
    )
    assert twice.converged.all()
    np.testing.assert_allclose(twice.value, own.value, rtol=3e-6)


@pytest.mark.parametrize("part, trusted", [(0.0, True), (1e-17, False)])
def test_steps_that_divide_by_rounding_are_not_trusted(part, trusted):
    """Features with a part along the boundary that is rounding alone: the value is 0 then."""
    with scope.float64():
        phi = jnp.asarray([0.8, -0.6, 0.0])
        hat, base = 0.9 * phi, 0.2 * phi
        along = part * jnp.stack([phi, phi * phi], 1)
        one = Boundaries(
            jnp.asarray([[1.0, 0.0]]), along[None], base[None], hat[None], jnp.full(3, 1 / 3),
            jnp.asarray([True]),
        )  # fmt: skip
        value = float(one.bent().value[0])
    assert (value > 0.01) == trusted and value >= 0
