"""Textbook information of families, in NumPy, and random instances."""

import numpy as np
from scipy.special import xlogy

from jaxelim.families import Bernoulli, Exponential, Gaussian, Poisson
from jaxelim.problems import Thresholding

STD = (1.0, 2.0, 0.5, 1.5, 0.8)


def poisson(x, y):
    """x log(x/y) - x + y."""
    return xlogy(x, x) - xlogy(x, y) - x + y


DIVERGENCE = {
    "bernoulli": lambda x, y: poisson(x, y) + poisson(1 - x, 1 - y),
    "poisson": poisson,
    "exponential": lambda x, y: x / y - 1 - np.log(x / y),
    "gaussian-by-arm": lambda x, y: (x - y) ** 2 / 2,
}
FAMILIES = {one.name: one for one in (Bernoulli(), Poisson(), Exponential(), Gaussian(STD))}


def costs(family, K):
    """c_k: [K]."""
    return np.square(family.std) if isinstance(family, Gaussian) else np.ones(K)


def pieces(problem, means):
    """The pieces of the answer, in order: (a, b), or (k, level)."""
    K = len(means)
    if isinstance(problem, Thresholding):
        return [(k, problem.level) for k in range(K)]
    order = np.argsort(-means, kind="stable")
    m = getattr(problem, "m", 1)
    return [(a, b) for a in order[:m] for b in np.sort(order[m:])]


def information(family, problem, means, weights):
    """H_p(w) [P] and dH_p/dw_k [P, K], by the formulas."""
    d, c = DIVERGENCE[family.name], costs(family, len(means))
    n, values, slopes = weights / c, [], []
    for a, b in pieces(problem, means):
        slope = np.zeros(len(means))
        if isinstance(problem, Thresholding):
            slope[a] = d(means[a], b) / c[a]
        else:
            u = (n[a] * means[a] + n[b] * means[b]) / (n[a] + n[b])
            slope[a], slope[b] = d(means[a], u) / c[a], d(means[b], u) / c[b]
        values.append(weights @ slope)
        slopes.append(slope)
    return np.array(values), np.array(slopes)


def means_of(family, problem, seed, size, edges=True):
    """Means [size, 5] without ties: apart by 0.01, and by 0.02 from the level 0.43."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < size:
        m = rng.uniform(0.05, 0.95, 5)
        if edges and family.name in ("bernoulli", "poisson") and len(found) % 2:
            m[rng.integers(5)] = 0.0
            if family.name == "bernoulli" and len(found) % 4 == 1:
                m[np.argmax(m)] = 1.0
        if np.diff(np.sort(m)).min() > 0.01 and np.abs(m - 0.43).min() > 0.02:
            found.append(m)
    return np.array(found)
