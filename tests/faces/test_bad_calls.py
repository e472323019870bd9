"""Arguments and combinations whose refusal needs more than a row of `test_sentences`."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from tests.faces.refusals import (
    FULL,
    SELECTIVE,
    UNSTRUCTURED,
    Y,
    nothing_compiles,
    refused,
    simulate,
    trace,
)

__all__ = ["nothing_compiles"]  # a fixture of every test here

# Thresholds


def falling(t, delta):
    return 50.0 - jnp.log(t) + 0 * delta


def undefined_late(t, delta):
    return jnp.where(t > 50, jnp.nan, 5.0) - jnp.log(delta)


def infinite(t, delta):
    return jnp.log(t) + jnp.inf


def rising_in_delta(t, delta):
    return jnp.log(t) + delta


def only_time(t):
    return jnp.log(t)


def one_for_all(t, delta):
    return jnp.float64(4.0)


def complex_valued(t, delta):
    return jnp.log(t).astype(jnp.complex128) + jnp.complex128(1j) * delta.astype(jnp.complex128)


def whole(t, delta):
    return (t + 5).astype(jnp.int32)


def concrete(t, delta):
    return float(t[0])[0]


def negative_early(t, delta):
    return jnp.log(t) - 2.5 - 0 * delta


def zero(t, delta):
    return 0 * t * delta


BAD_THRESHOLDS = {
    negative_early: "at t = 4, delta = 0.2 it is -1.1",
    zero: "it is 0); allowed: values above 0",
    falling: "decrease in t",
    undefined_late: "nan",
    infinite: "inf",
    rising_in_delta: "increase in delta",
    only_time: "TypeError",
    one_for_all: "one real number",
    complex_valued: "real",
    whole: "real",
    concrete: "TypeError",
}


@pytest.mark.parametrize("threshold", BAD_THRESHOLDS, ids=lambda f: f.__name__)
def test_threshold(threshold):
    error = refused(
        lambda: simulate(threshold=threshold, delta=[0.1, 0.2]),
        "threshold",
        BAD_THRESHOLDS[threshold],
    )
    assert error.given is threshold


# Numbers that overflow


def test_noise_whose_squares_overflow():
    for value in (1.1e100, -1.1e100):
        noise = np.where(np.arange(100).reshape(2, 50) == 53, value, 0)
        error = refused(lambda noise=noise: simulate(noise=noise), "noise", f"{value:g} at [1, 3]")
        assert error.allowed == "standard normals, at most 1e+100 in absolute value"
        refused(lambda noise=noise: trace(noise=noise[1]), "noise", "at [0, 3]")
        # the bound itself passes: the next argument is refused
        fine = np.where(noise == 0, 0, np.sign(value) * 1e100)
        refused(lambda fine=fine: simulate(noise=fine, elimination="none"), "elimination")


def test_a_threshold_is_checked_up_to_the_cap():
    """NaN beyond max_samples passes; NaN below it is refused even if it is rare."""
    refused(
        lambda: simulate(threshold=undefined_late, max_samples=1_000_000),
        "threshold",
        "nan",
        "t = ",
    )
    refused(lambda: simulate(threshold=undefined_late, max_samples=49, delta=2), "delta")
    # the threshold passes: the next wrong argument is refused
    with pytest.raises(je.errors.ArgumentError) as caught:
        simulate(threshold=undefined_late, max_samples=49, elimination="none")
    assert caught.value.argument == "elimination"


# Problems and rules

W = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda theta: jnp.int32(2), "below 2"),
        (lambda theta: jnp.int32(-1), "below 2"),
        (lambda theta: theta, "shape (2,)"),
        (lambda theta: theta[0], "float64"),
        (lambda theta: theta.nonsense, "AttributeError"),
        (lambda: 0, "TypeError"),
    ],
)
def test_answer_maps(answer, word):
    refused(lambda: simulate(problem=je.HalfSpaces(answer, Y)), "answer", word)


def test_oracle_weights_within_rounding_are_accepted():
    je.Oracle(W * (1 + 5e-10))
    je.Oracle([W, W])


@dataclasses.dataclass(frozen=True)
class Narrow(je.contracts.SamplingRule):
    """A rule defined for few problems and structures."""

    traits = je.contracts.Traits(
        problems=("best-arm",), structures=("unstructured",), native="only"
    )


def test_undefined_combinations():
    unsupported = {"kind": je.errors.UnsupportedError}
    narrow = {"rule": Narrow(), "instance": UNSTRUCTURED}
    refused(
        lambda: simulate(**narrow, problem=je.TopM(1)),
        "problem",
        "Narrow",
        "best-arm",
        **unsupported,
    )
    refused(
        lambda: simulate(**narrow, problem=je.Thresholding(0.5)),
        "problem",
        "Thresholding",
        **unsupported,
    )
    refused(lambda: simulate(rule=Narrow()), "instance", "unstructured", "Narrow", **unsupported)
    refused(
        lambda: simulate(**narrow, stopping=[je.Native(), SELECTIVE]),
        "stopping",
        "Selective",
        "native",
        **unsupported,
    )
    refused(
        lambda: simulate(stopping=je.Native()), "stopping", "Native()", "LinGapE", **unsupported
    )
    for rule in (je.Uniform(), je.Oracle(W)):
        refused(
            lambda rule=rule: simulate(rule=rule, stopping=SELECTIVE, elimination=SELECTIVE),
            "elimination",
            type(rule).__name__,
            **unsupported,
        )


@pytest.mark.parametrize(
    "stopping, elimination",
    [
        (je.LLR(), SELECTIVE),
        (je.LLR(), FULL),
        (SELECTIVE, FULL),
        (FULL, SELECTIVE),
        ((SELECTIVE, FULL), FULL),
        ((je.LLR(), SELECTIVE), SELECTIVE),
    ],
    ids=str,
)
def test_elimination_at_sampling_needs_its_own_stopping_rule(stopping, elimination):
    refused(
        lambda: simulate(stopping=stopping, elimination=elimination),
        "stopping",
        "for ever",
        repr(elimination),
        kind=je.errors.UnsupportedError,
    )
