"""The lower bound on the number of samples, its optimal allocations and their derivatives."""

from jaxelim.lower_bound.autodiff import (
    Gradients,
    PrecisionError,
    characteristic_time,
    complexity_gradients,
    optimal_allocation,
    optimal_information,
)
from jaxelim.lower_bound.bounds import (
    EliminationBounds,
    elimination_bounds,
    kl_bound,
    practical_time,
    sample_bound,
)
from jaxelim.lower_bound.optimum import Complexity, allocation_value, complexity, oracle_weights
from jaxelim.lower_bound.region import least_information, least_weights
from jaxelim.lower_bound.regret import InformationRegret, efficiency, information_regret
from jaxelim.lower_bound.search import (
    ExtraArm,
    Search,
    Sensitivity,
    best_extra_arm,
    design_features,
    hardest_instance,
    price,
    sensitivity,
)
from jaxelim.lower_bound.solves import solve
from jaxelim.saddle.solver import Solution

__all__ = [
    "Complexity",
    "EliminationBounds",
    "ExtraArm",
    "Gradients",
    "InformationRegret",
    "PrecisionError",
    "Search",
    "Sensitivity",
    "Solution",
    "allocation_value",
    "best_extra_arm",
    "characteristic_time",
    "complexity",
    "complexity_gradients",
    "design_features",
    "efficiency",
    "elimination_bounds",
    "hardest_instance",
    "information_regret",
    "kl_bound",
    "least_information",
    "least_weights",
    "optimal_allocation",
    "optimal_information",
    "oracle_weights",
    "practical_time",
    "price",
    "sample_bound",
    "sensitivity",
    "solve",
]
