"""Section 2: problems, answers, pieces."""

import itertools

import numpy as np


def top(values, m):
    """Indices of the m largest values, best first, ties to the lowest index."""
    return np.argsort(-np.asarray(values), kind="stable")[:m]


class Problem:
    """("bai",), ("items", z), ("topm", m), ("osi", level) or ("reference", level): answers, pieces.

    Candidates z [P, d] are what an answer is made of: the arms, or the items of "items". A
    reference is a candidate K without features, and its answer has no True. (Section 2)
    """

    def __init__(self, phi, spec):
        self.phi = phi
        self.K, self.d = phi.shape
        self.kind = spec[0]
        self.z = np.asarray(spec[1], float) if self.kind == "items" else phi
        self.P = len(self.z)
        self.m = {"bai": 1, "items": 1, "topm": spec[-1], "osi": None, "reference": 1}[self.kind]
        levels = self.kind in ("osi", "reference") and len(spec) > 1
        self.level = spec[1] if levels else 0.0
        self.candidates = self.P + (self.kind == "reference")

    def answer(self, means):
        """The answer of a vector of means, those of the candidates."""
        if self.kind == "osi":
            return means >= self.level
        answer = np.zeros(self.P, bool)
        if self.kind != "reference" or means.max() >= self.level:
            answer[top(means, self.m)] = True
        return answer

    def pieces(self, answer):
        """Labels of the pieces of `answer`: K - 1 (BAI), m (K - m) (Top-m), K (OSI)."""
        if self.kind == "osi":
            return np.column_stack([np.arange(self.K), answer.astype(int)])
        if self.kind == "reference":
            answer = np.append(answer, not answer.any())
        inside, outside = np.flatnonzero(answer), np.flatnonzero(~answer)
        return np.column_stack([np.repeat(inside, len(outside)), np.tile(outside, len(inside))])

    def all_pieces(self):
        """Labels of every half-space that is a piece of some answer."""
        second = 2 if self.kind == "osi" else self.candidates
        labels = np.array(list(itertools.product(range(self.candidates), range(second))))
        return labels if self.kind == "osi" else labels[labels[:, 0] != labels[:, 1]]

    def all_answers(self):
        """Every answer, as bool arrays; for small problems only."""
        if self.kind == "osi":
            chosen = itertools.product([False, True], repeat=self.K)
            return [np.array(signs) for signs in chosen]
        answers = []
        for arms in itertools.combinations(range(self.P), self.m):
            answer = np.zeros(self.P, bool)
            answer[list(arms)] = True
            answers.append(answer)
        return answers + [np.zeros(self.P, bool)] * (self.kind == "reference")

    def halfspaces(self, labels):
        """Directions y [P, d], offsets c [P] of pieces {lambda : y . lambda <= c}."""
        first, second = labels[:, 0], labels[:, 1]
        if self.kind == "osi":
            sign = 2.0 * second - 1.0
            return sign[:, None] * self.phi[first], sign * self.level
        if self.kind == "reference":
            z = np.vstack([self.z, np.zeros(self.d)])
            sign = 1.0 * (second == self.K) - 1.0 * (first == self.K)
            return z[first] - z[second], sign * self.level
        return self.z[first] - self.z[second], np.zeros(len(labels))


def squared_norms(y, inverse):
    """||y||^2 in the metric of `inverse`, one per row of y."""
    return np.sum((y @ inverse) * y, axis=1)


def llr(y, c, theta, inverse):
    """LLR of half-spaces: max(y . theta - c, 0)^2 / (2 ||y||^2), 0 if y = 0."""
    gap = np.maximum(y @ theta - c, 0.0)
    norm = squared_norms(y, inverse)
    return np.divide(gap**2, 2.0 * norm, out=np.zeros(len(y)), where=norm > 0)


def gradients(phi, y, c, theta, inverse):
    """(phi_k . (theta - lambda_p))^2 / 2, [P, K].

    lambda_p is the closest point of hyperplane p (theta if y = 0).
    """
    norm = squared_norms(y, inverse)
    scale = np.divide(y @ theta - c, norm, out=np.zeros(len(y)), where=norm > 0)
    return (scale[:, None] * (y @ inverse @ phi.T)) ** 2 / 2.0
