"""Sampling rules. One file each; none imports another."""

from jaxelim.sampling.lingame import LinGame
from jaxelim.sampling.lingape import LinGapE
from jaxelim.sampling.lingifa import LinGIFA
from jaxelim.sampling.lucb import LUCB
from jaxelim.sampling.oracle import Oracle
from jaxelim.sampling.racing import Racing
from jaxelim.sampling.rage import RAGE
from jaxelim.sampling.ugape import UGapE
from jaxelim.sampling.uniform import Uniform
from jaxelim.sampling.xy_adaptive import XYAdaptive

__all__ = [
    "LUCB",
    "LinGIFA",
    "LinGame",
    "LinGapE",
    "Oracle",
    "RAGE",
    "Racing",
    "UGapE",
    "Uniform",
    "XYAdaptive",
]
