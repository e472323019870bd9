"""Rules and answer maps that break their contract are refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je

K = 3
ONE = je.Instance(np.eye(K), [1.0, 0.9, 0.0])
BATCH = je.Instance(np.stack([np.eye(K)] * 2), [[1.0, 0.9, 0.0], [0.9, 1.0, 0.0]])
SLOW = je.Engine(devices=1, chunk=64)


def a_rule(choose, **more):
    """A user's rule: `choose` and other members, as functions of (rule, view, ..)."""
    traits = je.contracts.Traits(reads=("pieces",), **more.pop("traits", {}))
    members = {"choose": choose, "traits": traits, **more}
    kind = type("Mine", (je.contracts.SamplingRule,), members)
    return dataclasses.dataclass(frozen=True)(kind)()


def refused(rule, instance=ONE, **settings):
    settings = {"runs": 40, "max_samples": 3000, "ridge": 1, "engine": SLOW, **settings}
    with pytest.raises(je.errors.RuleError) as caught:
        je.simulate(instance, je.BestArm(), rule, **settings)
    error = caught.value
    assert error.argument == "rule" and error.given is rule and "; allowed: " in str(error)
    return error


# Arms out of range


@dataclasses.dataclass(frozen=True)
class Late(je.contracts.SamplingRule):
    """Pulls the arms in turn, but `arm` at t = 150; subclasses do so in other methods.

    The arm is traced, so that all share a program.
    """

    arm: int = 0
    traits = je.contracts.Traits(reads=("pieces",))

    def static_part(self):
        return dataclasses.replace(self, arm=0)

    def prepare(self, instance, problem, ridge):
        return np.int64(self.arm)

    def choose(self, view, state):
        return jnp.where(view.t == 150, view.prepared, (view.t % K).astype(jnp.int64)), state


class LanesLast(Late):
    traits = dataclasses.replace(Late.traits, lanes_last=True)


class Never(LanesLast):
    """Its rare work is never due."""

    def choose(self, view, state, rarely):
        arm, state = super().choose(view, state)
        return rarely(jnp.zeros_like(view.t, bool), lambda: arm + 1, arm), state


class Often(LanesLast):
    """It has rare work at every other t."""

    def choose(self, view, state, rarely):
        arm, state = super().choose(view, state)
        return rarely(view.t % 2 == 0, lambda: arm, jnp.where(view.t % 2 == 0, 0, arm)), state


MOST = np.iinfo(np.int32).max
ARMS = {200: 200, K: K, -1: -1, -7: -7, MOST: MOST, -MOST: -MOST, 2**32 + 1: MOST, -(2**40): -MOST}
"""Arm chosen: arm reported. An arm beyond 32 bits is clipped, not wrapped."""


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("kind", [Late, LanesLast, Never, Often])
def test_an_arm_out_of_range(kind, arm):
    error = refused(kind(arm))
    assert (error.t, error.run, error.instance) == (150, 0, None)
    assert abs(error.arm - ARMS[arm]) <= 1
    assert str(error) == (
        f"rule: got {kind.__name__}(arm={arm}) (it chose arm {error.arm} at t = 150 of run 0); "
        "allowed: a rule that chooses arms from 0 to 2"
    )


def by_run(rule, view, state):
    """Out of range when the first mean is small: in some runs, at different t."""
    return jnp.where(view.means[0] < 0.8, 99, view.t % K), state


@pytest.mark.slow
def test_the_earliest_run_is_named():
    """On any layout with equal chunks: the lowest run of the first faulty chunk."""
    mine = a_rule(by_run)
    first, other = (refused(mine, BATCH, runs=np.arange(40) + 5, engine=engine)
                    for engine in (SLOW, je.Engine(devices=1, chunk=64, lanes=64)))  # fmt: skip
    assert str(first) == str(other)
    assert first.arm == 99 and first.run >= 5 and first.instance in (0, 1)
    assert f"run {first.run} of instance {first.instance}" in str(first)
    alone = refused(mine, BATCH, runs=[first.run])
    assert (alone.run, alone.arm) == (first.run, 99)
    one = refused(mine, BATCH[first.instance], runs=[first.run])
    assert one.t == first.t


