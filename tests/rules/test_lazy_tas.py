"""Lazy Track-and-Stop: rounding, arms that do not span."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine.state import cpu_options
from jaxelim.rules.lazy_tas import averaged


@pytest.mark.parametrize("form", ["one run", "lanes", "vmapped"])
@pytest.mark.parametrize("design", ["square", "diagonal"])
def test_every_operation_of_the_average_is_rounded(form, design):
    """A fused multiply-add rounds once and gives other last digits."""
    K, B, steps = 40, 16, 300
    arms = np.random.default_rng(3).integers(K, size=(steps, B)).astype(np.int32)
    expected = np.full((B, K), 1 / K)
    for i, chosen in enumerate(arms, 1):
        expected = expected * (i / (i + 1)) + np.eye(K)[chosen] / (i + 1)

    def solve(arms, start):
        each = np.arange(K, dtype=np.int32).reshape((K,) + (1,) * (start.ndim - 1))

        def step(carry):
            i, w = carry
            return i + 1, averaged(w, each == arms[i - 1], i)

        return jax.lax.while_loop(lambda carry: carry[0] <= steps, step, (jnp.int32(1), start))[1]

    many = {"one run": solve, "lanes": solve, "vmapped": jax.vmap(solve, -1, -1)}[form]
    last = () if form == "one run" else (B,)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        given = arms[:, 0] if form == "one run" else arms, np.full((K, *last), 1 / K)
        options = cpu_options(None if design == "diagonal" else "1")
        found = jax.jit(many).lower(*given).compile(options)(*given)
    expected = expected[0] if form == "one run" else expected.T
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_arms_that_do_not_span_are_not_explored_by_force():
    instance = je.Instance([[1.0, 0, 0], [1.0, 0.5, 0], [0.0, 1, 0]], [1.0, 0.4, 0])
    prepared = je.LazyTaS().prepare(instance, je.BestArm(), 1.0)
    np.testing.assert_array_equal(prepared.spanner, [0, 1, 0])
    assert prepared.c0 == 0
