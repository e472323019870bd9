"""jaxelim: fixed-confidence bandit identification with elimination, thousands of runs at once.

    import jaxelim as je
    result = je.simulate(je.load_instance("linear-d20"), je.BestArm(), je.LinGapE(), delta=0.01, runs=1000)
    print(result.summary())
"""

from jaxelim import instances
from jaxelim.base import Problem, SamplingRule, View
from jaxelim.elimination import LLR, FullElimination, Native, SelectiveElimination, StoppingRule
from jaxelim.errors import (
    ArgumentError,
    InstanceFileError,
    JaxelimError,
    TieError,
    UnknownNameError,
    UnsupportedError,
)
from jaxelim.instance import Instance
from jaxelim.instances import load_instance
from jaxelim.problems import BestArm, HalfSpaces, Thresholding, TopM
from jaxelim.result import Result, Trace
from jaxelim.sampling import LazyTaS, LinGame, LinGapE, OptimisticTaS, Oracle, TrackAndStop, Uniform
from jaxelim.simulate import Engine, simulate, trace
from jaxelim.thresholds import GK16, Heuristic, LinearThreshold, LogLogThreshold

__all__ = [
    "ArgumentError",
    "BestArm",
    "Engine",
    "FullElimination",
    "GK16",
    "HalfSpaces",
    "Heuristic",
    "Instance",
    "InstanceFileError",
    "JaxelimError",
    "LLR",
    "LazyTaS",
    "LinGame",
    "LinGapE",
    "LinearThreshold",
    "LogLogThreshold",
    "Native",
    "OptimisticTaS",
    "Oracle",
    "Problem",
    "Result",
    "SamplingRule",
    "SelectiveElimination",
    "StoppingRule",
    "Thresholding",
    "TieError",
    "TopM",
    "Trace",
    "TrackAndStop",
    "Uniform",
    "UnknownNameError",
    "UnsupportedError",
    "View",
    "instances",
    "load_instance",
    "simulate",
    "trace",
]
