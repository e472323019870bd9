"""Track-and-Stop and its optimistic form: certificates, layouts, limit."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.evidence.half_spaces import HalfSpaceEvidence
from jaxelim.lanes import LaneOps
from jaxelim.rules.parts import tracking
from jaxelim.saddle.solver import State, climb
from jaxelim.testing.rules import run_by_run
from tests.calls import equal


def test_a_gap_is_at_most_its_share():
    """min(c, max(1e-6, c sqrt(2/Z))), Z the least active LLR, here 8; with slack min(c, 1e-6)."""
    with scope.engine():
        seen = dict(
            time=jnp.asarray(9.0), active=jnp.asarray([True, True, False]), lanes=LaneOps(),
            llr=jnp.asarray([8.0, 9.0, 1.0]),
        )  # fmt: skip
        for share, gap, with_slack in ((0.1, 0.05, 1e-6), (1.5e-6, 1e-6, 1e-6), (1e-8,) * 3):
            for slack, expected in ((0.0, gap), (0.1, with_slack)):
                view = SimpleNamespace(shape=SimpleNamespace(slack=slack), **seen)
                found = float(tracking.gap(share, view))
                assert found == pytest.approx(expected, rel=1e-12)


def linear(K=6, d=3):
    rng = np.random.default_rng(15)
    arms = rng.standard_normal((2, K, d))[0]
    return je.Instance(arms, rng.standard_normal(d))


@dataclasses.dataclass(frozen=True)
class Certified(je.TrackAndStop):
    """Stops at the first solve that misses its gap."""

    traits = dataclasses.replace(je.TrackAndStop.traits, native="always")

    def native(self, view, state):
        return ~(state.found.gap <= tracking.gap(self.gap_share, view)), view.means > jnp.inf


jax.tree_util.register_static(Certified)


@pytest.mark.slow
def test_the_evidence_gap_holds_at_every_sample():
    """The certified gap is at most min(c, max(1e-6, c sqrt(2/Z))); far fewer solves than samples.

    The definition of Z: the least LLR of the active pieces, at the counts.
    """
    rule = Certified(gap_share=0.05)
    selective = je.SelectiveElimination()
    instance = je.Instance(2 * linear().arms, linear().theta)
    result = je.simulate(instance, je.BestArm(), rule, runs=8, seed=3, max_samples=400, ridge=1.0,
                         delta=1e-4, stopping=selective, elimination=selective)  # fmt: skip
    assert np.all(result.answer.any(-1))  # the native answer is empty
    assert result.solves.shape == result.samples.shape and result.samples.mean() > 60
    drawn = result.samples - 6
    assert np.all(result.solves >= 1) and np.mean(result.solves / drawn) < 0.7
    assert np.all(result.tests_sampling >= drawn)  # one look a sample, of one piece or more
    assert result.to_xarray()["solves"].dims == ("stopping", "delta", "run")


@pytest.mark.slow
def test_solves_over_the_active_pieces():
    """Certified, with the same pulls as under vmap, which masks eliminated pieces."""
    rng = np.random.default_rng(4)
    instance = je.Instance(rng.standard_normal((8, 3)), [2.0, 0.5, -1.0])
    selective = je.SelectiveElimination()
    asked = dict(delta=1e-3, runs=20, seed=5, max_samples=300, stopping=selective,
                 elimination=selective, record="pair_times", ridge=1.0)  # fmt: skip
    rule = Certified(schedule=2, gap_share=1e-6)
    few = je.simulate(instance, je.TopM(2), rule, **asked)
    assert few.stopped.mean() > 0.5 and np.all(few.answer.any(-1))  # the native answer is empty
    best = np.argsort(instance.arms @ instance.theta)[-2:]
    times = few.elimination_times[0, 0][:, best]
    # of 12 pieces at most four are left
    assert np.sum((times > 0) & (times < few.samples[0, 0][:, None, None]), (1, 2)).max() >= 8
    whole = je.simulate(instance, je.TopM(2), run_by_run(rule), **asked)
    equal(few, whole, fields=("samples", "pulls", "answer", "solves"))
    # Rounding decides on one more step where a gap is just met.
    np.testing.assert_allclose(few.tests_sampling, whole.tests_sampling, rtol=0.03)


@pytest.mark.slow
def test_a_bad_start_is_abandoned():
    """From a run: an arm that needs a quarter of the weight starts at 0.003.

    From there every step is cut short.
    """
    arms = [
        [-2.085, 3.708, -5.650], [3.021, -3.451, -3.237], [-1.701, 0.2295, -2.771],
        [0.3224, 1.235, 2.064], [0.8448, -2.199, 4.949], [7.767, -7.318, 5.445],
        [-0.3111, -0.4963, -5.933], [-2.227, 2.262, -2.582],
    ]  # fmt: skip
    y = [[-2.176, 1.252, 8.186], [4.746, -3.867, 8.682], [9.467, -7.548, 8.216],
         [8.078, -6.822, 11.38]]  # fmt: skip
    gaps, mixture = [1.691, 1.682, 1.689, 2.478], [0.3536, 8.563e-9, 0.6464, 4.964e-9]
    weights = np.array([0.2297, 3.429e-8, 0.06377, 6.092e-8, 0.002711, 0.4322, 0.2716, 8.843e-9])
    with jax.enable_x64(True):

        @jax.jit
        def solve(start, gap):
            live = jnp.ones(4, bool)
            pieces = HalfSpaces(jnp.asarray(y), -jnp.asarray(gaps), live)
            evidence = HalfSpaceEvidence.of(jnp.asarray(arms), jnp.zeros(3), pieces)
            return climb(evidence, live, jnp.zeros(8), gap, start)

        even = jnp.full(8, 1 / 8)
        bad = State.none(even, jnp.zeros(4))
        bad = dataclasses.replace(
            bad, w=jnp.asarray(weights / weights.sum()), q=jnp.asarray(mixture)
        )
        found, cold, never = solve(bad, 1e-6), solve(even, 1e-6), solve(even, 0.0)
    assert float(found.gap) <= 1e-6 and found.steps <= 30 + 2 * int(cold.steps)
    np.testing.assert_allclose(found.value, cold.value, rtol=3e-6)
    assert 0 < float(never.gap) < 1e-9 and never.steps == 60


def test_forced_exploration_of_underexplored_arms():
    force = jax.jit(lambda *x: tracking.force_exploration(LaneOps(), *x))
    counts, weights = np.array([1.0, 7.0, 40.0]), np.array([0.0, 0.2, 0.8])
    np.testing.assert_allclose(force(counts, 49.0, weights), [1, 0, 0])  # sqrt(48) - 3/2 = 5.43
    many = np.stack([counts, counts + 10], 1)
    with jax.numpy_rank_promotion("allow"):
        found = force(many, np.array([100.0, 100.0]), np.stack([weights, weights], 1))
    # sqrt(99) - 3/2 = 8.45
    np.testing.assert_allclose(found, [[0.5, 0], [0.5, 0.2], [0, 0.8]], rtol=1e-6)
