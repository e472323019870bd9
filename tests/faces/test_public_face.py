"""Names, shapes and types that users rely on, with the caller's x64 flag off and on."""

import subprocess
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import jaxelim as je
from jaxelim import cli
from jaxelim.simulation.results.summaries import cut_off
from tests.calls import NAMES

EASY = je.Instance(np.eye(4), [1.0, 0.2, 0.0, -0.5], name="easy")
SELECTIVE = je.SelectiveElimination()


def simulated(instance=EASY, rule=je.Uniform(), **changes):  # noqa: B008
    """Six runs, each observed by two stopping rules at two deltas: one program for most tests."""
    usual = dict(delta=[0.1, 0.05], stopping=(je.LLR(), SELECTIVE), runs=6)
    return je.simulate(instance, je.BestArm(), rule, **(usual | changes))


@pytest.fixture(scope="module")
def result():
    return simulated()


def test_flags_are_the_callers():
    names = ("enable_x64", "numpy_rank_promotion", "numpy_dtype_promotion")
    flags = lambda: [getattr(jax.config, f"jax_{name}") for name in names]  # noqa: E731
    before = flags()
    simulated()
    assert before == flags()


def test_shapes_and_types(result):
    for name in ("samples", "stopped", "truncated", "correct", "tests_stopping", "tests_sampling"):
        assert getattr(result, name).shape == (2, 2, 6), name
    for name in ("answer", "pulls", "elimination_times"):
        assert getattr(result, name).shape == (2, 2, 6, 4), name
    assert result.answer.dtype == result.stopped.dtype == bool
    assert result.samples.dtype.kind == "i" and result.settings["ridge"] == 0.0
    np.testing.assert_array_equal(result.pulls.sum(-1), result.samples)
    assert result.stopped.all() and (result.truncated == ~result.stopped).all()
    np.testing.assert_array_equal(result.correct, result.answer[..., 0])
    assert (result.tests_sampling == 0).all()
    np.testing.assert_array_equal(result.tests_stopping[0], 3 * (result.samples[0] - 3))
    assert (result.elimination_times[0] == 0).all()
    np.testing.assert_array_equal((result.elimination_times[1] > 0).sum(-1), 3)
    data = result.to_xarray()
    assert list(data["stopping"].values) == ["llr", "selective"] and data.attrs["seed"] == 0
    assert data.attrs["rule"] == repr(je.Uniform()) and data["samples"].attrs["units"] == "samples"


def test_a_batch_has_a_leading_axis():
    batch = je.Instance(np.stack([np.eye(4)] * 3), [[1.0, 0, 0, 0], [0, 2.0, 0, 0], [0, 0, 0, 1.5]])
    result = simulated(batch)
    assert result.samples.shape == (3, 2, 2, 6) and result.answer.shape == (3, 2, 2, 6, 4)
    for i, best in enumerate((0, 1, 3)):
        np.testing.assert_array_equal(result.correct[i], result.answer[i, ..., best])
    assert "instance" in result.to_xarray().dims


def test_truncated_runs_are_flagged_and_excluded():
    result = simulated(je.Instance(np.eye(4), [1.0, 0.99, 0.0, 0.0]), max_samples=200)
    assert result.truncated.all() and (result.samples == 200).all()
    assert (result.answer.sum(-1) == 1).all()
    row = result.summary().iloc[0]
    assert row["cut off"] == 6 and np.isnan(row["mean tau"])
    text = str(result.summary())
    assert "6 of 6 runs were cut off" in text and "they are in no mean." in text


def test_a_summary_counts_runs_and_not_their_stops():
    """Two stopping rules and three deltas of five runs: run 0 stops by all, run 1 by some."""
    truncated = np.ones((2, 3, 5), bool)
    truncated[:, :, 0] = truncated[0, 1, 1] = False
    assert cut_off(SimpleNamespace(truncated=truncated)) == (4, 5)
    assert cut_off(SimpleNamespace(truncated=np.stack([truncated] * 2))) == (8, 10)


def test_a_summary_warns_of_biased_means(result):
    """Half of the runs stop; the others would have stopped later."""
    cap = int(np.median(result.samples[0, 0]))
    cut = simulated(max_samples=cap).select("llr", 0.1)
    count = int(cut.truncated.sum())
    assert 0 < count < 6
    assert cut.summary()["mean tau"][0] < result.summary()["mean tau"][0]
    assert cut.summary().notes[0] == (
        f"{count} of 6 runs were cut off at {cap} samples or at the end of their noise: "
        "they are in no mean, and the mean of the others is biased low."
    )
    assert "biased" not in str(result.summary())


@pytest.mark.slow
def test_noise_that_runs_out():
    noise = np.random.default_rng(0).standard_normal((3, 150))
    hard = je.Instance(np.eye(3), [1.0, 0.99, 0.0])
    result = je.simulate(hard, je.BestArm(), je.Uniform(), runs=3, noise=noise)
    assert (result.samples == 150).all() and result.truncated.all()
    trace = je.trace(hard, je.BestArm(), je.Uniform(), noise=noise[1])
    assert trace.samples == 150 and trace.truncated and len(trace.arms) == 150
    np.testing.assert_array_equal(trace.pulls, result.pulls[0, 0, 1])
    np.testing.assert_allclose(trace.rewards, hard.means[trace.arms] + noise[1], atol=1e-14)


