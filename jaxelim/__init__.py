"""jaxelim: fixed-confidence bandit identification with elimination, thousands of runs at once.

import jaxelim as je
instance = je.load_instance("linear-d20")
result = je.simulate(instance, je.BestArm(), je.LinGapE(), delta=0.01, runs=1000)
print(result.summary())
"""

import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if os.path.basename("".join(sys.argv[:1])) == "jaxelim":
    # The command keeps programs. JAX 0.10.1 writes a false error for each that it reads back,
    # and takes this word before it is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

__version__ = "0.1.0"  # pyproject.toml reads it here, so a checkout needs no installation

from jaxelim import instances as instances
from jaxelim.contracts import ASK as ASK
from jaxelim.contracts import OK as OK
from jaxelim.contracts import Family as Family
from jaxelim.contracts import PieceSet as PieceSet
from jaxelim.contracts import Problem as Problem
from jaxelim.contracts import SamplingRule as SamplingRule
from jaxelim.contracts import StoppingRule as StoppingRule
from jaxelim.contracts.shapes import Directions as Directions
from jaxelim.contracts.shapes import Interval as Interval
from jaxelim.contracts.shapes import Levels as Levels
from jaxelim.contracts.shapes import Rows as Rows
from jaxelim.contracts.traits import Traits as Traits
from jaxelim.contracts.views import Estimate as Estimate
from jaxelim.contracts.views import Evidence as Evidence
from jaxelim.contracts.views import Snapshot as Snapshot
from jaxelim.contracts.views import Statistics as Statistics
from jaxelim.contracts.views import View as View
from jaxelim.errors import ArgumentError as ArgumentError
from jaxelim.errors import DamagedFileError as DamagedFileError
from jaxelim.errors import FamilyError as FamilyError
from jaxelim.errors import Interrupted as Interrupted
from jaxelim.errors import JaxelimError as JaxelimError
from jaxelim.errors import LiveFileWarning as LiveFileWarning
from jaxelim.errors import OverError as OverError
from jaxelim.errors import RuleError as RuleError
from jaxelim.errors import SetupError as SetupError
from jaxelim.errors import StarvationWarning as StarvationWarning
from jaxelim.errors import StoreError as StoreError
from jaxelim.errors import UnsupportedError as UnsupportedError
from jaxelim.errors import WorkerError as WorkerError
from jaxelim.families import Bernoulli as Bernoulli
from jaxelim.families import Bounded as Bounded
from jaxelim.families import Exponential as Exponential
from jaxelim.families import Gaussian as Gaussian
from jaxelim.families import GaussianUnknownVariance as GaussianUnknownVariance
from jaxelim.families import Logistic as Logistic
from jaxelim.families import OneParameter as OneParameter
from jaxelim.families import Poisson as Poisson
from jaxelim.families import Recorded as Recorded
from jaxelim.instances import load_instance as load_instance
from jaxelim.instances import load_items as load_items
from jaxelim.instances.instance import Instance as Instance
from jaxelim.live import LiveRun as LiveRun
from jaxelim.lower_bound import allocation_value as allocation_value
from jaxelim.lower_bound import complexity as complexity
from jaxelim.lower_bound import efficiency as efficiency
from jaxelim.lower_bound import kl_bound as kl_bound
from jaxelim.lower_bound import optimum as optimum
from jaxelim.lower_bound import practical_time as practical_time
from jaxelim.lower_bound import price as price
from jaxelim.lower_bound import sample_bound as sample_bound
from jaxelim.problems import BestArm as BestArm
from jaxelim.problems import HalfSpaces as HalfSpaces
from jaxelim.problems import Thresholding as Thresholding
from jaxelim.problems import TopM as TopM
from jaxelim.sampling import *  # noqa: F403  the rules: one line each, in that file
from jaxelim.simulation.api import Engine as Engine
from jaxelim.simulation.api import simulate as simulate
from jaxelim.simulation.api import trace as trace
from jaxelim.simulation.results.comparison import Comparison as Comparison
from jaxelim.simulation.results.comparison import compare as compare
from jaxelim.simulation.results.result import Result as Result
from jaxelim.simulation.results.trace import Trace as Trace
from jaxelim.stopping.elimination import FullElimination as FullElimination
from jaxelim.stopping.elimination import SelectiveElimination as SelectiveElimination
from jaxelim.stopping.llr import LLR as LLR
from jaxelim.stopping.llr import Native as Native
from jaxelim.stopping.resets import Resets as Resets
from jaxelim.studies import Study as Study
from jaxelim.studies import study as study
from jaxelim.thresholds import GK16 as GK16
from jaxelim.thresholds import Heuristic as Heuristic
from jaxelim.thresholds import KaufmannKoolen as KaufmannKoolen
from jaxelim.thresholds import LinearThreshold as LinearThreshold
from jaxelim.thresholds import Mixture as Mixture

if TYPE_CHECKING:
    from jaxelim import figures as figures
    from jaxelim import parallel as parallel
    from jaxelim import store as store
    from jaxelim import testing as testing
    from jaxelim.simulation.results.loading import load_result as load_result
    from jaxelim.studies.files import load_store as load_store
    from jaxelim.studies.files import load_study as load_study

for _name, _value in list(globals().items()):  # the star import names the rules' modules too
    if getattr(_value, "__name__", "") == f"jaxelim.sampling.{_name}":
        del globals()[_name]

_MODULES = ("figures", "instances", "parallel", "store", "testing")
_LATE = {"load_result": "jaxelim.simulation.results.loading",
         "load_store": "jaxelim.studies.files", "load_study": "jaxelim.studies.files"}  # fmt: skip


def _public() -> list[str]:
    """What is imported from jaxelim above, but its modules, and what is imported on first use."""
    names = [name for name, value in globals().items()
             if not name.startswith("_") and not isinstance(value, ModuleType)]  # fmt: skip
    return sorted({*names, *_MODULES, *_LATE} - {"Any", "ModuleType", "TYPE_CHECKING"})


globals()["__all__"] = _public()  # where no type checker reads it, which reads `X as X`


def __dir__() -> list[str]:
    return ["__doc__", "__name__", "__version__", *_public()]


def __getattr__(name: str) -> Any:
    """Import these on first use, as matplotlib, xarray and scipy.stats are slow to import."""
    if name in ("figures", "store", "testing"):
        return importlib.import_module(f"jaxelim.{name}")
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module 'jaxelim' has no attribute {name!r}")
