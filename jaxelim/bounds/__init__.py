"""The lower bound on the number of samples, its optimal allocations and their derivatives."""

from jaxelim.bounds.bounds import efficiency, kl_bound, practical_time, sample_bound
from jaxelim.bounds.complexities import Complexity, allocation_value, complexity, price
from jaxelim.bounds.differentiable import Optimum, optimum
from jaxelim.bounds.search import Found, extreme_time

__all__ = [
    "Complexity", "Found", "Optimum", "allocation_value", "complexity", "efficiency",
    "extreme_time", "kl_bound", "optimum", "practical_time", "price", "sample_bound",
]  # fmt: skip
