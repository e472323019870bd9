"""Section 3: thresholds. `constants` are c1, c2 and x0 of section 6, if known."""

import numpy as np


def heuristic(t, delta):
    """log((1 + t)/delta)."""
    return np.log((1.0 + t) / delta)


heuristic.constants = (1.0, np.log(3.0) / np.log(2.0), 1.0)


def gk16(t, delta):
    """log((1 + log t)/delta)."""
    return np.log((1.0 + np.log(t)) / delta)


def linear(d, L, S, ridge=1.0):
    """(sqrt(log(1/delta) + (d/2) log(1 + t L^2/(ridge d))) + S sqrt(ridge/2))^2."""

    def beta(t, delta):
        width = np.log(1.0 / delta) + d / 2.0 * np.log(1.0 + t * L**2 / (ridge * d))
        return (np.sqrt(width) + S * np.sqrt(ridge / 2.0)) ** 2

    return beta


def loglog(C=1.0, C_prime=1.0):
    """f(C' t^2/delta) with f(x) = log x + C log log x."""

    def beta(t, delta):
        x = C_prime * float(t) ** 2 / delta
        return np.log(x) + C * np.log(np.log(x))

    beta.constants = (2.0, 2.0 * (C + 1.0), np.exp(2.0) / C_prime)
    return beta
