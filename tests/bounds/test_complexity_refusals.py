"""What `complexity` refuses, and the command line's form of it."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import bounds, cli
from jaxelim.bounds import complexity
from jaxelim.errors import ArgumentError
from jaxelim.families import Bernoulli, Exponential, Poisson
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, Thresholding, TopM
from tests.bounds.cases import box


@pytest.mark.parametrize("arms, theta, problem, words", [
    ([[1, 0], [0, 1], [-1, 0]], [1, 1], BestArm(), "arms 0 and 1"),
    ([[1, 0], [0, 1], [-1, 0]], [1, 0], Thresholding(), "arm 1 is on the threshold"),
    ([[1, 0], [0, 1]], [[1, 0.5], [1, 1]], BestArm(), "instance 1"),
])  # fmt: skip
def test_ties_are_refused(arms, theta, problem, words):
    with pytest.raises(ArgumentError, match=words):
        complexity(Instance(arms, theta), problem)


def test_a_tie_across_the_boundary_of_top_m():
    with pytest.raises(ArgumentError, match=r"arms \[1, 2\] tied across the top-2"):
        TopM(2).check(np.eye(4), np.array([3.0, 1.0, 1.0, 0.0]))
    TopM(2).check(np.eye(4), np.array([1.0, 1.0, 0.5, 0.0]))  # a tie within the answer


def test_half_spaces_of_signs():
    """The normals are the arms themselves, towards the answer."""
    arms, theta = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]]), np.array([1.0, -0.5])
    pieces = complexity(Instance(arms, theta), Thresholding(0.3)).pieces
    np.testing.assert_array_equal(pieces.y[0], [[2, 0], [1, 1], [0, -3]])
    np.testing.assert_array_equal(pieces.c[0], [0.3, 0.3, -0.3])


def test_other_refusals():
    instance = Instance([[1, 0], [0, 1], [1, 1]], [1, 0.5])
    with pytest.raises(ArgumentError, match="the answer has none"):
        complexity(instance, TopM(3))
    with pytest.raises(ArgumentError, match="jaxelim.contracts.Problem"):
        complexity(instance, "best-arm")
    with pytest.raises(ArgumentError, match="instance"):
        complexity(np.eye(3), BestArm())
    with pytest.raises(ArgumentError, match="rank 1 and do not span"):
        complexity(Instance([[1, 0], [2, 0]], [0.1, 0.1]), box(2))
    for gap in (0, -1e-6, np.nan, "small", True):
        with pytest.raises(ArgumentError, match="gap"):
            complexity(instance, BestArm(), gap=gap)
    for weights in ([0.5, 0.5], [0.5, 0.6, 0], [1.5, -0.5, 0], [np.inf, 0, 0]):
        with pytest.raises(ArgumentError, match="weights"):
            bounds.information(instance, BestArm(), weights)


def test_refusals_of_other_families():
    halves = je.HalfSpaces(lambda theta: jnp.zeros((), jnp.int32), [[[1.0, -0.5]]], [[0.0]])
    for means, family, problem, words in (
        ([0.5, 0.5, 0.4], Bernoulli(), BestArm(), "arms 0 and 1"),
        ([0.5, 0.4], Poisson(), Thresholding(0.4), "arm 1"),
        ([0.5, 0.4], Bernoulli(), Thresholding(1.0), "level.*inside"),
        ([0.5, 0.4], Bernoulli(), Thresholding(0.0), "level.*inside"),
        ([0.5, 0.4], Exponential(), Thresholding(-1.0), "level.*inside"),
        ([0.5, 0.4], Bernoulli(), halves, "pairs of arms"),
    ):
        kind = je.errors.UnsupportedError if problem is halves else ArgumentError
        with pytest.raises(kind, match=words):
            complexity(Instance.unstructured(means, family), problem)


@pytest.mark.parametrize("costs", [[1, 0], [1, -1], [1, np.inf], [1.0], "ab", [1, 1e9]], ids=str)
def test_bad_costs_are_refused(costs):
    with pytest.raises(je.errors.ArgumentError, match="costs"):
        Instance.unstructured([0.5, 0.2], costs=costs)


def test_the_command_line_and_its_figure(tmp_path, capsys):
    path, figure = str(tmp_path / "mine.json"), tmp_path / "w.png"
    Instance.unstructured([0.5, 0.45, 0.43, 0.4]).to_json(path)
    given = "instances", "describe", path, "--family", "bernoulli", "--figure", str(figure)
    assert cli.main([*given]) == 0
    text = capsys.readouterr().out
    assert "T* = 989.792" in text and "0: 0.4165" in text
    assert figure.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_the_command_line_says_how_many_answers_are_right(tmp_path, capsys):
    file = tmp_path / "mine.json"
    Instance.unstructured([0.6, 0.5, 0.1]).to_json(file)
    for epsilon, right in ((0.05, 1), (0.2, 2)):
        problem = "--problem", f"BestArm({epsilon})"
        assert cli.main(["instances", "describe", str(file), *problem]) == 0
        text = capsys.readouterr().out
        found = complexity(je.load_instance(file), BestArm(epsilon=epsilon), 1e-8)
        assert text.startswith(f"BestArm(epsilon={epsilon}) on {file}: K = 3")
        assert f"H* = {float(found.value):.8g}" in text
        bound = bounds.kl_bound(0.01, found.value, right)
        assert f"/H* = {float(bound):.1f}" in text and ("2 right answers" in text) == (right == 2)
