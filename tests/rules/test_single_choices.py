"""Single choices of rules, at states that few runs reach."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.pieces import Interval
from jaxelim.lanes import LaneOps
from jaxelim.rules import lucb, racing

LANES = LaneOps(None)


def numbers(*x):
    return jnp.asarray(x, float)


def test_an_accepted_arm_does_not_decide_on_discards(monkeypatch):
    """Racing, m = 2, arm 0 accepted: T = {1}, and U_3 <= L_1 discards arm 3.

    Arm 0 is pulled no more, and L_0 is below U_3.
    """
    with scope.engine():
        bounds = Interval(numbers(0.2, 1.0, -0.2, -0.8), numbers(3.8, 2.0, 1.2, 0.8))
        means = numbers(2.0, 1.5, 0.5, 0.0)
        monkeypatch.setattr(racing, "observed", lambda view: (means, bounds))
        first = jnp.arange(4) == 0
        view = SimpleNamespace(lanes=LANES, problem=je.TopM(2), means=means)
        change = jax.jit(lambda accepted: je.Racing()._changed(
            view, racing.RacingState(accepted, ~accepted, jnp.int32(3))))  # fmt: skip
        accepted, remaining = change(first)
    assert np.asarray(accepted).tolist() == [True, False, False, False]
    assert np.asarray(remaining).tolist() == [False, True, True, False]


def test_the_second_of_two_pulls():
    """LUCB(pulls=2) pulls b, then c without a test, whatever overlaps then; then a new b."""
    shape = SimpleNamespace(arms=lambda lanes, piece: (jnp.int32(2), piece))

    def chosen(overlap, state):
        family = SimpleNamespace(overlap=lambda view, beta: overlap, design=False)
        view = SimpleNamespace(
            lanes=LANES, evidence=None, family=family, shape=shape, beta=1.0, means=overlap,
            active=jnp.arange(4) != 2, active_count=jnp.int32(3), public=jnp.arange(4) == 2,
        )  # fmt: skip
        return je.LUCB(pulls=2).choose(view, state)

    with scope.engine():
        none = jnp.zeros(4, bool)
        state = lucb.LUCBState(jnp.bool_(False), none, jnp.int32(0), jnp.int32(-1))
        step, pulled, tests, stops = jax.jit(chosen), [], [], []
        for overlap in ([0.1, 0.5, 9, 0.2], [-1, -1, 9, -1], [0.3, 0.1, 9, 0.2], [1, 1, 9, 2]):
            arm, state = step(numbers(*overlap), state)
            pulled.append(int(arm))
            tests.append(int(state.piece_tests))
            stops.append(bool(state.stop))
    assert pulled == [2, 1, 2, 0] and tests == [3, 0, 3, 0] and not any(stops)
