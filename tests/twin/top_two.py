"""Section 7: top-two rules."""

import math

import numpy as np

from tests.twin.rules import Rule, clear

LEVEL = 1.2 * 2.2
"""The upper bounds of a UCB leader are at level LEVEL log t."""


class TopTwo(Rule):
    """A leader, a challenger, and which of them is pulled.

    Random numbers are given: `draw(counts, means, t, n)` is the n-th posterior draw of
    sample t, [K], and `chance(t)` a uniform.
    """

    def configure(self, leader="eb", challenger="tc", share=0.5, select="sampling",
                  draw=None, chance=None):  # fmt: skip
        self.leader, self.challenger, self.share, self.select = leader, challenger, share, select
        self.draw, self.chance = draw, chance
        self.due, self.taken = [0.0] * self.K, [0] * self.K

    def least(self, seen, labels):
        """The label of least L, or of least L plus the log counts of its arms."""
        costs, kind = seen.values(labels), self.pieces.kind
        if self.challenger == "tci":
            logs = np.append(np.log(seen.counts), 0.0)  # a reference has none
            costs = costs + logs[labels[:, 0 if kind == "osi" else 1]]
            if kind == "topm":
                costs = costs + logs[labels[:, 0]]
        self.doubt(lambda: clear(-costs))
        return labels[np.argmin(costs)]

    def top(self, scores, playing):
        """The playing arm of the largest score."""
        scores = np.asarray(scores)[playing]
        self.doubt(lambda: clear(scores))
        return playing[int(np.argmax(scores))]

    def choose(self, seen, t, active):
        labels = active(seen.answer)
        if self.pieces.kind == "osi":
            return int(self.least(seen, labels)[0])
        best = np.flatnonzero(seen.answer)[:1].tolist()
        playing = sorted({*best, *labels[:, 1].tolist()})
        if self.leader == "eb":
            piece = self.least(seen, labels)
        else:
            if self.leader == "ucb":
                scores = seen.bounds(LEVEL * math.log(t))[1]
            else:
                scores = self.draw(seen.counts, seen.means, t, 0)
            i = self.top(scores, playing)
            piece = self.least(seen, np.array([(i, k) for k in playing if k != i]))
        i, j = (min(piece),) * 2 if self.K in piece else piece
        if self.challenger == "rs":
            j = self.redrawn(seen, t, i, playing, j)
        return int(i if self.leads(seen, int(i), int(j), t) else j)

    def redrawn(self, seen, t, i, playing, otherwise):
        for n in range(1, 201):
            other = self.top(self.draw(seen.counts, seen.means, t, n), playing)
            if other != i:
                return other
        return otherwise

    def ids(self, seen, i, j):
        """w_i loss_i/(w_i loss_i + w_j loss_j) where both arms meet; w_j/(w_i + w_j) in a tie."""
        n, world = self.world.weights(seen.counts), self.world
        if not self.pieces.slack and seen.means[i] <= seen.means[j]:
            moved = dict(zip((j, i), world.meet(seen, j, i, n), strict=True))
        else:
            moved = dict(zip((i, j), world.meet(seen, i, j, n), strict=True))
        own, other = (n[k] * world.loss(seen, k, moved[k]) for k in (i, j))
        apart = (self.pieces.slack or seen.means[i] != seen.means[j]) and own + other > 0
        return own / (own + other) if apart else n[j] / (n[i] + n[j])

    def leads(self, seen, i, j, t):
        """Whether the leader is pulled."""
        q = self.ids(seen, i, j) if self.share == "ids" else self.share
        if self.select == "sampling":
            u = self.chance(t)
            self.doubt(lambda: abs(u - q) > 1e-9)
            return u < q
        if i == j:  # no turn of a pair, where the reference is one of the two
            return True
        self.due[i] += q
        self.doubt(lambda: self.share != "ids" or abs(self.taken[i] - self.due[i]) > 1e-9)
        if self.taken[i] <= self.due[i]:
            self.taken[i] += 1
            return True
        return False
