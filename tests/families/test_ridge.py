"""The ridge: default, refusals, warnings, and invariance to offsets of the means."""

import warnings

import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue, cli
from jaxelim.errors import ArgumentError, RidgeWarning
from tests import calls

SPANNING = je.Instance([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [1.0, 0.3])
FLAT = je.Instance([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], [1.0, 0.2, 0.0])
SMALL = dict(runs=2, max_samples=20)


def checked(instance, **settings):
    """A call as `simulate` checks it, without running it."""
    usual = dict(delta=0.01, max_samples=20)
    return calls.checked(instance, je.BestArm(), je.Uniform(), **(usual | settings))


def ridge_of(instance=SPANNING, **settings):
    return checked(instance, **settings).ridge


def test_none_is_zero_where_the_arms_span():
    assert ridge_of() == 0.0 and ridge_of(ridge=None) == 0.0
    assert ridge_of(ridge=0.5) == 0.5


def test_none_is_the_ridge_of_a_linear_threshold():
    threshold = je.LinearThreshold(2, 1.0, 2.0, ridge=0.25)
    assert ridge_of(threshold=threshold) == ridge_of(threshold=threshold, ridge=0.25) == 0.25
    for other in (0, 1.0):
        with pytest.raises(
            ArgumentError,
            match=r"^ridge: got .*; allowed: None or 0.25: the ridge of the threshold",
        ):
            ridge_of(threshold=threshold, ridge=other)


def test_none_is_refused_where_the_arms_do_not_span():
    with pytest.raises(
        ArgumentError, match=r"^ridge: got None \(the arms of instance 0 span 2 of 3 dimensions\)"
    ):
        ridge_of(FLAT)
    assert ridge_of(FLAT, ridge=1) == 1
    batch = je.Instance([np.eye(2), [[1.0, 1.0], [2.0, 2.0]]], [[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ArgumentError, match="instance 1 span 1 of 2"):
        ridge_of(batch)
    with pytest.raises(ArgumentError, match="^ridge: got None"):
        je.trace(FLAT, je.BestArm(), je.Uniform(), max_samples=20)


@pytest.mark.parametrize("tilt, accepted", [(2.1e-5, True), (1e-5, False)])
def test_none_is_refused_where_v_is_badly_conditioned(tilt, accepted):
    """V of the arms (1, 0) and (1, s) has condition about 4/s^2."""
    instance = je.Instance([[1.0, 0.0], [1.0, tilt]], [1e-3, 1.0])
    condition = np.linalg.cond(instance.arms.T @ instance.arms)
    assert (condition <= 1e10) == accepted
    if accepted:
        assert ridge_of(instance) == 0
    else:
        with pytest.raises(
            ArgumentError, match=r"ridge: got None \(V of instance 0 has condition 4.0e\+10"
        ):
            ridge_of(instance)
        assert ridge_of(instance, ridge=1e-3) == 1e-3


def warned(instance, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checked(instance, **settings)
    assert all(one.category is RidgeWarning for one in caught)
    return [str(one.message) for one in caught]


def test_which_instances_are_warned_about():
    delta, K = 0.05, 3
    room = np.sqrt(2 * np.log((1 + K) / delta))
    below, above = (
        je.Instance(np.eye(3), np.array([1.0, 0, 0]) * room * f) for f in (0.999, 1.001)
    )
    asked = dict(delta=delta, ridge=1.0)
    assert warned(below, **asked) == []
    (text,) = warned(above, **asked)
    assert text.startswith(
        "ridge = 1 may make answers wrong: sqrt(ridge) ||theta||/noise_std = 2.9"
    )
    assert warned(above, delta=delta) == []
    assert warned(below, delta=delta, ridge=1.01) and warned(below, delta=[0.01, 0.06], ridge=1.0)
    half = je.Instance(below.arms, below.theta, noise_std=0.99)
    assert warned(half, **asked)
    pair = je.Instance(np.eye(3), np.stack([below.theta, above.theta, 2 * above.theta]))
    assert len(warned(pair, **asked)) == 1  # once per call


class Refused(je.Uniform):
    """Ends a call before anything compiles."""

    def prepare(self, instance, problem, ridge):
        raise ArgumentError("rule", self, "another")


def test_the_warning_points_at_the_call():
    far = je.Instance(np.eye(3), [30.0, 30.5, 29.0])
    with (
        pytest.warns(RidgeWarning, match="ridge = 1 may make answers wrong") as caught,
        pytest.raises(ArgumentError, match="^rule: "),
    ):
        je.simulate(far, je.BestArm(), Refused(), ridge=1.0, **SMALL)
    (one,) = caught
    assert one.filename == __file__


def test_a_linear_threshold_that_covers_theta_is_not_warned_about():
    far = je.Instance(np.eye(3), [30.0, 30.5, 29.0])
    norm = float(np.linalg.norm(far.theta))
    assert warned(far, threshold=je.LinearThreshold(3, 1.0, norm)) == []
    assert warned(far, threshold=je.LinearThreshold.of(far)) == []
    (text,) = warned(far, threshold=je.LinearThreshold(3, 1.0, 1.0))
    assert "theta_bound >= 51.7" in text


def test_linear_threshold_of_an_instance():
    instance = je.Instance(
        [[[1.0, 0.0], [0.0, 3.0]], [[2.0, 0.0], [0.0, 1.0]]],
        [[3.0, 4.0], [1.0, 0.0]],
        noise_std=2.0,
    )
    assert je.LinearThreshold.of(instance) == je.LinearThreshold(2, 3.0, 2.5, ridge=1.0)
    assert je.LinearThreshold.of(instance, ridge=0.5).ridge == 0.5


@pytest.mark.slow
def test_the_command_line(capsys, tmp_path):
    path = tmp_path / "far.json"
    far = je.Instance(np.eye(3), [30.0, 30.5, 29.0])
    far.to_json(path)
    found = catalogue.find_threshold("linear", far, None)
    assert found == je.LinearThreshold(3, 1.0, float(np.linalg.norm(far.theta)), ridge=1.0)
    common = ["run", str(path), "--rule", "uniform", "--runs", "4", "--max-samples", "50"]
    assert cli.main([*common, "--threshold", "linear"]) == 0
    assert cli.main(common) == 0
    capsys.readouterr()
    assert cli.main([*common, "--threshold", "linear", "--ridge", "0"]) == 2
    assert capsys.readouterr().err.startswith(
        "jaxelim: ridge: got 0.0; allowed: a finite number > 0"
    )


OFFSETS = (0, 1, 3, 10, 30, 100, 1000)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(je.Uniform(), marks=pytest.mark.slow),
        je.LinGapE(),
        pytest.param(je.LUCB(), marks=pytest.mark.slow),
        je.LinGame(),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_no_offset_breaks_delta_correctness(rule):
    """n = 400 runs per offset, delta = 0.05.

    At an error rate of exactly delta, more than 47 errors have probability 3e-8, and
    8e-7 in any of the 28 cells. A rate of 0.18 passes with probability 4e-4; ridge 1
    has rate 1 at offset 30.
    """
    K = 3
    theta = np.array([[0.0, 0.5, -1.0]]) + np.array(OFFSETS)[:, None]
    instance = je.Instance(np.broadcast_to(np.eye(K), (len(OFFSETS), K, K)), theta)
    result = je.simulate(instance, je.BestArm(), rule, delta=0.05, runs=400)
    assert result.stopped.all()
    errors = (~result.correct[:, 0, 0]).sum(-1)
    assert (errors <= 47).all()
    # The rules are invariant: runs are equal at every offset.
    np.testing.assert_array_equal(
        result.samples, np.broadcast_to(result.samples[:1], result.samples.shape)
    )


MEANS = np.array([0.5, 0.3, 0.1, 0.0, -0.4, 0.25])


def shift_cases():
    quick = {"lingape", "lucb", "lingame"}
    for name, rule in catalogue.rules().items():
        for problem in (je.BestArm(), je.TopM(2)):
            if rule.traits.defined_for(problem.name):
                fast = name in quick and problem.name == "best-arm"
                yield pytest.param(
                    rule, problem, id=f"{name}, {problem}", marks=() if fast else pytest.mark.slow
                )


@pytest.mark.slow
@pytest.mark.parametrize("rule, problem", list(shift_cases()))
def test_the_first_200_pulls_do_not_depend_on_an_offset_of_the_means(rule, problem):
    stopping = je.LLR() if "llr" in rule.traits.stopping else je.Native()
    for seed in range(3):
        pulls = [
            je.trace(
                je.Instance(np.eye(6), MEANS + offset),
                problem,
                rule(),
                stopping=stopping,
                max_samples=206,
                seed=seed,
            )
            for offset in (0.0, 1.0, 100.0, 1e4)
        ]
        for other in pulls[1:]:
            np.testing.assert_array_equal(other.arms, pulls[0].arms)
