"""Track-and-Stop and its optimistic form: the plain reading, the certificate, one run against many, the limit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import allocation, tracking
from jaxelim.complexity.information import coordinates
from jaxelim.complexity.solver import climb
from jaxelim.lanes import Lanes
from tests import twin


def batch(structure, count=2, K=5, d=3):
    rng = np.random.default_rng(15)
    arms = np.stack([np.eye(K) if structure == "unstructured" else rng.standard_normal((K, d)) for _ in range(count)])
    return je.Instance(arms, rng.standard_normal((count, arms.shape[2])))


@pytest.mark.parametrize(
    ("problem", "spec", "structure", "eliminates", "rule", "name", "settings"),
    [
        (je.BestArm(), ("bai",), "unstructured", False, je.TrackAndStop(gap=1e-10), "tas", {"tolerance": 1e-7}),
        (je.TopM(2), ("topm", 2), "linear", False, je.OptimisticTaS(gap=1e-10), "optimistic_tas", {"tolerance": 1e-8}),
        (
            je.Thresholding(0.1), ("osi", 0.1), "linear", True,
            je.TrackAndStop(tracking="C", exploration="paper", schedule=7, gap=1e-10),
            "tas", {"tracking": "C", "exploration": "paper", "every": 7, "tolerance": 1e-7},
        ),
    ],
    ids=["D-unstructured-bai", "optimistic-linear-topm", "C-paper-linear-signs"],
)  # fmt: skip
def test_agrees_with_the_plain_reading(problem, spec, structure, eliminates, rule, name, settings):
    # Few steps: the plain solver's weights are right to 1e-4, and their errors add up in W.
    # Where one piece phi_i - phi_j is all that counts, w* = (1/2, 1/2) and its pulls are ties: no such case is here.
    steps = 16 if name == "optimistic_tas" else 30
    instances, eps = batch(structure), np.random.default_rng(6).standard_normal((2, steps))
    stopping, seen = (je.SelectiveElimination(), "selective") if eliminates else (je.LLR(), "llr")
    ours = je.simulate(
        instances, problem, rule, runs=2, noise=eps, stopping=stopping, elimination=stopping if eliminates else None
    )
    for i, one in enumerate(instances.singles):
        for run in range(2):
            theirs = twin.run(
                one.arms, one.theta, spec, name, noise=eps[run], stopping=(seen,),
                elimination=seen if eliminates else None, **settings,
            )  # fmt: skip
            assert ours.samples[i, 0, 0, run] == theirs.stops[seen].samples
            np.testing.assert_array_equal(ours.pulls[i, 0, 0, run], theirs.stops[seen].pulls)


@dataclasses.dataclass(frozen=True)
class Certified(je.TrackAndStop):
    """Stops at the first pair that was not solved to its gap."""

    stopping = ("llr", "native")
    always_native = True

    def native(self, view, state):
        return state.found.gap > self.gap, view.means > jnp.inf


jax.tree_util.register_static(Certified)


def test_every_solve_of_many_runs_is_certified_and_alone_it_is_the_same():
    instance = batch("linear", K=6)[0]
    asked = dict(runs=8, seed=3, max_samples=120, delta=1e-6, noise=None)
    result = je.simulate(instance, je.BestArm(), Certified(schedule=3), **asked)
    assert np.all(result.answer.any(-1))  # the native answer is empty
    assert np.median(result.samples) > 60
    alone = je.simulate(instance, je.BestArm(), Certified(schedule=3), engine=je.Engine(vmapped=True), **asked)
    np.testing.assert_array_equal(result.samples, alone.samples)
    np.testing.assert_array_equal(result.pulls, alone.pulls)
    # Pieces are read at every solve: once where the last pair still holds, and once more per iteration.
    solves = -(-(result.samples - 6) // 3)
    per_solve = result.tests_sampling / (5 * solves)
    assert np.all(result.tests_sampling % 5 == 0) and np.all(per_solve >= 1) and np.mean(per_solve) < 12


@pytest.mark.slow
def test_pulls_approach_the_optimal_allocation():
    instance = je.instances.two_dimensional(4, 0.4)
    never = lambda t, delta: 1e9 + 0 * (t + delta)  # noqa: E731
    rule = je.TrackAndStop(schedule="powers")
    result = je.simulate(instance, je.BestArm(), rule, runs=2, threshold=never, max_samples=100_000)
    shares = result.pulls[0, 0] / 100_000
    assert np.abs(shares - np.array([0.5, 0.5, 0, 0])).sum(1).max() / 2 < 0.02


def test_a_start_nearby_saves_iterations_and_a_certified_one_is_kept():
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        arms, theta = jnp.asarray(rng.standard_normal((12, 4))), jnp.asarray(rng.standard_normal(4))
        best = int(np.argmax(arms @ theta))
        y = jnp.asarray(np.delete(np.asarray(arms[best]) - np.asarray(arms), best, 0))

        @jax.jit
        def solve(theta, weights, mixture):
            live = jnp.ones(11, bool)
            return climb(coordinates(arms, y), y @ theta, live, jnp.zeros(12), weights, mixture, 1e-9, 60)

        cold = solve(theta, jnp.full(12, 1 / 12), jnp.zeros(11))
        again = solve(theta, cold.allocation, cold.mixture)
        near = jnp.asarray(np.asarray(theta) * (1 + 1e-4 * rng.standard_normal(4)))
        moved = solve(near, cold.allocation, cold.mixture)
        afresh = solve(near, jnp.full(12, 1 / 12), jnp.zeros(11))
    assert cold.converged and again.converged and moved.converged and afresh.converged
    assert again.iterations == 0 and moved.iterations < afresh.iterations
    np.testing.assert_array_equal(again.allocation, cold.allocation)
    np.testing.assert_allclose(moved.value, afresh.value, rtol=3e-9)


def test_forced_exploration_feeds_the_starved():
    counts = np.array([1.0, 7.0, 40.0])
    weights = tracking.fed(Lanes(), jnp.asarray(counts), jnp.asarray(49.0), jnp.asarray([0.0, 0.2, 0.8]))
    np.testing.assert_allclose(weights, [1, 0, 0])  # sqrt(48) - 3/2 = 5.43
    many = jnp.asarray(np.stack([counts, counts + 10], 1))
    with jax.numpy_rank_promotion("allow"):
        weights = tracking.fed(Lanes(), many, jnp.asarray([100.0, 100.0]), jnp.asarray([[0.0] * 2, [0.2] * 2, [0.8] * 2]))
    np.testing.assert_allclose(weights, [[0.5, 0], [0.5, 0.2], [0, 0.8]], rtol=1e-6)  # sqrt(99) - 3/2 = 8.45


def test_schedules_and_settings_are_checked():
    assert allocation.checked_schedule(np.int64(3)) == 3
    for schedule in ("never", 0, 2.0, True, None):
        with pytest.raises(je.ArgumentError, match="schedule"):
            je.TrackAndStop(schedule=schedule)
    for name, value in (("tracking", "E"), ("gap", 0), ("gap", 1.0), ("exploration", "none")):
        with pytest.raises(ValueError, match=name):
            je.TrackAndStop(**{name: value})
    with pytest.raises(je.ArgumentError, match="bonus"):
        je.OptimisticTaS(bonus=2.0)
