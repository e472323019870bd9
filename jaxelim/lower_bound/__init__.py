"""The lower bound on the number of samples, its optimal allocations and their derivatives."""

from jaxelim.lower_bound.bounds import efficiency, kl_bound, practical_time, sample_bound
from jaxelim.lower_bound.complexities import Complexity, allocation_value, complexity, price
from jaxelim.lower_bound.differentiable import Optimum, optimum

__all__ = [
    "Complexity", "Optimum", "allocation_value", "complexity", "efficiency", "kl_bound", "optimum",
    "practical_time", "price", "sample_bound",
]  # fmt: skip
