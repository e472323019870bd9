"""`rarely`: the two forms of a choose are right beside each other, for one run and for lanes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim.contracts.rarely import Rarely, Skipping, takes_rarely

NOW = np.array([False, True, False, True])
TREE = {"arm": np.arange(4), "table": np.arange(12.0).reshape(3, 4)}
DONE = {"arm": -TREE["arm"], "table": 2 * TREE["table"]}


def test_work_counts_where_it_is_due():
    found = Rarely()(NOW, lambda: DONE, TREE)
    for name in TREE:
        np.testing.assert_array_equal(found[name], np.where(NOW, DONE[name], TREE[name]))


def test_work_is_not_computed_where_it_is_never_due():
    done = []
    work = lambda: jax.debug.callback(lambda: done.append(1)) or 1.0  # noqa: E731
    step = jax.jit(lambda go: Rarely()(go, work, 0.0))
    for go, value, times in [(False, 0.0, 0), (True, 1.0, 1)]:
        assert step(go) == value
        jax.effects_barrier()
        assert len(done) == times


def test_the_first_call_leaves_work_out_and_notes_it():
    def untraced():
        raise AssertionError

    first = Skipping(jnp.zeros(4, bool))
    assert not first.called and first(NOW, untraced, TREE) is TREE and first.called
    assert first(NOW[::-1], untraced, TREE) is TREE
    np.testing.assert_array_equal(first.asks, [True, True, True, True])


@pytest.mark.parametrize("rarely", [Rarely(), Skipping(jnp.zeros([], bool))])
def test_refusals(rarely):
    for go in (1, 0.5, np.arange(4)):
        with pytest.raises(TypeError, match="first argument of rarely has dtype .*, not bool"):
            rarely(go, lambda: 0, 0)
    with pytest.raises(TypeError, match="work of rarely returns .*, otherwise is "):
        Rarely()(NOW, lambda: {"arm": TREE["arm"]}, TREE)


def test_who_takes_it():
    assert takes_rarely(lambda self, view, state, seldom: 0)
    assert not takes_rarely(lambda self, view, state: 0)
    assert not takes_rarely(lambda self, view, state, size=3: 0)
    assert not takes_rarely(lambda self, view, state, *rest: 0)
