"""The lower bound on the number of samples, its optimal allocations and their derivatives."""

from jaxelim.lower_bound.bounds import efficiency, kl_bound, practical_time, sample_bound
from jaxelim.lower_bound.complexities import Complexity, allocation_value, complexity, price
from jaxelim.lower_bound.differentiable import Optimum, optimum
from jaxelim.lower_bound.search import Found, extreme_time

__all__ = [
    "Complexity", "Found", "Optimum", "allocation_value", "complexity", "efficiency",
    "extreme_time", "kl_bound", "optimum", "practical_time", "price", "sample_bound",
]  # fmt: skip
