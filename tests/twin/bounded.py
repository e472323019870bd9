"""Bounded rewards in plain NumPy: what bets have won, from the rewards themselves."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

LARGEST_EDGE = 0.98
BETS = 2.0 ** np.arange(-12, 6, 0.5)
SHARES = np.geomspace(1e-3, 1, 200)
"""Of the largest bet, among which `best` finds the best one."""


def kappa(edge):
    return 1 / 4 + edge / 5 + edge**2 / (6 * (1 - edge))


def moved(x, u, size):
    """sum_s (u - m_s), m_s the mean of what is left of a stack before each reward; 0 without."""
    s = np.arange(len(x))
    return 0.0 if size is None else np.sum((np.cumsum(x) - x - s * u) / (size - s))


def logarithm(x, u, bets, up, size=None):
    """The lower bounds on the stakes' logarithms of rewards x [N] in [0, 1]: [J].

    `size`: of the stack that they are drawn from without replacement.
    """
    sign = 1 if up else -1
    t = [np.sum((x - u) ** i) for i in range(5)]
    edge = bets * (u if up else 1 - u)
    by_powers = (
        sign * bets * t[1] - bets**2 * t[2] / 2 + sign * bets**3 * t[3] / 3
        - kappa(edge) * bets**4 * t[4]
    )  # fmt: skip
    share = x.mean() if up else 1 - x.mean()
    by_ends = len(x) * ((1 - share) * np.log1p(-edge) + share * np.log1p(bets - edge))
    return np.maximum(by_powers, by_ends) + sign * bets * moved(x, u, size)


def stake(x, u, bets, up, size=None):
    """The logarithm of the stake of each bet: [J], or a number."""
    bets, left = bets if up else np.negative(bets), np.zeros(len(x))
    if size is not None:
        left = (size * u - np.cumsum(x) + x) / (size - np.arange(len(x))) - u
        if not ((-u <= left) & (left <= 1 - u)).all():
            return np.full(np.shape(bets), np.inf)  # no stack of this mean begins so
    value = np.log1p(np.multiply.outer(bets, x - u)) - np.log1p(np.multiply.outer(bets, left))
    return np.sum(value, -1)


def best(x, u, up, exact=False, size=None):
    """The largest logarithm of a stake, or of its lower bound."""
    if (x.mean() <= u) if up else (x.mean() >= u):
        return 0.0
    edge = u if up else 1 - u
    high = (1 if exact else LARGEST_EDGE) / edge
    values = (stake if exact else logarithm)(x, u, SHARES * high * (1 - 1e-12), up, size)
    if not exact:
        share, more = (x.mean(), moved(x, u, size)) if up else (1 - x.mean(), -moved(x, u, size))
        bet = (share - edge) / (edge * (1 - edge))
        values = np.append(values, len(x) * divergence(share, edge) + bet * more)
    return max(values.max(), 0.0)


def divergence(m, u):
    yes = m * np.log(m / u) if m > 0 else 0.0
    return yes + ((1 - m) * np.log((1 - m) / (1 - u)) if m < 1 else 0.0)


def llr(a, b, slack=0.0, exact=False, points=200, size=None):
    """The least value over a fine grid of common means, of rewards a [N] and b [M]."""
    low, high = max(b.mean() - slack, 0), min(a.mean(), 1 - slack)
    if low >= high:
        return 0.0
    grid = low + (high - low) * (np.arange(points) + 0.5) / points
    return min(best(a, u, True, exact, size) + best(b, u + slack, False, exact, size) for u in grid)


def made(x, u, up, size=None):
    """The logarithms of all stakes; -inf for bets that are not made."""
    logs, allowed = np.full(len(BETS), -np.inf), BETS * (u if up else 1 - u) <= LARGEST_EDGE
    logs[allowed] = logarithm(x, u, BETS[allowed], up, size)
    return logs


def log_share(logs):
    """A 64th of the mean of stakes, as a logarithm."""
    return logsumexp(logs) - np.log(64 * len(BETS))


def log_e(a, b, slack=0.0, points=400, size=None):
    """The least logarithm of the mean of products of stakes, over a fine grid of means.

    A 64th of the whole is on each arm alone. Beyond m_b - slack and m_a it is bounded by that,
    where means of both arms in [0, 1] are there.
    """
    apart = np.abs(np.subtract.outer(np.arange(len(BETS)), np.arange(len(BETS))))
    shares = 2.0 ** (-apart / 2) / (3 + 2**1.5) / len(BETS) * (1 - 2 / 64)
    low, high = max(b.mean() - slack, 0), min(a.mean(), 1 - slack)
    values = []
    if low > 0:
        values.append(log_share(made(a, low, True, size)))
    if high < 1 - slack:
        values.append(log_share(made(b, high + slack, False, size)))
    for u in low + (high - low) * (np.arange(points) + 0.5) / points:
        of_a, of_b = made(a, u, True, size), made(b, u + slack, False, size)
        products = logsumexp(np.add.outer(of_a, of_b), b=shares)
        values.append(logsumexp([products, log_share(of_a), log_share(of_b)]))
    return min(values)


def kl_inf(points, probabilities, u, up):
    """KL_inf of a distribution in [0, 1], by SciPy."""
    x, u = (points, u) if up else (1 - points, 1 - u)
    if np.sum(probabilities * x) <= u:
        return 0.0
    def loss(bet):
        return -np.sum(probabilities * np.log(np.maximum(1 + bet * (x - u), 1e-300)))
    found = minimize_scalar(loss, bounds=(0, 1 / u), method="bounded", options=dict(xatol=1e-14))
    return max(-found.fun, -loss(1 / u))
