"""Singular values by rotations against NumPy's, of NumPy and of JAX arrays."""

import jax
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.numerics import host
from jaxelim.numerics.jacobi import least_squares, orthonormal, svd

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


def test_inverses_on_the_host():
    root = np.random.default_rng(0).normal(size=(3, 6, 9))
    a = root @ np.swapaxes(root, 1, 2)
    found = host.product(host.inverse(a), a)
    np.testing.assert_allclose(found, np.tile(np.eye(6), (3, 1, 1)), atol=1e-11)


def test_least_squares():
    rng = np.random.default_rng(0)
    for shape in ((7, 3), (3, 7), (4, 4)):
        a, b = rng.normal(size=shape), rng.normal(size=shape[0])
        known = np.linalg.lstsq(a, b, rcond=None)[0]
        np.testing.assert_allclose(least_squares(a, b), known, rtol=1e-10)
