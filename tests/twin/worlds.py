"""Answers and their pieces (section 2); what is asked of rewards; linear Gaussian ones.

A `World` is an instance with its truth: it draws rewards and says what is seen. A `Seen` is
the data of one check (section 1, step 1): estimates, LLRs, information at weights, bounds.
"""

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
        self.several = self.kind == "topm" or (self.slack > 0 and self.kind != "osi")

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


class Rewards:
    """The rewards that have entered, by arm."""

    def __init__(self, K):
        self.all = [[] for _ in range(K)]
        self.counts, self.sums = np.zeros(K, int), np.zeros(K)

    def enter(self, k, reward):
        self.all[k].append(reward)
        self.counts[k] += 1
        self.sums[k] += reward

    @property
    def averages(self):
        return self.sums / self.counts


class World:
    """An instance of K arms; `prices` are the costs of their pulls, None for none.

    `draw(k, noise)` is a reward of arm k, in units of the run. `seen(pieces, rewards, counts)`
    is a Seen of rewards and the counts of all pulls, `truth(pieces)` one of the truth.
    """

    normal = True  # whether its noise is normal; else uniform
    initial = 1  # pulls of each arm at the start
    scale = 1.0  # of rewards, in units of the run
    K: int
    prices = None

    def pieces(self, spec):
        """The pieces of a problem, in units of the run."""
        return Pieces(spec, self.K)

    def spanner(self):
        """The arms that LazyTaS explores in turn, and its c0."""
        return np.arange(self.K), 1 / np.sqrt(self.K)


class Seen:
    """The data of a check. Labels are int [Q, 2], weights [K] are shares of the cost.

    `values(labels, weights=None)` are LLRs at the counts, or H at weights: [Q].
    `gradients(labels, weights)` are dH/dw at weights: [Q, K].
    """

    exact = False  # whether ties on paper tie to the last digit; w* of best arm and signs too

    def __init__(self, world, pieces, counts, means, averages):
        self.world, self.pieces, self.counts = world, pieces, counts
        self.means, self.averages = means, averages
        self.t = None if counts is None else int(counts.sum())

    @property
    def candidates(self):
        """The means of what answers are made of."""
        return self.means

    @property
    def answer(self):
        return self.pieces.answer(self.candidates)

    def least(self):
        """What LazyTaS compares with c0 sqrt(t)."""
        return self.counts[self.world.spanner()[0]].min()

    def per_price(self, x):
        return x if self.world.prices is None else x / self.world.prices

    def shares(self, w):
        """The shares of the pulls where w are those of the cost."""
        v = self.per_price(w)
        return w if self.world.prices is None else v / v.sum()


class Linear(World):
    """Rewards N(phi_k . theta, noise_std^2); everything is in units of noise_std."""

    def __init__(self, arms, theta, noise_std=1.0, ridge=1.0, prices=None):
        self.phi, self.theta = np.asarray(arms, float), np.asarray(theta, float) / noise_std
        self.scale, self.ridge, self.prices = noise_std, ridge, prices
        self.K, self.d = self.phi.shape
        self.mu = self.phi @ self.theta

    def pieces(self, spec):
        levels = spec[0] in ("osi", "reference") and len(spec) > 1
        return super().pieces((spec[0], *np.divide(spec[1:], self.scale)) if levels else spec)

    def draw(self, k, noise):
        return self.mu[k] + noise

    def seen(self, pieces, rewards, counts):
        matrix = self.design(rewards.counts, self.ridge)
        theta = np.linalg.inv(matrix) @ (self.phi.T @ rewards.sums)
        return LinearSeen(self, pieces, counts, theta, rewards.averages)

    def truth(self, pieces):
        return LinearSeen(self, pieces, None, self.theta, None)

    def design(self, weights, ridge=0.0):
        return ridge * np.eye(self.d) + (self.phi.T * weights) @ self.phi

    def spanner(self):
        found = []
        for k in range(self.K):
            if np.linalg.matrix_rank(self.phi[[*found, k]]) > len(found):
                found.append(k)
        least = np.linalg.eigvalsh(self.phi[found].T @ self.phi[found])[0]
        return np.array(found), least / np.sqrt(self.d)


class LinearSeen(Seen):
    """theta_hat and V; a piece is the half-space {lambda : y . lambda <= c}."""

    def __init__(self, world, pieces, counts, theta, averages):
        super().__init__(world, pieces, counts, world.phi @ theta, averages)
        self.theta, self.phi = theta, world.phi
        if counts is not None:
            self.V = world.design(counts, world.ridge)
            self.inverse = np.linalg.inv(self.V)

    @property
    def z(self):
        """The features of what answers are made of: [P, d]."""
        return self.phi if self.pieces.items is None else self.pieces.items

    @property
    def candidates(self):
        return self.z @ self.theta

    def halfspaces(self, labels):
        """Directions y [Q, d] and offsets c [Q]."""
        return halfspaces(self.pieces, self.z, labels)

    def norms(self, y):
        """||y||_{V^-1}: [Q]."""
        return np.sqrt(squared_norms(y, self.inverse))

    def _inverse(self, weights):
        return np.linalg.inv(self.world.design(self.per_price(weights)))

    def values(self, labels, weights=None):
        y, c = self.halfspaces(labels)
        inverse = self.inverse if weights is None else self._inverse(weights)
        gap = np.maximum(y @ self.theta - c, 0.0)
        norm = squared_norms(y, inverse)
        return np.divide(gap**2, 2.0 * norm, out=np.zeros(len(y)), where=norm > 0)

    def gradients(self, labels, weights):
        """(phi_k . (theta - lambda_p))^2/2, lambda_p the closest point of hyperplane p."""
        (y, c), inverse = self.halfspaces(labels), self._inverse(weights)
        norm = squared_norms(y, inverse)
        scale = np.divide(y @ self.theta - c, norm, out=np.zeros(len(y)), where=norm > 0)
        return self.per_price((scale[:, None] * (y @ inverse @ self.phi.T)) ** 2 / 2.0)

    def least(self):
        return np.linalg.eigvalsh(self.V)[0]

    def bounds(self, level):
        """R/N -+ sqrt(2 level/N): [2, K]."""
        radius = np.sqrt(2.0 * level / self.counts)
        return np.array([self.averages - radius, self.averages + radius])


def halfspaces(pieces, z, labels):
    """y [Q, d] and c [Q] of the pieces; z [P, d] are the features of candidates."""
    first, second = labels[:, 0], labels[:, 1]
    if pieces.kind == "osi":
        sign = 2.0 * second - 1.0
        return sign[:, None] * z[first], sign * pieces.level - pieces.slack
    sign = np.zeros(len(labels))
    if pieces.kind == "reference":  # a candidate without features, the last one
        z = np.vstack([z, np.zeros(z.shape[1])])
        sign = 1.0 * (second == pieces.K) - 1.0 * (first == pieces.K)
    return z[first] - z[second], sign * pieces.level - pieces.slack


def squared_norms(y, inverse):
    """||y||^2 in the metric of `inverse`, one per row of y."""
    return np.sum((y @ inverse) * y, axis=1)
