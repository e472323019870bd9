"""Sampling rules. One file each; none imports another."""

from jaxelim.sampling.fws import FWS
from jaxelim.sampling.lingame import LinGame
from jaxelim.sampling.lingape import LinGapE
from jaxelim.sampling.oracle import Oracle
from jaxelim.sampling.uniform import Uniform

__all__ = ["FWS", "LinGapE", "LinGame", "Oracle", "Uniform"]
