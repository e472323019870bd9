"""Every argument in each of its wrong forms is refused before anything compiles.

The exception names the argument, what it was given and what is allowed.
"""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import cli
from jaxelim.engine import program

NAN, INF = float("nan"), float("inf")
PHI = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8], [0.3, -0.4]])
EASY = je.Instance(PHI, [2.0, 0.5])
BATCH = je.Instance(PHI, [[2.0, 0.5], [0.3, 1.0]])
UNSTRUCTURED = je.Instance(np.eye(3), [1.0, 0.0, -1.0])
SELECTIVE, FULL = je.SelectiveElimination(), je.FullElimination()
NOISE = np.zeros((2, 50))


@pytest.fixture(autouse=True)
def nothing_compiles():
    before = program.cache_info()
    yield
    after = program.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits)


def refused(call, argument, *words, kind=je.ArgumentError):
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert error.argument == argument
    text = str(error)
    assert text.startswith(f"{argument}: got ") and "; allowed: " in text and error.allowed
    for word in words:
        assert word in text
    return error


def simulate(**changes):
    changes = {"runs": 2, "max_samples": 100, **changes}
    return je.simulate(
        changes.pop("instance", EASY),
        changes.pop("problem", je.BestArm()),
        changes.pop("rule", je.LinGapE()),
        **changes,
    )


def trace(**changes):
    changes = {"max_samples": 100, **changes}
    return je.trace(
        changes.pop("instance", EASY),
        changes.pop("problem", je.BestArm()),
        changes.pop("rule", je.LinGapE()),
        **changes,
    )


def each(table):
    """A (name, value) parameter for every value listed under a name."""
    return [
        pytest.param(name, value, id=f"{name}: {type(value).__name__} {i}")
        for name, values in table.items()
        for i, value in enumerate(values)
    ]


NOT_REAL = [
    True,
    np.True_,
    1j,
    "1",
    None,
    NAN,
    INF,
    -INF,
    [],
    {},
    object(),
    np.array([0.5], object),
]
NOT_WHOLE = [True, np.True_, 1.0, 1.5, NAN, INF, 1j, "1", None, [], object()]

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
    refused(
        lambda: simulate(record="pair_time"), "record", "'pair_times'", kind=je.UnknownNameError
    )


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


# Numbers that overflow, or that float32 rounds away


@pytest.mark.parametrize(
    "precision, most, beyond", [("float64", 1e100, 1.1e100), ("float32", 1e15, 1e16)]
)
def test_noise_whose_squares_overflow(precision, most, beyond):
    layout = je.Engine(precision=precision)
    for value in (beyond, -beyond):
        noise = np.where(np.arange(100).reshape(2, 50) == 53, value, 0)
        error = refused(
            lambda noise=noise: simulate(noise=noise, engine=layout),
            "noise",
            f"{value:g} at [1, 3]",
        )
        assert (
            error.allowed == f"standard normals, at most {most:g} in absolute value in {precision}"
        )
        refused(lambda noise=noise: trace(noise=noise[1], engine=layout), "noise", "at [0, 3]")
        # the bound itself passes: the next argument is refused
        fine = np.where(noise == 0, 0, np.sign(value) * most)
        refused(
            lambda fine=fine: simulate(noise=fine, engine=layout, elimination="none"), "elimination"
        )


def above(theta):
    return (theta[0] + theta[1] > 1e6).astype(jnp.int32)


