"""jaxelim: fixed-confidence bandit identification with elimination, thousands of runs at once.

import jaxelim as je
instance = je.load_instance("linear-d20")
result = je.simulate(instance, je.BestArm(), je.LinGapE(), delta=0.01, runs=1000)
print(result.summary())
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"  # pyproject.toml reads it here, so a checkout needs no installation

from jaxelim import instances
from jaxelim.contracts import ASK, OK, Family, PieceSet, Problem, SamplingRule, StoppingRule
from jaxelim.contracts.shapes import Directions, Interval, Levels, Rows
from jaxelim.contracts.traits import Traits
from jaxelim.contracts.views import Estimate, Evidence, Snapshot, Statistics, View
from jaxelim.errors import (
    ArgumentError,
    ClusterError,
    ConflictError,
    DamagedFileError,
    FamilyError,
    InstanceFileError,
    Interrupted,
    JaxelimError,
    LiveFileWarning,
    LockedError,
    MemoryLimitError,
    MissingPackageError,
    OverError,
    ResultFileError,
    RidgeWarning,
    RuleError,
    SchedulerLost,
    SetupError,
    StarvationWarning,
    StoreError,
    TieError,
    UnknownNameError,
    UnsupportedError,
    WorkerMismatch,
    WorkersLost,
)
from jaxelim.families import (
    Bernoulli,
    Exponential,
    Gaussian,
    GaussianUnknownVariance,
    Logistic,
    OneParameter,
    Poisson,
    Recorded,
)
from jaxelim.instances import load_instance, load_items
from jaxelim.instances.instance import Instance
from jaxelim.live import LiveRun
from jaxelim.lower_bound import (
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
from jaxelim.problems import BestArm, HalfSpaces, Thresholding, TopM
from jaxelim.saddle.tolerance import EvidenceGap
from jaxelim.sampling import *  # noqa: F403  the rules: one line each, in that file
from jaxelim.simulation.api import Engine, simulate, trace
from jaxelim.simulation.results.comparison import Comparison, compare
from jaxelim.simulation.results.result import Result
from jaxelim.simulation.results.trace import Trace
from jaxelim.stopping.elimination import FullElimination, SelectiveElimination
from jaxelim.stopping.llr import LLR, Native
from jaxelim.stopping.resets import Resets
from jaxelim.thresholds import (
    GK16,
    Heuristic,
    KaufmannKalyanakrishnan,
    KaufmannKoolen,
    LinearThreshold,
    LogLogThreshold,
    Mixture,
)
from jaxelim.thresholds.piecewise import PieceThreshold

if TYPE_CHECKING:
    from jaxelim import cluster, figures, store, testing
    from jaxelim.simulation.results.loading import load_result

__all__ = [
    "ASK",
    "ArgumentError",
    "Bernoulli",
    "BestArm",
    "ClusterError",
    "Comparison",
    "ConflictError",
    "DamagedFileError",
    "Directions",
    "Engine",
    "Estimate",
    "Evidence",
    "EvidenceGap",
    "Exponential",
    "Family",
    "FamilyError",
    "FullElimination",
    "GK16",
    "Gaussian",
    "GaussianUnknownVariance",
    "HalfSpaces",
    "Heuristic",
    "Instance",
    "InstanceFileError",
    "Interrupted",
    "Interval",
    "JaxelimError",
    "KaufmannKalyanakrishnan",
    "KaufmannKoolen",
    "LLR",
    "Levels",
    "LinearThreshold",
    "LiveFileWarning",
    "LiveRun",
    "LockedError",
    "LogLogThreshold",
    "Logistic",
    "MemoryLimitError",
    "MissingPackageError",
    "Mixture",
    "Native",
    "OK",
    "OneParameter",
    "OverError",
    "PieceSet",
    "PieceThreshold",
    "Poisson",
    "PrecisionError",
    "Problem",
    "Recorded",
    "Resets",
    "Result",
    "ResultFileError",
    "RidgeWarning",
    "Rows",
    "RuleError",
    "SamplingRule",
    "SchedulerLost",
    "SelectiveElimination",
    "SetupError",
    "Snapshot",
    "Statistics",
    "StarvationWarning",
    "StoppingRule",
    "StoreError",
    "Thresholding",
    "TieError",
    "TopM",
    "Trace",
    "Traits",
    "UnknownNameError",
    "UnsupportedError",
    "View",
    "WorkerMismatch",
    "WorkersLost",
    "allocation_value",
    "best_extra_arm",
    "characteristic_time",
    "cluster",
    "compare",
    "complexity",
    "complexity_gradients",
    "design_features",
    "efficiency",
    "elimination_bounds",
    "figures",
    "hardest_instance",
    "information_regret",
    "instances",
    "kl_bound",
    "load_instance",
    "load_items",
    "load_result",
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

# The star import also imports the rules' modules; remove them, and list the rules in __all__.
for _name, _value in list(globals().items()):
    if getattr(_value, "__name__", "") == f"jaxelim.sampling.{_name}":
        del globals()[_name]
    elif (
        getattr(_value, "__module__", "").startswith("jaxelim.sampling.") and _name not in __all__
    ):  # rules, and functions that return one
        globals()["__all__"].append(_name)


def __getattr__(name: str) -> Any:
    """Import these on first use, as matplotlib, xarray and scipy.stats are slow to import."""
    if name in ("figures", "store", "testing"):
        return importlib.import_module(f"jaxelim.{name}")
    if name == "load_result":
        return importlib.import_module("jaxelim.simulation.results.loading").load_result
    raise AttributeError(f"module 'jaxelim' has no attribute {name!r}")
