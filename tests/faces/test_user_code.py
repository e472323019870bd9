"""What methods and attributes of one's own may return: else a sentence, before anything runs."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from tests import calls

ARMS = je.Instance.unstructured([0.5, 0.2, 0.0])
BATCH = je.Instance(np.stack([np.eye(3)] * 2), [[1.0, 0.9, 0.0], [0.9, 1.0, 0.0]])


def refused(argument, *words, kind: Any = je.errors.ArgumentError, instance=lambda: ARMS, **given):
    usual = {"rule": je.Uniform(), "problem": je.BestArm(), "runs": 2}
    call = lambda: je.simulate(instance(), **(usual | given))  # noqa: E731
    calls.refused(call, argument, *words, kind=kind)


def mine(base, **members):
    """An object of a class of one's own with these members."""
    return dataclasses.dataclass(frozen=True)(type("Mine", (base,), members))()


# Sampling rules


@dataclasses.dataclass(frozen=True)
class Even(je.contracts.SamplingRule):
    """Pulls the arms in turn."""

    traits = je.contracts.Traits(reads=("pieces",))

    def choose(self, view, state):
        return view.t % 3, state


@pytest.mark.parametrize("value, told", [
    (lambda: "high", "a leaf of what prepare returned is"),
    (lambda: ["a", "b"], "a leaf of what prepare returned is"),
    (lambda: {"x": object()}, "a leaf of what prepare returned is object[]"),
    (lambda: np.array([1j]), "a leaf of what prepare returned is complex128[1]"),
    (lambda: 1 // 0, "prepare raised ZeroDivision"),
])  # fmt: skip
def test_prepare_returns_numbers(value, told):
    rule = mine(Even, prepare=lambda *_: value())
    more = ["numbers in NumPy arrays"] if "leaf" in told else []
    refused("rule", told, *more, kind=je.errors.RuleError, rule=rule)


def test_prepare_of_a_batch_has_its_axis():
    rule = mine(Even, prepare=lambda *_: np.zeros(3))
    told = "a leaf of what prepare returned is float64[3]", "[instance, ..]"
    refused("rule", *told, kind=je.errors.RuleError, rule=rule, instance=lambda: BATCH)


def test_how_a_rule_runs_is_not_its_own_to_say():
    with pytest.raises(TypeError, match="one_lane"):
        je.contracts.Traits(one_lane=True)
    with pytest.raises(je.errors.ArgumentError, match="in_turn: .* no such method"):
        mine(Even, in_turn=lambda *_: True)


# Stopping rules


@dataclasses.dataclass(frozen=True)
class Stop(je.contracts.StoppingRule):
    """Never stops."""

    name: ClassVar[str] = "mine"

    def start(self, seen, pair_times=False):
        return seen.means

    def observe(self, seen, state, beta):
        return state, jnp.zeros_like(beta, bool), jnp.zeros_like(beta, jnp.int32)


def stopping(**members):
    return mine(Stop, **members)


def observes(stops=None, tests=None, state=None):
    def observe(self, seen, old, beta):
        right = super(type(self), self).observe(seen, old, beta)
        given = (state, stops, tests)
        return tuple(x if f is None else f(seen, beta) for x, f in zip(right, given, strict=True))

    return stopping(observe=observe)


@pytest.mark.parametrize("rule, told", [
    (observes(stops=lambda seen, beta: beta - 1), "stops that observe returned are float64"),
    (observes(stops=lambda seen, beta: jnp.any(beta > 9)), "stops that observe returned are b"),
    (observes(stops=lambda seen, beta: False), "stops that observe returned are of type bool"),
    (observes(tests=lambda seen, beta: beta), "tests that observe returned are float64"),
    (observes(state=lambda seen, beta: seen.means[0]), "state is float64[3,16] after start"),
    (observes(state=lambda seen, beta: None), "observe returned a state of structure"),
    (stopping(observe=lambda self, seen, *_: seen.beta), "observe raised AttributeError"),
    (stopping(observe=lambda self, seen, state, beta: beta > 1), "what observe returned is"),
    (stopping(start=lambda *_: "none"), "a leaf of the state that start returned is"),
    (stopping(start=lambda *_: 0.0), "a leaf of the state that start returned is"),
    (stopping(answer=lambda self, seen, _: seen.public[:2]), "what answer returned is bool[2,"),
    (stopping(answer=lambda self, seen, _: seen.means), "what answer returned is float64[3,"),
])  # fmt: skip
@pytest.mark.parametrize("delta", [0.1, [0.1, 0.2]])
def test_a_stopping_rule(rule, told, delta):
    refused("stopping", told, stopping=rule, delta=delta)
    refused("stopping", told, stopping=(je.LLR(), rule), delta=delta)


def test_a_good_stopping_rule_is_traced():
    """Its methods pass, so that the refusals above are of their faults."""
    from jaxelim.simulation.plan import planned

    stops = (je.LLR(), Stop())
    call = calls.checked(ARMS, je.BestArm(), je.Uniform(), delta=[0.1, 0.2], stopping=stops)
    with je.scope.engine():
        planned(call)


@pytest.mark.parametrize("name", ["llr", "selective", "full", "native"])
def test_a_name_of_the_librarys_is_taken(name):
    refused("stopping", "which are taken", repr(name), stopping=stopping(name=name))


# Families


@dataclasses.dataclass(frozen=True)
class Normal(je.families.OneParameter):
    """Unit Gaussians."""

    name: ClassVar[str] = "normal"
    noise: ClassVar[str] = "normal"

    def draw(self, lanes, nature, arm, pull, noise):
        return lanes.take(nature, arm) + noise

    def loss(self, stat, by):
        return by**2 / 2


@pytest.mark.parametrize("members, told", [
    ({"noise": "cauchy"}, "its noise is 'cauchy'"),
    ({"noise": None}, "its noise is None"),
    ({"initial_pulls": 0}, "its initial_pulls is 0"),
    ({"initial_pulls": 1.5}, "its initial_pulls is 1.5"),
    ({"initial_pulls": True}, "its initial_pulls is True"),
    ({"scale": -2.0}, "its scale is -2"),
    ({"scale": 0}, "its scale is 0"),
    ({"scale": np.inf}, "its scale is inf"),
    ({"scale": "large"}, "its scale is 'large'"),
    ({"loss": lambda self, stat, by: by[0]}, "a loss(stat, by) that returns"),
    ({"first": lambda self, x: x}, "a first(x) that returns"),
])  # fmt: skip
@pytest.mark.parametrize("recorded", [False, True])
def test_a_family(members, told, recorded):
    family, means = mine(Normal, **members), [0.5, 0.2, 0.0]
    past = {"source": je.Recorded([[mean, mean] for mean in means])} if recorded else {}
    given = [] if recorded else [means]
    refused("family", told, kind=je.errors.FamilyError,
            instance=lambda: je.Instance.unstructured(*given, family=family, **past))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Shifted(je.contracts.Source):
    """Uniform rewards about the means."""

    name: ClassVar[str] = "shifted"

    def nature(self, instance):
        return instance.means.reshape(-1, instance.K) - 0.5

    def draw(self, lanes, nature, arm, pull, noise):
        return lanes.take(nature, arm) + noise


@pytest.mark.parametrize("members, told", [
    ({"noise": "cauchy"}, "its noise is 'cauchy'"),
    ({"nature": lambda self, instance: "high"}, "it returned"),
    ({"draw": lambda self, lanes, nature, arm, pull, noise: arm}, "int32[16]"),
    ({"lengths": lambda self, nature: nature}, "not int32[3]"),
    ({"lengths": lambda self, nature: nature[:2] > 0}, "not int32[3]"),
])  # fmt: skip
def test_a_source(members, told):
    source, means = mine(Shifted, **members), [0.5, 0.2, 0.0]
    refused("source", told, kind=je.errors.FamilyError,
            instance=lambda: je.Instance.unstructured(means, source=source))  # fmt: skip
