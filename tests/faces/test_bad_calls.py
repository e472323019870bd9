"""Arguments and combinations whose refusal needs more than a row of `test_sentences`."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from tests.faces.refusals import SELECTIVE, UNSTRUCTURED, nothing_compiles, refused, simulate, trace

__all__ = ["nothing_compiles"]  # a fixture of every test here


def undefined_late(t, delta):
    return jnp.where(t > 50, jnp.nan, 5.0) - jnp.log(delta)


def negative_early(t, delta):
    return jnp.log(t) - 2.5 - 0 * delta


def test_a_threshold_that_is_negative_at_first():
    words = "at t = 4, delta = 0.2 it is -1.1"
    error = refused(
        lambda: simulate(threshold=negative_early, delta=[0.1, 0.2]), "threshold", words
    )
    assert error.given is negative_early


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


def test_oracle_weights_within_rounding_are_accepted():
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    je.Oracle(weights * (1 + 5e-10))
    je.Oracle([weights, weights])


@dataclasses.dataclass(frozen=True)
class Narrow(je.contracts.SamplingRule):
    """A rule defined for few problems and structures."""

    traits = je.contracts.Traits(
        problems=("best-arm",), structures=("unstructured",), native="only"
    )


@pytest.mark.parametrize("changes, argument, words", [
    (dict(instance=UNSTRUCTURED, problem=je.TopM(1)), "problem", ("Narrow", "best-arm")),
    ({}, "instance", ("unstructured", "Narrow")),
    (dict(instance=UNSTRUCTURED, stopping=[je.Native(), SELECTIVE]), "stopping",
     ("Selective", "native")),
])  # fmt: skip
def test_undefined_combinations(changes, argument, words):
    unsupported = je.errors.UnsupportedError
    refused(lambda: simulate(rule=Narrow(), **changes), argument, *words, kind=unsupported)
