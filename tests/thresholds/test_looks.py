"""Tests by a mixture: looks, every stopping rule and set of pieces, and what is refused.

`ByPiece` writes log((1 + t)/delta) as a mixture that tests piece by piece. While a run looks
at every t, it must stop and eliminate as `Heuristic` does.
"""

import dataclasses
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.looks import look_time
from jaxelim.simulation.experiment import Experiment

EVERY_T = 255
"""A run looks at every t up to here."""


@dataclasses.dataclass(frozen=True)
class ByPiece(je.Mixture):
    """Refute a piece once LLR - log(1 + t) > log(1/delta)."""

    def __call__(self, t, delta):
        return -jnp.log(delta) + 0 * t

    def gate(self, level, seen):
        return level

    def log_e(self, seen, above=False):
        evidence = seen.family.evidence(seen.space, seen.stats, seen.shape)
        return evidence.values() - jnp.log1p(seen.stats.t.astype(seen.means.dtype))


LINEAR = je.Instance([[1.0, 0.1], [0.2, 1.0], [0.8, -0.6], [-0.3, 0.2]], [1.5, 0.1])
UNSTRUCTURED = je.Instance.unstructured((0.9, 0.2, -0.4))
CASES = {
    "top-m": (je.Instance.unstructured([1.0, 0.6, -0.3, -0.8]), je.TopM(2)),
    "bernoulli": (je.Instance.unstructured([0.9, 0.4, 0.2], je.Bernoulli()), je.BestArm()),
    "items": (LINEAR, je.BestArm(items=[[1.0, 0.0], [0.0, 1.0], [0.5, -0.5]])),
}
STOPPING = (je.LLR(), je.SelectiveElimination(), je.FullElimination())


def play(case, threshold, **settings):
    instance, problem = CASES[case]
    common = dict(delta=0.1, runs=40, max_samples=EVERY_T, stopping=STOPPING,
                  record=("pair_times",))  # fmt: skip
    return je.simulate(instance, problem, je.Uniform(), threshold=threshold, **common | settings)


def equal(one, other, *names):
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_level_written_by_piece_stops_and_eliminates_as_the_level(case):
    one, other = play(case, ByPiece()), play(case, je.Heuristic())
    assert other.stopped.mean() > 0.3  # else there is little to compare
    equal(one, other, "samples", "stopped", "answer", "correct", "elimination_times")


def test_elimination_at_sampling_reads_the_pieces_that_are_left():
    rule = STOPPING[1]
    found = je.simulate(UNSTRUCTURED, je.BestArm(), je.LUCB(), threshold=ByPiece(), delta=0.1,
                        runs=40, max_samples=EVERY_T, stopping=rule, elimination=rule)  # fmt: skip
    assert found.stopped.mean() > 0.3 and found.correct[found.stopped].mean() > 0.9


@pytest.mark.slow
@pytest.mark.devices
def test_runs_under_a_threshold_by_piece_do_not_depend_on_the_layout():
    settings = dict(max_samples=2000, delta=(0.1, 0.01))
    layouts = (je.Engine(lanes=16, devices=1, shrink=False),
               je.Engine(lanes=64, devices=1, chunk=40), je.Engine(lanes=16, devices=2))
    first, *others = (play("top-m", je.Mixture(), engine=one, **settings) for one in layouts)
    assert first.samples.max() > EVERY_T
    for other in others:
        equal(first, other, "samples", "stopped", "answer", "pulls")
    alone = play("top-m", je.Mixture(), max_samples=2000, delta=0.01)
    np.testing.assert_array_equal(alone.samples[:, 0], first.samples[:, 1])


class Whole(je.Mixture):
    """The same, computed in full at every look."""

    def log_e(self, seen, above=False):
        return super().log_e(seen) + (jnp.inf if above else 0)


@pytest.mark.slow
@pytest.mark.parametrize("family, problem", [
    (je.Bounded(0, 4), je.BestArm()), (je.Exponential(), je.BestArm(epsilon=0.1)),
    (je.GaussianUnknownVariance(), je.BestArm(reference=1.3)),
], ids=str)  # fmt: skip
def test_the_bound_that_comes_first_changes_no_run(family, problem):
    means = [3.6, 1.2, 0.8, 0.4]
    one, other = (
        je.simulate(je.Instance.unstructured(means, family), problem, je.Uniform(), runs=6,
                    threshold=threshold, delta=0.1, max_samples=200, stopping=STOPPING[:2],
                    engine=je.Engine(devices=1))
        for threshold in (je.Mixture(pieces=4), Whole(pieces=4))
    )  # fmt: skip
    assert one.stopped.any()
    equal(one, other, "samples", "stopped", "answer", "tests_stopping")


def test_times_of_looks():
    with scope.engine():
        t = jnp.arange(1, 100_000, dtype=jnp.int32)
        looks = np.flatnonzero(look_time(t)) + 1
    np.testing.assert_array_equal(looks[:EVERY_T], np.arange(1, EVERY_T + 1))
    late = looks[looks >= 256]
    apart = np.diff(late) / late[:-1]
    assert 1 / 256 < apart.min() and apart.max() <= 1 / 128
    # Each of t = 2^j (128 + i), i = 0 .. 127, and no other.
    assert late[0] == 256 and np.sum((late >= 4096) & (late < 8192)) == 128


def starvation(instance, threshold, rule=None):
    """The warnings of a call, which is not run."""
    ridge = threshold.ridge if isinstance(threshold, je.thresholds.LinearThreshold) else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", je.errors.StarvationWarning)
        Experiment(
            instance=instance, problem=je.BestArm(), rule=rule or je.LinGapE(), delta=0.1,
            stopping=je.LLR(), elimination=None, threshold=threshold, runs=1, seed=0,
            max_samples=1000, ridge=ridge,
        )  # fmt: skip
    return caught


def test_a_rule_that_starves_the_test_is_warned_about():
    """Where runs were seen to starve: 20 of 20 go on for 300,000 samples; and not elsewhere."""
    wide = je.load_instance("linear-d20")
    for threshold in (je.Mixture(), je.thresholds.LinearThreshold(20, 1.0, 1.0)):
        (found,) = starvation(wide, threshold)
        assert "LinGapE(rate=6)" in str(found.message) and found.filename == __file__
    assert not starvation(wide, je.Heuristic()) and not starvation(wide, je.Mixture(), je.LinGame())
    assert not starvation(wide, je.Mixture(), je.LinGapE(rate=6))
    for threshold in (je.Mixture(), je.thresholds.LinearThreshold(2, 1.1, 1.6)):
        assert not starvation(LINEAR, threshold)
