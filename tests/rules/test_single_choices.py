"""Single choices of rules, at states that few runs reach; chance in ties."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.pieces import Interval
from jaxelim.engine.state import cpu_options
from jaxelim.lanes import LaneOps
from jaxelim.rules import lucb, racing
from jaxelim.rules.lazy_tas import averaged
from jaxelim.rules.parts.indices import rank

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


def test_rank_equals_that_of_a_sorted_column():
    """The m-th largest of each column without its own entry, ties counted."""
    values = np.random.default_rng(3).integers(0, 4, (6, 6)).astype(float)
    np.fill_diagonal(values, -np.inf)
    ranks = jax.jit(lambda values: [
        rank(LaneOps(), lambda some: list(some.of(values)), 6, m, values[0]) for m in range(1, 6)
    ])  # fmt: skip
    for m, ours in enumerate(ranks(values), 1):
        np.testing.assert_array_equal(ours, np.sort(values, 0)[-m])


@pytest.mark.parametrize("form", ["one run", "lanes", "vmapped"])
@pytest.mark.parametrize("design", ["square", "diagonal"])
def test_every_operation_of_the_average_is_rounded(form, design):
    """A fused multiply-add rounds once and gives other last digits."""
    K, B, steps = 40, 16, 300
    arms = np.random.default_rng(3).integers(K, size=(steps, B)).astype(np.int32)
    expected = np.full((B, K), 1 / K)
    for i, chosen in enumerate(arms, 1):
        expected = expected * (i / (i + 1)) + np.eye(K)[chosen] / (i + 1)

    def solve(arms, start):
        each = np.arange(K, dtype=np.int32).reshape((K,) + (1,) * (start.ndim - 1))

        def step(carry):
            i, w = carry
            return i + 1, averaged(w, each == arms[i - 1], i)

        return jax.lax.while_loop(lambda carry: carry[0] <= steps, step, (jnp.int32(1), start))[1]

    many = {"one run": solve, "lanes": solve, "vmapped": jax.vmap(solve, -1, -1)}[form]
    last = () if form == "one run" else (B,)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        given = arms[:, 0] if form == "one run" else arms, np.full((K, *last), 1 / K)
        options = cpu_options(None if design == "diagonal" else "1")
        found = jax.jit(many).lower(*given).compile(options)(*given)
    expected = expected[0] if form == "one run" else expected.T
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_arms_that_do_not_span_are_not_explored_by_force():
    instance = je.Instance([[1.0, 0, 0], [1.0, 0.5, 0], [0.0, 1, 0]], [1.0, 0.4, 0])
    prepared = je.LazyTaS().prepare(instance, je.BestArm(), 1.0)
    np.testing.assert_array_equal(prepared.spanner, [0, 1, 0])
    assert prepared.c0 == 0


@pytest.mark.slow
def test_xy_adaptive_on_orthogonal_groups_of_arms():
    """No pull lowers the largest distance while two groups share it: all arms tie.

    Chance must choose: n = 4000 first choices over 6 tied arms, each with probability
    1/6. Some count differs from 667 by more than 140 (6 sd) with probability below
    2e-8. The test detects an arm whose probability is off by 0.07.
    """
    angle = np.array([0.0, 0.7, 1.9])
    arms = np.zeros((6, 4))
    arms[:3, :2] = arms[3:, 2:] = np.stack([np.cos(angle), np.sin(angle)], 1)
    instance = je.Instance(arms, [1.0, 0.3, 0.2, 0.1])
    job = instance, je.BestArm(), je.XYAdaptive()
    common = dict(stopping=je.Native(), delta=0.1, ridge=1.0)
    first = je.simulate(*job, runs=4000, max_samples=16, **common)
    chosen = first.pulls[0, 0] - 1
    assert (np.sort(chosen, 1) == [0, 0, 0, 0, 0, 10]).all()
    assert np.abs((chosen == 10).sum(0) - 4000 / 6).max() < 140
    whole = je.simulate(*job, runs=50, max_samples=100_000, **common)
    assert whole.stopped.all() and whole.correct.mean() > 0.5
