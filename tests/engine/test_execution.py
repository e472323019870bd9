"""What the engine finds in a traced `choose`: how long lanes wait for it."""

import pytest

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.engine.execution import PATIENCE, PATIENCE_ONE_BY_ONE
from tests import digests
from tests.calls import planned
from tests.engine.test_one_lane import SMALL, InTurn, OfOneRun


@pytest.mark.parametrize(
    "rule, backend, expected",
    [
        (je.TrackAndStop(), "cpu", PATIENCE_ONE_BY_ONE),
        (je.TrackAndStop(), "gpu", PATIENCE),
        (InTurn(), "cpu", PATIENCE),
        (OfOneRun(), "cpu", PATIENCE),
    ],
    ids=["one by one", "side by side", "lanes last", "under vmap"],
)
def test_lanes_wait_less_for_a_choice_that_takes_them_one_by_one(rule, backend, expected):
    settings = dict(delta=0.1, stopping=je.LLR(), elimination=None, runs=16, max_samples=300)
    with scope.engine():
        call = (SMALL, je.BestArm(), rule)
        spec, inputs, _ = planned(call, settings | {"engine": je.Engine(devices=1)}, backend)
        assert engine.outline(spec, inputs).patience == expected


@pytest.mark.parametrize("rule, many", [(je.LinGame(), True), (je.LinGapE(), False)], ids=repr)
def test_steps_with_loops_inside_stay_many_kernels(rule, many):
    """XLA would make one kernel of LinGame's steps, which is slower."""
    settings = dict(delta=0.1, stopping=je.LLR(), elimination=None, runs=80, max_samples=300)
    with scope.engine():
        spec, inputs, _ = planned((digests.D20, je.BestArm(), rule), settings)
        options = spec.execution.compiler_options(None, engine.outline(spec, inputs).inner_loops)
    assert ("xla_disable_hlo_passes" in options) == many
