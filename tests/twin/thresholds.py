"""Section 3: thresholds. `constants` are c1, c2 and x0 of section 6, if known."""

import numpy as np


def heuristic(t, delta):
    """log((1 + t)/delta)."""
    return np.log((1.0 + t) / delta)


heuristic.constants = (1.0, np.log(3.0) / np.log(2.0), 1.0)


def gk16(t, delta):
    """log((1 + log t)/delta)."""
    return np.log((1.0 + np.log(t)) / delta)
