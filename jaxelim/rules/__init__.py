"""Sampling rules: a rule and its variants in a file, which imports no other rule's.

A new rule needs one line here.
"""

from jaxelim.rules.fws import FWS as FWS
from jaxelim.rules.lazy_tas import LazyTaS as LazyTaS
from jaxelim.rules.lingame import LinGame as LinGame
from jaxelim.rules.lingame import OptimisticLinGame as OptimisticLinGame
from jaxelim.rules.lingape import LinGapE as LinGapE
from jaxelim.rules.lingifa import LinGIFA as LinGIFA
from jaxelim.rules.lucb import LUCB as LUCB
from jaxelim.rules.oracle import Oracle as Oracle
from jaxelim.rules.racing import Racing as Racing
from jaxelim.rules.rage import RAGE as RAGE
from jaxelim.rules.top_two import EBTC as EBTC
from jaxelim.rules.top_two import EBTCI as EBTCI
from jaxelim.rules.top_two import T3C as T3C
from jaxelim.rules.top_two import TSTC as TSTC
from jaxelim.rules.top_two import TSTCI as TSTCI
from jaxelim.rules.top_two import TTTS as TTTS
from jaxelim.rules.top_two import TTUCB as TTUCB
from jaxelim.rules.top_two import TopTwo as TopTwo
from jaxelim.rules.track_and_stop import OptimisticTaS as OptimisticTaS
from jaxelim.rules.track_and_stop import TrackAndStop as TrackAndStop
from jaxelim.rules.ugape import UGapE as UGapE
from jaxelim.rules.uniform import Uniform as Uniform
from jaxelim.rules.xy_adaptive import XYAdaptive as XYAdaptive

OTHER_NAMES = {"k-learner": "lingame", "mislid": "lingame", "m-lingape": "lingape"}
"""Names of rules in other papers, and their command-line names here."""
