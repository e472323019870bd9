"""The lower bound on the number of samples, the allocations that attain it, their derivatives, and what follows."""

from jaxelim.complexity.autodiff import (
    Gradients,
    PrecisionError,
    characteristic_time,
    complexity_gradients,
    optimal_allocation,
    optimal_information,
)
from jaxelim.complexity.optimum import Complexity, allocation_value, complexity, oracle_weights
from jaxelim.complexity.solver import Solution, solve

__all__ = [
    "Complexity",
    "Gradients",
    "PrecisionError",
    "Solution",
    "allocation_value",
    "characteristic_time",
    "complexity",
    "complexity_gradients",
    "optimal_allocation",
    "optimal_information",
    "oracle_weights",
    "solve",
]
