"""Section 4: elimination.

Each set has these members. `update(stats, threshold)` returns the number of pieces
tested. `answer(stats)` is the answer if it stops, else None. `keeps(labels)` says which
half-spaces are still active. `size` is the traces' `active`; `times` has 0 for never.
"""

import numpy as np

from tests.twin.problems import llr


class Stats:
    """The data of a check (section 1, step 3a), from counts and reward sums."""

    def __init__(self, problem, counts, sums, ridge):
        phi = problem.phi
        self.t = int(counts.sum())
        self.counts, self.sums = counts, sums
        self.V = ridge * np.eye(problem.d) + (phi.T * counts) @ phi
        self.inverse = np.linalg.inv(self.V)
        self.theta = self.inverse @ (phi.T @ sums)
        self.means = phi @ self.theta
        self.answer = problem.answer(problem.z @ self.theta)

    @staticmethod
    def with_pending(problem, counts, entered, ridge):
        """What a rule sees: the counts, and V, of all pulls; the estimates of `entered`."""
        stats = Stats(problem, counts, entered.sums * counts / entered.counts, ridge)
        stats.theta, stats.means, stats.answer = entered.theta, entered.means, entered.answer
        return stats


class Nothing:
    """No elimination: LLR stopping (section 5) tests all of the answer's pieces."""

    def __init__(self, problem):
        self.problem = problem
        self.size = 0 if problem.kind == "topm" else problem.P
        self.times = np.zeros((problem.P,) * (2 if problem.kind == "topm" else 1), int)

    def update(self, stats, threshold):
        y, c = self.problem.halfspaces(self.problem.pieces(stats.answer))
        self.stops = np.min(llr(y, c, stats.theta, stats.inverse)) > threshold
        return len(y)

    def answer(self, stats):
        return stats.answer if self.stops else None


class BaiArms:
    """A mask of active candidates.

    The empirical best arm eliminates others (selective), or any arm does, eliminated
    ones too (full).
    """

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.active = np.ones(problem.candidates, bool)
        self.times = np.zeros(problem.candidates, int)

    def update(self, stats, threshold):
        judges = np.arange(self.problem.candidates)
        if not self.full:
            best = np.flatnonzero(stats.answer)
            judges = best if len(best) else judges[-1:]  # the reference, which is the last
        labels = np.array(
            [(i, j) for j in np.flatnonzero(self.active) for i in judges if i != j]
        ).reshape(-1, 2)
        y, c = self.problem.halfspaces(labels)
        for j in labels[llr(y, c, stats.theta, stats.inverse) > threshold, 1]:
            self.active[j] = False
            self.times[j] = stats.t
        return len(labels)

    def answer(self, stats):
        if self.size > 1:
            return None
        return self.active[: self.problem.P].copy() if self.size == 1 else stats.answer

    def keeps(self, labels):
        return self.active[labels[:, 1]]

    @property
    def size(self):
        return int(self.active.sum())


class TopmPairs:
    """worse[j, k]: k is known worse than j.

    found[j]: at least K - m arms are worse than j, and j needs no further tests.
    """

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.worse = np.zeros((problem.K, problem.K), bool)
        self.times = np.zeros((problem.K, problem.K), int)

    @property
    def found(self):
        return self.worse.sum(axis=1) >= self.problem.K - self.problem.m

    def update(self, stats, threshold):
        labels = self.problem.all_pieces() if self.full else self.problem.pieces(stats.answer)
        labels = labels[~self.found[labels[:, 0]] & ~self.worse[labels[:, 0], labels[:, 1]]]
        y, c = self.problem.halfspaces(labels)
        for j, k in labels[llr(y, c, stats.theta, stats.inverse) > threshold]:
            self.worse[j, k] = True
            self.times[j, k] = stats.t
        return len(labels)

    def answer(self, stats):
        if self.found.sum() < self.problem.m:
            return None
        return self.problem.answer(np.where(self.found, stats.means, -np.inf))

    def keeps(self, labels):
        return ~self.worse[labels[:, 0], labels[:, 1]]

    @property
    def size(self):
        return int(self.worse.sum())


class OsiArms:
    """A mask of active arms and the signs found; selective and full coincide."""

    def __init__(self, problem, full):
        self.problem = problem
        self.active = np.ones(problem.K, bool)
        self.signs = np.zeros(problem.K, bool)
        self.times = np.zeros(problem.K, int)

    def update(self, stats, threshold):
        labels = self.problem.pieces(stats.answer)[self.active]
        y, c = self.problem.halfspaces(labels)
        for k, sign in labels[llr(y, c, stats.theta, stats.inverse) > threshold]:
            self.active[k] = False
            self.signs[k] = sign
            self.times[k] = stats.t
        return len(labels)

    def answer(self, stats):
        return None if self.active.any() else self.signs.copy()

    def keeps(self, labels):
        return self.active[labels[:, 0]]

    @property
    def size(self):
        return int(self.active.sum())


class Definition:
    """The general definition: active pieces per answer, the paper's P_t^stp(i).

    Selective: only the empirical answer's set shrinks, and it stops when that set is
    empty. Full: every answer's set shrinks, and it stops when any is empty. Its answer
    is the empirical one if its set is empty, else the first empty one in lexicographic
    order. `times` is a dictionary by (answer, piece).
    """

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.sets = {}
        self.times = {}
        if full:
            for answer in problem.all_answers():
                self._pieces(answer)

    def _pieces(self, answer):
        name = tuple(answer.tolist())
        if name not in self.sets:
            self.sets[name] = self.problem.pieces(answer)
        return self.sets[name]

    def update(self, stats, threshold):
        self._pieces(stats.answer)
        tests = 0
        for name in self.sets if self.full else [tuple(stats.answer.tolist())]:
            labels = self.sets[name]
            y, c = self.problem.halfspaces(labels)
            gone = llr(y, c, stats.theta, stats.inverse) > threshold
            for piece in labels[gone].tolist():
                self.times[name, tuple(piece)] = stats.t
            self.sets[name] = labels[~gone]
            tests += len(labels)
        return tests

    def answer(self, stats):
        if len(self._pieces(stats.answer)) == 0:
            return stats.answer
        empty = [np.array(name) for name in self.sets if len(self.sets[name]) == 0]
        return empty[0] if self.full and empty else None

    @property
    def size(self):
        return sum(len(labels) for labels in self.sets.values())


def elimination_set(problem, name):
    """The set of a stopping rule's name."""
    if name in ("llr", "native"):
        return Nothing(problem)
    full = name.startswith("full")
    if name.endswith("definition"):
        return Definition(problem, full)
    sets = {"bai": BaiArms, "items": BaiArms, "topm": TopmPairs, "osi": OsiArms}
    sets["reference"] = BaiArms
    return sets[problem.kind](problem, full)
