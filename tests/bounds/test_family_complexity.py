"""H*, T*, w* and the certificate for one-parameter families."""

import contextlib
import io

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import jaxelim as je
from jaxelim import cli
from jaxelim.bounds import complexity
from jaxelim.families import Bernoulli, Exponential, Gaussian, Poisson
from tests.bounds.family_cases import FAMILIES, information, means_of

PROBLEMS = {"best arm": je.BestArm(), "top m": je.TopM(2), "signs": je.Thresholding(0.43)}
FAST = {("bernoulli", name) for name in PROBLEMS}
GRID = [
    pytest.param(
        FAMILIES[family], PROBLEMS[problem], id=f"{family} {problem}",
        marks=() if (family, problem) in FAST else pytest.mark.slow,
    )
    for family in FAMILIES for problem in PROBLEMS
]  # fmt: skip
GK16 = (
    ([0.5, 0.45, 0.43, 0.4], 989.7921, (0.416524, 0.390264, 0.136223, 0.056989)),
    (
        [0.3, 0.21, 0.2, 0.19, 0.18],
        326.6421,
        (0.335885, 0.251499, 0.176632, 0.132417, 0.103567),
    ),
)


def arms(means, family):
    return je.Instance.unstructured(means, family)


@pytest.mark.parametrize(("means", "time", "weights"), GK16)
def test_the_instances_of_garivier_and_kaufmann(means, time, weights):
    found = complexity(arms(means, Bernoulli()), je.BestArm(), 1e-10)
    assert abs(float(found.time) - time) < 6e-5
    assert np.abs(found.allocation - weights).max() < 1e-6
    assert found.gap < 1e-9 and found.converged
    assert found.value.dtype == np.float64


@pytest.mark.parametrize(("family", "problem"), GRID)
def test_the_certificate_by_the_textbook(family, problem):
    """The gap, recomputed from allocation and mixture, on 32 instances, ends included."""
    means = means_of(family, problem, 3, 32)
    found = complexity(arms(means, family), problem, 1e-9)
    assert found.converged.all()
    for i, m in enumerate(means):
        w, q = found.allocation[i], found.mixture[i]
        values, slopes = information(family, problem, m, w)
        exists = np.isfinite(found.information[i])
        assert not q[~exists].any()
        q = q[exists]
        assert abs(w.sum() - 1) < 1e-12 and (w > 0).all() and abs(q.sum() - 1) < 1e-12
        assert (q >= 0).all()
        np.testing.assert_allclose(found.information[i][exists], values, rtol=1e-9)
        np.testing.assert_allclose(found.value[i], values.min(), rtol=1e-9)
        assert (q @ slopes).max() <= (1 + 2e-9) * values.min()


@pytest.mark.parametrize(("family", "problem"), GRID)
def test_against_a_general_optimiser(family, problem):
    """SLSQP on (w, s): maximise s with H_p(w) >= s."""
    means = means_of(family, problem, 4, 4)
    found = complexity(arms(means, family), problem, 1e-9)
    for m, value in zip(means, found.value, strict=True):
        scale = information(family, problem, m, np.full(5, 0.2))[0].min()

        def levels(x, m=m, scale=scale):
            return information(family, problem, m, np.maximum(x[:5], 1e-12))[0] / scale - x[5]

        best = minimize(
            lambda x: -x[5], [*[0.2] * 5, 1.0], method="SLSQP",
            jac=lambda x: np.array([0, 0, 0, 0, 0, -1.0]), bounds=[(1e-9, 1)] * 5 + [(0, None)],
            constraints=[
                {"type": "ineq", "fun": levels},
                {"type": "eq", "fun": lambda x: x[:5].sum() - 1},
            ],
            options={"ftol": 1e-13, "maxiter": 1000},
        )  # fmt: skip
        w = np.maximum(best.x[:5], 1e-9) / np.maximum(best.x[:5], 1e-9).sum()
        reached = information(family, problem, m, w)[0].min()
        assert reached <= value * (1 + 1e-9)  # H* is the maximum
        assert reached >= value * (1 - 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=str)
def test_equal_gaussian_arms_against_the_linear_solver(problem):
    means = means_of(Exponential(), problem, 5, 8)
    other = complexity(arms(means, je.Gaussian(1.5)), problem, 1e-11)
    found = complexity(arms(means, Gaussian([1.5] * 5)), problem, 1e-11)
    np.testing.assert_allclose(found.value, other.value, rtol=1e-10)
    np.testing.assert_allclose(found.allocation, other.allocation, atol=1e-5)


