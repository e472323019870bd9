"""The twin: a plain NumPy float64 implementation of docs/reference/definitions.md.

Section numbers are that page's. One call of `run` plays one trajectory of a world under any
number of stopping rules. Every check recomputes everything: V is summed from the counts and
inverted, ||y||^2 is y' V^-1 y with y formed first, and divergences are in the textbook's form.
Indices are 0-based; ties go to the lowest index unless a docstring says otherwise.

The label of a piece is a pair of integers. (j, k) is {mu_j <= mu_k}, with slack
{mu_k >= mu_j + slack}; a reference is number K, and items are numbered as arms are. (k, s) is
{mu_k <= level} for s = 1 and {mu_k >= level} for s = 0, for thresholding. Label arrays are int
[Q, 2]. An answer is a bool [K]: the best arm, the m best arms, or the arms whose mean is at
least the level; the best item is a bool with an entry for each item.
"""

from tests.twin.allocations import maximin, piece_weights, slack_weights
from tests.twin.arms import Bernoulli, Exponential, Gaussian, Poisson, Stacks, UnknownVariance
from tests.twin.elimination import Resets, paper_alpha
from tests.twin.logistic import Logistic
from tests.twin.run import RULES, Pending, gk16, heuristic, run
from tests.twin.worlds import Linear, Pieces, halfspaces

__all__ = [
    "Bernoulli", "Exponential", "Gaussian", "Linear", "Logistic", "Pending", "Pieces", "Poisson",
    "RULES", "Resets", "Stacks", "UnknownVariance", "gk16", "halfspaces", "heuristic", "maximin",
    "paper_alpha", "piece_weights", "run", "slack_weights",
]  # fmt: skip
