"""Batches and delays: what a rule sees, and every layout.

Runs beside the NumPy twin are rows of tests/rules/test_agreement.py.
"""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.simulation.refusals import proven
from tests.calls import checked, equal

SELECTIVE = je.SelectiveElimination()
ARMS = np.random.default_rng(5).normal(size=(5, 3))
PLAIN = je.Instance(np.eye(4), [[1.2, 0.1, 0.5, -0.6], [0.3, 0.9, -0.4, 0.0]], noise_std=0.4)
COINS = je.Instance.unstructured([0.85, 0.35, 0.1, 0.6], je.Bernoulli())


@dataclasses.dataclass(frozen=True)
class Sums(je.contracts.SamplingRule):
    """Pulls the least pulled arm while the sums are counts times means."""

    traits: ClassVar[je.contracts.Traits] = je.contracts.Traits(
        families=None, reads=("rewards", "pieces"), lanes_last=True
    )

    def choose(self, view, state):
        apart = jnp.abs(view.reward_sums - view.counts * view.means) > 1e-9
        return jnp.where(view.lanes.any(apart), 0, view.lanes.argmin(view.counts)), state


@pytest.mark.parametrize("instance", [PLAIN.unbatched[0], COINS], ids=["gaussian", "bernoulli"])
def test_sums_are_counts_times_means(instance):
    """Of all pulls, pending ones too."""
    run = je.trace(instance, je.BestArm(), Sums(), max_samples=60, batch=5, delay=4, delta=1e-9)
    assert run.arms.tolist() == list(range(4)) * 15


def test_batches_change_what_a_rule_knows_and_nothing_else():
    """Rewards of an arm are those of its pulls: of `Uniform` they do not change with a batch."""
    one, other = (
        je.trace(PLAIN.unbatched[0], je.BestArm(), je.Uniform(), max_samples=50, delta=1e-9,
                 **waits)
        for waits in ({}, {"batch": 5, "delay": 2})
    )  # fmt: skip
    np.testing.assert_array_equal(one.rewards, other.rewards)
    np.testing.assert_array_equal(one.arms, other.arms)


# Layouts.

COMMON: dict[str, Any] = dict(delta=0.05, runs=40, seed=11, max_samples=900, batch=4,
                              delay=9, stopping=(je.LLR(), SELECTIVE))  # fmt: skip
TOWARD = 1.5 * ARMS[0] / np.linalg.norm(ARMS[0])
ONE = je.Instance(ARMS, TOWARD, noise_std=2.5)


def simulated(instance=ONE, rule=None, **changes):
    return je.simulate(instance, je.BestArm(), rule or je.LinGapE(), **{**COMMON, **changes})


@pytest.fixture(scope="module")
def many():
    result = simulated(engine=je.Engine(devices=1, shrink=False))
    assert result.stopped.mean() > 0.9 and len(set(result.samples[0, 0].tolist())) > 20
    return result


def test_layouts_do_not_matter(many):
    equal(many, simulated(engine=je.Engine(lanes=64, chunk=37, devices=1)))


@pytest.mark.slow
def test_blocks_and_stores_do_not_matter(many, tmp_path):
    """Blocks of a store are those of this batch and delay, and go on from there."""
    stored, again = (simulated(store=tmp_path, block=16) for _ in range(2))
    equal(many, stored)
    equal(many, again)
    assert stored.settings["batch"] == 4 and stored.settings["delay"] == 9
    assert len(list(tmp_path.glob("blocks/*/*.npz"))) == 3
    simulated(store=tmp_path, block=16, batch=3, runs=16)
    assert len(list(tmp_path.glob("blocks/*/*.npz"))) == 4


RULES = {
    "rage": (je.Instance(ARMS, 2 * TOWARD), je.RAGE(steps=300)),
    "lazy-tas": (ONE, je.LazyTaS()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_rules_of_two_speeds_and_with_own_tests(name):
    """Layouts do not matter, and runs end once rewards have entered."""
    instance, rule = RULES[name]
    stopping = je.LLR() if "llr" in rule.traits.stopping else je.Native()
    one, other = (
        simulated(instance, rule, stopping=stopping, max_samples=3000, runs=24, engine=layout)
        for layout in (
            je.Engine(devices=1, shrink=False), je.Engine(lanes=7, chunk=40, shrink=True)
        )
    )  # fmt: skip
    equal(one, other)
    assert one.stopped.mean() > 0.9, one.stopped.mean()
    after = one.samples[one.stopped] - 5  # the batch ends of four pulls, after five initial ones
    assert (after % 4 == 0).all()


# Results, and bad input.


@pytest.mark.slow
def test_what_a_result_says(tmp_path):
    """Batch and delay in settings, summary and file; intervals of the rewards that entered."""
    given = dict(runs=20, delta=0.1, engine=je.Engine(devices=1))
    one = PLAIN.unbatched[0], je.BestArm(), je.Uniform()
    result = je.simulate(*one, record=("means",), threshold=je.Mixture(), batch=6, delay=3, **given)
    assert result.settings["batch"] == 6 and result.settings["delay"] == 3 and result.proven is True
    assert "batches of 6, after delays of 3 samples" in str(result.summary())
    entered = result.entered
    assert entered.dtype == np.int32 and entered.shape == result.pulls.shape
    missing = (result.pulls - entered).sum(-1)
    assert (missing[result.stopped] == 3).all() and (entered >= 1).all()
    result.save(tmp_path / "waits.nc")
    loaded = je.load_result(tmp_path / "waits.nc")
    np.testing.assert_array_equal(loaded.entered, entered)
    assert loaded.settings["batch"] == 6
    low = result.intervals().low
    bare = dataclasses.replace(result, entered=None)
    assert (low <= bare.intervals().low).all() and (low < bare.intervals().low).any()
    plain = je.simulate(*one, batch=1, delay=0, **given)
    assert plain.entered is None and "batch" not in plain.settings


def test_native_tests_are_not_proven():
    """A rule's own intervals count pending pulls."""
    call = checked(COINS, je.BestArm(), je.LUCB(), max_samples=100, batch=4, stopping=je.Native(),
                   threshold=je.thresholds.KaufmannKoolen(3))  # fmt: skip
    assert "counts rewards that are pending" in str(proven(call))
