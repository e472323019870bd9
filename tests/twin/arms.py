"""Independent arms of one unknown each: draws, what a mean costs to move, the closest point.

Section 2 and "Reward families". Everything is computed from an arm's rewards, one piece after
the other: divergences in the textbook's form or a series, ends of intervals and closest points
by bisection.
"""

import math

import numpy as np
import scipy.stats

from tests.twin.worlds import Seen, World


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


class Arms(World):
    """Arms of means mu [K]; N pulls count as N/variances, [K] or 1."""

    normal = False
    low, high = -math.inf, math.inf
    variances = 1.0

    def __init__(self, mu, prices=None):
        self.mu, self.K, self.prices = np.asarray(mu, float), len(mu), prices

    def seen(self, pieces, rewards, counts):
        return ArmSeen(self, pieces, counts, rewards.averages)

    def truth(self, pieces):
        return ArmSeen(self, pieces, None, self.mu)

    def weights(self, counts):
        """What losses are times in an LLR."""
        return counts / self.variances

    def loss(self, seen, k, u):
        """d(m_k, u)."""
        return self.divergence(float(seen.means[k]), float(u))

    def apart(self, seen, i, k):
        """Whether the piece {mu_k >= mu_i + slack} costs anything."""
        return float(seen.means[i]) - float(seen.means[k]) + seen.pieces.slack > 0

    def meet(self, seen, i, k, w):
        """The means of both arms at the closest point of {mu_k >= mu_i + slack}."""
        a, b, slack = float(seen.means[i]), float(seen.means[k]), seen.pieces.slack
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


class Stacks(Arms):
    """Recorded rewards in their order, of the class beside it: `type("..", (Stacks, Bernoulli))`.

    A used-up arm has a known mean: it does not move, and pieces between two such arms, or of one
    and a level, are decided.
    """

    def __init__(self, stacks):
        super().__init__([x.mean() for x in stacks])
        self.rewards, self.lengths = [list(x) for x in stacks], np.array([len(x) for x in stacks])

    def draw(self, k, noise):
        return self.rewards[k].pop(0)

    def used_up(self, counts):
        return counts >= self.lengths

    def meet(self, seen, i, k, w):
        known = self.used_up(seen.counts)
        (a, b), slack = seen.means[[i, k]], seen.pieces.slack
        return (b - slack, b) if known[k] else (a, a + slack) if known[i] else (
            super().meet(seen, i, k, w))

    def decided(self, pieces, labels, counts):
        """Which pieces compare used-up arms alone, or one with a level: [Q]."""
        known = np.append(self.used_up(counts), True)
        second = -1 if pieces.kind == "osi" else labels[:, 1]
        return known[labels[:, 0]] & known[second]

    def instead(self, seen, arm, labels):
        """The arm, or of the active piece of least evidence the less pulled that has rewards."""
        left = np.where(self.used_up(seen.counts), np.inf, seen.counts)
        if np.isfinite(left[arm]):
            return arm
        best = labels[np.argmin(seen.values(labels))]
        ends = best[:1] if seen.pieces.kind == "osi" else [k for k in best if k < seen.pieces.K]
        return min(ends, key=lambda k: left[k])


class Bernoulli(Arms):
    """d(x, y) = P(x, y) + P(1 - x, 1 - y); 1 where the noise is below the mean."""

    low, high = 0.0, 1.0

    @staticmethod
    def divergence(x, y):
        return poisson(x, y) + poisson(1 - x, 1 - y)

    def variance(self, y):
        return y * (1 - y)

    def draw(self, k, noise):
        return float(noise < self.mu[k])


class Poisson(Arms):
    """d(x, y) = P(x, y); rewards are quantiles."""

    low = 0.0
    divergence = staticmethod(poisson)

    def variance(self, y):
        return y

    def draw(self, k, noise):
        mu = self.mu[k]
        return float(max(scipy.stats.poisson.ppf(noise, mu), 0)) if mu > 0 else 0.0