def test_a_trace_is_refused():
    with pytest.raises(je.errors.RuleError, match=r"arm 200 at t = 150 of run 7\)"):
        je.trace(ONE, je.BestArm(), Late(200), run=7, ridge=1)


def test_an_arm_that_is_never_pulled_is_accepted():
    """At the cap the rule is asked, but nothing is drawn."""
    result = je.simulate(ONE, je.BestArm(), Late(200), runs=40, max_samples=149, delta=1e-30,
                         ridge=1, engine=SLOW)  # fmt: skip
    assert (result.samples == 149).all() and (result.pulls.sum(-1) == 149).all()


# What the methods return; rows of tests/data/bad_input.tsv have what is refused


def test_the_original_error_is_the_cause():
    error = refused(a_rule(lambda rule, view, state: {}["nothing there"]))
    assert isinstance(error.__cause__, KeyError) and error.arm is None


def test_python_integers_and_states_are_fine():
    """A state that begins as a Python number is an array of its type from then on."""

    def choose(rule, view, old):
        return 1, {"next": old["next"] + 1, "an array": view.t.astype(int), "a number": 3}

    count = a_rule(choose, init=lambda rule, view: {"next": 0, "an array": 0, "a number": 0})
    result = je.simulate(ONE, je.BestArm(), count, runs=2, max_samples=30, ridge=1, engine=SLOW)
    assert (result.pulls[..., 1] == result.samples - 2).all()


# The answers of a user's own problem


Y = np.array([[[1.0, 0.0, -1.0]], [[-1.0, 1.0, 0.0]]])


def beyond(theta):
    """In range at the true theta, the only point checked beforehand."""
    wrong = jnp.select([theta[3] < 5, theta[3] < 15], [-1, 2], 2**40)
    return jnp.where(theta[0] < 0.7, wrong, 0)


BEYOND = je.HalfSpaces(beyond, np.pad(Y, ((0, 0), (0, 0), (0, 1))))


@pytest.mark.parametrize("call, last, said", [
    (je.trace, 20.0, 2), (je.simulate, 0.0, -1), (je.simulate, 40.0, 2**31 - 1),
])  # fmt: skip
def test_an_answer_out_of_range(call, last, said):
    with pytest.raises(je.errors.ArgumentError) as caught:
        call(je.Instance(np.eye(4), [1.0, 0.9, 0.0, last]), BEYOND, je.LinGapE(), ridge=1,
             max_samples=3000, delta=1e-9)  # fmt: skip
    error = caught.value
    allowed = "a function that gives an answer from 0 to 1 at every theta_hat"
    assert (error.argument, error.allowed) == ("answer", allowed)
    assert error.note.startswith(f"it gave {said} after ")
    assert error.note.endswith(" samples of run 0")


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Ahead(je.contracts.SamplingRule):
    """Pulls arm k so much more often than arm 0 as its state says: an array by arm, no lanes."""

    traits = je.contracts.Traits(reads=("pieces",), lanes_last=True)

    def init(self, view):
        return jnp.arange(view.counts.shape[0], dtype=view.counts.dtype)

    def choose(self, view, state):
        return view.lanes.argmin(view.counts - state), state


def test_a_state_by_arm_is_not_taken_for_lanes():
    """Of as many arms as lanes."""
    instance = je.Instance.unstructured(np.linspace(0, 1, 16))
    found = je.simulate(
        instance, je.BestArm(), Ahead(), runs=16, delta=1e-9, max_samples=16 + 120 + 16,
        engine=je.Engine(devices=1, lanes=16, chunk=64),
    )  # fmt: skip
    np.testing.assert_array_equal(found.pulls[0, 0], np.tile(np.arange(16) + 2, (16, 1)))
