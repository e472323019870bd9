"""The means of a result, and the confidence intervals of its runs."""

import dataclasses

import numpy as np
import pytest

import jaxelim as je
from jaxelim.simulation.results import confidence
from jaxelim.simulation.results.descriptions import ARRAYS
from tests.calls import rows

LINEAR = je.Instance(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), [1.5, 0.4], noise_std=2.0)
SPANNING = je.Instance(np.array([[2.0, 0.0], [1.0, 1.0]]), [0.4, 0.1], noise_std=3.0)
TWO_STOPS = dict(stopping=(je.LLR(), je.SelectiveElimination()), delta=[0.1, 0.01])
CASES = {
    "basis": (SPANNING, je.Uniform(), {}),
    "coins": (je.Instance.unstructured([0.8, 0.4, 0.3], je.Bernoulli()), je.Uniform(), {}),
    "unknown variance": (je.Instance.unstructured(
        [2.0, 0.4], je.GaussianUnknownVariance(), source=je.families.Normal(2.0)),
        je.Uniform(), TWO_STOPS),
    "mixture": (LINEAR, je.FWS(), dict(threshold=je.Mixture(strengths=(5.0, 50.0)))),
}  # fmt: skip


def played(name: str, **more) -> je.Result:
    instance, rule, settings = CASES[name]
    common = dict(runs=6, max_samples=400, record=("means",), seed=2)
    return je.simulate(instance, je.BestArm(), rule, **{**common, **settings, **more})


def ends(found) -> np.ndarray:
    return np.stack([found.values, found.low, found.high])


@pytest.mark.parametrize("name", rows(CASES, {"basis"}))
def test_means_are_those_of_the_rewards(name):
    """NumPy's, from a trace; and a live run that is told these rewards has the same intervals."""
    result, (instance, rule, settings) = played(name), CASES[name]
    stopping, deltas = result.stopping, result.deltas
    trial = {name: x for name, x in settings.items() if name == "threshold"}
    for s, d in np.ndindex(len(stopping), deltas.size):
        common = dict(stopping=stopping[s], delta=float(deltas[d]), seed=2, run=3, **trial)
        trace = je.trace(instance, je.BestArm(), rule, max_samples=400, **common)
        assert trace.samples == result.samples[s, d, 3]
        counts, sums = (
            np.bincount(trace.arms, weights, instance.K) for weights in (None, trace.rewards)
        )
        design = (instance.arms.T * counts) @ instance.arms
        expected = instance.arms @ np.linalg.solve(design, instance.arms.T @ sums)
        np.testing.assert_allclose(result.means[s, d, 3], expected, rtol=1e-9, atol=1e-12)
        if result.variances is not None:
            spread = np.array([np.var(trace.rewards[trace.arms == k]) for k in range(instance.K)])
            np.testing.assert_allclose(result.variances[s, d, 3], spread, rtol=1e-9)
        if name == "mixture":  # compiling a live run of it would take long
            continue
        live = je.LiveRun(instance.arms, je.BestArm(), je.Uniform(), family=instance.family,
                          stopping=je.LLR(), threshold=je.Heuristic(), delta=1e-300)  # fmt: skip
        live.tell(trace.arms, trace.rewards)
        for level in (0.9, 0.99):
            mine, other = ends(result.intervals(level)), ends(live.intervals(level))
            np.testing.assert_allclose(mine[:, s, d, 3], other, rtol=1e-9, atol=1e-12)
            for together in (False, True):
                pair = ends(result.difference(1, 0, level, together))[:, s, d, 3]
                np.testing.assert_allclose(pair, live.difference(1, 0, level, together), rtol=1e-9)
    assert result.intervals().values.shape == (*result.samples.shape, instance.K)


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize("name", ["unknown variance", "mixture"])
def test_recording_changes_no_run_and_no_layout_changes_what_is_recorded(name):
    result = played(name)
    plain = played(name, record=())
    for array in set(ARRAYS) - {"means", "variances"}:
        np.testing.assert_array_equal(getattr(result, array), getattr(plain, array), err_msg=array)
    for layout in (je.Engine(lanes=16, chunk=24, devices=1), je.Engine(devices=2)):
        assert result.equals(played(name, engine=layout))
    for runs in ([4, 1], [0, 2, 3, 5]):
        part = played(name, runs=np.array(runs))
        np.testing.assert_array_equal(part.means, result.means[:, :, part.runs])


