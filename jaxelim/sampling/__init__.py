"""Sampling rules, one file each; none imports another. A new rule needs one line here."""

from jaxelim.sampling.fws import FWS as FWS
from jaxelim.sampling.lazy_tas import LazyTaS as LazyTaS
from jaxelim.sampling.lingame import LinGame as LinGame
from jaxelim.sampling.lingape import LinGapE as LinGapE
from jaxelim.sampling.lingifa import LinGIFA as LinGIFA
from jaxelim.sampling.lucb import LUCB as LUCB
from jaxelim.sampling.optimistic_lingame import OptimisticLinGame as OptimisticLinGame
from jaxelim.sampling.optimistic_tas import OptimisticTaS as OptimisticTaS
from jaxelim.sampling.oracle import Oracle as Oracle
from jaxelim.sampling.racing import Racing as Racing
from jaxelim.sampling.rage import RAGE as RAGE
from jaxelim.sampling.top_two import EBTC as EBTC
from jaxelim.sampling.top_two import EBTCI as EBTCI
from jaxelim.sampling.top_two import T3C as T3C
from jaxelim.sampling.top_two import TSTC as TSTC
from jaxelim.sampling.top_two import TSTCI as TSTCI
from jaxelim.sampling.top_two import TTTS as TTTS
from jaxelim.sampling.top_two import TTUCB as TTUCB
from jaxelim.sampling.top_two import TopTwo as TopTwo
from jaxelim.sampling.track_and_stop import TrackAndStop as TrackAndStop
from jaxelim.sampling.ugape import UGapE as UGapE
from jaxelim.sampling.uniform import Uniform as Uniform
from jaxelim.sampling.xy_adaptive import XYAdaptive as XYAdaptive
