"""Elimination and stopping rules: what is tested at every t, against beta(t, delta), and when a run may end.

`LLR` stops when every piece of the empirical answer is refuted at once; eliminations drop pieces one by one and stop when
none is left (paper, section "Elimination stopping"). All of them only look: many can be observed on one trajectory, and
on any trajectory tau_full <= tau_selective <= tau_LLR.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.base import Check, Tree, refutes


class StoppingRule:
    """The contract: `start` makes the state, `observe` reads one check and never steers the run."""

    name: ClassVar[str] = ""
    eliminates: ClassVar[bool] = False
    shared: ClassVar[bool] = True  # as elimination at sampling: the set is the stopping rule's own
    full: ClassVar[bool] = False

    def start(self, check: Check, pair_times: bool = False) -> Tree:
        """The state before the first check."""
        return ()

    def observe(self, check: Check, state: Tree, beta: Array) -> tuple[Tree, Array, Array, Array]:
        """Next state, whether to stop [] bool, the answer then [K] bool, how many pieces were tested [] int32."""
        raise TypeError(f"{type(self).__name__} does not define observe")


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LLR(StoppingRule):
    """Stop when min over all pieces of the empirical answer of the LLR exceeds beta(t, delta) (paper, section 2)."""

    name: ClassVar[str] = "llr"

    def observe(self, check: Check, state: Any, beta: Array) -> tuple[Tree, Array, Array, Array]:
        least = check.space.lanes.min(jnp.where(check.exists, check.llr, jnp.inf))
        return state, least > beta, check.mask, check.problem.total(check.exists)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class SelectiveElimination(StoppingRule):
    """Test the active pieces of the empirical answer only, drop those whose LLR exceeds beta, stop when none is left.

    (Paper, section "Elimination stopping", and its efficient forms in the appendix "Identification Problems".)
    """

    name: ClassVar[str] = "selective"
    eliminates: ClassVar[bool] = True

    def start(self, check: Check, pair_times: bool = False) -> Tree:
        return check.problem.start(check.stats.means, pair_times)

    def update(self, check: Check, pieces: Tree, beta: Array) -> Tree:
        """The set without the pieces that this check refutes."""
        refuted = check.exists & refutes(check.gap, check.metric.norm, beta)
        return check.problem.drop(check.space.lanes, pieces, check.answer, refuted, check.stats.t)

    def observe(self, check: Check, state: Any, beta: Array) -> tuple[Tree, Array, Array, Array]:
        problem, lanes = check.problem, check.space.lanes
        tested = problem.tests(lanes, state, check.answer, self.full)
        state = self.update(check, state, beta)
        stop, mask = problem.verdict(lanes, state, check.answer, check.stats.means, self.full)
        return state, stop, mask, tested


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class FullElimination(SelectiveElimination):
    """As `SelectiveElimination`, testing the pieces of every answer: K^2 of them (paper, section "Elimination stopping")."""

    name: ClassVar[str] = "full"
    full: ClassVar[bool] = True

    def update(self, check: Check, pieces: Tree, beta: Array) -> Tree:
        if check.problem.full_is_selective:
            return super().update(check, pieces, beta)
        return check.problem.drop_all(check.space.lanes, pieces, check.full_llr > beta, check.stats.t)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Native(StoppingRule):
    """Stop by the test that the sampling rule carries itself; for rules that have one."""

    name: ClassVar[str] = "native"

    def observe(self, check: Check, state: Any, beta: Array) -> tuple[Tree, Array, Array, Array]:
        never = jnp.zeros_like(beta, bool)
        return state, never, check.mask, jnp.zeros_like(beta, jnp.int32)