@pytest.mark.slow
def test_common_random_numbers():
    """Rules share the noise of a seed, and a trace of run r is that run."""
    result = je.simulate(EASY, je.BestArm(), je.LinGapE(), runs=[4, 9], seed=3)
    one, a = (je.trace(EASY, je.BestArm(), je.LinGapE(), seed=3, run=run) for run in (9, 4))
    for place, trace in enumerate((a, one)):
        assert trace.samples == result.samples[0, 0, place] and trace.stopped
        np.testing.assert_array_equal(trace.pulls, result.pulls[0, 0, place])
    b = je.trace(EASY, je.BestArm(), je.Uniform(), seed=3, run=4)
    n = min(a.samples, b.samples)
    np.testing.assert_allclose(
        a.rewards[:n] - EASY.means[a.arms[:n]], b.rewards[:n] - EASY.means[b.arms[:n]], atol=1e-12
    )


@pytest.mark.slow
def test_seeds_give_different_standard_normals():
    close = je.Instance(np.eye(2), [0.001, 0.0])
    traces = [je.trace(close, je.BestArm(), je.Uniform(), seed=seed, max_samples=4000)
              for seed in (1, 2, 3)]  # fmt: skip
    z = np.concatenate([trace.rewards - close.means[trace.arms] for trace in traces])
    # n = 12000: each bound is six standard errors, so it fails by luck with probability
    # below 1e-8. It detects shifts of 0.06.
    n = z.size
    assert n == 12_000 and abs(z.mean()) < 6 / n**0.5 and abs(z.var() - 1) < 6 * (2 / n) ** 0.5
    assert abs(np.corrcoef(z[:4000], z[4000:8000])[0, 1]) < 6 / 4000**0.5


@pytest.mark.parametrize("thing", [
    je.BestArm(), je.TopM(3), je.Thresholding(0.5), je.LinGapE(rate=1.5), je.OptimisticLinGame(),
    je.TrackAndStop(schedule=np.int64(3)),
    je.Oracle([0.25, 0.75]), je.Heuristic(), je.GK16(), je.thresholds.LinearThreshold(3, 1.0, 2.0),
    je.LLR(), SELECTIVE, je.FullElimination(), je.Native(), je.Engine(lanes=8, shrink=False),
], ids=repr)  # fmt: skip
def test_repr_evaluates_back(thing):
    assert eval(repr(thing), NAMES) == thing
    assert hash(eval(repr(thing), NAMES)) == hash(thing)


@pytest.mark.slow
def test_a_callable_is_a_threshold(result):
    mine = simulated(threshold=lambda t, delta: jnp.log((1 + t) / delta))
    np.testing.assert_array_equal(mine.pulls, result.pulls)


def test_progress_is_reported():
    seen = []
    simulated(progress=lambda *x: seen.append(x))
    assert seen[-1][:2] == (6, 6) and seen[-1][2] > 0


def test_command_line(tmp_path, capsys):
    out = tmp_path / "result.nc"
    code = cli.main([
        "run", "linear-d10", "--problem", "best-arm", "--rule", "uniform", "--stopping", "llr",
        "selective", "--elimination", "none", "--delta", "0.1", "--runs", "4", "--seed", "0",
        "--max-samples", "300", "--output", str(out),
    ])  # fmt: skip
    text = capsys.readouterr().out
    assert code == 0 and "selective" in text and "wrote" in text
    with xr.open_dataset(out, engine="h5netcdf") as back:
        assert dict(back.sizes)["run"] == 4 and back.sizes["stopping"] == 2
    assert cli.main(["instances", "list"]) == 0 and "unstructured-k40" in capsys.readouterr().out
    assert cli.main(["run", "unstructured-k40-osi", "--problem", "top-m"]) == 2


def test_public_names_are_documented():
    assert len(set(je.__all__)) == len(je.__all__)
    for name in je.__all__:
        assert getattr(je, name).__doc__, name


@pytest.mark.slow
def test_efficiency(result):
    ratio, distance = result.efficiency()
    found = je.complexity(EASY, je.BestArm())
    np.testing.assert_allclose(
        ratio[0, 1], result.samples[0, 1] * float(found.value) / np.log(1 / (2.4 * 0.05)), rtol=1e-6
    )
    shares = result.pulls[0, 0] / result.samples[0, 0][:, None]
    np.testing.assert_allclose(
        distance[0, 0], np.abs(shares - found.allocation).sum(-1) / 2, atol=1e-6
    )
    hard = simulated(je.Instance(np.eye(4), [1.0, 0.99, 0.0, 0.0]), max_samples=50)
    assert np.isnan(hard.efficiency()[0]).all()


def test_importing_the_library_does_not_import_slow_packages():
    """Importing xarray and scipy.stats takes longer than loading cached programs."""
    slow = ["xarray", "scipy.stats", "pandas", "h5py", "matplotlib", "asyncio"]
    code = f"import sys, jaxelim as je; print(*set({slow}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