@pytest.mark.slow
def test_batches():
    """Each instance of a batch by itself."""
    others = je.Instance(np.stack([LINEAR.arms, LINEAR.arms[::-1]]), [[1.5, 0.4], [0.2, 1.0]])
    result, *alone = (
        je.simulate(one, je.BestArm(), je.Uniform(), record="means", runs=3, max_samples=300,
                    **TWO_STOPS) for one in (others, *others.unbatched)
    )  # fmt: skip
    for i, one in enumerate(alone):
        np.testing.assert_allclose(result.means[i], one.means, rtol=1e-9)
        for of in (lambda x: x.intervals(0.9), lambda x: x.difference(0, 2, 0.9)):
            np.testing.assert_allclose(ends(of(result))[:, i], ends(of(one)), rtol=1e-9)


@pytest.mark.slow
def test_saved_and_loaded_and_in_blocks_of_a_store(tmp_path):
    result = played("unknown variance")
    result.save(tmp_path / "mine.nc")
    loaded = je.load_result(tmp_path / "mine.nc")
    assert loaded.equals(result) and not result.equals(played("unknown variance", record=()))
    np.testing.assert_array_equal(ends(result.intervals()), ends(loaded.intervals()))
    data = result.to_xarray()
    assert data["means"].dims == data["variances"].dims == ("stopping", "delta", "run", "arm")
    for _ in range(2):  # computed in blocks, then read from them
        assert result.equals(played("unknown variance", store=tmp_path / "store", block=4))


def test_many_runs_are_taken_in_parts(monkeypatch):
    result = played("basis")
    known = result.intervals()
    monkeypatch.setattr(confidence, "_AT_ONCE", 8)
    np.testing.assert_array_equal(ends(result.intervals()), ends(known))


class _Own(je.Bernoulli):
    """A family that proves nothing: it has no mixture."""

    def has(self, method):
        return method != "log_mixture" and super().has(method)


@pytest.mark.slow
def test_refusals():
    coins = played("coins")
    for call in (lambda x: x.intervals(), lambda x: x.difference(0, 1)):
        with pytest.raises(je.errors.UnsupportedError, match=r'record=\("means",\)'):
            call(dataclasses.replace(coins, means=None))
        with pytest.raises(je.errors.UnsupportedError, match="family with a mixture"):
            own = je.Instance.unstructured([0.8, 0.4, 0.3], _Own())
            given = {**coins.experiment.fields, "instance": own}
            call(dataclasses.replace(coins, experiment=type(coins.experiment).unchecked(**given)))
        with pytest.raises(je.errors.UnsupportedError, match="None or 0 as ridge"):
            call(played("basis", ridge=1.0))
    stacks = [[0.0, 1.0, 1.0, 1.0] * 10, [0.0, 1.0, 0.0, 0.0] * 10]
    for order, allowed in (("permuted", False), ("bootstrap", True)):
        past = je.Recorded(stacks, order)
        result = je.simulate(je.Instance.unstructured(source=past, family=je.Bernoulli()),
                             je.BestArm(), je.Uniform(), record="means", runs=3)  # fmt: skip
        if allowed:
            assert (result.intervals().low < past.means).all()
        else:
            with pytest.raises(je.errors.UnsupportedError, match=r"without replacement.*live run"):
                result.intervals()
    for given, words in (((0, 1, 0), "level: got"), ((0, 1, 1.0), "level: got"),
                         ((0, 1, True), "level: got"), ((1, 1), "b: got 1.*another arm"),
                         ((0, 3), "arm: got 3")):  # fmt: skip
        with pytest.raises(je.errors.ArgumentError, match=words):
            coins.difference(*given)
    with pytest.raises(je.errors.ArgumentError, match="level: got"):
        coins.intervals(1.0)
