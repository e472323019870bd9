"""Lazy Track-and-Stop: rounding, the twin's allocations, arms that do not span."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine import cpu_options
from jaxelim.rules.parts.lazy_weights import averaged
from jaxelim.testing.rules import run_by_run
from tests import twin


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "as_run"), [("linear-d10", lambda rule: rule), ("unstructured-k40", run_by_run)],
    ids=["lanes", "by run"],
)  # fmt: skip
def test_the_allocations_equal_the_twins_bit_by_bit(name, as_run):
    seen, solves, pulls = {}, [], 260

    def record(t, bits):  # callbacks have no 64-bit types, so floats come in two halves
        weights = np.ascontiguousarray(bits).view(np.float64)[..., 0]
        for time, w in zip(np.atleast_1d(t).tolist(), np.atleast_2d(weights.T), strict=True):
            seen[time] = w

    @jax.tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Watched(je.LazyTaS):
        def choose(self, view, state):
            arm, state = super().choose(view, state)
            bits = jax.lax.bitcast_convert_type(state.weights, jnp.uint32)
            jax.debug.callback(record, view.t, bits)
            return arm, state

    class Kept(twin.RULES["lazy_tas"]):
        def improve(self, seen, labels):
            super().improve(seen, labels)
            solves.append(self.w)

    instance, noise = je.load_instance(name), np.random.default_rng(1).standard_normal(pulls)
    world = twin.Linear(instance.arms, instance.theta)
    twin.run(world, ("bai",), Kept, noise=noise, beta=lambda t, delta: np.inf)
    je.simulate(instance, je.BestArm(), as_run(Watched()), runs=1, noise=noise[None],
                threshold=lambda t, delta: 1e9 + 0 * (t + delta), max_samples=pulls, ridge=1,
                )  # fmt: skip
    jax.effects_barrier()
    for t, w in zip((64, 128, 256), solves, strict=True):
        np.testing.assert_array_equal(seen[t], w)


def test_arms_that_do_not_span_are_not_explored_by_force():
    instance = je.Instance([[1.0, 0, 0], [1.0, 0.5, 0], [0.0, 1, 0]], [1.0, 0.4, 0])
    prepared = je.LazyTaS().prepare(instance, je.BestArm(), 1.0)
    np.testing.assert_array_equal(prepared.spanner, [0, 1, 0])
    assert prepared.c0 == 0
