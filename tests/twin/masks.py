"""Stopping rules on arms (section 5): all pieces at once, or sets from which pieces fall."""

import numpy as np


class Llr:
    """All pieces of the empirical answer must be refuted at once."""

    def __init__(self, problem, full=False):
        self.problem = problem

    def update(self, seen, beta):
        """The answer to stop with or None, and the number of pieces tested."""
        answer = self.problem.answer(seen.means)
        values = seen.values(self.problem.pieces(answer))
        return (answer if values.min() > beta else None), len(values)


class Candidates:
    """A mask: candidate k falls to the best one, or (full) to any."""

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.left = np.ones(problem.candidates, bool)

    def active(self, labels):
        return labels[self.left[labels[:, 1]]]

    def update(self, seen, beta):
        answer = self.problem.answer(seen.means)
        labels = self.problem.ordered_pairs() if self.full else self.problem.pieces(answer)
        labels = self.active(labels)
        if len(labels):
            self.left[labels[seen.values(labels) > beta, 1]] = False
        if self.left.sum() > 1:
            return None, len(labels)
        return (self.left[: self.problem.K].copy() if self.left.any() else answer), len(labels)


class Pairs:
    """worse[j, k]: k is not mu_j + slack or better. Arms with K - m worse are found."""

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.worse = np.zeros((problem.K, problem.K), bool)

    def active(self, labels):
        return labels[~self.worse[labels[:, 0], labels[:, 1]]]

    def found(self):
        return self.worse.sum(1) >= self.problem.K - self.problem.m

    def update(self, seen, beta):
        labels = self.problem.ordered_pairs()
        if not self.full:
            labels = self.problem.pieces(self.problem.answer(seen.means))
        labels = self.active(labels[~self.found()[labels[:, 0]]])
        if len(labels):
            fallen = labels[seen.values(labels) > beta]
            self.worse[fallen[:, 0], fallen[:, 1]] = True
        found = self.found()
        if found.sum() < self.problem.m:
            return None, len(labels)
        return self.problem.answer(np.where(found, seen.means, -np.inf)), len(labels)


class Signs:
    """A mask and the signs found. Selective and full coincide."""

    def __init__(self, problem, full):
        self.problem = problem
        self.left, self.above = np.ones(problem.K, bool), np.zeros(problem.K, bool)

    def active(self, labels):
        return labels[self.left[labels[:, 0]]]

    def update(self, seen, beta):
        labels = self.active(self.problem.pieces(self.problem.answer(seen.means)))
        if len(labels):
            fallen = labels[seen.values(labels) > beta]
            self.left[fallen[:, 0]] = False
            self.above[fallen[:, 0]] = fallen[:, 1] == 1
        return (None if self.left.any() else self.above.copy()), len(labels)


SETS = {"bai": Candidates, "reference": Candidates, "topm": Pairs, "slack": Pairs, "osi": Signs}


def stopping_rule(problem, name):
    """The stopping rule "llr", "selective" or "full"."""
    return Llr(problem) if name == "llr" else SETS[problem.kind](problem, name == "full")
