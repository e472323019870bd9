"""Eliminations: drop pieces one by one, stop when none is left.

They do not change a run, so several can be observed on one trajectory. On
any trajectory tau_full <= tau_selective <= tau_LLR. (Paper, section
"Elimination stopping".)
"""

import dataclasses
from typing import ClassVar

import jax
from jax import Array

from jaxelim.contracts import PieceSet, StoppingRule
from jaxelim.contracts.views import Snapshot


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class SelectiveElimination(StoppingRule):
    """Test the active pieces of the empirical answer; stop when none is left.

    Drops the pieces whose LLR exceeds beta. (Paper, section "Elimination stopping";
    efficient forms in the appendix "Identification Problems".)
    """

    name: ClassVar[str] = "selective"
    eliminates: ClassVar[bool] = True

    def start(self, seen: Snapshot, pair_times: bool = False) -> PieceSet:
        return seen.problem.pieces(seen, pair_times)

    def update(self, seen: Snapshot, state: PieceSet, beta: Array) -> PieceSet:
        return state.drop(seen, seen.refuted(beta, state.active(seen)))

    def observe(
        self, seen: Snapshot, state: PieceSet, beta: Array
    ) -> tuple[PieceSet, Array, Array]:
        tested = state.tests(seen, self.full)
        state = self.update(seen, state, beta)
        return state, state.settled(seen, self.full), tested

    def answer(self, seen: Snapshot, state: PieceSet) -> Array:
        return state.verdict(seen, self.full)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class FullElimination(SelectiveElimination):
    """As `SelectiveElimination`, but test the pieces of every answer.

    (Paper, section "Elimination stopping".)
    """

    name: ClassVar[str] = "full"
    full: ClassVar[bool] = True

    def update(self, seen: Snapshot, state: PieceSet, beta: Array) -> PieceSet:
        state = state.drop_all(seen, beta)
        return state if seen.decided is None else state.drop(seen, seen.decided)
