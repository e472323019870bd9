"""Matrix games against the twin's linear programs on scaled payoffs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim.contracts.views import ArmContext
from jaxelim.lanes import LaneOps
from jaxelim.rules.parts import games
from tests import twin

COLUMNS = 12
KINDS = {
    "normal": lambda rng, n: rng.normal(size=(n, COLUMNS)),
    "tiny": lambda rng, n: 1e-8 * rng.random((n, COLUMNS)),
    "tiny, far from 0": lambda rng, n: 3 + 1e-8 * rng.random((n, COLUMNS)),
    "integers": lambda rng, n: rng.integers(-2, 3, (n, COLUMNS)).astype(float),
    "peaks": lambda rng, n: rng.random((n, COLUMNS)) ** 8,
    "duplicate rows": lambda rng, n: rng.random((3, COLUMNS))[rng.integers(3, size=n)],
    "duplicate columns": lambda rng, n: rng.random((n, 3))[:, np.arange(COLUMNS) % 3],
    "rank one": lambda rng, n: rng.normal(size=(n, 1)) * rng.normal(size=(1, COLUMNS)),
    "units": lambda rng, n: np.eye(COLUMNS)[rng.integers(COLUMNS, size=n)],
    "constant": lambda rng, n: np.full((n, COLUMNS), 0.7),
    "one row apart": lambda rng, n: np.vstack(
        [rng.random((n - 1, COLUMNS)), np.full((1, COLUMNS), -5.0)]
    ),
    "sizes far apart": lambda rng, n: (
        rng.random((n, COLUMNS)) * 10.0 ** -rng.integers(0, 9, (n, 1))
    ),
}


@pytest.fixture(scope="module", autouse=True)
def float64():
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield


def batch(rows, lanes, seed):
    """Games of 1 to `rows` rows, equally many of each kind, in random rows.

    Returns:
        payoffs [F, K, B], mask [F, B].
    """
    rng = np.random.default_rng(seed)
    payoffs, mask = np.full((lanes, rows, COLUMNS), np.nan), np.zeros((lanes, rows), bool)
    for lane in range(lanes):
        kind = list(KINDS.values())[lane % len(KINDS)]
        n = 1 + (lane // len(KINDS) * 7) % rows
        at = rng.permutation(rows)[:n]
        payoffs[lane, at], mask[lane, at] = kind(rng, n), True
    return np.moveaxis(payoffs, 0, -1), np.moveaxis(mask, 0, -1)


@jax.jit
def solved(flag, payoffs, mask):
    return games.solve(LaneOps(flag), payoffs, mask)


@pytest.mark.parametrize("rows, lanes", [(8, 96), (60, 216)])
def test_games_are_solved_exactly(rows, lanes):
    payoffs, mask = batch(rows, lanes, rows)
    tuned = solved(jnp.int32(1), payoffs, mask)
    strategy = np.asarray(tuned.strategy)
    assert (strategy >= 0).all()
    np.testing.assert_allclose(strategy.sum(0), 1, rtol=1e-14)
    for lane in range(lanes):
        game = payoffs[mask[:, lane], :, lane]
        low, scale = game.min(), np.ptp(game) or 1.0
        guaranteed = (game @ strategy[:, lane]).min()
        rounding = 1e-15 * np.abs(game).max()  # of the payoffs themselves
        known = twin.maximin((game - low) / scale)[1]
        assert (guaranteed - low) / scale == pytest.approx(known, abs=1e-9 + rounding / scale)
        assert float(tuned.value[lane]) == pytest.approx(guaranteed, abs=1e-14 * np.abs(game).max())
        slack = 1e-12 * scale + rounding
        assert -slack <= float(tuned.gap[lane]) <= slack, (lane, len(game))


def test_one_run_equals_a_lane():
    payoffs, mask = batch(8, 96, 1)
    tuned = solved(jnp.int32(1), payoffs, mask)
    one = jax.jit(jax.vmap(lambda a, m: games.solve(LaneOps(), a, m), -1, -1))(payoffs, mask)
    np.testing.assert_allclose(one.value, tuned.value, rtol=1e-13)
    np.testing.assert_array_equal(one.pivots, tuned.pivots)
    np.testing.assert_allclose(one.strategy, tuned.strategy, atol=1e-7)


def test_a_lane_without_rows_ends_at_once():
    payoffs, mask = batch(8, 96, 2)
    mask[:, 5] = False
    payoffs[:, :, 7] = np.nan
    end = solved(jnp.int32(1), payoffs, mask)
    assert end.pivots[5] <= 1 and np.isfinite(end.strategy[:, 5]).all()
    assert end.pivots[7] <= 60  # a game with NaN does not delay the others


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gradients:
    """Evidence of given gradients [P, K, B]."""

    space: ArmContext
    gradients: jax.Array

    def gradient(self, piece):
        return self.space.lanes.row(self.gradients, piece)


@pytest.mark.slow
def test_games_beside_a_large_one_round_as_without_it():
    """Only the first lane's game changes: 3 rows, then 70, which are solved alone."""
    pieces, few = 80, np.array([3, 30, 64, 10, 20, 50, 17, 40])
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(pieces, COLUMNS, few.size))
    values = rng.random((pieces, few.size))

    @jax.jit
    def strategies(flag, gradients, values, counts):
        space = ArmContext(LaneOps(flag=flag), jnp.zeros((COLUMNS, 3)))
        return games.play(Gradients(space, gradients), values, jnp.arange(pieces)[:, None] < counts)

    plain, beside = (
        np.asarray(strategies(jnp.int32(1), gradients, values, np.array([first, *few[1:]])))
        for first in (3, 70)
    )
    assert (plain[:, 0] != beside[:, 0]).any()
    np.testing.assert_array_equal(plain[:, 1:], beside[:, 1:])
    assert np.allclose(beside.sum(0), 1, atol=1e-12)
