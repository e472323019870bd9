"""Logistic rewards.

ell(theta) = sum_k S_k s_k - N_k log(1 + exp(s_k)) - ridge ||theta||^2/2, s = Phi theta.
Each maximum comes from Newton steps that are halved until ell rises; over a boundary
y . theta = c, from the same steps in its null space. An LLR is the difference of two
maxima, and H_p(w) that of the likelihood at weights, without a ridge.
"""

import numpy as np
import scipy.linalg
import scipy.optimize

from tests.twin.worlds import Linear, LinearSeen, Seen

RIDGE = 1e-3


def mean(scores):
    """1/(1 + exp(-s))."""
    return np.exp(-np.logaddexp(0, -scores))


NODES, SHARES = (np.polynomial.legendre.leggauss(40) + np.array([[1], [0]])) / 2


def divergences(x, y):
    """d of the means at scores x and y: the integral over s from x to y of (y - s) mean'(s) ds.

    Quadrature where they are near, as logarithms of both probabilities would cancel.
    """
    p, h = mean(x), y - x
    ones, zeros = np.logaddexp(0, -y) - np.logaddexp(0, -x), np.logaddexp(0, y) - np.logaddexp(0, x)
    between = mean(x + np.multiply.outer(NODES, h))
    near = h**2 * np.tensordot(SHARES * (1 - NODES), between * (1 - between), 1)
    return np.where(np.abs(h) < 1, near, p * ones + (1 - p) * zeros)


def value(arms, counts, ones, theta, ridge=RIDGE):
    """ell(theta)."""
    scores = arms @ theta
    return ones @ scores - counts @ np.logaddexp(0, scores) - ridge * theta @ theta / 2


def climb(arms, counts, ones, theta, ridge=RIDGE, basis=None):
    """The maximum of ell over theta + the span of the columns of `basis`, all of R^d for None."""
    basis = np.eye(arms.shape[1]) if basis is None else basis
    now = value(arms, counts, ones, theta, ridge)
    for _ in range(200):
        p = mean(arms @ theta)
        slope = basis.T @ (arms.T @ (ones - counts * p) - ridge * theta)
        inside = arms @ basis
        curvature = (inside.T * (counts * p * (1 - p))) @ inside + ridge * basis.T @ basis
        step = basis @ np.linalg.solve(curvature, slope)
        share = 1.0
        while True:
            new = value(arms, counts, ones, theta + share * step, ridge)
            if new >= now or np.abs(arms @ step).max() < 1e-4:  # there the steps converge
                break
            share /= 2
        theta, now = theta + share * step, new
        if np.abs(arms @ step).max() < 1e-11:
            return theta
    return theta


def closest(arms, counts, ones, theta_hat, y, c, ridge=RIDGE):
    """The maximum of ell over y . theta = c."""
    start = theta_hat + y * (c - y @ theta_hat) / (y @ y)
    if len(y) == 1:
        return start
    return climb(arms, counts, ones, start, ridge, scipy.linalg.null_space(y[None]))


def llr(arms, counts, ones, theta_hat, y, c, ridge=RIDGE):
    """The maximum of ell less that over {y . theta <= c}; 0 where theta_hat is inside."""
    if y @ theta_hat <= c:
        return 0.0
    other = closest(arms, counts, ones, theta_hat, y, c, ridge)
    return value(arms, counts, ones, theta_hat, ridge) - value(arms, counts, ones, other, ridge)


class Logistic(Linear):
    """Rewards 1 with probability 1/(1 + exp(-phi_k . theta)), else 0."""

    normal = False

    def __init__(self, arms, theta):
        super().__init__(arms, theta, ridge=RIDGE)
        self.mu, self.last = mean(self.phi @ self.theta), np.zeros(self.d)

    def pieces(self, spec):
        if spec[0] == "osi":
            spec = spec[0], np.log(spec[1] / (1 - spec[1]))
        return super().pieces(spec)

    def draw(self, k, noise):
        return float(noise < self.mu[k])

    def seen(self, pieces, rewards, counts):
        self.last = climb(self.phi, rewards.counts, rewards.sums, self.last)
        return LogisticSeen(self, pieces, counts, self.last, rewards)

    def truth(self, pieces):
        return LogisticSeen(self, pieces, None, self.theta)

    def spanner(self):
        return super().spanner()[0], 1 / np.sqrt(self.d)


class LogisticSeen(LinearSeen):
    """theta_hat, and the sums of ones; `means` are scores."""

    least = Seen.least

    def __init__(self, world, pieces, counts, theta, rewards=None):
        averages = None if rewards is None else rewards.averages
        super().__init__(world, pieces, counts, theta, averages)
        self.rewards = rewards

    def values(self, labels, weights=None):
        if weights is not None:
            return self.gradients(labels, weights) @ weights
        known = self.phi, self.rewards.counts, self.rewards.sums, self.theta
        return np.array([llr(*known, y, c) for y, c in self._boundaries(labels)])

    def gradients(self, labels, weights):
        """d(m_k, mu_k(lambda)) at the closest lambda; 0 where theta is inside."""
        slopes = np.zeros((len(labels), self.pieces.K))
        for slope, (y, c) in zip(slopes, self._boundaries(labels), strict=True):
            if y @ self.theta > c:
                ones = weights * mean(self.means)
                other = closest(self.phi, weights, ones, self.theta, y, c, ridge=0.0)
                slope[:] = divergences(self.means, self.phi @ other)
        return slopes

    def _boundaries(self, labels):
        return list(zip(*self.halfspaces(labels), strict=True))


def by_scipy(arms, counts, ones, y, c, ridge=RIDGE):
    """The same from two calls of SciPy, one of them with a linear constraint."""

    def cost(theta):
        return -value(arms, counts, ones, theta, ridge)

    def slope(theta):
        return -arms.T @ (ones - counts * mean(arms @ theta)) + ridge * theta

    def curvature(theta):
        p = mean(arms @ theta)
        return (arms.T * (counts * p * (1 - p))) @ arms + ridge * np.eye(len(theta))

    start = np.zeros(arms.shape[1]) + y * c / (y @ y)
    free = scipy.optimize.minimize(cost, start, jac=slope, hess=curvature, method="trust-exact",
                                   options={"gtol": 1e-11})  # fmt: skip
    if y @ free.x <= c:
        return 0.0
    line = scipy.optimize.LinearConstraint(y[None], c, c)
    bound = scipy.optimize.minimize(
        cost, start, jac=slope, hess=curvature, constraints=[line], method="trust-constr",
        options={"gtol": 1e-12, "xtol": 1e-14, "maxiter": 3000},
    )  # fmt: skip
    return bound.fun - free.fun
