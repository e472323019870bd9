"""Rewards of independent arms in plain NumPy float64: draws, what a mean costs to move, pieces.

Section 2 and "Reward families" of the definitions. Indices are 0-based, ties go to the lowest
index, answers are bool [K]. The label of a piece is (i, k) for {mu_k >= mu_i + slack}; a
reference is number K. For thresholding it is (k, s): {mu_k <= level} for s = 1 and
{mu_k >= level} for s = 0.

Everything is computed from an arm's rewards, one piece after the other: divergences in the
textbook's form or a series, interval ends by bisection, closest points by bisection.
"""

import math

import numpy as np
import scipy.stats


def g(r):
    """(1 + r) log(1 + r) - r, r >= -1; a series below 0.01."""
    if abs(r) < 0.01:
        return r**2 * (1/2 - r/6 + r**2/12 - r**3/20 + r**4/30 - r**5/42 + r**6/56)
    return (1 + r) * math.log(1 + r) - r if r > -1 else 1.0


def itakura(x, y):
    """x/y - 1 - log(x/y); a series in (x - y)/y below 0.01."""
    if x == 0 or y == 0:
        return math.inf
    r = (x - y) / y
    if abs(r) < 0.01:
        return r**2 * (1/2 - r/3 + r**2/4 - r**3/5 + r**4/6 - r**5/7 + r**6/8)
    return x / y - 1 - math.log(x / y)


def poisson(x, y):
    """P(x, y) = y g((x - y)/y); inf at y = 0, or 0 if x is 0 too."""
    if y == 0:
        return math.inf if x > 0 else 0.0
    return y * g((x - y) / y)


class World:
    """A kind of reward with one unknown an arm, of costs c_k: N pulls count as N/c_k."""

    normal = False  # whether its noise is normal; else uniform
    low, high = -math.inf, math.inf
    pulls = 1  # initial pulls of each arm

    def __init__(self, costs=None):
        self.costs = costs

    def cost(self, K):
        return np.ones(K) if self.costs is None else np.asarray(self.costs, float)

    def weights(self, counts):
        """What losses are times: N/c."""
        return counts / self.cost(len(counts))

    def loss(self, seen, k, u):
        """d(m_k, u)."""
        return self.divergence(float(seen.means[k]), float(u))

    def apart(self, seen, i, k, slack):
        return float(seen.means[i]) - float(seen.means[k]) + slack > 0

    def meet(self, seen, i, k, w, slack):
        """The means of both arms at the closest point of {mu_k >= mu_i + slack}."""
        a, b = float(seen.means[i]), float(seen.means[k])
        most = math.nextafter(self.high, -math.inf) if math.isfinite(self.high) else math.inf
        if not slack:
            u = min(max(b + (a - b) * w[i] / (w[i] + w[k]), b), a, most)
            return u, u
        low = max(b - slack, self.low)
        high = max(min(a, self.high - slack), low)
        for _ in range(200):
            x = low + (high - low) / 2
            force = w[i] * (x - a) * self.variance(x + slack)
            if force + w[k] * (x + slack - b) * self.variance(x) < 0:
                low = x
            else:
                high = x
        x = low + (high - low) / 2
        return x, min(x + slack, most)

    def bound(self, seen, k, radius, up):
        """The mean furthest from m_k, upwards or downwards, with a loss of at most radius."""
        mean, end = float(seen.means[k]), self.high if up else self.low
        if not math.isfinite(end):
            step = 1.0 if up else -1.0
            while self.loss(seen, k, mean + step) <= radius:
                step *= 2
            end = mean + step
        inner, outer = mean, end
        for _ in range(200):
            before, middle = (inner, outer), inner + (outer - inner) / 2
            if self.loss(seen, k, middle) <= radius:
                inner = middle
            else:
                outer = middle
            if (inner, outer) == before:
                break
        return inner


class Bernoulli(World):
    """d(x, y) = P(x, y) + P(1 - x, 1 - y); 1 where the noise is below the mean."""

    low, high = 0.0, 1.0

    def divergence(self, x, y):
        return poisson(x, y) + poisson(1 - x, 1 - y)

    def variance(self, y):
        return y * (1 - y)

    def draw(self, mu, k, u):
        return float(u < mu)


class Poisson(World):
    """d(x, y) = P(x, y); rewards are quantiles."""

    low = 0.0

    def divergence(self, x, y):
        return poisson(x, y)

    def variance(self, y):
        return y

    def draw(self, mu, k, u):
        return float(max(scipy.stats.poisson.ppf(u, mu), 0)) if mu > 0 else 0.0


class Exponential(World):
    """d(x, y) = x/y - 1 - log(x/y)."""

    low = 0.0

    def divergence(self, x, y):
        return itakura(x, y)

    def variance(self, y):
        return y**2

    def draw(self, mu, k, u):
        return max(-mu * math.log1p(-u), 1e-300)


class Gaussian(World):
    """d(x, y) = (x - y)^2/2, of costs std^2."""

    normal = True

    def __init__(self, std=None):
        super().__init__(None if std is None else np.square(std))

    def divergence(self, x, y):
        return (x - y) ** 2 / 2

    def variance(self, y):
        return 1.0

    def draw(self, mu, k, z):
        return mu + (1.0 if self.costs is None else math.sqrt(self.costs[k])) * z


WORLDS = {"bernoulli": Bernoulli(), "poisson": Poisson(), "exponential": Exponential(),
          "gaussian": Gaussian()}  # fmt: skip
"""Of equal costs."""


