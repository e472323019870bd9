"""jaxelim: fixed-confidence bandit identification with elimination, thousands of runs at once.

import jaxelim as je
instance = je.load_instance("linear-d20")
result = je.simulate(instance, je.BestArm(), je.LinGapE(), delta=0.01, runs=1000)
print(result.summary())
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if os.path.basename("".join(sys.argv[:1])) == "jaxelim":
    # The command keeps programs. JAX 0.10.1 writes a false error for each that it reads back,
    # and takes this word before it is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

__version__ = "0.1.0"  # pyproject.toml reads it here, so a checkout needs no installation

from jaxelim import bounds, contracts, errors, families, instances, rules, thresholds
from jaxelim.bounds import complexity
from jaxelim.families import Bernoulli as Bernoulli
from jaxelim.families import Bounded as Bounded
from jaxelim.families import Exponential as Exponential
from jaxelim.families import Gaussian as Gaussian
from jaxelim.families import GaussianUnknownVariance as GaussianUnknownVariance
from jaxelim.families import Logistic as Logistic
from jaxelim.families import Paired as Paired
from jaxelim.families import Poisson as Poisson
from jaxelim.families import Recorded as Recorded
from jaxelim.instances import load_instance, load_items
from jaxelim.instances.instance import Instance
from jaxelim.live import LiveRun
from jaxelim.problems import BestArm, HalfSpaces, Thresholding, TopM
from jaxelim.rules import EBTC as EBTC
from jaxelim.rules import EBTCI as EBTCI
from jaxelim.rules import FWS as FWS
from jaxelim.rules import LUCB as LUCB
from jaxelim.rules import RAGE as RAGE
from jaxelim.rules import T3C as T3C
from jaxelim.rules import TSTC as TSTC
from jaxelim.rules import TSTCI as TSTCI
from jaxelim.rules import TTTS as TTTS
from jaxelim.rules import TTUCB as TTUCB
from jaxelim.rules import LazyTaS as LazyTaS
from jaxelim.rules import LinGame as LinGame
from jaxelim.rules import LinGapE as LinGapE
from jaxelim.rules import LinGIFA as LinGIFA
from jaxelim.rules import OptimisticLinGame as OptimisticLinGame
from jaxelim.rules import OptimisticTaS as OptimisticTaS
from jaxelim.rules import Oracle as Oracle
from jaxelim.rules import Racing as Racing
from jaxelim.rules import TopTwo as TopTwo
from jaxelim.rules import TrackAndStop as TrackAndStop
from jaxelim.rules import UGapE as UGapE
from jaxelim.rules import Uniform as Uniform
from jaxelim.rules import XYAdaptive as XYAdaptive
from jaxelim.simulation.api import Trace, simulate, trace
from jaxelim.simulation.experiment import Engine, Experiment
from jaxelim.simulation.results.result import Result
from jaxelim.simulation.results.summaries import compare
from jaxelim.stopping import LLR, FullElimination, Native, Resets, SelectiveElimination
from jaxelim.studies.grid import Study, study
from jaxelim.thresholds import GK16, Heuristic, Mixture

if TYPE_CHECKING:
    from jaxelim import figures, store, testing
    from jaxelim.studies.files import load_result, load_store, load_study

__all__ = [
    "Bernoulli", "BestArm", "Bounded", "EBTC", "EBTCI", "Engine", "Experiment", "Exponential",
    "FWS", "FullElimination", "GK16", "Gaussian", "GaussianUnknownVariance", "HalfSpaces",
    "Heuristic", "Instance", "LLR", "LUCB", "LazyTaS", "LinGIFA", "LinGame", "LinGapE", "LiveRun",
    "Logistic", "Mixture", "Native", "OptimisticLinGame", "OptimisticTaS", "Oracle", "Paired",
    "Poisson", "RAGE", "Racing", "Recorded", "Resets", "Result", "SelectiveElimination", "Study",
    "T3C", "TSTC", "TSTCI", "TTTS", "TTUCB", "Thresholding", "TopM", "TopTwo", "Trace",
    "TrackAndStop", "UGapE", "Uniform", "XYAdaptive", "bounds", "compare", "complexity",
    "contracts", "errors", "families", "figures", "instances", "load_instance", "load_items",
    "load_result", "load_store", "load_study", "rules", "simulate", "store", "study", "testing",
    "thresholds", "trace",
]  # fmt: skip


def __dir__() -> list[str]:
    return ["__doc__", "__name__", "__version__", *__all__]


def __getattr__(name: str) -> Any:
    """Import these on first use: they, or xarray, are slow to import."""
    if name in ("figures", "store", "testing"):
        return importlib.import_module(f"jaxelim.{name}")
    if name in ("load_result", "load_store", "load_study"):
        return getattr(importlib.import_module("jaxelim.studies.files"), name)
    raise AttributeError(f"module 'jaxelim' has no attribute {name!r}")
