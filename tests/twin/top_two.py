"""The twin of top-two rules: a plain NumPy float64 reading of the specification.

It plays in `tests.twin.weighing.run`, and for unknown variances in
`tests.twin.unknown_variance.run`. Random numbers are given: `draw(counts, means, t, n)`
is the n-th posterior draw of sample t, [K], and `chance(t)` a uniform.
"""

import math

import numpy as np

from tests.twin import unknown_variance, weighing

LEVEL = 1.2 * 2.2
"""The upper bounds of a UCB leader are at level LEVEL log t."""


class Choice:
    """Leader, challenger, share and selection; the state of tracking."""

    def __init__(self, K, leader, challenger, share=0.5, select="sampling", draw=None, chance=None):
        self.K, self.leader, self.challenger = K, leader, challenger
        self.share, self.select, self.draw, self.chance = share, select, draw, chance
        self.due, self.taken = [0.0] * K, [0] * K
        self.sure = True

    def least(self, costs, labels, counts):
        """The label of least L, or of least L plus the log counts."""
        if self.challenger == "tci":
            logs = np.log(counts)
            both = len({i for i, _ in labels}) > 1 and not self.signs
            costs = costs + logs[labels[:, 0 if self.signs else 1]]
            costs = costs + logs[labels[:, 0]] if both else costs
        self.sure &= weighing.clear(-costs)
        return labels[np.argmin(costs)]

    def arm(self, kind, answer, labels, counts, means, t, ratios, upper, parts):
        """The arm of sample t.

        Args:
          kind: "bai", "topm" or "osi".
          labels: the active pieces of the answer.
          ratios: of labels, their LLRs.
          upper: of a level, the upper bounds [K].
          parts: of i and j, n_i d(m_i, u) and n_j d(m_j, u), n_i and n_j, and whether m_i is
            not m_j.
        """
        self.signs = kind == "osi"
        if self.leader == "eb":
            i, j = self.least(ratios(labels), labels, counts)
            best = None
        else:
            best = int(np.flatnonzero(answer)[0])
            playing = sorted({best, *labels[:, 1].tolist()})
            scores = upper(LEVEL * math.log(t)) if self.leader == "ucb" else (
                self.draw(counts, means, t, 0)
            )  # fmt: skip
            i = self.top(scores, playing)
            row = np.array([(i, k) for k in playing if k != i])
            i, j = self.least(ratios(row), row, counts)
        if self.signs:
            return int(i)
        if self.challenger == "rs":
            playing = sorted({int(np.flatnonzero(answer)[0]), *labels[:, 1].tolist()})
            for n in range(1, 201):
                other = self.top(self.draw(counts, means, t, n), playing)
                if other != i:
                    j = other
                    break
        return int(i if self.leads(int(i), *parts(i, j), t) else j)

    def top(self, scores, playing):
        """The playing arm of the largest score."""
        scores = np.asarray(scores)[playing]
        self.sure &= weighing.clear(scores)
        return playing[int(np.argmax(scores))]

    def leads(self, i, own, other, n_i, n_j, apart, t):
        """Whether the leader is pulled."""
        q = self.share
        if q == "ids":
            q = own / (own + other) if apart and own + other > 0 else n_j / (n_i + n_j)
        if self.select == "sampling":
            u = self.chance(t)
            self.sure &= abs(u - q) > 1e-9
            return u < q
        self.due[i] += q
        self.sure &= self.share != "ids" or abs(self.taken[i] - self.due[i]) > 1e-9
        if self.taken[i] <= self.due[i]:
            self.taken[i] += 1
            return True
        return False


class TopTwo(weighing.Rule):
    """For families with one parameter."""

    def start(self, counts, **settings):
        self.made = Choice(self.K, **settings)

    def choose(self, counts, means, t, labels):
        problem, n = self.problem, counts / self.problem.costs

        def parts(i, j):
            u = means[j] + (means[i] - means[j]) * n[i] / (n[i] + n[j])
            u = min(max(u, min(means[i], means[j])), max(means[i], means[j]), problem.family.most)
            d = problem.family.divergence
            a, b = (float(n[k] * d(float(means[k]), float(u))) for k in (i, j))
            return a, b, n[i], n[j], means[i] != means[j]

        arm = self.made.arm(
            problem.kind, problem.answer(means), labels, counts, means, t,
            lambda labels: problem.ratios(labels, counts, means),
            lambda level: problem.bounds(counts, means, level)[1], parts,
        )  # fmt: skip
        self.sure = self.made.sure
        return arm


class Student:
    """For Gaussian rewards of unknown variance."""

    def __init__(self, K, **settings):
        self.made, self.arms, self.certain = Choice(K, **settings), 0, None

    def choose(self, problem, t, labels):
        arm = self.made.arm(
            problem.kind, problem.answer(problem.means), labels, problem.counts, problem.means, t,
            lambda labels: problem.ratios(labels, None, None),
            lambda level: unknown_variance.bounds(
                problem.means, problem.variances, problem.freedom, level
            )[1],
            lambda i, j: (1.0, 1.0, 1, 1, True),
        )  # fmt: skip
        if self.made.sure:
            self.certain = t  # samples up to t are the only right ones
        return arm
