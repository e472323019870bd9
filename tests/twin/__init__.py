"""The twin: a plain NumPy float64 implementation of docs/reference/definitions.md.

It is the slow reference of the JAX engine; section numbers are that page's. One call of
`run` plays one trajectory under any number of stopping rules. Every check recomputes
everything: V is summed from the counts and inverted, and ||y||^2 is y' V^-1 y with y
formed first. Indices are 0-based; ties go to the lowest index unless a docstring says
otherwise.

The label of a half-space is a pair of integers. (j, k) is y = phi_j - phi_k for best
arm and top m, y = z_j - z_k for items z; (k, s) is y = +phi_k (s = 1) or -phi_k (s = 0)
for thresholding. Label arrays are int [P, 2], in lexicographic order. An answer is a
bool [K]: the best arm, the m best arms, or the arms whose mean is at least the level;
the best item is a bool with an entry for each item.
"""

from tests.twin.elimination import (
    BaiArms,
    Definition,
    Nothing,
    OsiArms,
    Stats,
    TopmPairs,
    elimination_set,
)
from tests.twin.loop import RULES, Observer, run
from tests.twin.native_rules import Lucb, Racing, Rage, UGapE, XyAdaptive
from tests.twin.problems import Problem, gradients, llr, squared_norms, top
from tests.twin.resets import Resets, ResetSets, paper_alpha
from tests.twin.rule import Rule, Stop, most_ambiguous, most_informative
from tests.twin.rules import (
    EPS,
    Fws,
    LazyTas,
    LinGame,
    LinGapE,
    LinGifa,
    OptimisticTas,
    Oracle,
    Tas,
    Uniform,
)
from tests.twin.solver import best_allocation, maximin
from tests.twin.thresholds import gk16, heuristic

__all__ = [
    "BaiArms",
    "Definition",
    "EPS",
    "Fws",
    "LazyTas",
    "LinGame",
    "LinGapE",
    "LinGifa",
    "Lucb",
    "Nothing",
    "Observer",
    "OptimisticTas",
    "Oracle",
    "OsiArms",
    "Problem",
    "RULES",
    "Racing",
    "Rage",
    "ResetSets",
    "Resets",
    "Rule",
    "Stats",
    "Stop",
    "Tas",
    "TopmPairs",
    "UGapE",
    "Uniform",
    "XyAdaptive",
    "best_allocation",
    "elimination_set",
    "gk16",
    "gradients",
    "heuristic",
    "llr",
    "maximin",
    "most_ambiguous",
    "most_informative",
    "paper_alpha",
    "run",
    "squared_norms",
    "top",
]