class Exponential(Arms):
    """d(x, y) = x/y - 1 - log(x/y); rewards are quantiles."""

    low = 0.0
    divergence = staticmethod(itakura)

    def variance(self, y):
        return y**2

    def draw(self, k, noise):
        return max(-self.mu[k] * math.log1p(-noise), 1e-300)


class Gaussian(Arms):
    """d(x, y) = (x - y)^2/2, of variances std^2."""

    normal = True

    def __init__(self, mu, std=1.0, prices=None):
        super().__init__(mu, prices)
        self.std = np.broadcast_to(std, self.mu.shape)
        self.variances = np.square(self.std)

    @staticmethod
    def divergence(x, y):
        return (x - y) ** 2 / 2

    def variance(self, y):
        return 1.0

    def draw(self, k, noise):
        return self.mu[k] + self.std[k] * noise


class UnknownVariance(Arms):
    """log(1 + (m - u)^2/v)/2, times N - 1 or N: f degrees of freedom."""

    normal, initial = True, 2

    def __init__(self, mu, std, degrees="free"):
        super().__init__(mu)
        self.std, self.less = std, 1.0 if degrees == "free" else 0.0

    def seen(self, pieces, rewards, counts):
        seen = super().seen(pieces, rewards, counts)
        equal = np.array([len(set(x)) == 1 for x in rewards.all])
        seen.variances = np.where(equal, 0.0, [np.var(x) for x in rewards.all])
        return seen

    def weights(self, counts):
        return counts - self.less

    def draw(self, k, noise):
        return self.mu[k] + self.std[k] * noise

    def loss(self, seen, k, u):
        v = seen.variances[k]
        return float(np.log1p((seen.means[k] - u) ** 2 / v) / 2) if v > 0 else 0.0

    def apart(self, seen, i, k):
        known = seen.variances[i] > 0 and seen.variances[k] > 0
        return known and super().apart(seen, i, k)

    def meet(self, seen, i, k, w):
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


class ArmSeen(Seen):
    """Estimates of arms; `variances` [K] where these are unknown."""

    exact = True
    variances = None

    def __init__(self, world, pieces, counts, means):
        super().__init__(world, pieces, counts, means, means)

    def per_cost(self, weights):
        """Weights over the variances and the prices."""
        return self.per_price(weights) / self.world.variances

    def closest(self, label, w):
        """Arms and their means at the closest point of a piece; {} if the piece costs nothing."""
        (i, k), pieces, m = label, self.pieces, self.means
        if pieces.kind == "osi" or (pieces.kind == "reference" and pieces.K in (i, k)):
            above = k if pieces.kind == "osi" else k == pieces.K
            arm = int(i if pieces.kind == "osi" else min(i, k))
            edge = pieces.level - pieces.slack if above else pieces.level + pieces.slack
            away = m[arm] > edge if above else m[arm] < edge
            return {arm: edge} if away else {}
        if not self.world.apart(self, i, k):
            return {}
        return dict(zip((int(i), int(k)), self.world.meet(self, i, k, w), strict=True))

    def _cost(self, label, w):
        found = self.closest(label, w)
        return float(sum(w[k] * self.world.loss(self, k, u) for k, u in found.items()))

    def values(self, labels, weights=None):
        if isinstance(self.world, Stacks) and len(labels):
            costs = np.array([self._cost(x, self.world.weights(self.counts)) for x in labels])
            return np.where(self.world.decided(self.pieces, labels, self.counts), np.inf, costs)
        w = self.world.weights(self.counts) if weights is None else self.per_cost(weights)
        return np.array([self._cost(label, w) for label in labels])

    def gradients(self, labels, weights):
        slopes, w = np.zeros((len(labels), self.pieces.K)), self.per_cost(weights)
        for slope, label in zip(slopes, labels, strict=True):
            for k, u in self.closest(label, w).items():
                slope[k] = self.world.loss(self, k, u)
        return self.per_cost(slopes)

    def least(self):
        return (self.counts / self.world.variances).min()

    def bounds(self, level):
        with np.errstate(divide="ignore"):
            radii = level / self.world.weights(self.counts)
        ends = [[self.world.bound(self, k, r, up) for k, r in enumerate(radii)] for up in (0, 1)]
        return np.array(ends)