class UnknownVariance(World):
    """log(1 + (m - u)^2/v)/2, times N - 1 or N: f degrees of freedom."""

    normal, pulls = True, 2

    def __init__(self, std, degrees="free"):
        super().__init__()
        self.std, self.less = std, 1.0 if degrees == "free" else 0.0

    def weights(self, counts):
        return counts - self.less

    def draw(self, mu, k, z):
        return mu + self.std[k] * z

    def loss(self, seen, k, u):
        v = seen.variances[k]
        return float(np.log1p((seen.means[k] - u) ** 2 / v) / 2) if v > 0 else 0.0

    def apart(self, seen, i, k, slack):
        known = seen.variances[i] > 0 and seen.variances[k] > 0
        return known and super().apart(seen, i, k, slack)

    def meet(self, seen, i, k, w, slack):
        """The least of the roots of the pair's cubic, which are eigenvalues here."""
        (a, b), gap = seen.means[[i, k]], seen.means[i] - seen.means[k]
        A, B = seen.variances[[i, k]] / gap**2
        # w_i (s - 1)(s^2 + B) + w_k s ((s - 1)^2 + A) = 0 for u = m_k + s gap
        cubic = np.array([w[i] + w[k], -(w[i] + 2 * w[k]), w[i] * B + w[k] * (1 + A), -w[i] * B])
        shares = np.clip(np.roots(cubic).real, 0, 1)
        u = b + gap * shares
        cost = w[i] * np.log1p((a - u) ** 2 / seen.variances[i])
        cost = cost + w[k] * np.log1p((b - u) ** 2 / seen.variances[k])
        u = u[np.argmin(cost)]
        return u, u

    def bound(self, seen, k, radius, up):
        """m -+ sqrt(v (exp(2 radius) - 1)); infinite where v = 0."""
        if not (seen.variances[k] > 0 and np.isfinite(radius)):
            return math.inf if up else -math.inf
        reach = math.sqrt(seen.variances[k] * math.expm1(2 * radius))
        return seen.means[k] + (reach if up else -reach)


class Problem:
    """("bai",), ("topm", m), ("osi", level), ("slack", epsilon) or ("reference", level)."""

    def __init__(self, spec, K):
        self.kind, self.K = spec[0], K
        self.m = spec[1] if self.kind == "topm" else 1
        self.level = spec[1] if self.kind in ("osi", "reference") else None
        self.slack = spec[1] if self.kind == "slack" else 0.0
        self.candidates = K + (self.kind == "reference")

    def answer(self, means):
        if self.kind == "osi":
            return means >= self.level
        answer = np.zeros(self.K, bool)
        if self.kind != "reference" or means.max() >= self.level:
            answer[np.argsort(-means, kind="stable")[: self.m]] = True
        return answer

    def pieces(self, answer, means=None):
        """Labels of an answer's pieces: int [Q, 2], those of larger means first with means."""
        if self.kind == "osi":
            return np.column_stack([np.arange(self.K), answer])
        whole = np.append(answer, not answer.any()) if self.kind == "reference" else answer
        inside, outside = np.flatnonzero(whole), np.flatnonzero(~whole)
        if means is not None and self.m > 1:
            inside = inside[np.argsort(-means[inside], kind="stable")]
        return np.array([(i, k) for i in inside for k in outside])

    def ordered_pairs(self):
        n = self.candidates
        return np.array([(i, k) for i in range(n) for k in range(n) if i != k])

    def right(self, means):
        """Answers, as arms, that no piece of cost 0 contradicts."""
        return np.flatnonzero(means - means.max() + self.slack > 1e-9)


class Seen:
    """Estimates and pulls of one check, and what pieces cost there."""

    def __init__(self, world, problem, counts, means, variances=None):
        self.world, self.problem = world, problem
        self.counts, self.means, self.variances = counts, means, variances

    def per_cost(self, weights):
        """Weights of pulls over the costs."""
        return weights / self.world.cost(self.problem.K)

    def closest(self, label, w):
        """Arms and their means at the closest point of a piece; {} if the piece costs nothing."""
        (i, k), problem, m = label, self.problem, self.means
        if problem.kind == "osi":
            away = m[i] > problem.level if k else m[i] < problem.level
            return {int(i): problem.level} if away else {}
        if problem.kind == "reference" and problem.K in (i, k):
            away = m[i] > problem.level if k == problem.K else m[k] < problem.level
            return {int(min(i, k)): problem.level} if away else {}
        if not self.world.apart(self, i, k, problem.slack):
            return {}
        u, v = self.world.meet(self, i, k, w, problem.slack)
        return {int(i): u, int(k): v}

    def value(self, label, weights=None):
        """The LLR at the counts, or H at weights [K] of pulls."""
        w = self.world.weights(self.counts) if weights is None else self.per_cost(weights)
        found = self.closest(label, w)
        return float(sum(w[k] * self.world.loss(self, k, u) for k, u in found.items()))

    def values(self, labels, weights=None):
        return np.array([self.value(label, weights) for label in labels])

    def gradient(self, label, weights):
        """dH/dw: [K]."""
        slope = np.zeros(self.problem.K)
        for k, u in self.closest(label, self.per_cost(weights)).items():
            slope[k] = self.world.loss(self, k, u)
        return self.per_cost(slope)

    def bounds(self, level):
        """L and U of every arm: [2, K]."""
        with np.errstate(divide="ignore"):
            radii = level / self.world.weights(self.counts)
        ends = [[self.world.bound(self, k, r, up) for k, r in enumerate(radii)] for up in (0, 1)]
        return np.array(ends)
