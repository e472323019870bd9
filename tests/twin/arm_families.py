"""Families of the twin: Poisson, exponential, and Gaussian rewards with known variances.

Divergences are the textbook's forms, bounds are found by bisection, and a Poisson reward
by summing probabilities. n_k = N_k/c_k, c_k the cost of arm k.
"""

import math

import numpy as np

from tests.twin import families


class Family:
    """A family of K arms: the divergence, a draw, and costs."""

    low, cost = 0.0, 1.0

    def costs(self, K):
        return np.broadcast_to(self.cost, K)

    def problem(self, spec, K):
        return Problem(spec, K, self)

    def bound(self, mean, radius, sign):
        """The mean furthest from `mean`, upwards for sign = 1, with d(mean, .) <= radius."""
        step = 1.0
        while mean + sign * step > self.low and self.d(mean, mean + sign * step) <= radius:
            step *= 2
        inner, outer = mean, max(mean + sign * step, self.low)
        for _ in range(100):
            middle = inner + (outer - inner) / 2
            if self.d(mean, middle) <= radius:
                inner = middle
            else:
                outer = middle
        return inner


class Poisson(Family):
    """d(x, y) = x log(x/y) - x + y."""

    def d(self, x, y):
        if y == 0:
            return math.inf if x > 0 else 0.0
        return (x * math.log(x / y) if x > 0 else 0.0) - x + y

    def draw(self, arm, mu, u):
        """The least k with P(X > k) < 1 - u."""
        masses = [math.exp(-mu)]
        while masses[-1] > 1e-30 or len(masses) <= mu:
            masses.append(masses[-1] * mu / len(masses))
        k, tail = len(masses) - 1, 0.0  # P(X > k)
        while k > 0 and tail + masses[k] < 1 - u:
            tail += masses[k]
            k -= 1
        return float(k)


class Exponential(Family):
    """d(x, y) = x/y - 1 - log(x/y)."""

    def d(self, x, y):
        return x / y - 1 - math.log(x / y) if y > 0 else math.inf

    def draw(self, arm, mu, u):
        return max(-mu * math.log1p(-u), 1e-300)


class Gaussian(Family):
    """d(x, y) = (x - y)^2/2, with costs std^2."""

    low = -math.inf

    def __init__(self, std):
        self.std = np.array(std)
        self.cost = self.std**2

    def d(self, x, y):
        return (x - y) ** 2 / 2

    def draw(self, arm, mu, z):
        return float(mu + self.std[arm] * z)


class Problem(families.Problem):
    """The same pieces, with the family's divergence and costs."""

    def __init__(self, spec, K, family):
        super().__init__(spec, K)
        self.family, self.costs = family, family.costs(K)

    def bounds(self, counts, means, beta):
        """L and U of every arm: [2, K]."""
        radii = beta * self.costs / counts
        return np.array([
            [self.family.bound(m, r, sign) for m, r in zip(means, radii, strict=True)]
            for sign in (-1, 1)
        ])  # fmt: skip

    def ratios(self, labels, counts, means):
        n, m, d = counts / self.costs, means.tolist(), self.family.d
        if self.kind == "osi":
            away = [m[k] > self.level if s else m[k] < self.level for k, s in labels]
            return np.array([
                n[k] * d(m[k], self.level) if other else 0.0
                for (k, _), other in zip(labels, away, strict=True)
            ])  # fmt: skip
        found = []
        for i, k in labels:
            u = (n[i] * m[i] + n[k] * m[k]) / (n[i] + n[k])
            found.append(n[i] * d(m[i], u) + n[k] * d(m[k], u) if m[i] > m[k] else 0.0)
        return np.array(found)
