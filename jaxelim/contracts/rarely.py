"""Rare work of a sampling rule, stated in `choose` where it is used."""

import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.views import Tree
from jaxelim.lanes import where


class Rarely:
    """The third argument of a `choose(view, state, rarely)`, for work that few choices need.

    ::

        state = rarely(due, lambda: solved(view, state), state)

    The engine calls `choose` twice. The first call leaves all such work out, and is right for
    runs in which no `go` has held. The second serves the others, a group at a time.
    """

    def __call__(self, go: Array, work: Callable[[], Tree], otherwise: Tree) -> Tree:
        """work() where `go` [] bool holds, elsewhere `otherwise`, a pytree of arrays.

        `work` returns a pytree like it, and is called for all runs beside one where `go` holds.

        Raises:
            TypeError: `go` is no bool, or the pytrees are unlike.
        """
        go = _flag(go)

        def chosen():
            done = work()
            given, returned = map(jax.tree.structure, (otherwise, done))
            if given != returned:
                raise TypeError(f"work of rarely returns {returned}, otherwise is {given}")
            return where(go, done, otherwise)

        return jax.lax.cond(jnp.any(go), chosen, lambda: jax.tree.map(jnp.asarray, otherwise))


class Skipping(Rarely):
    """The form of the first call, which notes where some `go` has held."""

    def __init__(self, asks: Array):
        self.asks, self.called = asks, False  # [] bool

    def __call__(self, go: Array, work: Callable[[], Tree], otherwise: Tree) -> Tree:
        self.asks, self.called = self.asks | _flag(go), True
        return otherwise


def _flag(go: Array) -> Array:
    if jnp.result_type(go) != jnp.bool_:
        raise TypeError(f"the first argument of rarely has dtype {jnp.result_type(go)}, not bool")
    return jnp.asarray(go)


def takes_rarely(choose: Callable) -> bool:
    """Whether a `choose` has a parameter beside self, view and state."""
    parameters = inspect.signature(choose).parameters.values()
    return sum(p.kind is not p.VAR_POSITIONAL and p.default is p.empty for p in parameters) > 3
