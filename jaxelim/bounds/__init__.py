"""The lower bound on the number of samples, its optimal allocations and their derivatives."""

from jaxelim.bounds.bounds import (
    Found,
    efficiency,
    extreme_time,
    kl_bound,
    practical_time,
    sample_bound,
)
from jaxelim.bounds.optimal import Complexity, Optimum, complexity, information, optimum

__all__ = [
    "Complexity", "Found", "Optimum", "complexity", "efficiency", "extreme_time",
    "information", "kl_bound", "optimum", "practical_time", "sample_bound",
]  # fmt: skip
