"""Thresholds and levels of `Resets` that are untraceable or infinite are refused."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine import program

ONE = je.Instance(np.eye(3), [1.0, 0.5, 0.0])


@pytest.fixture(autouse=True)
def nothing_compiles():
    before = program.values()
    yield
    assert program.values() == before


def refused(argument, **settings):
    settings = {"runs": 2, "max_samples": 100, "ridge": 1, "delta": [0.1, 0.2], **settings}
    with pytest.raises(je.errors.ArgumentError) as caught:
        je.simulate(settings.pop("instance", ONE), je.BestArm(), je.LinGapE(), **settings)
    error = caught.value
    assert error.argument == argument and str(error).startswith(f"{argument}: got ")
    return error


def resets(alpha):
    return {"elimination": je.Resets(je.SelectiveElimination(), alpha=alpha, t0=2)}


def positive(t):
    return jnp.log(t) if t > 0 else 0


UNTRACEABLE = {
    "numpy": (lambda t, delta: np.log((1 + t) / delta), "TracerArrayConversionError"),
    "math": (lambda t, delta: math.log((1 + t) / delta), "TypeError"),
    "an if": (lambda t, delta: positive(t) - jnp.log(delta), "ValueError"),
    "float": (lambda t, delta: jnp.log(t) - math.log(float(delta[0])), "ConcretizationTypeError"),
    "its own": (lambda t, delta: 1 / 0, "ZeroDivisionError: division by zero"),
    "too few arguments": (lambda t: t, "TypeError"),
}


@pytest.mark.parametrize("name", UNTRACEABLE)
def test_untraceable_levels(name):
    f, word = UNTRACEABLE[name]
    for error in (refused("threshold", threshold=f), refused("alpha", **resets(f))):
        assert error.note.startswith("it raised ") and word in error.note and "\n" not in error.note
        assert error.allowed == "a callable of (t, delta) made of jax.numpy operations"
        assert error.given is f and error.__cause__ is not None


NO_LEVELS = {
    "nan": (lambda t, delta: jnp.where(t > 50, jnp.nan, 5.0) - jnp.log(delta),
            "at t = 51, delta = 0.2 it is nan", "finite"),
    "inf": (lambda t, delta: jnp.log(t) + jnp.inf, "at t = 3, delta = 0.2 it is inf", "finite"),
    "one": (lambda t, delta: jnp.float64(4.0), "of shape ()", "one real number per t"),
    "too many": (lambda t, delta: jnp.stack([t, t]), "of shape (2, 200)", "one real number per t"),
    "whole": (lambda t, delta: (t + 5).astype(jnp.int32), "it gave", "one real number per t"),
    "complex": (lambda t, delta: t.astype(jnp.complex128), "it gave", "one real number per t"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_LEVELS)
def test_invalid_levels(name):
    f, note, allowed = NO_LEVELS[name]
    for error in (refused("threshold", threshold=f), refused("alpha", **resets(f))):
        assert note in error.note and allowed in error.allowed


def test_an_alpha_is_checked_up_to_the_cap():
    late = NO_LEVELS["nan"][0]
    error = refused("alpha", max_samples=10**6, **resets(late))
    assert "nan" in error.note


class Undefined(je.Heuristic):
    """Defined for common deltas, but not at 1/t^2, where the paper's alpha uses it."""

    def __call__(self, t, delta):
        return jnp.where(delta < 0.01, jnp.nan, super().__call__(t, delta))


class FarOff(je.Heuristic):
    def constants(self, delta):
        return 1.0, 2.0, 1e40


def test_the_papers_alpha_is_checked():
    resets = je.Resets(je.SelectiveElimination())
    error = refused("threshold", threshold=Undefined(), elimination=resets)
    assert "it is nan" in error.note
    error = refused("threshold", threshold=FarOff(), elimination=resets)
    assert error.note == "sqrt(x0) is 1e+20"


@pytest.mark.parametrize("t0", [1e20, 2**31 + 1, 1.5, 0, -3, math.nan, math.inf, "2", True])
def test_the_first_reset(t0):
    with pytest.raises(je.errors.ArgumentError) as caught:
        je.Resets(je.SelectiveElimination(), t0=t0)
    assert caught.value.argument == "t0" and caught.value.allowed == "a number in [2, 2147483648]"


@pytest.mark.parametrize(("given", "times"), [
    ({"t0": 2**31}, []), ({"t0": 2**30}, [2**30]), ({}, [2, 4, 16, 256, 65536]),
])  # fmt: skip
def test_the_resets_are_at_squares_up_to_the_last_t(given, times):
    resets = je.Resets(je.SelectiveElimination(), **given)
    assert resets.reset_times(je.Heuristic()).tolist() == times
