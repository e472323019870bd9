"""Runs on arms whose pulls have costs; their pulls are rows of `test_agreement`."""

import numpy as np
import pytest

import jaxelim as je
from tests.calls import stack

MEANS, COSTS = [0.9, 0.5, 0.45, 0.1], np.array([1.0, 8.0, 1.0, 1.0])


def given(family, costs=COSTS):
    kind = {"gaussian": je.Gaussian(0.5), "bernoulli": je.Bernoulli()}.get(family)
    return je.Instance.unstructured(MEANS, kind, costs=costs)


@pytest.mark.slow
def test_fws_with_equal_costs_and_with_a_dear_arm():
    """Equal costs of 3 give the runs without costs; a dear arm has a smaller share of pulls."""
    common = dict(delta=0.01, runs=40, seed=1, engine=je.Engine(devices=1))
    dear, equal, plain = (
        je.simulate(given("bernoulli", costs), je.BestArm(), je.FWS(), **common)
        for costs in (COSTS, [3.0] * 4, None)
    )
    assert dear.stopped.all() and dear.correct.mean() > 0.9 and plain.costs is None
    np.testing.assert_array_equal(equal.samples, plain.samples)
    np.testing.assert_array_equal(equal.pulls, plain.pulls)
    shares = [one.pulls[..., 1].sum() / one.pulls.sum() for one in (dear, plain)]
    assert shares[0] < shares[1]


def test_the_oracles_weights_are_shares_of_pulls():
    instance = given("bernoulli")
    shares = je.complexity(instance, je.BestArm()).allocation / COSTS
    found = je.Oracle().prepare(instance, je.BestArm(), None)
    np.testing.assert_allclose(found, shares / shares.sum(), rtol=1e-5)  # two gaps


def test_instances_keep_their_costs(tmp_path):
    one = given("bernoulli")
    other = given("bernoulli")
    assert one == other != one.replace(costs=None) and hash(one) == hash(other)
    one.to_json(tmp_path / "one.json")
    assert je.load_instance(tmp_path / "one.json") == one
    batch = stack([one, one])
    assert batch[1] == one and (batch.costs == COSTS).all()


def test_results_keep_costs(tmp_path):
    """In files, tables and comparisons; settings without costs are as ever."""
    common = dict(delta=0.1, runs=20, seed=1)
    results = {
        seed: je.simulate(given("gaussian"), je.BestArm(), je.Uniform(), **common | {"seed": seed})
        for seed in (1, 2)
    }
    one = results[1]
    np.testing.assert_allclose(one.costs, (one.pulls * COSTS).sum(-1))
    one.save(tmp_path / "one.nc")
    again = je.load_result(tmp_path / "one.nc")
    assert again.equals(one) and (again.instance.costs == COSTS).all()
    np.testing.assert_array_equal(again.costs, one.costs)
    np.testing.assert_array_equal(one.to_xarray()["costs"], one.costs)
    (row,) = one.summary().to_dict("records")
    np.testing.assert_allclose(row["mean cost"], one.costs.mean())
    named = {str(seed): result for seed, result in results.items()}
    (row,) = je.compare(named, by="costs").to_dict("records")
    np.testing.assert_allclose(row["mean_first"], one.costs.mean())
    assert one.solves is None and "solves" not in one.to_xarray()  # Uniform has none
    plain = je.simulate(given("gaussian", None), je.BestArm(), je.Uniform(), **common)
    assert "costs" not in plain.settings and "costs" in one.settings
    with pytest.raises(je.errors.ArgumentError, match="by"):
        je.compare([plain, plain], by="costs")


@pytest.mark.slow
def test_live_runs_take_costs(tmp_path):
    """The pulls of a simulated run, also from its file."""
    one = given("gaussian")
    trace = je.trace(one, je.BestArm(), je.TrackAndStop(), delta=0.1, threshold=je.Mixture())
    run = je.live.LiveRun(
        4, je.BestArm(), je.TrackAndStop(), family=one.family, delta=0.1, costs=COSTS
    )
    run.save(tmp_path / "run.jsonl")
    for arm, reward in zip(trace.arms[:40], trace.rewards[:40], strict=True):
        assert run.ask() == arm
        run.tell(arm, reward)
    asked = run.ask()
    run.close()
    again = je.live.LiveRun.load(tmp_path / "run.jsonl")
    assert again.ask() == asked
