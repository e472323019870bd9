"""The evidence of a live run: e-values of the pieces of its answer, and anytime p-values."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxelim.checks import wrong_answers
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.returned import traced_shape
from jaxelim.lanes import LaneOps
from jaxelim.problems.arms import BestArm

if TYPE_CHECKING:
    from jaxelim.tables import Table


class PValues(NamedTuple):
    """p-values of the pieces of a run; valid at every look, so at any stop.

    They hold where the rewards are independent draws of the family. One of these holds
    at a time: which depends on what was said before the run.

    Attributes:
        pairs: float64 [i, k], of mu_i <= mu_k - epsilon; of items likewise. With a
            reference [K + 1, K + 1], the reference last. [K, 2] for signs, of
            mu_k >= level + epsilon and of mu_k <= level - epsilon. It is valid for one
            piece that was named beforehand: P(p <= a) <= a where the piece holds the truth.
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
        wrong: Any = 1 if linear else wrong_answers(problem, instance.K, instance.most)
        pairs, n, arms = np.exp(-np.maximum(log_e, 0)), len(log_e), answer.size
        # Where two means are equal both pieces hold the truth, by one martingale or by two.
        up, down = instance.family.priors(call.threshold.grid)
        both = 1 if up is down else 2
        if traced_shape(problem, instance.K, instance.d).signs:
            count, tested = n * both, np.where(answer, pairs[:, 1], pairs[:, 0])
        else:
            if n > arms:  # the reference, which is the answer of no arm
                answer = np.append(answer, not answer.any())
            count = (wrong if instance.most else n * (n - 1) // 2) * both
            # The best arm is another k only if all pieces {mu_i <= mu_k} hold the truth.
            best = type(problem) is BestArm and not problem.epsilon
            against = np.where(answer[:, None] & ~answer, pairs.min(0) if best else pairs, 0)
            tested = np.maximum(against.max(0), against.max(1))[:arms]
        of_arms = np.minimum(1, (np.nan if wrong is None else wrong) * tested)
        together = pairs if linear else np.minimum(1, count * pairs)
        return PValues(pairs, together, of_arms, np.fmax.reduce(of_arms))


def table(looked: dict[str, Any], p_values: PValues | None, call: Any) -> "Table":
    """The table of `Look.evidence`, from the arrays of `fold.look`."""
    from jaxelim.tables import Table  # pandas is slow to import

    shape, arms, beta = looked["shape"], call.instance, float(looked["beta"])
    places: Any = np.flatnonzero(shape.exists).astype(np.int32)
    pieces, at = list(map(str, places)), None
    if isinstance(shape, Pairs):
        at = (places, shape.above[places] * 1) if shape.signs else shape.pair(LaneOps(), places)
        if call.problem.answer_axis is None:
            traced: Any = traced_shape(call.problem, arms.K, arms.d)  # in the caller's units
            above = looked["public"]
            both = np.broadcast_arrays(*shape.arms(LaneOps(), places))
            pieces = [f"{arms.label(i)} > {arms.label(k)}" if i != k else
                      f"{arms.label(i)} > {traced.level - traced.slack:g}" if above[i] else
                      f"{arms.label(i)} < {traced.level + traced.slack:g}"
                      for i, k in np.transpose(both).tolist()]  # fmt: skip
    columns: dict[str, Any] = {"piece": pieces, "llr": looked["llr"][places]}
    said = "Log-likelihood ratio"
    if "log_e" in looked:
        columns["log_e"] = looked["log_e"][places]
        said = "Evidence (log e, where 1/e is a p-value)"
    columns |= {"needed": np.full(len(pieces), beta), "active": looked["active"][places]}
    if p_values is not None and at is not None:
        columns |= {"p": p_values.pairs[at], "p_together": p_values.together[at]}
    values = [x if isinstance(x, list) else x.tolist() for x in columns.values()]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
    return Table(rows, f"{said} of each comparison; the run needs more than {beta:.4g}")
