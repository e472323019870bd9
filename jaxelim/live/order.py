"""Whether rewards come in an order that independent draws hardly ever have.

Rewards of an arm above a number c are ones, the others zeros: draws of one probability, if the
rewards are independent draws of one law. Against that stands a change of it after m of them,

    e = sum_m KT(first m) KT(the others)/(m (m + 1)) / (n_1/n)^n_1 (n_0/n)^n_0,

KT the mean probability of a sequence under Beta(1/2, 1/2). The divisor is the largest
likelihood, so e is at most a martingale of mean 1: P(e ever >= x) <= 1/x, by which rule arms
were chosen, and however many rewards there are. The same holds of the product of e over arms.

c is 0, or the i-th reward, which then is left out. The weights of these are
1/((i + 1) (i + 2)), with i = 0 for c = 0. They sum to 1, so with its weight any c may be taken.
The p-value is 2 min(K/largest e of an arm, 1/product of e). (Ramdas, Ruf, Larsson & Koolen
2022; Krichevsky & Trofimov 1981.)
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import betaln, logsumexp, xlogy

from jaxelim.errors import ArgumentError
from jaxelim.instances.arms import Arms

LEVEL = 1e-4
"""The largest p-value at which an order is refused."""
UNCHECKED = "unchecked"
"""The value of `in_order` for a table in order that is not tested for it."""


def log_e(rewards: np.ndarray) -> tuple[float, str]:
    """log e of an arm's rewards [n] with the weight of c, and what was seen, in words.

    c is the largest reward that is not above their mean.
    """
    c = rewards[rewards <= math.fsum(rewards) / rewards.size].max(initial=rewards.min())
    above, i = rewards > c, 0
    if (above != (rewards > 0)).any():
        i = 1 + int(np.argmax(rewards == c))
        above = np.delete(above, i - 1)
    n, ones = above.size, int(above.sum())
    of_c = -math.log((i + 1) * (i + 2))
    if n == 0:
        return of_c, ""
    m, seen = np.arange(1, n + 1), np.cumsum(above)
    rest = ones - seen
    both = betaln(seen + 0.5, m - seen + 0.5) + betaln(rest + 0.5, n - m - rest + 0.5)
    terms = both - 2 * math.log(math.pi) - np.log(m) - np.log(m + 1)
    terms[-1] += math.log(n + 1)  # no change so far: all m from n on
    largest = xlogy(ones, ones / n) + xlogy(n - ones, 1 - ones / n)
    at = int(np.argmax(terms))
    words = f"{ones} of {n} are above {c:.4g}, and of the first {m[at]} {seen[at]}"
    return of_c + float(logsumexp(terms) - largest), words


def p_value(of_arms: Sequence[float], arms: int) -> float:
    """The p-value of the order of several arms, from log e of those that have rewards."""
    return math.exp(min(math.log(2) - max(max(of_arms) - math.log(arms), sum(of_arms)), 0.0))


def refuse_sorted(arms: Sequence[int], rewards: Sequence[float], of: Arms) -> None:
    """Refuse rewards, told to be in order, whose order has a p-value of at most `LEVEL`.

    Args:
        arms: [n] their arms.
        rewards: [n].
        of: the arms of the run.

    Raises:
        ArgumentError: the order has one.
    """
    at, values = np.asarray(arms), np.asarray(rewards)
    found = [(*log_e(values[at == k]), of.label(k)) for k in np.unique(at).tolist()]
    p = p_value([value for value, *_ in found], of.K)
    if p <= LEVEL:
        _, words, name = max(found)
        note = f"{'p < 1e-300' if p == 0 else f'p = {p:.1g}'}: of the rewards of {name} {words}"
        allowed = f"False, for one test of all; or {UNCHECKED!r}, if that is their order"
        raise ArgumentError("in_order", True, allowed, note)
