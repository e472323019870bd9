"""Rules with rare work: all runs in one lane, started by many, where that takes less time."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine
from jaxelim.engine.loop import Program
from tests import digests
from tests.engine.test_invariance import COMMON, SELECTIVE, equal
from tests.engine.test_one_lane import SMALL

pytestmark = pytest.mark.devices
EASIER = je.Instance(SMALL.arms, 6 * SMALL.theta)
"""Its runs take 50 to 2700 samples."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class InTurn(je.LinGapE):
    """LinGapE with rare work at times, so that lanes wait for one another."""

    def choose(self, view, state, rarely):
        go = view.t % 7 == 0
        arm, state = super().choose(view, state)
        return rarely(go, lambda: arm, jnp.where(go, 0, arm)), state


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class OfOneRun(InTurn):
    """The same, written for one run."""

    traits: ClassVar = dataclasses.replace(je.LinGapE.traits, lanes_last=False)


@pytest.fixture
def returns(monkeypatch):
    """How many runs were left in the queue, at each return from one lane to many."""
    found, taken_back = [], Program.taken_back

    def spied(self, carry, before):
        found.append(int(np.sum(before.live) - np.sum(~np.asarray(before.lane.done))))
        return taken_back(self, carry, before)

    monkeypatch.setattr(Program, "taken_back", spied)
    return found


def simulated(rule, shrink, problem=None, instance=EASIER, **more):
    layout = je.Engine(shrink=shrink, **more.pop("layout", {"devices": 1}))
    settings = {**COMMON, "stopping": (je.LLR(), SELECTIVE), **more}
    return je.simulate(instance, problem or je.BestArm(), rule, engine=layout, **settings)


@pytest.fixture(scope="module")
def kept():
    return simulated(je.LinGapE(), False)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [{"devices": 1}, {"devices": 2}, {"devices": 1, "chunk": 16}])
def test_runs_are_taken_from_the_queue_in_turn(kept, returns, layout):
    """Sixteen at a time on each device, the last ones among them; and they are the same runs."""
    equal(kept, simulated(InTurn(), True, layout=layout))
    assert returns == ([24, 8] if layout["devices"] == 1 else [8])


@pytest.mark.parametrize(
    "rule, more",
    [
        (InTurn(), {"shrink": False}),
        (InTurn(), {"shrink": True, "layout": {"devices": 1, "lanes": 16}}),
        (je.LinGapE(rate=1.5), {"shrink": True}),
        (OfOneRun(), {"shrink": True}),
    ],
    ids=["never", "lanes by hand", "no rare work", "under vmap"],
)
def test_runs_stay_side_by_side(returns, rule, more):
    """All of them but the last ones, where nothing else is asked for or declared."""
    assert simulated(rule, **more).runs.size == 40
    assert returns == []


@pytest.mark.slow
def test_one_lane_is_compiled_once_that_pays(returns):
    """By default: where a call works for longer than the program of many lanes compiled."""
    rule = InTurn(rate=2.5)
    first = simulated(rule, None)
    assert returns == []
    (wide,) = (p for p in engine.program.values() if p.spec.rule == rule)
    assert wide.spec.execution.lanes > 1 and wide.compile_seconds > 0
    wide.compile_seconds = 0.0
    equal(first, simulated(rule, None))
    assert returns == [24, 8]
    made = [p for p in engine.program.values() if p.spec.rule == rule]
    assert len(made) == 2 and {p.traces for p in made} == {1}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"delta": [0.1, 0.01]},
        {"instance": je.Instance(EASIER.arms, [EASIER.theta, EASIER.theta[::-1]]), "runs": 20},
        {"runs": 33, "layout": {"devices": 2}},
        {"noise": np.random.default_rng(2).normal(size=(40, 3000))},
    ],
    ids=["a trajectory for each delta", "a batch", "queues of 17 and 16", "given noise"],
)
def test_other_jobs_in_turn(returns, more):
    equal(*(simulated(InTurn(), shrink, **more) for shrink in (False, True)))
    assert returns and returns[-1] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fws linear", "lazy-tas linear-d20", "family exponential fws"])
def test_jobs_of_the_digests(returns, name):
    """The package's rules with rare work: every array, entry by entry."""
    job = next(job for job in digests.JOBS if job.name == name)
    settings = {**job.settings, "runs": 40}
    settings.pop("engine")
    one, other = (
        je.simulate(job.instance, job.problem, job.rule, **settings,
                    engine=je.Engine(devices=1, chunk=32, shrink=shrink))
        for shrink in (False, True)
    )  # fmt: skip
    for array in digests.ARRAYS:
        np.testing.assert_array_equal(getattr(one, array), getattr(other, array), err_msg=array)
    assert returns == [24, 8]
