"""The evidence of a live run about its empirical answer."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxelim.simulation.results.p_values import PValues


@dataclasses.dataclass(frozen=True)
class LiveEvidence:
    """The pieces of the empirical answer, and the evidence against them.

    A threshold such as `Mixture` refutes a piece where its log e exceeds the level
    `beta`. Any other refutes it where its LLR does.

    Attributes:
        pieces: P pairs (better arm, rival) as the caller names arms, one arm twice for a
            level; indices of pieces where they are not made of arms.
        llr: [P], the LLR of each piece.
        beta: the threshold at the present t; of a `Mixture` the level log(P/delta).
        active: [P] bool, which pieces the stopping rule has not eliminated.
        log_e: [P], log e of each piece at the present t, and 0 where it is below 0; None
            for other thresholds.
        p_values: [P], anytime p-values. Each holds for a piece that was named before the
            run: P(p ever <= a) <= a if the piece holds the truth. They never rise.
        p_together: [P], those that hold for the pieces of all answers at once. So they
            hold for pieces that were chosen by looking.
        p_answer: that of the present answer: P(p <= a and the answer is wrong) <= a,
            whenever one looks. NaN where the number of pieces P is not known.
            The p-values are None where the run keeps none; see `LiveState.p_values`.
    """

    pieces: tuple
    llr: np.ndarray
    beta: float
    active: np.ndarray
    log_e: np.ndarray | None = None
    p_values: np.ndarray | None = None
    p_together: np.ndarray | None = None
    p_answer: float | None = None

    @staticmethod
    def of(
        looked: dict[str, np.ndarray], p_values: PValues | None, name: Callable[[int], Any] | None
    ) -> "LiveEvidence":
        """From the arrays of `Moments.look`; `name`: what an arm is called, None for no arms."""
        exists = looked["exists"]
        pieces: tuple = tuple(np.flatnonzero(exists).tolist())
        if "pairs" in looked and name is not None:
            pieces = tuple((name(i), name(k)) for i, k in looked["pairs"][exists])
        log_e = looked["log_e"][exists] if "log_e" in looked else None
        here = pieces, looked["llr"][exists], float(looked["beta"]), looked["active"][exists], log_e
        if p_values is None:
            return LiveEvidence(*here)
        if "pairs" in looked:
            first, second = looked["pairs"][exists].T
        else:  # the item of the answer, and its rivals
            first, second = int(np.argmax(looked["public"])), np.flatnonzero(exists)
        public, level = looked["public"], np.equal(first, second)
        if p_values.pairs.shape[0] > len(public):  # the reference is the last candidate
            some, last = public.any(), len(public)
            first = np.where(level & ~some, last, first)
            second = np.where(level & some, last, second)
        elif level.all():  # the side of a level that the answer rules out
            second = public[first].astype(int)
        values = p_values.pairs[first, second], p_values.together[first, second]
        return LiveEvidence(*here, *values, float(p_values.answer))

    @property
    def labels(self) -> list[str]:
        """The pieces in words."""
        arms = [piece if isinstance(piece, tuple) else (piece, piece) for piece in self.pieces]
        return [str(i) if i == k else f"{i} > {k}" for i, k in arms]
