"""Slack epsilon of a problem: answers that it makes right too."""

import numpy as np

from jaxelim.contracts import Problem
from jaxelim.errors import UnsupportedError

LARGEST = 1e15
"""The largest epsilon, in the units of the rewards and of a run."""
_ROUNDING = 8 * np.finfo(np.float64).eps


def scaled_slack(epsilon: float, scale: float) -> float:
    """epsilon/scale; above 0 where epsilon is."""
    return float(np.clip(epsilon / scale, 1 / LARGEST**10, LARGEST)) if epsilon else 0.0


def rounded_up(epsilon: float, mean: float) -> float:
    """epsilon, and what a difference of means of this size may be off by rounding."""
    return epsilon + _ROUNDING * (abs(mean) + epsilon)


def refuse_slack_of_features(problem: Problem, arms: np.ndarray) -> None:
    """Refuse slack for arms [K, d] that are not the canonical basis."""
    if problem.epsilon and not np.array_equal(arms, np.eye(len(arms))):
        allowed = f"unstructured arms: {problem!r} is not defined for others"
        raise UnsupportedError("instance", "linear", allowed)
