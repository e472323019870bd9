"""The evidence of a live run about its empirical answer."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxelim.live.p_values import PValues


@dataclasses.dataclass(frozen=True)
class LiveEvidence:
    """The pieces of the empirical answer, and the evidence against them.

    A threshold such as `Mixture` refutes a piece where its log e exceeds the level
    `beta`. Any other refutes it where its LLR does.

    Attributes:
        pieces: P pairs (better arm, rival) as the caller names arms, one arm twice for a
            level; indices of pieces where they are not made of arms.
        labels: [P], the pieces in words: "a > b", or "a > 0.5" and "a < 0.5" for a level.
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
    labels: list[str]
    llr: np.ndarray
    beta: float
    active: np.ndarray
    log_e: np.ndarray | None = None
    p_values: np.ndarray | None = None
    p_together: np.ndarray | None = None
    p_answer: float | None = None

    @staticmethod
    def of(
        looked: dict[str, np.ndarray],
        p_values: PValues | None,
        name: Callable[[int], Any] | None,
        level: float | None,
    ) -> "LiveEvidence":
        """From the arrays of `Moments.look`.

        Args:
            looked: the arrays.
            p_values: of the run; None: it keeps none.
            name: what an arm is called, None for no arms.
            level: the level or the reference that arms are compared with; None: there is none.
        """
        exists, public = looked["exists"], looked["public"]
        pieces: tuple = tuple(np.flatnonzero(exists).tolist())
        labels = list(map(str, pieces))
        if "pairs" in looked and name is not None:
            pairs = looked["pairs"][exists].tolist()
            pieces = tuple((name(i), name(k)) for i, k in pairs)
            of_level = "" if level is None else f"{level:g}"
            labels = [
                f"{name(i)} {'<>'[int(i != k or public[i])]} {name(k) if i != k else of_level}"
                for i, k in pairs
            ]
        log_e = looked["log_e"][exists] if "log_e" in looked else None
        here: Any = dict(pieces=pieces, labels=labels, llr=looked["llr"][exists], log_e=log_e,
                         beta=float(looked["beta"]), active=looked["active"][exists])  # fmt: skip
        if p_values is None:
            return LiveEvidence(**here)
        if "pairs" in looked:
            first, second = looked["pairs"][exists].T
        else:  # the item of the answer, and its rivals
            first, second = int(np.argmax(public)), np.flatnonzero(exists)
        own = np.equal(first, second)
        if p_values.pairs.shape[0] > len(public):  # the reference is the last candidate
            some, last = public.any(), len(public)
            first = np.where(own & ~some, last, first)
            second = np.where(own & some, last, second)
        elif own.all():  # the side of a level that the answer rules out
            second = public[first].astype(int)
        pairs, together = p_values.pairs[first, second], p_values.together[first, second]
        return LiveEvidence(
            **here, p_values=pairs, p_together=together, p_answer=float(p_values.answer)
        )
