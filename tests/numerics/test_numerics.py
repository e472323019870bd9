"""Singular values by rotations, solves and logarithms, against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.numerics import logarithm
from jaxelim.numerics.jacobi import inverse, least_squares, orthonormal, product, svd

SHAPES = [(50, 20), (3, 5), (5, 5), (1, 4), (4, 1), (9, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_against_numpy(shape):
    a = np.random.default_rng(sum(shape)).normal(size=shape)
    known = np.linalg.svd(a, compute_uv=False)
    with scope.engine():
        for u, s, vt in (svd(a), jax.jit(svd)(a)):
            np.testing.assert_allclose(s, known, rtol=1e-14)
            np.testing.assert_allclose(u * s @ vt, a, atol=1e-14 * np.max(np.abs(a)) * 10)
            np.testing.assert_allclose(vt @ np.swapaxes(vt, 0, 1), np.eye(len(s)), atol=1e-14)


def test_nearly_equal_columns_keep_their_digits():
    """A singular value of 1e-9 has all its digits; NumPy's has seven."""
    a = np.diag([1.0, 1e-9]) @ np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    _, s, _ = svd(a)
    np.testing.assert_allclose(s, [1.0, 1e-9], rtol=1e-6)
    unit, map = orthonormal(np.c_[a, a[:, :1]])
    np.testing.assert_allclose(np.sum(unit * unit, 0), [1, 1, 0], atol=1e-14)
    np.testing.assert_array_equal(map[:, 2], 0)


def test_inverses_and_least_squares():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 6, 9))
    a = root @ np.swapaxes(root, 1, 2)
    found = product(inverse(a), a)
    np.testing.assert_allclose(found, np.tile(np.eye(6), (3, 1, 1)), atol=1e-11)
    for shape in ((7, 3), (3, 7), (4, 4)):
        a, b = rng.normal(size=shape), rng.normal(size=shape[0])
        known = np.linalg.lstsq(a, b, rcond=None)[0]
        np.testing.assert_allclose(least_squares(a, b), known, rtol=1e-10)


@pytest.mark.parametrize("name", ["log", "log1p"])
def test_one_unit_in_the_last_place(name):
    rng = np.random.default_rng(0)
    x = np.concatenate([
        rng.uniform(0, 3, 20000), np.exp(rng.uniform(-700, 700, 20000)),
        (1 if name == "log" else 0) + rng.normal(size=20000) * 10.0 ** rng.uniform(-16, -1, 20000),
        np.exp(rng.uniform(-36, 0, 20000)) - (0 if name == "log" else 1),
    ])  # fmt: skip
    with scope.engine():
        ours = np.asarray(jax.jit(getattr(logarithm, name))(jnp.asarray(x)))
    known = getattr(np, name)(x)
    assert np.max(np.abs(ours - known) / np.spacing(np.abs(known))) <= 2


def test_ends_and_derivatives():
    log, log1p = logarithm.log, logarithm.log1p

    @jax.jit
    def all_of(ends, x, small):
        slopes = jax.grad(jax.grad(log))(x), jax.grad(jax.grad(log1p))(x)
        return log(ends), log1p(ends - 1), slopes, log(small), jnp.log(small)

    with scope.engine():
        ends, small = np.array([0.0, np.inf, np.nan]), np.array([0.3, 2.0], np.float32)
        of_log, of_log1p, slopes, single, known = all_of(ends, 0.7, small)
    np.testing.assert_array_equal(of_log, [-np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(of_log1p, [-np.inf, np.inf, np.nan])
    np.testing.assert_allclose(slopes, [-1 / 0.7**2, -1 / 1.7**2])
    np.testing.assert_array_equal(single, known)
