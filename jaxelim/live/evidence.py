"""The evidence of a live run: e-values of the pieces of its answer, and anytime p-values."""

import dataclasses
from typing import Any

import numpy as np

from jaxelim.checks import wrong_answers
from jaxelim.problems.best_arm import BestArm
from jaxelim.problems.lanewise import traced_shape


@dataclasses.dataclass(frozen=True)
class PValues:
    """p-values of the pieces of a run; valid at every look, so at any stop.

    They hold where the rewards are independent draws of the family. One of these holds
    at a time: which depends on what was said before the run.

    Attributes:
        pairs: float64 [i, k], of mu_i <= mu_k; of items likewise. With a reference
            [K + 1, K + 1], the reference last. [K, 2] for signs, of mu_k >= level and
            of mu_k <= level. It is valid for one piece that was named beforehand:
            P(p <= a) <= a where the piece holds the truth.
        together: float64, shape of `pairs`: all of them at once, for pairs that were chosen
            by looking.
        arms: float64, shape of the answer: of the answer's being wrong about each arm. It
            holds for all arms at once. NaN where the number of wrong answers is not known.
        answer: float64, the largest of `arms`. Valid for the answer of the run, whatever
            it is: P(p <= a and the answer is wrong) <= a.
    """

    pairs: np.ndarray
    together: np.ndarray
    arms: np.ndarray
    answer: float

    @staticmethod
    def of(log_e: np.ndarray, answer: np.ndarray, call: Any) -> "PValues":
        """From the largest log e of each piece, [i, k] or [K, 2], and the answer, [W] bool."""
        instance, problem = call.instance, call.problem
        linear = instance.structure == "linear"  # one mixture covers all directions at once
        wrong = 1 if linear else wrong_answers(problem, instance.K)
        pairs, n, arms = np.exp(-np.maximum(log_e, 0)), len(log_e), answer.size
        if traced_shape(problem, instance.K, instance.d).signs:
            count, tested = n, np.where(answer, pairs[:, 1], pairs[:, 0])
        else:
            if n > arms:  # the reference, which is the answer of no arm
                answer = np.append(answer, not answer.any())
            # Both pieces of a pair with equal means hold the truth by the same martingale.
            count = n * (n - 1) // 2
            # The best arm is another k only if all pieces {mu_i <= mu_k} hold the truth.
            best = type(problem) is BestArm and not problem.epsilon
            against = np.where(answer[:, None] & ~answer, pairs.min(0) if best else pairs, 0)
            tested = np.maximum(against.max(0), against.max(1))[:arms]
        of_arms = np.minimum(1, (np.nan if wrong is None else wrong) * tested)
        together = pairs if linear else np.minimum(1, count * pairs)
        return PValues(pairs, together, of_arms, np.fmax.reduce(of_arms))


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
        p_values, p_together: [P], those of `PValues.pairs` and `PValues.together` of each
            piece. They never rise.
        p_answer: that of the present answer, as `PValues.answer`. The p-values are None where
            the run keeps none; see `LiveState.p_values`.
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
    def of(looked: dict[str, np.ndarray], p_values: PValues | None, call: Any) -> "LiveEvidence":
        """From the arrays of `look`, and the p-values of the run; None: it keeps none."""
        exists, public, arms = looked["exists"], looked["public"], call.instance
        shape = traced_shape(call.problem, arms.K, arms.d)
        known: dict[str, Any] = {}
        pieces: tuple = tuple(np.flatnonzero(exists).tolist())
        labels = list(map(str, pieces))
        pairs = looked["pairs"][exists] if "pairs" in looked else None
        if pairs is not None and call.problem.answer_axis is None:
            both = [_arms(i, k, shape.signs, arms.K) for i, k in pairs.tolist()]
            pieces = tuple((arms.label(a), arms.label(b)) for a, b in both)
            labels = [f"{x} > {y}" if a != b else f"{x} {'<>'[int(public[a])]} {shape.level:g}"
                      for (a, b), (x, y) in zip(both, pieces, strict=True)]  # fmt: skip
        if p_values is not None and pairs is not None:
            at = tuple(pairs.T)
            known = dict(p_values=p_values.pairs[at], p_together=p_values.together[at],
                         p_answer=float(p_values.answer))  # fmt: skip
        if "log_e" in looked:
            known["log_e"] = looked["log_e"][exists]
        return LiveEvidence(pieces, labels, looked["llr"][exists], float(looked["beta"]),
                            looked["active"][exists], **known)  # fmt: skip


def _arms(i: int, k: int, signs: bool, arms: int) -> tuple[int, int]:
    """The arms of a piece of candidates i and k; one arm twice for the reference or a level."""
    first = k if i == arms else i
    return first, first if signs or arms in (i, k) else k
