"""Rules and answer maps that break their contract are refused."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine import program

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
    assert (error.t, error.run, error.instance) == (150, 0, None) and abs(
        error.arm - ARMS[arm]
    ) <= 1
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
    found = [
        refused(mine, BATCH, runs=np.arange(40) + 5, engine=engine)
        for engine in (SLOW, je.Engine(devices=1, chunk=64, lanes=64))
    ]
    assert len({str(error) for error in found}) == 1
    first = found[0]
    assert first.arm == 99 and first.run >= 5 and first.instance in (0, 1)
    assert f"run {first.run} of instance {first.instance}" in str(first)
    alone = refused(mine, BATCH, runs=[first.run])
    assert (alone.run, alone.arm) == (first.run, 99)
    one = refused(mine, BATCH[first.instance], runs=[first.run])
    assert one.t == first.t


def test_a_trace_is_refused():
    with pytest.raises(je.errors.RuleError, match=r"arm 200 at t = 150 of run 7\)"):
        je.trace(ONE, je.BestArm(), Late(200), run=7, ridge=1)


def test_all_devices_name_the_same_run():
    error = refused(Late(200), engine=je.Engine(devices=len(jax.devices()), chunk=64))
    assert (error.run, error.t) == (0, 150)


def test_an_arm_that_is_never_pulled_is_accepted():
    """At the cap the rule is asked, but nothing is drawn."""
    result = je.simulate(
        ONE, je.BestArm(), Late(200), runs=20, max_samples=149, delta=1e-30, ridge=1, engine=SLOW
    )
    assert (result.samples == 149).all() and (result.pulls.sum(-1) == 149).all()


# What the methods return


def jitted_constant(value):
    return lambda rule, view, state: (value(view), state)


@dataclasses.dataclass(frozen=True)
class Held:
    """A state that is not a pytree."""

    x: Any = 0


def start(value):
    return {"init": lambda rule, view: value(view)}


def as_it_is(rule, view, state):
    return 0, state


FAULTS = {
    "an arm alone": (lambda rule, view, state: jnp.int32(0), {}, "what choose returned is int32[]"),
    "three things": (
        lambda rule, view, state: (0, state, 1),
        {},
        "what choose returned is a tuple of length 3",
    ),
    "nothing": (lambda rule, view, state: None, {}, "what choose returned is None"),
    "an if": (
        lambda rule, view, state: (0 if view.t > 5 else 1, state),
        {},
        "choose raised TracerBoolConversionError",
    ),
    "numpy": (
        lambda rule, view, state: (int(np.log(view.means)[0]), state),
        {},
        "choose raised TracerArrayConversionError",
    ),
    "an index": (
        lambda rule, view, state: ([0, 1, 2][view.t], state),
        {},
        "choose raised TracerIntegerConversionError",
    ),
    "its own error": (
        lambda rule, view, state: 1 / 0,
        {},
        "choose raised ZeroDivisionError: division by zero",
    ),
    "no such name": (
        lambda rule, view, state: (view.nonsense, state),
        {},
        "choose raised AttributeError",
    ),
    "another signature": (lambda rule, view: (0, ()), {}, "choose raised TypeError"),
    "a float arm": (
        jitted_constant(lambda view: view.means[0]),
        {},
        "the arm that choose returned is float64[]",
    ),
    "a Python float": (
        jitted_constant(lambda view: 1.0),
        {},
        "the arm that choose returned is of type float",
    ),
    "a bool arm": (
        jitted_constant(lambda view: view.t > 5),
        {},
        "the arm that choose returned is bool[]",
    ),
    "a vector arm": (
        jitted_constant(lambda view: jnp.arange(3)),
        {},
        "the arm that choose returned is int64[3]",
    ),
    "no arm": (jitted_constant(lambda view: None), {}, "the arm that choose returned is None"),
    "a name": (
        jitted_constant(lambda view: "first"),
        {},
        "the arm that choose returned is of type str",
    ),
    "more state": (
        lambda rule, view, state: (0, (state, 1)),
        {},
        "choose returned a state of structure",
    ),
    "another type": (
        lambda rule, view, state: (0, state.astype(jnp.float64)),
        start(lambda view: view.t),
        "state is int32[] after init and float64[] after choose",
    ),
    "another shape": (
        lambda rule, view, state: (0, {"x": state["x"][:2]}),
        start(lambda view: {"x": view.means}),
        "state['x'] is float64[3] after init and float64[2] after choose",
    ),
    "no arrays": (
        as_it_is,
        start(lambda view: "begun"),
        "a leaf of the state that init returned is of type str",
    ),
    "no pytree": (
        as_it_is,
        start(lambda view: Held()),
        "a leaf of the state that init returned is of type Held",
    ),
    "init": (as_it_is, start(lambda view: view.nonsense), "init raised AttributeError"),
    "work": (
        as_it_is,
        {"work": lambda rule, view, state: (view.t, view.means)},
        "what work returned is float64[3]",
    ),
    "rare": (
        lambda rule, view, state, rarely: (rarely(view.t > 9, lambda: 0.5, 0.5), state),
        {},
        "the arm that choose returned is of type float",
    ),
    "when": (
        lambda rule, view, state, rarely: (rarely(view.t, lambda: 0, 0), state),
        {},
        "choose raised TypeError: the first argument of rarely has dtype int32, not bool",
    ),
    "its work": (
        lambda rule, view, state, rarely: (rarely(view.t > 9, lambda: (0, 1), 0), state),
        {},
        "choose raised TypeError: work of rarely returns PyTreeDef((*, *)), otherwise is",
    ),
}


@pytest.fixture
def nothing_compiles():
    before = {one for one in program.values() if one.traces}
    yield
    assert {one for one in program.values() if one.traces} <= before


@pytest.mark.parametrize("name", FAULTS)
def test_methods_that_return_something_else(name, nothing_compiles):
    choose, more, note = FAULTS[name]
    error = refused(a_rule(choose, **more))
    assert error.note.startswith(note) and error.arm is None
    assert str(error).startswith("rule: got Mine() (") and "(view" in error.allowed
    assert (error.__cause__ is not None) == (" raised " in note) == ("jax.numpy" in error.allowed)


def test_lanes_last_rules_are_refused(nothing_compiles):
    error = refused(
        a_rule(lambda rule, view, state: (view.means > 0, state), traits={"lanes_last": True})
    )
    assert error.note == "the arm that choose returned is bool[3,16]"
    error = refused(
        a_rule(lambda rule, view, state: (view.t, state + 1), traits={"lanes_last": True}), BATCH
    )
    assert "choose raised TypeError" in error.note


NATIVE = {
    "nothing": (lambda rule, view, state: None, "what native returned is None"),
    "one thing": (lambda rule, view, state: view.t > 9, "what native returned is bool[]"),
    "a number": (
        lambda rule, view, state: (view.t, view.means > 0),
        "the stops that native returned is int32[]",
    ),
    "an index": (
        lambda rule, view, state: (view.t > 9, 0),
        "the answer that native returned is of type int",
    ),
}


@pytest.mark.parametrize("name", NATIVE)
def test_a_native_stopping_test_is_checked(name, nothing_compiles):
    native, note = NATIVE[name]
    assert (
        refused(
            a_rule(as_it_is, native=native, traits={"native": "only"}), stopping=je.Native()
        ).note
        == note
    )


@pytest.mark.parametrize("state", [
    lambda view, old: old + 1, lambda view, old: view.t.astype(int), lambda view, old: 3,
], ids=["next", "an array", "a number"])  # fmt: skip
def test_python_integers_and_states_are_fine(state):
    """A state that begins as a Python number is an array of its type from then on."""
    count = a_rule(lambda rule, view, old: (1, state(view, old)), init=lambda rule, view: 0)
    result = je.simulate(ONE, je.BestArm(), count, runs=2, max_samples=30, ridge=1, engine=SLOW)
    assert (result.pulls[..., 1] == result.samples - 2).all()


# The answers of a user's own problem


Y = np.array([[[1.0, 0.0, -1.0]], [[-1.0, 1.0, 0.0]]])


@pytest.mark.parametrize(
    "call, beyond, said", [(je.trace, 2, 2), (je.simulate, -1, -1), (je.simulate, 2**40, 2**31 - 1)]
)
def test_an_answer_out_of_range(call, beyond, said):
    """The answer is in range at the true theta, the only point checked beforehand."""

    def answer(theta):
        return jnp.where(theta[0] < 0.7, beyond, 0)

    with pytest.raises(je.errors.ArgumentError) as caught:
        call(ONE, je.HalfSpaces(answer, Y), je.LinGapE(), ridge=1, max_samples=3000, delta=1e-9)
    error = caught.value
    assert (
        error.argument == "answer"
        and error.allowed == "a function that gives an answer from 0 to 1 at every theta_hat"
    )
    assert error.note.startswith(f"it gave {said} after ") and error.note.endswith(
        " samples of run 0"
    )


def test_an_answer_that_needs_numpy(nothing_compiles):
    with pytest.raises(je.errors.ArgumentError, match="TracerArrayConversionError") as caught:
        je.simulate(
            ONE,
            je.HalfSpaces(lambda theta: np.argmax(np.asarray(theta)), Y),
            je.LinGapE(),
            runs=2,
            ridge=1,
        )
    assert caught.value.argument == "answer"


class Broken(je.Uniform):
    traits = dataclasses.replace(je.Uniform.traits, lanes_last=False)

    def choose(self, view, state):
        raise KeyError("nothing there")


def test_the_original_error_is_the_cause():
    error = refused(Broken())
    assert isinstance(error.__cause__, KeyError) and "Broken()" in str(error)


@dataclasses.dataclass(frozen=True)
class Mutable(je.Uniform):
    weights: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class MutableThreshold:
    factor: float = 1.0

    def __call__(self, t, delta):
        return self.factor * jnp.log((1 + t) / delta)


@pytest.mark.parametrize(
    "argument, given", [("rule", Mutable()), ("threshold", MutableThreshold())], ids=str
)
def test_unhashable_arguments(argument, given, nothing_compiles):
    with pytest.raises(je.errors.ArgumentError) as caught:
        je.simulate(ONE, je.BestArm(), **{"rule": je.Uniform(), argument: given}, runs=2, ridge=1)
    assert caught.value.argument == argument and "unhashable type" in caught.value.note


@pytest.mark.parametrize(
    "read, traits, told",
    [
        (lambda view: view.beta, {}, "view.delta and view.beta are None unless its traits read"),
        (lambda view: view.delta, {}, "view.delta and view.beta are None unless its traits read"),
        (lambda view: view.reward_sums[0], {}, "view.reward_sums may be None unless"),
        (lambda view: view.chance, {}, "view.chance is None unless its traits read"),
    ],
    ids=["beta", "delta", "reward sums", "chance"],
)
def test_what_a_rule_reads_without_a_trait(read, traits, told, nothing_compiles):
    """Without "delta" one trajectory serves all deltas: a rule that read one of them would
    make the others' stopping times wrong, without a word."""

    def choose(rule, view, state):
        return jnp.where(read(view) * 1.0 > 1, 0, 1), state

    error = refused(a_rule(choose, traits=traits), delta=[0.1, 1e-4])
    assert "choose raised TypeError" in error.note and told in error.note


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
