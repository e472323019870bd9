"""What the engine finds in a traced `choose`."""

import pytest

import jaxelim as je
from jaxelim import engine, scope
from tests import jobs
from tests.calls import planned


@pytest.mark.parametrize("rule, many", [(je.LinGame(), True), (je.LinGapE(), False)], ids=repr)
def test_steps_with_loops_inside_stay_many_kernels(rule, many):
    """XLA would make one kernel of LinGame's steps, which is slower."""
    settings = dict(delta=0.1, stopping=je.LLR(), elimination=None, runs=80, max_samples=300)
    with scope.engine():
        spec, inputs, _ = planned((jobs.D20, je.BestArm(), rule), settings)
        options = spec.execution.compiler_options(None, engine.outline(spec, inputs).inner_loops)
    assert ("xla_disable_hlo_passes" in options) == many
