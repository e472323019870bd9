"""Every argument of `simulate`, `trace` and `Engine` in each of its wrong forms."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from tests.faces.refusals import (
    BATCH,
    INF,
    NAN,
    NOISE,
    NOT_REAL,
    NOT_WHOLE,
    PHI,
    SELECTIVE,
    each,
    nothing_compiles,
    refused,
    simulate,
    trace,
)

__all__ = ["nothing_compiles"]  # a fixture of every test here

# Refused by both calls.
COMMON = {
    "instance": [None, PHI, "linear-d20", (PHI, [2.0, 0.5]), je.Instance],
    "problem": [None, "best-arm", je.BestArm, 1],
    "rule": [None, "lingape", je.LinGapE, lambda view: 0],
    "delta": [*NOT_REAL, 0, 1, -0.1, 1.5, 0.0, 1.0, 10**400],
    "elimination": [
        "selective",
        True,
        je.SelectiveElimination,
        je.LLR(),
        je.Native(),
        (SELECTIVE,),
    ],
    "threshold": [None, 3.0, "heuristic", je.Heuristic],
    "seed": [*NOT_WHOLE, -1, 2**63],
    "max_samples": [*NOT_WHOLE, -1, 0, 3, 2**31],
    "ridge": [*(x for x in NOT_REAL if x is not None), -1, -1e-300],
    "engine": [None, "cpu", 8, je.Engine],
}

SIMULATE = {
    "delta": [
        [[0.1]],
        [0.1, NAN],
        [0.1, 0.0],
        [0.1, True],
        [0.1, "x"],
        [[0.1], [0.1, 0.2]],
        np.array([0.1, 0.2j]),
    ],
    "stopping": [
        None,
        "llr",
        [],
        (),
        je.LLR,
        ["llr"],
        [je.LLR(), "selective"],
        [je.LLR(), je.LLR()],
        {je.LLR()},
        True,
    ],
    "runs": [
        *NOT_WHOLE,
        0,
        -3,
        2**31 + 1,
        [0, 0],
        [-1],
        [[0, 1]],
        [0.5],
        [0, True],
        [2**31],
        [0, NAN],
        np.array([0], object),
    ],
    "noise": [
        True,
        1.0,
        "normal",
        [],
        NOISE[0],
        NOISE[None],
        NOISE[:1],
        NOISE[:, :3],
        NOISE > 0,
        NOISE * 1j,
        NOISE.astype(object),
        NOISE.astype(str),
        np.where(np.eye(2, 50), NAN, 0),
        np.where(np.eye(2, 50), INF, 0),
        [[0.0] * 50, [0.0] * 49],
        np.ma.masked_array(NOISE),
    ],
    "record": [None, 3, True, "pairs", ("pair_times", "active"), (1,), {"pair_times"}],
    "progress": [0, 1, "yes"],
}

TRACE = {
    "delta": [[0.1, 0.2]],
    "stopping": [None, "llr", (), (je.LLR(),), je.LLR, True],
    "run": [*NOT_WHOLE, -1, 2**31, [0]],
    "noise": [
        True,
        1.0,
        "normal",
        NOISE,
        NOISE[0, :3],
        NOISE[0] > 0,
        NOISE[0] * 1j,
        np.full(50, NAN),
    ],
    "instance": [BATCH],
}


@pytest.mark.parametrize("name, value", each(COMMON))
@pytest.mark.parametrize("call", [simulate, trace])
def test_simulate_and_trace(call, name, value):
    refused(lambda: call(**{name: value}), name)


@pytest.mark.parametrize("name, value", each(SIMULATE))
def test_simulate(name, value):
    refused(lambda: simulate(**{name: value}), name)


@pytest.mark.parametrize("name, value", each(TRACE))
def test_trace(name, value):
    refused(lambda: trace(**{name: value}), name)


def test_the_message_names_the_value_and_what_is_allowed():
    assert str(refused(lambda: simulate(delta=1.5), "delta")) == (
        "delta: got 1.5; allowed: "
        "a number strictly between 0 and 1, or a non-empty 1-D array of such numbers"
    )
    refused(lambda: simulate(delta=[0.1, 7.25]), "delta", "7.25", "strictly between 0 and 1")
    refused(lambda: simulate(runs=0), "runs", "got 0", "n >= 1")
    refused(lambda: simulate(max_samples=3), "max_samples", "got 3", "from 4 to")
    refused(lambda: simulate(noise=NOISE[:1]), "noise", "(1, 50)", "2 runs")
    refused(lambda: simulate(ridge=-2.5), "ridge", "got -2.5", ">= 0")
    refused(lambda: simulate(record="pair_time"), "record", "'pair_times'")


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


@pytest.mark.parametrize(
    "name, value",
    each(
        {
            "dimension": [*NOT_WHOLE, 0, -2],
            "feature_bound": [*NOT_REAL, 0, -1],
            "theta_bound": [*NOT_REAL, -1],
            "ridge": [*NOT_REAL, 0, -1],
        }
    ),
)
def test_linear_threshold(name, value):
    arguments = {"dimension": 3, "feature_bound": 1.0, "theta_bound": 1.0}
    refused(lambda: je.thresholds.LinearThreshold(**{**arguments, name: value}), name)


# Instances


@pytest.mark.parametrize(
    "name, value",
    each(
        {
            "lanes": [*(x for x in NOT_WHOLE if x is not None), 0, -8],
            "chunk": [*(x for x in NOT_WHOLE if x is not None), 0, -1],
            "devices": [*(x for x in NOT_WHOLE if x is not None), 0, -1],
            "shrink": [1, "yes"],
        }
    ),
)
def test_engine(name, value):
    refused(lambda: je.Engine(**{name: value}), name)


# The command line
