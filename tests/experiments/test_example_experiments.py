"""The scripts of the two-dimensional example, at a small size."""

import dataclasses
import types

import numpy as np
import pytest

from experiments import two_dimensional
from jaxelim import store
from jaxelim.errors import ArgumentError


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
    found = two_dimensional.nested_tests_per_sample(result)[0, 0]
    for r in range(runs):
        count = 0
        # the check at t tests the arms not eliminated before t
        for t in range(K, tau[r] + 1):
            active = ((times[r] == 0) | (times[r] >= t)).sum()
            count += active * (active - 1)
        assert found[r] == pytest.approx(count / tau[r]) if stopped[r] else np.isnan(found[r])


def test_means_leave_out_missing_values():
    mean, error = two_dimensional.moments(np.array([[1.0, 2.0, 4.0, np.nan], [5.0, 5.0, 5.0, 5.0]]))
    np.testing.assert_allclose(mean, [7 / 3, 5])
    np.testing.assert_allclose(error, [np.std([1, 2, 4], ddof=1) / 3**0.5, 0])
    assert two_dimensional.slope(np.array([1, 2, 4]), np.array([3, 12, 48])) == pytest.approx(2)


def test_settings_are_checked():
    with pytest.raises(ArgumentError, match="runs"):
        two_dimensional.TwoDimensional(runs=1)
    with pytest.raises(ArgumentError, match="test_eps"):
        two_dimensional.TwoDimensional(test_eps=())


@pytest.mark.slow
def test_the_two_dimensional_example_at_a_small_size(tmp_path, capsys):
    config = two_dimensional.TwoDimensional(
        runs=4, arms=5, eps=(0.3,), delta=(0.1,), test_arms=(5,), test_eps=(0.3,), at_arms=5,
        at_eps=0.3, at_delta=0.1, output=tmp_path / "out" / "small", results=tmp_path / "results",
        block=2, workers=0,
    )  # fmt: skip
    for i in (1, 2):
        two_dimensional.run(dataclasses.replace(config, shard=f"{i}/2", results=tmp_path / str(i)))
        assert "store.merge" in capsys.readouterr().out and not (tmp_path / "out").exists()
    store.merge([tmp_path / "1", tmp_path / "2"], config.results)
    two_dimensional.run(config)
    text = capsys.readouterr().out
    assert "bounds of the theorem" in text and "0 observations cut off" in text
    names = ["small-bounds.pdf", "small-bounds.png", "small.pdf", "small.png"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    assert all(path.stat().st_size > 10_000 for path in (tmp_path / "out").iterdir())
