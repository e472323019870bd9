"""Whether a call can be computed in float32."""

import numpy as np

from jaxelim.contracts import Problem
from jaxelim.errors import ArgumentError
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestItem

_LEAST_GAP = 100 * float(np.finfo(np.float32).eps)  # rounding changes such a gap by at most 1%


def check(instance: Instance, problem: Problem) -> None:
    """Refuse float32 where it rounds away the margins y . theta - c that decide the answer."""
    if type(problem).half_spaces is Problem.half_spaces:  # a user's problem without half-spaces
        return
    for i, one in enumerate(instance.unbatched):
        directions, offsets = problem.half_spaces(one.arms, one.theta)
        # A mean is a sum of rounded terms. Best arm, best item and top m compare means.
        size = np.abs(directions) @ np.abs(one.theta) + np.abs(offsets)
        if problem.name in ("best-arm", "best-item", "top-m"):
            compared = problem.items if isinstance(problem, BestItem) else one.arms
            size = np.full(len(offsets), np.max(np.abs(compared) @ np.abs(one.theta)))
        margin = directions @ one.theta - offsets
        lost = margin < _LEAST_GAP * size
        if lost.any():
            p = int(np.argmax(lost))
            which = f"of instance {i} " if instance.batched else ""
            terms = f"{margin[p]:.3g} between terms of {size[p]:.3g}"
            note = f"the answer {which}rests on a gap of {terms}"
            allowed = f"'float64', or 'float32' for gaps of at least {_LEAST_GAP:.1e} of the terms"
            raise ArgumentError("precision", "float32", allowed, note)