LOST = {
    "best arm": (
        je.Instance(np.eye(3), [1e4, 1e4 + 0.1, 0]),
        je.BestArm(),
        "a gap of 0.1 between terms of 1e+04",
    ),
    "top m": (
        je.Instance(np.eye(3), [1e4, 1e4 + 0.1, 2e4]),
        je.TopM(2),
        "a gap of 0.1 between terms of 2e+04",
    ),
    "signs": (
        je.Instance(np.eye(3), [1, 7, 2e4]),
        je.Thresholding(2e4 + 0.1),
        "a gap of 0.1 between terms of 4e+04",
    ),
    "a shared coordinate": (
        je.Instance(np.hstack([PHI, np.ones((4, 1))]), [0.2, 0.05, -3e4]),
        je.BestArm(),
        "between terms of 3e+04",
    ),
    "half-spaces": (
        je.Instance(np.eye(2), [5e5, 5e5 + 1]),
        je.HalfSpaces(above, [[[-1, -1]], [[1, 1]]], [[-1e6], [1e6]]),
        "a gap of 1 between terms of 2e+06",
    ),
    "one of a batch": (
        je.Instance(np.eye(2), [[1, 2], [1e6, 1e6 + 1]]),
        je.BestArm(),
        "of instance 1 rests on a gap of 1",
    ),
    "in units of the noise": (
        je.Instance(np.eye(2), [1e9, 1e9 + 1e3], 1e3),
        je.BestArm(),
        "a gap of 1e+03",
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_gaps_that_float32_loses(name):
    instance, problem, words = LOST[name]

    def call(precision, **changes):
        simulate(
            instance=instance,
            problem=problem,
            engine=je.Engine(precision=precision),
            ridge=1,
            **changes,
        )

    error = refused(lambda: call("float32"), "precision", words)
    assert error.given == "float32"
    assert error.allowed == "'float64', or 'float32' for gaps of at least 1.2e-05 of the terms"
    refused(lambda: call("float64", elimination=1), "elimination")


@pytest.mark.parametrize(
    "instance, problem",
    [
        (je.Instance(np.eye(3), [1e4, 1e4 + 0.3, 0]), je.BestArm()),
        (je.Instance(np.eye(3), [1e4, 1e4 + 0.1, -1e4]), je.TopM(2)),
        (je.Instance(np.eye(3), [0.01, 1e6, -1e6]), je.Thresholding()),
        *(
            (je.load_instance(name), problem)
            for name, problem in (
                ("linear-d10", je.BestArm()),
                ("linear-d10-topm", je.TopM(3)),
                ("linear-d20", je.TopM(5)),
                ("linear-d20-osi", je.Thresholding()),
                ("unstructured-k40", je.TopM(3)),
                ("unstructured-k40-osi", je.Thresholding()),
            )
        ),
    ],
    ids=lambda x: getattr(x, "name", None) or repr(x)[:30],
)
def test_gaps_that_float32_keeps(instance, problem):
    layout = je.Engine(precision="float32")
    refused(
        lambda: simulate(instance=instance, problem=problem, engine=layout, ridge=1, elimination=1),
        "elimination",
    )


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
    with pytest.raises(je.ArgumentError) as caught:
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
    refused(lambda: je.LinearThreshold(**{**arguments, name: value}), name)


@pytest.mark.parametrize(
    "name, value", each({"factor": [*NOT_REAL, -1], "scale": [*NOT_REAL, 0, -1]})
)
def test_loglog_threshold(name, value):
    refused(lambda: je.LogLogThreshold(**{name: value}), name)


# Instances


@pytest.mark.parametrize(
    "name, value",
    each(
        {
            "arms": [
                None,
                "arms",
                1.0,
                [],
                [[]],
                [[1.0, 0.0]],
                np.zeros((0, 2)),
                np.zeros((3, 0)),
                np.zeros((0, 3, 2)),
                PHI[0],
                PHI[None, None],
                PHI > 0,
                PHI * 1j,
                PHI.astype(object),
                PHI.astype(str),
                np.where(PHI == 1, NAN, PHI),
                np.where(PHI == 1, INF, PHI),
                [[1.0, 0.0], [0.0]],
                [[True, 0.0], [0.0, 1.0]],
                PHI * 1e200,
                np.ma.masked_array(PHI),
            ],
            "theta": [
                None,
                "theta",
                1.0,
                [],
                [1.0],
                [1.0, 2.0, 3.0],
                [[1.0]],
                [[[1.0, 2.0]]],
                [True, False],
                [1j, 0],
                [NAN, 0.0],
                [INF, 0.0],
                np.array([1.0, 0.0], object),
                np.zeros((0, 2)),
                [1e308, 1e308],
            ],
            "noise_std": [*(one for one in NOT_REAL if one is not None), 0, 0.0, -1.0, 1e-320],
            "name": [1, b"name", ["name"], "a\0b", "\ud800", "b\udfff"],
        }
    ),
)
def test_instance(name, value):
    arguments = {"arms": PHI, "theta": [2.0, 0.5]}
    refused(lambda: je.Instance(**{**arguments, name: value}), name)


def test_batches_must_match():
    refused(lambda: je.Instance(np.stack([PHI, PHI]), [2.0, 0.5]), "theta", "(2, 2)")
    refused(lambda: je.Instance(np.stack([PHI, PHI]), np.ones((3, 2))), "theta", "(2, 2)")


def test_arms_must_span_where_there_is_no_ridge():
    flat = je.Instance([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], [1.0, 0.0, 0.0])
    refused(lambda: simulate(instance=flat, ridge=0), "ridge", "span 2 of 3")
    refused(lambda: trace(instance=flat, ridge=0.0), "ridge", "span 2 of 3")
    mixed = je.Instance([np.eye(2), [[1.0, 1.0], [2.0, 2.0]]], [[1.0, 0.0], [1.0, 0.0]])
    refused(lambda: simulate(instance=mixed, ridge=0), "ridge", "instance 1")


def test_the_answer_must_be_unique():
    tie = je.Instance(np.eye(4), [1.0, 0.5, 0.5, 1.0])
    refused(lambda: simulate(instance=tie), "instance", "[0, 3]", kind=je.TieError)
    refused(
        lambda: simulate(instance=tie, problem=je.TopM(1)), "instance", "[0, 3]", kind=je.TieError
    )
    refused(
        lambda: simulate(instance=tie, problem=je.TopM(3)), "instance", "[1, 2]", kind=je.TieError
    )
    refused(
        lambda: simulate(instance=tie, problem=je.Thresholding(0.5)),
        "instance",
        "[1, 2]",
        kind=je.TieError,
    )
    refused(lambda: trace(instance=tie), "instance", kind=je.TieError)
    one_of_two = je.Instance(np.eye(2), [[1.0, 0.0], [0.5, 0.5]])
    refused(lambda: simulate(instance=one_of_two), "instance", kind=je.TieError)
    identical = je.Instance([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1.0, 0.5])
    refused(lambda: simulate(instance=identical), "instance", "[0, 1]", kind=je.TieError)


def test_ties_that_do_not_matter_are_accepted():
    """The instance passes: the next wrong argument is refused."""
    tie = je.Instance(np.eye(4), [1.0, 0.5, 0.5, 1.0])
    for problem, instance in (
        (je.TopM(2), tie),
        (je.Thresholding(0.7), tie),
        (je.BestArm(), je.Instance([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [1.0, 0.5])),
    ):
        refused(
            lambda problem=problem, instance=instance: simulate(
                instance=instance, problem=problem, elimination=1
            ),
            "elimination",
        )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"theta": [1, 2]}',
        '{"theta": [1, 2], "arms": [[1, 0]]}',
        '{"theta": [1, 2], "arms": [[1, 0], [0, 1]], "noise_sd": 2}',
        '{"theta": [1, 2], "arms": [[1, 0], [0, 1]], "family": "bernoulli"}',
        '{"theta": [1, NaN], "arms": [[1, 0], [0, 1]]}',
        '{"theta": "x", "arms": [[1, 0], [0, 1]]}',
    ],
)
def test_a_file_without_an_instance(tmp_path, text):
    path = tmp_path / "instance.json"
    path.write_text(text)
    refused(
        lambda: je.load_instance(path), "name_or_path", "instance.json", kind=je.InstanceFileError
    )


