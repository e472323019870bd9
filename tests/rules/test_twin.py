"""The twin alone: order of its stops, resets, an allocation on paper, the cap."""

import numpy as np
import pytest

from tests import twin

EASY = twin.Linear(np.eye(5), [1.0, 0.4, -0.5, -1.0, -1.6])
THETA = [1.5, -1.0, 0.8]
PROBLEMS = [("bai",), ("topm", 2), ("osi", 0.0), ("osi", 0.7)]
ALL = ("llr", "selective", "full", "selective-definition", "full-definition")


def play(problem, rule, *, world=EASY, pulls=400, **settings):
    noise = np.random.default_rng(0).standard_normal(pulls)
    return twin.run(world, problem, rule, noise=noise, max_samples=pulls, **settings)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_elimination_stops_in_order(problem):
    world = twin.Linear(np.random.default_rng(0).normal(size=(6, 3)), THETA)
    stops = play(problem, "lingape", world=world, pulls=250, stopping=ALL).stops
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
        play(problem, "lingape", world=twin.Linear(arms, THETA), elimination=elimination)
        for elimination in (
            None, twin.Resets(full, alpha=lambda t, delta: 0.5, t0=2.0),
            twin.Resets(full, alpha=lambda t, delta: np.inf),
        )
    )  # fmt: skip
    reads, plainly = (run.stops["llr"].tests_sampling / len(run.arms) for run in (ours, plain))
    assert reads < plainly
    np.testing.assert_array_equal(same.arms, plain.arms)


def test_resets_need_constants_or_alpha():
    with pytest.raises(ValueError, match="alpha"):
        play(("bai",), "lingape", beta=twin.gk16, elimination=twin.Resets())
    alpha = twin.paper_alpha(twin.heuristic)
    # At t = 50, beta(t, 1/t^2) = log(51 * 2500).
    c2 = np.log(3) / np.log(2)
    expected = (
        np.sqrt(np.log(5100) + (4 * c2 - 1) * np.log(50)) + 4 * np.sqrt(c2 * np.log(51 * 2500))
    ) ** 2
    np.testing.assert_allclose(alpha(50, 0.01), expected)


def test_allocation_of_the_two_dimensional_example():
    angles = np.pi + np.array([0.3, 0.8, 1.2])
    arms = np.vstack([np.eye(2), np.column_stack([np.cos(angles), np.sin(angles)])])
    world = twin.Linear(arms, [1.0, 0.9])
    seen = world.truth(world.pieces(("bai",)))
    labels = seen.pieces.of(seen.answer)
    w = twin.piece_weights(seen, labels)
    np.testing.assert_allclose(seen.values(labels, w).min(), 0.1**2 / 8, rtol=1e-5)
    np.testing.assert_allclose(w, [0.5, 0.5, 0, 0, 0], atol=2e-3)


def test_the_cap_truncates():
    hard = twin.Linear(np.eye(5), 0.01 * EASY.theta)
    stop = play(("topm", 2), "uniform", world=hard, pulls=37).stops["llr"]
    assert (stop.samples, stop.stopped, stop.truncated) == (37, False, True)
    assert len(stop.active) == 37 - 5 + 1
