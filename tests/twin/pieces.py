"""Section 2: answers, and the pieces that contradict them."""

import itertools

import numpy as np


def top(values, m):
    """Indices of the m largest values, best first, ties to the lowest index."""
    return np.argsort(-np.asarray(values), kind="stable")[:m]


class Pieces:
    """The answers and pieces of a problem.

    Args:
      spec: ("bai",), ("topm", m), ("osi", level, epsilon), ("reference", level, epsilon),
        ("slack", epsilon) or ("items", z). Level and epsilon may be left out: 0.
      K: number of arms.
    """

    def __init__(self, spec, K):
        self.kind, self.K = spec[0], K
        self.items = np.asarray(spec[1], float) if self.kind == "items" else None
        self.P = K if self.items is None else len(self.items)
        self.m = spec[1] if self.kind == "topm" else 1
        levels = self.kind in ("osi", "reference") and len(spec) > 1
        self.level = spec[1] if levels else 0.0
        self.slack = spec[1] if self.kind == "slack" else spec[2] if len(spec) > 2 else 0.0
        self.candidates = self.P + (self.kind == "reference")

    def answer(self, means):
        """The answer at the means of what it is made of: arms or items."""
        if self.kind == "osi":
            return means >= self.level
        answer = np.zeros(self.P, bool)
        if self.kind != "reference" or means.max() >= self.level:
            answer[top(means, self.m)] = True
        return answer

    def of(self, answer, means=None):
        """Labels of an answer's pieces: int [Q, 2], those of larger means first with means."""
        if self.kind == "osi":
            return np.column_stack([np.arange(self.K), answer.astype(int)])
        whole = np.append(answer, not answer.any()) if self.kind == "reference" else answer
        inside, outside = np.flatnonzero(whole), np.flatnonzero(~whole)
        if means is not None and self.m > 1:
            inside = inside[np.argsort(-means[inside], kind="stable")]
        return np.column_stack([np.repeat(inside, len(outside)), np.tile(outside, len(inside))])

    def every(self):
        """Labels of the pieces of all answers."""
        second = range(2 if self.kind == "osi" else self.candidates)
        labels = np.array(list(itertools.product(range(self.candidates), second)))
        return labels if self.kind == "osi" else labels[labels[:, 0] != labels[:, 1]]

    def answers(self):
        """Every answer, as bool arrays; for small problems only."""
        if self.kind == "osi":
            signs = itertools.product([False, True], repeat=self.K)
            return [np.array(answer) for answer in signs]
        chosen = itertools.combinations(range(self.P), self.m)
        none = [np.zeros(self.P, bool)] * (self.kind == "reference")
        return [np.isin(np.arange(self.P), arms) for arms in chosen] + none

    def right(self, means):
        """With slack: the answers whose pieces all exclude the means."""
        return [one for one in self.answers() if self.margins(self.of(one), means).min() > 1e-9]

    def margins(self, labels, means):
        """How far the means of both sides are apart: [Q]."""
        first, second = labels.T
        if self.kind == "osi":
            return (2 * second - 1) * (means[first] - self.level) + self.slack
        means = np.append(means, self.level)
        return means[first] - means[second] + self.slack
