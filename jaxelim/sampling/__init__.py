"""Sampling rules. One file each; none imports another."""

from jaxelim.sampling.fws import FWS
from jaxelim.sampling.lazy_tas import LazyTaS
from jaxelim.sampling.lingame import LinGame
from jaxelim.sampling.lingape import LinGapE
from jaxelim.sampling.lingifa import LinGIFA
from jaxelim.sampling.lucb import LUCB
from jaxelim.sampling.optimistic_tas import OptimisticTaS
from jaxelim.sampling.oracle import Oracle
from jaxelim.sampling.racing import Racing
from jaxelim.sampling.rage import RAGE
from jaxelim.sampling.track_and_stop import TrackAndStop
from jaxelim.sampling.ugape import UGapE
from jaxelim.sampling.uniform import Uniform
from jaxelim.sampling.xy_adaptive import XYAdaptive

__all__ = [
    "FWS",
    "LUCB",
    "LazyTaS",
    "LinGIFA",
    "LinGame",
    "LinGapE",
    "OptimisticTaS",
    "Oracle",
    "RAGE",
    "Racing",
    "TrackAndStop",
    "UGapE",
    "Uniform",
    "XYAdaptive",
]