@pytest.mark.parametrize(("centre", "size"), [(1e-9, 1e-10), (0.5, 1e-10), (1 - 1e-6, 1e-6)])
@pytest.mark.parametrize(
    "problem", [je.BestArm(), pytest.param(je.TopM(2), marks=pytest.mark.slow)], ids=str
)
def test_near_ties_approach_gaussians(centre, size, problem):
    """Gaps from 1e-3 to 1e-10 of the distance from an end: T* of Gaussians of variances V(m)."""
    shape = np.array([0, 1, 1.5, 4.0, 4.5])
    size = np.array([1e-3, np.sqrt(1e-3 * size), size])
    means = centre - size[:, None] * min(centre, 1 - centre) * shape
    found = complexity(arms(means, Bernoulli()), problem, 1e-9)
    assert found.converged.all() and found.gap.max() <= 1e-9
    for m, value, relative in zip(means, found.value, size, strict=True):
        gaussian = arms(m, Gaussian(np.sqrt(m * (1 - m)).tolist()))
        other = complexity(gaussian, problem, 1e-9).value
        assert abs(value / other - 1) < 20 * relative + 3e-9


@pytest.mark.slow
def test_dominated_arms():
    found = complexity(arms([1.0, 1 - 1e-6, 0.0, 0.1, 0.1], Bernoulli()), je.BestArm(), 1e-9)
    assert found.converged and (found.allocation[2:] < 1e-6).all() and (found.allocation > 0).all()


@pytest.mark.slow
def test_two_arms():
    two = complexity(arms([1.0, 0.0], Bernoulli()), je.BestArm(), 1e-9)
    np.testing.assert_allclose([two.value, *two.allocation], [np.log(2), 0.5, 0.5], rtol=1e-12)


def test_values_and_prices():
    means, family, problem = np.array([0.7, 0.5, 0.2, 0.0, 0.1]), Bernoulli(), je.BestArm()
    one, w = arms(means, family), np.array([0.1, 0.2, 0.3, 0.1, 0.3])
    values, _ = information(family, problem, means, w)
    np.testing.assert_allclose(je.bounds.information(one, problem, w), values.min(), rtol=1e-12)
    best = complexity(one, problem)
    np.testing.assert_allclose(je.bounds.information(one, problem, best.allocation), best.value)
    assert je.bounds.information(one, problem, [0.5, 0.5, 0, 0, 0]) == 0  # no weight


@pytest.mark.parametrize(
    "problem", [je.BestArm(), pytest.param(je.TopM(2), marks=pytest.mark.slow)], ids=str
)
def test_batches_and_single_instances(problem):
    means = means_of(Bernoulli(), problem, 6, 11)
    many = complexity(arms(means, Bernoulli()), problem, 1e-10)
    for i in (0, 10):
        one = complexity(arms(means[i], Bernoulli()), problem, 1e-10)
        np.testing.assert_allclose(one.value, many.value[i], rtol=2e-10)
        np.testing.assert_allclose(one.allocation, many.allocation[i], atol=1e-5)


def refused(call, kind, *words):
    with pytest.raises(kind) as error:
        call()
    assert all(word in str(error.value) for word in words)


def test_what_is_refused():
    fine = arms([0.5, 0.4], Bernoulli())
    tie = arms([0.5, 0.5, 0.4], Bernoulli())
    refused(lambda: complexity(tie, je.BestArm()), je.errors.ArgumentError, "arms 0 and 1")
    on = arms([0.5, 0.4], Poisson())
    refused(lambda: complexity(on, je.Thresholding(0.4)), je.errors.ArgumentError, "arm 1")
    for family, level in ((Bernoulli(), 1.0), (Bernoulli(), 0.0), (Exponential(), -1.0)):
        one = arms([0.5, 0.4], family)
        refused(lambda p=level, i=one: complexity(i, je.Thresholding(p)), je.errors.ArgumentError,
                "level", "inside")  # fmt: skip

    halves = je.HalfSpaces(lambda theta: jnp.zeros((), jnp.int32), [[[1.0, -0.5]]], [[0.0]])
    refused(lambda: complexity(fine, halves), je.errors.UnsupportedError, "pairs of arms")


def test_the_command_line_and_its_figure(tmp_path):
    path, figure = str(tmp_path / "mine.json"), tmp_path / "w.png"
    je.Instance.unstructured([0.5, 0.45, 0.43, 0.4]).to_json(path)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = cli.main(["instances", "describe", path, "--family", "bernoulli",
                         "--figure", str(figure)])
    assert code == 0 and "T* = 989.792" in out.getvalue() and "0: 0.4165" in out.getvalue()
    assert figure.read_bytes()[:4] == b"\x89PNG"
