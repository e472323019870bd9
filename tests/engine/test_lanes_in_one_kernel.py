"""The steps of all lanes as one kernel: which calls have them, and the same runs as by many."""

import jax
import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.testing.settings import run_by_run
from tests import digests
from tests.calls import planned
from tests.engine.test_invariance import SELECTIVE
from tests.engine.test_one_lane import check_kernels, lowered, shipped, slow

ANGLES = np.array([0.0, 0.9, 1.8, 2.7, 3.6])
FIVE = je.Instance(np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1), [1.0, 0.3], name="five")
OTHERS = je.Instance(np.random.default_rng(1).normal(size=(30, 7)), np.eye(7)[0] / 4)
MORE_ARMS = je.Instance(np.random.default_rng(2).normal(size=(70, 9)), np.eye(9)[0] / 4)
EIGHT = digests.EIGHT
BEST, TOP, SIGNS = je.BestArm(), je.TopM(3), je.Thresholding()
ONE = je.Engine(devices=1, lanes=32)


def specs(instance, problem, rule, backend=None, **more):
    """The spec of a call, with its program's inputs and queue."""
    settings = dict(
        delta=0.05, stopping=SELECTIVE, elimination=SELECTIVE if rule.traits.elimination else None,
        runs=80, max_samples=20_000, engine=ONE,
    )  # fmt: skip
    return planned((instance, problem, rule), settings | more, backend)


@pytest.mark.parametrize(
    "instance, problem, rule",
    [
        slow(OTHERS, BEST, je.LinGapE()),
        slow(OTHERS, TOP, je.LinGapE()),
        (EIGHT, BEST, je.EBTCI()),
        slow(FIVE, BEST, je.LinGapE()),
        slow(MORE_ARMS, BEST, je.LinGapE()),
        shipped(digests.D20, BEST, je.LinGapE()),
        slow(digests.D20, je.TopM(5), je.LinGapE()),
        slow(digests.D20_SIGNS, SIGNS, je.LinGapE()),
        slow(digests.D20, BEST, je.Oracle()),
        slow(digests.D20_SIGNS, SIGNS, je.Oracle()),
        slow(OTHERS, BEST, je.Uniform()),
        slow(digests.K40, BEST, je.TTUCB(share="ids")),
    ],
    ids=repr,
)  # fmt: skip
def test_one_kernel_rounds_as_many(instance, problem, rule):
    """Every number of every lane's state after some chunks is the same, to the last bit.

    Linear rows run as shipped: the plainer emitter of the fast suite rounds their products
    otherwise.
    """
    states = []
    with scope.engine():
        spec, inputs, queue = specs(instance, problem, rule)
        assert spec.execution.one_kernel and spec.execution.lanes == 32
        for one_kernel in (True, False):
            program = engine.Program(spec.executed(one_kernel=one_kernel))
            placed = program.begun(inputs, queue, program.empty(inputs, queue))
            states.append(jax.device_get(program.advance(*placed, np.int32(3))))
    leaves = [jax.tree.leaves(state) for state in states]
    assert len(leaves[0]) > 10 and states[0].samples > 1000
    for one, many in zip(*leaves, strict=True):
        np.testing.assert_array_equal(one, many)


@pytest.mark.slow
def test_the_steps_of_all_lanes_stand_in_one_tagged_call():
    """As those of a lane alone do."""
    check_kernels(lowered(je.LinGapE(), 16), 1)


class Sorted(je.Uniform):
    """Sorts, which needs a library."""

    def choose(self, view, state):
        arm, state = super().choose(view, state)
        first = jax.numpy.argsort(view.means, axis=0)[0]
        return arm + 0 * first.astype(arm.dtype), state


@pytest.mark.slow
def test_steps_that_need_a_library_stay_in_many_kernels():
    """The runs are those of the rule without the sort."""
    plain, own = (
        je.simulate(FIVE, BEST, rule, delta=0.1, runs=20, max_samples=500, engine=ONE)
        for rule in (je.Uniform(), Sorted())
    )
    np.testing.assert_array_equal(plain.pulls, own.pulls)
    np.testing.assert_array_equal(plain.samples, own.samples)


WIDE = je.Instance(np.random.default_rng(3).normal(size=(250, 20)), np.eye(20)[0])
ARMS = je.Instance(np.random.default_rng(4).normal(size=(20, 15)), np.eye(15)[0])


@pytest.mark.parametrize(
    "expected, instance, rule, more",
    [
        (32, OTHERS, je.LinGapE(), {}),
        (32, digests.K40, je.EBTCI(), {}),
        (64, OTHERS, je.LinGIFA(), {}),
        (32, OTHERS, je.Oracle(), {}),
        (32, digests.K40, je.TTUCB(share="ids"), {}),
        (64, digests.K40, je.LUCB(), {"stopping": je.Native(), "elimination": None}),
        (64, digests.K40, je.Racing(), {"stopping": je.Native(), "elimination": None}),
        (64, digests.K40, je.LinGame(), {}),
        (64, digests.K40, je.Oracle(), {}),
        (64, digests.K40, je.Uniform(), {}),
        (64, OTHERS, je.LinGame(), {}),
        (64, digests.K40, je.LinGapE(), {}),
        (64, digests.K40, je.T3C(), {}),
        (64, OTHERS, je.FWS(), {}),
        (64, digests.COINS, je.EBTCI(), {"ridge": None}),
        (64, WIDE, je.LinGapE(), {}),
        (32, ARMS, je.LinGapE(), {}),
        (64, digests.THREE, je.LinGapE(), {}),
        (64, OTHERS, run_by_run(je.LinGapE()), {}),
    ],
    ids=repr,
)
def test_which_calls_have_one_kernel(expected, instance, rule, more):
    """The number of lanes says which: 32 in one kernel, 64 in many."""
    with scope.engine():
        many = {"runs": 4096, "engine": je.Engine(devices=1)}
        spec, _, _ = specs(instance, BEST, rule, **many | more)
        assert (spec.execution.lanes, spec.execution.one_kernel) == (expected, expected == 32)
        gpu = specs(instance, BEST, rule, **many | more, backend="gpu")[0].execution
        assert not gpu.one_kernel
