"""Logarithms in plain arithmetic: accuracy, ends, derivatives; other types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.numerics import logarithm


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
