"""Sampling rules. One file each; none imports another."""

from jaxelim.sampling.lazy_tas import LazyTaS
from jaxelim.sampling.lingame import LinGame
from jaxelim.sampling.lingape import LinGapE
from jaxelim.sampling.optimistic_tas import OptimisticTaS
from jaxelim.sampling.oracle import Oracle
from jaxelim.sampling.track_and_stop import TrackAndStop
from jaxelim.sampling.uniform import Uniform

__all__ = ["LazyTaS", "LinGapE", "LinGame", "OptimisticTaS", "Oracle", "TrackAndStop", "Uniform"]
