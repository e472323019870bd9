"""jaxelim: fixed-confidence bandit identification with elimination, thousands of runs at once.

    import jaxelim as je
    result = je.simulate(je.load_instance("linear-d20"), je.BestArm(), je.LinGapE(), delta=0.01, runs=1000)
    print(result.summary())
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"  # pyproject.toml reads it here, so a checkout knows it without installation

from jaxelim import instances
from jaxelim.base import Problem, SamplingRule, View
from jaxelim.complexity import (
    PrecisionError,
    allocation_value,
    best_extra_arm,
    characteristic_time,
    complexity,
    complexity_gradients,
    design_features,
    efficiency,
    elimination_bounds,
    hardest_instance,
    information_regret,
    kl_bound,
    optimal_allocation,
    optimal_information,
    practical_time,
    price,
    sample_bound,
    sensitivity,
)
from jaxelim.elimination import LLR, FullElimination, Native, Resets, SelectiveElimination, StoppingRule
from jaxelim.errors import (
    ArgumentError,
    ConflictError,
    DamagedFileError,
    InstanceFileError,
    JaxelimError,
    MemoryLimitError,
    RidgeWarning,
    RuleError,
    SetupError,
    StoreError,
    TieError,
    UnknownNameError,
    UnsupportedError,
)
from jaxelim.instance import Instance
from jaxelim.instances import load_instance
from jaxelim.problems import BestArm, HalfSpaces, Thresholding, TopM
from jaxelim.result import Result, Trace
from jaxelim.sampling import (
    FWS,
    LUCB,
    RAGE,
    LazyTaS,
    LinGame,
    LinGapE,
    LinGIFA,
    OptimisticTaS,
    Oracle,
    Racing,
    TrackAndStop,
    UGapE,
    Uniform,
    XYAdaptive,
)
from jaxelim.simulate import Engine, simulate, trace
from jaxelim.thresholds import GK16, Heuristic, LinearThreshold, LogLogThreshold

if TYPE_CHECKING:
    from jaxelim import store, testing

__all__ = [
    "ArgumentError",
    "BestArm",
    "ConflictError",
    "DamagedFileError",
    "Engine",
    "FWS",
    "FullElimination",
    "GK16",
    "HalfSpaces",
    "Heuristic",
    "Instance",
    "InstanceFileError",
    "JaxelimError",
    "LLR",
    "LUCB",
    "LazyTaS",
    "LinGIFA",
    "LinGame",
    "LinGapE",
    "LinearThreshold",
    "LogLogThreshold",
    "MemoryLimitError",
    "Native",
    "OptimisticTaS",
    "Oracle",
    "PrecisionError",
    "Problem",
    "RAGE",
    "Racing",
    "Resets",
    "Result",
    "RidgeWarning",
    "RuleError",
    "SamplingRule",
    "SelectiveElimination",
    "SetupError",
    "StoppingRule",
    "StoreError",
    "Thresholding",
    "TieError",
    "TopM",
    "Trace",
    "TrackAndStop",
    "UGapE",
    "Uniform",
    "UnknownNameError",
    "UnsupportedError",
    "View",
    "XYAdaptive",
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
    "instances",
    "kl_bound",
    "load_instance",
    "optimal_allocation",
    "optimal_information",
    "practical_time",
    "price",
    "sample_bound",
    "sensitivity",
    "simulate",
    "store",
    "testing",
    "trace",
]


def __getattr__(name: str) -> Any:
    """`store` and `testing` when they are first asked for: xarray and scipy.stats take longer to import than all the rest."""
    if name in ("store", "testing"):
        return importlib.import_module(f"jaxelim.{name}")
    raise AttributeError(f"module 'jaxelim' has no attribute {name!r}")
