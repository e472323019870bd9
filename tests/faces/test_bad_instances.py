"""Instances and their files, in each of their wrong forms."""

import numpy as np
import pytest

import jaxelim as je
from tests.faces.refusals import (
    INF,
    NAN,
    NOT_REAL,
    PHI,
    each,
    nothing_compiles,
    refused,
    simulate,
    trace,
)

__all__ = ["nothing_compiles"]  # a fixture of every test here


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
    refused(lambda: simulate(instance=tie), "instance", "[0, 3]")
    refused(lambda: simulate(instance=tie, problem=je.TopM(1)), "instance", "[0, 3]")
    refused(lambda: simulate(instance=tie, problem=je.TopM(3)), "instance", "[1, 2]")
    refused(
        lambda: simulate(instance=tie, problem=je.Thresholding(0.5)),
        "instance",
        "[1, 2]",
    )
    refused(lambda: trace(instance=tie), "instance")
    one_of_two = je.Instance(np.eye(2), [[1.0, 0.0], [0.5, 0.5]])
    refused(lambda: simulate(instance=one_of_two), "instance")
    identical = je.Instance([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1.0, 0.5])
    refused(lambda: simulate(instance=identical), "instance", "[0, 1]")


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
    refused(lambda: je.load_instance(path), "name_or_path", "instance.json")


@pytest.mark.parametrize("name", ["linear-d21", "missing.json", "", 3, None])
def test_no_such_instance(name):
    refused(lambda: je.load_instance(name), "name_or_path")


# Problems
