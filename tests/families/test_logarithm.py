"""Logarithms in plain arithmetic: accuracy, ends, derivatives, float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.families import logarithm


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
    with scope.engine():
        ends = jnp.asarray([0.0, jnp.inf, jnp.nan])
        np.testing.assert_array_equal(logarithm.log(ends), [-np.inf, np.inf, np.nan])
        np.testing.assert_array_equal(logarithm.log1p(ends - 1), [-np.inf, np.inf, np.nan])
        x = jnp.asarray(0.7)
        np.testing.assert_allclose(jax.grad(jax.grad(logarithm.log))(x), -1 / 0.7**2)
        np.testing.assert_allclose(jax.grad(jax.grad(logarithm.log1p))(x), -1 / 1.7**2)
        small = jnp.asarray([0.3, 2.0], jnp.float32)
        np.testing.assert_array_equal(logarithm.log(small), jnp.log(small))
