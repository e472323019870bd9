"""Anytime p-values, from the largest e-values of a run."""

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
    at a time: which depends on what was said before the run. Axes [..] are those of `log_e`.

    Attributes:
        pairs: float64 [.., i, k], of mu_i <= mu_k; of items likewise. With a reference
            [.., K + 1, K + 1], the reference last. [.., K, 2] for signs, of mu_k >= level and
            of mu_k <= level. It is valid for one piece that was named beforehand:
            P(p <= a) <= a where the piece holds the truth.
        answer: float64 [..], of a wrong answer. Valid for the answer of the run, whatever
            it is: P(p <= a and the answer is wrong) <= a. NaN where P is not known.
        together: float64, shape of `pairs`: all of them at once, for pairs that were chosen
            by looking.
        arms: float64, shape of the answer: of the answer's being wrong about each arm, for
            a table of arms. It holds for all arms at once, and the largest is `answer`. NaN
            for arms that the answer says nothing about.
    """

    pairs: np.ndarray
    answer: np.ndarray
    together: np.ndarray
    arms: np.ndarray

    @staticmethod
    def of(
        log_e: np.ndarray, answer: np.ndarray, wrong: int | None, sides: bool, best: bool = False
    ) -> "PValues":
        """From the largest log e of each piece.

        Args:
            log_e: [.., i, k], or [.., K, 2].
            answer: bool [.., K], public.
            wrong: P, the number of pieces of which one holds the truth where an answer is
                wrong; None: not known.
            sides: whether the pieces are levels.
            best: whether the answer is wrong only if another arm k is the best, so that the
                P pieces {mu_i <= mu_k} of that k all hold the truth.
        """
        pairs, arms = np.exp(-np.maximum(log_e, 0)), answer.shape[-1]
        if sides:
            count, tested = log_e.shape[-2], np.where(answer, pairs[..., 1], pairs[..., 0])
        else:
            n = log_e.shape[-1]
            if n > arms:  # the reference, which is the answer of no arm
                answer = np.concatenate([answer, ~answer.any(-1, keepdims=True)], -1)
            # Both pieces of a pair with equal means hold the truth by the same martingale.
            count = n * (n - 1) // 2
            against = answer[..., :, None] & ~answer[..., None, :]
            least = pairs.min(-2, keepdims=True) if best else pairs
            tested = np.where(against, least, 0)
            tested = np.maximum(tested.max(-1), tested.max(-2))[..., :arms]
        of_arms = np.minimum(1, (np.nan if wrong is None else wrong) * tested)
        return PValues(pairs, np.fmax.reduce(of_arms, -1), np.minimum(1, count * pairs), of_arms)


def of_pieces(log_e: np.ndarray, answer: np.ndarray, call: Any) -> PValues:
    """The p-values of a run of a call, from `log_e` and `answer` as in `PValues.of`."""
    instance, problem = call.instance, call.problem
    linear = instance.structure == "linear"
    wrong = 1 if linear else wrong_answers(problem, instance.K)
    best = type(problem) is BestArm and not problem.epsilon
    sides = traced_shape(problem, instance.K, instance.d).signs
    values = PValues.of(log_e, answer, wrong, sides, best)
    # One mixture covers all directions of linear arms at once.
    return dataclasses.replace(values, together=values.pairs) if linear else values