@pytest.mark.parametrize("name", ["linear-d21", "missing.json", "", 3, None])
def test_no_such_instance(name):
    refused(lambda: je.load_instance(name), "name_or_path")


# Problems


@pytest.mark.parametrize("m", [*NOT_WHOLE, 0, -1])
def test_top_m(m):
    refused(lambda: je.TopM(m), "m", "from 1 to K - 1")


@pytest.mark.parametrize("m", [4, 5, 100])
def test_top_m_beyond_the_arms(m):
    refused(lambda: simulate(problem=je.TopM(m)), "m", f"got {m}", "from 1 to K - 1 = 3")


@pytest.mark.parametrize("level", NOT_REAL)
def test_level(level):
    refused(lambda: je.Thresholding(level), "level")


def larger(theta):
    return jnp.argmax(theta).astype(jnp.int32)


Y = np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])


@pytest.mark.parametrize(
    "name, value",
    each(
        {
            "answer": [None, 0, "argmax"],
            "directions": [
                None,
                "y",
                [],
                Y[0],
                Y[:, :0],
                Y[:0],
                Y[..., :0],
                Y > 0,
                Y * 1j,
                Y.astype(object),
                Y * NAN,
                Y * INF,
            ],
            "offsets": [
                "c",
                [],
                [0.0, 0.0],
                np.zeros((2, 2)),
                np.full((2, 1), NAN),
                np.zeros((2, 1), bool),
                np.zeros((2, 1), complex),
            ],
            "groups": [
                "g",
                [],
                [0, 0],
                np.zeros((2, 2), int),
                np.zeros((2, 1)),
                np.zeros((2, 1), bool),
                np.full((2, 1), -1),
                [[0], [2]],
                [[0], [0, 1]],
                np.zeros((2, 1), object),
            ],
        }
    ),
)
def test_half_spaces(name, value):
    arguments = {"answer": larger, "directions": Y}
    refused(lambda: je.HalfSpaces(**{**arguments, name: value}), name)


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


def test_half_spaces_must_match_the_instance():
    refused(
        lambda: simulate(problem=je.HalfSpaces(larger, np.ones((2, 1, 3)))), "directions", "d = 2"
    )
    refused(
        lambda: simulate(problem=je.HalfSpaces(larger, -Y)),
        "instance",
        "half-space 0",
        kind=je.TieError,
    )
    refused(
        lambda: simulate(problem=je.HalfSpaces(larger, Y, [[1.5], [0.0]])),
        "instance",
        kind=je.TieError,
    )


# Rules


@pytest.mark.parametrize("rate", [*NOT_REAL, -1])
def test_lingape(rate):
    refused(lambda: je.LinGapE(rate=rate), "rate")


