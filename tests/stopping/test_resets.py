"""Elimination at sampling with resets, against the twin and on the paper's example."""

import numpy as np
import pytest

import jaxelim as je
from tests import twin

K, D = 5, 3


def instances(count, seed):
    rng = np.random.default_rng(seed)
    arms = rng.normal(size=(count, K, D))
    return je.Instance(arms, rng.normal(size=(count, D)))


@pytest.mark.slow_rows("best-arm-selective", "signs-selective", "signs-full")
@pytest.mark.parametrize(
    "rule, word",
    [(je.SelectiveElimination(), "selective"), (je.FullElimination(), "full")],
    ids=["selective", "full"],
)
@pytest.mark.parametrize(
    "problem, named",
    [
        (je.BestArm(), ("bai",)),
        pytest.param(je.TopM(2), ("topm", 2), marks=pytest.mark.slow),
        (je.Thresholding(), ("osi", 0.0)),
    ],
    ids=["best-arm", "top-m", "signs"],
)
def test_sets_with_alpha_beta_are_the_definition(problem, named, rule, word):
    """With alpha = beta, 50 runs cross resets at 16 and 256: equal pulls and tests."""
    batch, length, runs = instances(10, 3), 300, 5
    noise = np.random.default_rng(4).standard_normal((runs, length))
    beta = je.Heuristic()
    ours = je.simulate(
        batch,
        problem,
        je.LinGapE(),
        noise=noise,
        runs=runs,
        delta=0.1,
        elimination=je.Resets(rule, alpha=beta, t0=2.0),
        stopping=je.LLR(),
        ridge=1.0,
    )
    for i, one in enumerate(batch):
        for r in range(runs):
            theirs = twin.run(
                one.arms,
                one.theta,
                named,
                "lingape",
                noise=noise[r],
                delta=0.1,
                max_samples=length,
                stopping=("llr",),
                elimination=twin.Resets(word, alpha=twin.heuristic, t0=2.0),
            )
            stop = theirs.stops["llr"]
            assert ours.samples[i, 0, 0, r] == stop.samples
            np.testing.assert_array_equal(ours.pulls[i, 0, 0, r], stop.pulls)
            assert ours.tests_sampling[i, 0, 0, r] == stop.tests_sampling
    assert (ours.samples > 256).sum() >= 5


@pytest.mark.slow
def test_papers_alpha_on_the_two_dimensional_example():
    """At eps = 0.01 arms 3.. are eliminated from sampling, and arm 2 never is."""
    instance = je.instances.two_dimensional(6, 0.01)
    common = dict(runs=8, delta=0.01, max_samples=20_000, stopping=je.LLR(), ridge=1.0)
    plain = je.simulate(instance, je.BestArm(), je.LinGapE(), **common)
    resets = je.simulate(
        instance,
        je.BestArm(),
        je.LinGapE(),
        elimination=je.Resets(je.SelectiveElimination()),
        **common,
    )
    pulls = 20_000 - 6
    assert (plain.tests_sampling == 5 * pulls).all()
    read = resets.tests_sampling / pulls
    assert (read < 3).all() and (read >= 1).all()
