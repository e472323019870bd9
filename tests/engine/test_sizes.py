"""Sizes beyond a type: a wider type is taken, or the call is refused."""

import dataclasses
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families import gaussian
from jaxelim.lanes import LaneOps
from tests.calls import rows

# Integers


@dataclasses.dataclass(frozen=True)
class Last(je.contracts.SamplingRule):
    traits = je.contracts.Traits(reads=("pieces",), lanes_last=True)

    def choose(self, view, state):
        return jnp.full_like(view.t, view.means.shape[0] - 1), state


def easy_for_one_delta(t, delta):
    return jnp.where(delta > 0.1, 5.0, 1e9) + 0 * t


@pytest.mark.parametrize("arms", rows([40, 2**15 + 100], {40}))
def test_pulls_at_every_stop_sum_to_samples(arms):
    """Of two observers one stops at once and one never.

    The pulls in between are of an arm beyond int16.
    """
    features = np.tile([[0.0, 1e-3]], (arms, 1)) * (1 + np.arange(arms)[:, None])
    features[0] = [1.0, 0.0]
    result = je.simulate(
        je.Instance(features, [100.0, 0.0]), je.BestArm(), Last(), threshold=easy_for_one_delta,
        engine=je.Engine(devices=1, chunk=64), delta=[0.5, 1e-9], runs=2, ridge=1,
        max_samples=arms + 40,
    )  # fmt: skip
    assert (result.samples[0, 0] < arms + 5).all() and (result.samples[0, 1] == arms + 40).all()
    np.testing.assert_array_equal(result.pulls.sum(-1), result.samples)


def gathered(f, *shapes):
    """The type of the indices that f gathers with, for these shapes and types."""
    given = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    with scope.engine():
        equations = jax.make_jaxpr(f)(*given).jaxpr.eqns
    found = [e.invars[1].aval.dtype for e in equations if e.primitive.name == "gather"]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("b, dtype", [(8191, jnp.int32), (8192, jnp.int64)])
def test_places_beyond_32_bits(b, dtype):
    """[512, 512, 8192] has 2^31 entries: one more than int32 can count."""
    lanes, i, pairs = LaneOps(None), ((b,), jnp.int32), ((512, 512, b), jnp.bool_)
    assert gathered(lanes.row, pairs, i) == dtype
    assert gathered(lanes.column, pairs, i) == dtype
    assert gathered(lanes.take, ((512 * 512, b), jnp.bool_), i) == dtype
    assert gathered(lanes.row, ((512 * b, 512), jnp.bool_), ((16,), jnp.int32)) == dtype


def may_cancel(instance, ridge, max_samples):
    """The definition, with all pairs at once."""
    for features in np.reshape(instance.arms, (-1, instance.K, instance.d)):
        norms = np.sum(features**2, 1)
        squares = np.sum((features[:, None] - features[None]) ** 2, 2)
        apart = np.any(features[:, None] != features[None], 2)
        eigenvalues = np.linalg.eigvalsh(features.T @ features + ridge * np.eye(instance.d))
        condition = (ridge + max_samples * norms.max()) / max(eigenvalues[0], 1e-300)
        if np.any(squares[apart] < 1e-10 * np.sqrt(condition) * 2 * norms.max()):
            return True
    return False


def test_near_arms_are_found():
    """As by the definition: all distances between arms, identical arms, batches, zero arms."""
    rng, found = np.random.default_rng(0), []
    for case in range(600):
        k, d = rng.integers(2, 12), rng.integers(1, 5)
        arms = rng.normal(size=(rng.integers(1, 3), k, d)) * 10.0 ** rng.integers(-2, 3)
        if case % 2:
            arms[:, -1] = arms[:, 0]
        if case % 5 == 0:
            arms[:, k // 2] = 0
        if case % 3:
            arms[0, 1] = arms[0, 0] + 10.0 ** rng.uniform(-9, 0) * rng.normal(size=d)
        instance = je.Instance(arms, np.ones((len(arms), d)))
        ridge, cap = 10.0 ** rng.uniform(-3, 3), 10 ** int(rng.integers(2, 5))
        found.append(gaussian.may_cancel(instance, ridge, cap))
        assert found[-1] == may_cancel(instance, ridge, cap), case
    assert 100 < sum(found) < 500


def test_near_arms_take_little_memory():
    rng = np.random.default_rng(1)
    instance = je.Instance(rng.normal(size=(8000, 2)), [1.0, 0.0])
    tracemalloc.start()
    try:
        assert not gaussian.may_cancel(instance, 1.0, 100)
        assert tracemalloc.get_traced_memory()[1] < 30e6  # a K x K matrix is 512 MB
    finally:
        tracemalloc.stop()
