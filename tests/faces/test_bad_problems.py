"""Problems, rules and combinations of them, in each of their wrong forms."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from tests.faces.refusals import (
    BATCH,
    EASY,
    FULL,
    INF,
    NAN,
    NOT_REAL,
    NOT_WHOLE,
    SELECTIVE,
    UNSTRUCTURED,
    Y,
    each,
    larger,
    nothing_compiles,
    refused,
    simulate,
)

__all__ = ["nothing_compiles"]  # a fixture of every test here


@pytest.mark.parametrize("m", [*NOT_WHOLE, 0, -1])
def test_top_m(m):
    refused(lambda: je.TopM(m), "m", "from 1 to K - 1")


@pytest.mark.parametrize("m", [4, 5, 100])
def test_top_m_beyond_the_arms(m):
    refused(lambda: simulate(problem=je.TopM(m)), "m", f"got {m}", "from 1 to K - 1 = 3")


@pytest.mark.parametrize("level", NOT_REAL)
def test_level(level):
    refused(lambda: je.Thresholding(level), "level")


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
    )
    refused(
        lambda: simulate(problem=je.HalfSpaces(larger, Y, [[1.5], [0.0]])),
        "instance",
    )


# Rules


@pytest.mark.parametrize("rate", [*NOT_REAL, -1])
def test_lingape(rate):
    refused(lambda: je.LinGapE(rate=rate), "rate")


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


# Layout
