"""Paired items in plain NumPy: stakes on the differences of two arms' scores."""

import numpy as np

from tests.twin.rules import TopTwo
from tests.twin.worlds import Seen, World

BETS = 0.98 * 2.0 ** (-np.arange(18) / 2)


def log_e(a, b, width, slack=0.0, size=None):
    """log e of {mu_a <= mu_b - slack}, of scores of both arms on common items, [n] each.

    `size`: the number of items, where these are drawn without replacement.
    """
    d = np.asarray(a) - np.asarray(b)
    least = np.full(d.shape, -slack)
    if size is not None:
        least = -(size * slack + np.cumsum(d) - d) / (size - np.arange(d.size))
    gains, gap = d - least, width + least
    gains = np.divide(gains, gap, out=np.zeros(d.shape), where=gap > 1e-9 * width)
    stakes = np.sum(np.log1p(np.multiply.outer(BETS, gains)), -1)
    return stakes.max() + np.log(np.mean(np.exp(stakes - stakes.max())))


class Paired(World):
    """The scores of arms on a run's items, [N, K], in the order of that run."""

    normal = False

    def __init__(self, scores, width=1.0, size=None):
        self.scores, self.width, self.size = np.asarray(scores), width, size
        self.K = scores.shape[1]
        self.pulls = np.zeros(self.K, int)

    def draw(self, k, noise):
        self.pulls[k] += 1
        return self.scores[self.pulls[k] - 1, k]

    def seen(self, pieces, rewards, counts):
        return PairedSeen(self, pieces, counts, rewards)


class PairedSeen(Seen):
    """The scores that have entered."""

    def __init__(self, world, pieces, counts, rewards):
        super().__init__(world, pieces, counts, rewards.averages, rewards.averages)
        self.all = [list(x) for x in rewards.all]

    def values(self, labels, weights=None):
        values, world = [], self.world
        for i, k in labels:
            n = min(len(self.all[i]), len(self.all[k]))
            both = self.all[i][:n], self.all[k][:n]
            values.append(log_e(*both, world.width, self.pieces.slack, world.size))
        return np.array(values)


class Behind(TopTwo):
    """Share "ids": the arm with fewer items is pulled."""

    def ids(self, seen, i, j):
        own, other = seen.counts[i], seen.counts[j]
        return 1.0 if own < other else 0.0 if own > other else 0.5


class Lucb(TopTwo):
    """The piece of least evidence; of its arms the one with fewer items (ties: the worse)."""

    def choose(self, seen, t, active):
        i, j = self.least(seen, active(seen.answer))
        return int(i if seen.counts[i] < seen.counts[j] else j)
