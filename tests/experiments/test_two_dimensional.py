"""The two-dimensional example: the bounds on elimination times, and the scripts."""

import dataclasses
import math
import types

import numpy as np
import pytest

import jaxelim as je
from experiments import two_dimensional as scripts
from experiments.elimination_bounds import (
    Example,
    InformationRegret,
    elimination_bounds,
    stopping_difference,
)
from jaxelim import store
from jaxelim.bounds.bounds import heuristic
from jaxelim.errors import ArgumentError
from jaxelim.instances import two_dimensional
from tests import twin

K, EPS = 5, 0.1


@pytest.fixture(scope="module")
def instance():
    return two_dimensional(K, EPS)


def test_information_of_the_far_arms(instance):
    example = Example(instance, je.BestArm())
    world = twin.Linear(instance.arms, instance.theta)
    seen = world.truth(world.pieces(("bai",)))
    labels = seen.pieces.of(seen.answer)
    for w in np.random.default_rng(0).dirichlet(np.ones(K), 20):
        level, slope = seen.values(labels, w), seen.gradients(labels, w)
        assert (level[1:] >= ((1 - EPS) / EPS) ** 2 * level[0] * (1 - 1e-9)).all()
        np.testing.assert_allclose(example.information(w), level, rtol=1e-9)
        np.testing.assert_allclose(example.slopes(w), slope, rtol=1e-8)


@pytest.mark.slow
def test_least_weights_and_information_of_near_optimal_allocations(instance):
    """H_2 = eps^2/2 w1 w2/(w1 + w2): above half of H* if w1 >= (1 - 1/sqrt 2)/2."""
    example, gamma = Example(instance, je.BestArm()), EPS**2 / 16
    least, lower = example.least_weights(gamma), example.least_information(gamma)
    bound = (1 - 1 / math.sqrt(2)) / 2
    assert least[2:].max() == 0 and least[:2].max() < bound + 1e-6
    sampled = np.random.default_rng(1).dirichlet(np.ones(K), 2000)
    sampled = 0.5 * sampled + 0.5 * example.optimum.allocation
    values = np.array([example.information(w) for w in sampled])
    near = values[values.min(1) >= example.value - gamma]
    assert len(near) > 20 and (near >= lower * (1 - 1e-9)).all()
    # A regret makes bounds larger.
    slower = elimination_bounds(instance, je.BestArm(), regret=lambda t: 1e-4 * math.log(t))
    assert slower.full.tolist() == [slower.llr, 157, 128, 114]


def test_elimination_bounds(instance):
    found = elimination_bounds(instance, je.BestArm(), 0.01)
    H, t = EPS**2 / 8, found.llr - 2

    def enough(t):
        return (math.sqrt(heuristic(t, 0.01)) + math.sqrt(heuristic(t, 1 / t**2))) ** 2

    assert t >= enough(t) / H and t - 1 < enough(t - 1) / H
    assert found.full.tolist() == [found.llr, 148, 119, 106]
    assert (found.full <= found.selective).all() and (found.selective <= found.llr).all()
    # the cost of selective elimination does not grow with delta
    sharp = elimination_bounds(instance, je.BestArm(), 1e-60)
    assert (sharp.selective[1:] < sharp.llr / 2).all()
    assert sharp.difference / sharp.llr < found.difference / found.llr


def test_the_difference_of_the_stopping_times_by_hand():
    """beta = 9 at delta, 4 at 1/t^2 and R = 0.5.

    f = 3 + (9 - log 100 + 2 sqrt(36) + 4 + 0.5 + log 2.4)/H*.
    """
    beta = lambda t, delta: 9.0 if delta == 0.01 else 4.0  # noqa: E731
    found = stopping_difference(0.01, 0.25, beta, lambda t: 0.5, 50)
    assert found == pytest.approx(3 + 4 * (25.5 + math.log(0.024)))


def test_information_regret_of_known_pulls(instance):
    found = InformationRegret(np.arange(400) % 2, instance, je.BestArm())
    H = EPS**2 / 8
    # after 3 pulls (2, 1): H_2 = eps^2/2 * 2/3
    expected = [H, 0, 3 * H - EPS**2 / 2 * (2 / 3)]
    np.testing.assert_allclose(found.regret[:3], expected, atol=1e-9)
    assert found(1) == pytest.approx(H) and found(10**9) == pytest.approx(H)


# The scripts


def test_nested_loops_are_counted_per_check():
    rng = np.random.default_rng(0)
    K, runs = 5, 6
    tau = rng.integers(20, 40, runs)
    times = np.sort(rng.integers(K, 20, (runs, K)), 1)
    times[:, -1] = 0  # the best arm is never eliminated
    times[:, -2] = tau  # the last rival is eliminated at the stop
    times = rng.permuted(times, axis=1)
    stopped = np.ones(runs, bool)
    stopped[2] = False
    each = [np.stack([x] * 3)[None, :, None] for x in (times, tau, stopped)]
    result = types.SimpleNamespace(elimination_times=each[0], samples=each[1], stopped=each[2])
    found = scripts.nested_tests_per_sample(result)[0, 0]
    for r in range(runs):
        count = 0
        # the check at t tests the arms not eliminated before t
        for t in range(K, tau[r] + 1):
            active = ((times[r] == 0) | (times[r] >= t)).sum()
            count += active * (active - 1)
        assert found[r] == pytest.approx(count / tau[r]) if stopped[r] else np.isnan(found[r])


def test_means_leave_out_missing_values():
    mean, error = scripts.moments(np.array([[1.0, 2.0, 4.0, np.nan], [5.0, 5.0, 5.0, 5.0]]))
    np.testing.assert_allclose(mean, [7 / 3, 5])
    np.testing.assert_allclose(error, [np.std([1, 2, 4], ddof=1) / 3**0.5, 0])
    assert scripts.slope(np.array([1, 2, 4]), np.array([3, 12, 48])) == pytest.approx(2)


def test_settings_are_checked():
    with pytest.raises(ArgumentError, match="runs"):
        scripts.TwoDimensional(runs=1)
    with pytest.raises(ArgumentError, match="test_eps"):
        scripts.TwoDimensional(test_eps=())


@pytest.mark.slow
def test_the_two_dimensional_example_at_a_small_size(tmp_path, capsys):
    config = scripts.TwoDimensional(
        runs=4, arms=5, eps=(0.3,), delta=(0.1,), test_arms=(5,), test_eps=(0.3,), at_arms=5,
        at_eps=0.3, at_delta=0.1, output=tmp_path / "out" / "small", results=tmp_path / "results",
        block=2, workers=0,
    )  # fmt: skip
    for i in (1, 2):
        scripts.run(dataclasses.replace(config, shard=f"{i}/2", results=tmp_path / str(i)))
        assert "store.merge" in capsys.readouterr().out and not (tmp_path / "out").exists()
    store.merge([tmp_path / "1", tmp_path / "2"], config.results)
    scripts.run(config)
    text = capsys.readouterr().out
    assert "bounds of the theorem" in text and "0 observations cut off" in text
    names = ["small-bounds.pdf", "small-bounds.png", "small.pdf", "small.png"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    assert all(path.stat().st_size > 10_000 for path in (tmp_path / "out").iterdir())
