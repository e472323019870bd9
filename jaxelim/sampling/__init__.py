"""Sampling rules. One file each; none imports another."""

from jaxelim.sampling.lazy_tas import LazyTaS
from jaxelim.sampling.lingame import LinGame
from jaxelim.sampling.lingape import LinGapE
from jaxelim.sampling.oracle import Oracle
from jaxelim.sampling.uniform import Uniform

__all__ = ["LazyTaS", "LinGapE", "LinGame", "Oracle", "Uniform"]