@pytest.mark.parametrize("optimistic", [None, 1, "yes", np.True_])
def test_lingame(optimistic):
    refused(lambda: je.LinGame(optimistic=optimistic), "optimistic", "True or False")


W = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    "weights",
    [
        True,
        1.0,
        "w",
        [],
        [[]],
        W[None, None],
        W > 0,
        W * 1j,
        W.astype(object),
        W * NAN,
        [1.0, NAN, 0.0, 0.0],
        [1.0, INF, 0.0, 0.0],
        W * (1 + 3e-9),
        W * (1 - 3e-9),
        [1.0 + 1e-8, -1e-8, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],
        [W, 2 * W],
        [[0.5, 0.5], [1.0]],
    ],
    ids=lambda w: repr(w)[:30],
)
def test_oracle(weights):
    refused(lambda: je.Oracle(weights), "weights")


def test_oracle_weights_within_rounding_are_accepted():
    je.Oracle(W * (1 + 5e-10))
    je.Oracle([W, W])


@pytest.mark.parametrize(
    "instance, weights",
    [
        (EASY, [0.5, 0.5]),
        (EASY, [W]),
        (EASY, [W, W]),
        (BATCH, [W]),
        (BATCH, [W, W, W]),
        (BATCH, [0.2] * 5),
    ],
    ids=str,
)
def test_oracle_weights_must_match_the_instance(instance, weights):
    refused(lambda: simulate(instance=instance, rule=je.Oracle(weights)), "weights", "shape")


@dataclasses.dataclass(frozen=True)
class Narrow(je.SamplingRule):
    """A rule defined for few problems and structures."""

    traits = je.Traits(problems=("best-arm",), structures=("unstructured",), stopping=("llr",))


def test_undefined_combinations():
    unsupported = {"kind": je.UnsupportedError}
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
        lambda: simulate(**narrow, stopping=[je.LLR(), SELECTIVE]),
        "stopping",
        "Selective",
        "llr",
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
        kind=je.UnsupportedError,
    )


# Layout


@pytest.mark.parametrize(
    "name, value",
    each(
        {
            "lanes": [*(x for x in NOT_WHOLE if x is not None), 0, -8],
            "chunk": [*(x for x in NOT_WHOLE if x is not None), 0, -1],
            "devices": [*(x for x in NOT_WHOLE if x is not None), 0, -1],
            "precision": [None, 64, "float16", "double", np.float64],
            "vmapped": [None, 1, "yes"],
            "form": [3, "cholesky", True],
        }
    ),
)
def test_engine(name, value):
    refused(lambda: je.Engine(**{name: value}), name)


def test_a_form_that_does_not_fit_the_instance():
    refused(lambda: simulate(engine=je.Engine(form="diagonal")), "form", "'diagonal'", "'square'")
    refused(
        lambda: simulate(problem=je.HalfSpaces(larger, Y), engine=je.Engine(form="arms")),
        "form",
        "'square'",
    )


# The command line


@pytest.mark.parametrize(
    "option, value, nearest",
    [
        ("--rule", "lingap", "lingape"),
        ("--rule", "unifrom", "uniform"),
        ("--problem", "bestarm", "best-arm"),
        ("--stopping", "select", "selective"),
        ("--elimination", "ful", "full"),
        ("--threshold", "heuristics", "heuristic"),
    ],
)
def test_unknown_names_on_the_command_line(capsys, option, value, nearest):
    assert cli.main(["run", "linear-d20", option, value]) == 2
    said = capsys.readouterr().err
    assert f"{option[2:]}: got '{value}'" in said and f"nearest: '{nearest}'" in said


@pytest.mark.parametrize(
    "arguments, argument",
    [
        (["linear-d21"], "name_or_path"),
        (["linear-d20", "--delta", "1.5"], "delta"),
        (["linear-d20", "--runs", "0"], "runs"),
        (["linear-d20", "--max-samples", "10"], "max_samples"),
        (["linear-d20", "--problem", "top-m", "--m", "50"], "m"),
        (["linear-d20", "--output", "no/such/folder/result.nc"], "output"),
        (["linear-d20", "--precision", "half"], "precision"),
        (["linear-d20", "--lanes", "0"], "lanes"),
        (["linear-d20", "--stopping", "native"], "stopping"),
        (["linear-d20", "--elimination", "full"], "stopping"),
        (["linear-d20", "--rule", "uniform", "--elimination", "full"], "elimination"),
    ],
)
def test_the_command_line_refuses(capsys, arguments, argument):
    assert cli.main(["run", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"jaxelim: {argument}: got ")


def test_a_file_without_an_instance_on_the_command_line(capsys, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"samples": [1, 2]}))
    assert cli.main(["run", str(path)]) == 2
    assert "result.json" in capsys.readouterr().err
