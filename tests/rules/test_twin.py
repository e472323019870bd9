"""The twin alone: order of its stops, resets, an allocation on paper."""

import numpy as np
import pytest

from tests import twin

THETA = [1.5, -1.0, 0.8]
PROBLEMS = [("bai",), ("topm", 2), ("osi", 0.0), ("osi", 0.7)]
ALL = ("llr", "selective", "full", "selective-definition", "full-definition")


def play(problem, world, pulls=400, **settings):
    noise = np.random.default_rng(0).standard_normal(pulls)
    return twin.run(world, problem, "lingape", noise=noise, max_samples=pulls, **settings)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_elimination_stops_in_order(problem):
    world = twin.Linear(np.random.default_rng(0).normal(size=(6, 3)), THETA)
    stops = play(problem, world, 250, stopping=ALL).stops
    samples = {name: stop.samples for name, stop in stops.items()}
    assert samples["full"] <= samples["selective"] <= samples["llr"]
    assert samples["full"] <= samples["full-definition"] <= samples["selective-definition"]
    assert samples["selective-definition"] <= samples["llr"]
    assert samples["selective"] <= samples["selective-definition"]
    assert stops["selective"].tests_stopping <= stops["selective-definition"].tests_stopping


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("full", ["selective", "full"])
def test_resets_drop_pieces_and_restore_them(full, problem):
    arms = np.random.default_rng(1).normal(size=(6, 3))
    plain, ours, same = (
        play(problem, twin.Linear(arms, THETA), elimination=elimination)
        for elimination in (
            None, twin.Resets(full, alpha=lambda t, delta: 0.5, t0=2.0),
            twin.Resets(full, alpha=lambda t, delta: np.inf),
        )
    )  # fmt: skip
    reads, plainly = (run.stops["llr"].tests_sampling / len(run.arms) for run in (ours, plain))
    assert reads < plainly
    np.testing.assert_array_equal(same.arms, plain.arms)


def test_allocation_of_the_two_dimensional_example():
    angles = np.pi + np.array([0.3, 0.8, 1.2])
    arms = np.vstack([np.eye(2), np.column_stack([np.cos(angles), np.sin(angles)])])
    world = twin.Linear(arms, [1.0, 0.9])
    seen = world.truth(world.pieces(("bai",)))
    labels = seen.pieces.of(seen.answer)
    w = twin.piece_weights(seen, labels)
    np.testing.assert_allclose(seen.values(labels, w).min(), 0.1**2 / 8, rtol=1e-5)
    np.testing.assert_allclose(w, [0.5, 0.5, 0, 0, 0], atol=2e-3)
