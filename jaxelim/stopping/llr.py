"""The LLR stopping rule, and the native one of a sampling rule."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import StoppingRule
from jaxelim.contracts.views import Snapshot, Tree


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LLR(StoppingRule):
    """Stop when the least LLR over the empirical answer's pieces exceeds beta(t, delta).

    (Paper, section 2.)
    """

    name: ClassVar[str] = "llr"

    def observe(self, seen: Snapshot, state: Tree, beta: Array) -> tuple[Tree, Array, Array]:
        return state, seen.all_refuted(beta), seen.shape.total()


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Native(StoppingRule):
    """Stop by the native test of the sampling rule, for rules that have one."""

    name: ClassVar[str] = "native"
    native: ClassVar[bool] = True

    def observe(self, seen: Snapshot, state: Tree, beta: Array) -> tuple[Tree, Array, Array]:
        return state, jnp.zeros_like(beta, bool), jnp.zeros_like(beta, jnp.int32)
