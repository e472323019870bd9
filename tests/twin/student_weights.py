"""The twin of Track-and-Stop with unknown variances.

H_p(w) of a pair is the least over u of w_a log(1 + (m_a - u)^2/v_a)/2 plus the same of b.
The least is taken over the real roots of the cubic in u. w* comes from sequential quadratic
programs, certified by a linear program over the gradients.
"""

import math

import numpy as np

from tests.twin import weighing
from tests.twin.solver import maximin
from tests.twin.unknown_variance import half_log


class Problem(weighing.Problem):
    """Pieces, values of H and gradients at means and variances that `look` sets."""

    def __init__(self, spec, K):
        super().__init__(spec, K, None, np.ones(K))

    def look(self, variances):
        self.variances = variances

    def closest(self, label, weights, means):
        i, k = label
        a, b = float(means[i]), float(means[k])
        v, w = self.variances.tolist(), weights.tolist()
        if not (a > b and v[i] > 0 and v[k] > 0):
            return {}
        gap, p, q = a - b, w[i], w[k]  # u = b + gap x
        far, near = v[i] / gap**2, v[k] / gap**2
        roots = b + gap * np.roots([p + q, -p - 2 * q, p * near + q * (1 + far), -p * near])
        real = np.clip(roots[np.abs(roots.imag) < 1e-7 * (a - b)].real, b, a)
        cost = w[i] * half_log(a, v[i], real) + w[k] * half_log(b, v[k], real)
        u = float(real[np.argmin(cost)])
        return {int(i): u, int(k): u}

    def gradient(self, label, weights, means):
        slope = np.zeros(self.K)
        for arm, u in self.closest(label, weights, means).items():
            slope[arm] = half_log(float(means[arm]), self.variances[arm], u)
        return slope

    def value(self, label, weights, means):
        return float(weights @ self.gradient(label, weights, means))

    def weights(self, means, labels):
        """w*, or None where the gradients there do not certify H* to 1e-6."""
        even = np.full(self.K, 1 / self.K)
        least = self.ratios(labels, even, means).min()
        w = weighing.polished(self, means, labels, even, least)
        inside = np.maximum(w, weighing.FLOOR)
        cuts = np.array([self.gradient(label, inside, means) for label in labels])
        upper, value = maximin(cuts)[1], self.ratios(labels, inside, means).min()
        return w if upper <= (1 + 1e-6) * value else None


def choice(own, counts, means, t, labels):
    """The arm of D-tracking, and whether it is the only right one up to rounding.

    Exploration "wrapper"; t is the time of this sample. None where w* is not certified.
    """
    starved = counts <= math.sqrt(t - 1) - own.K / 2
    w = starved / starved.sum() if starved.any() else own.weights(means, labels)
    if w is None:
        return None, False
    due = counts - (t - 1) * w
    near = np.flatnonzero(due <= due.min() + 1e-4)
    # Uniform weights over starved arms tie exactly where their counts are equal.
    sure = near.size == 1 or bool(starved[near].all() and np.ptp(counts[near]) == 0)
    return int(near[0]), sure
