"""Values of thresholds on the host, for checks and warnings."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxelim.cache import jitted

POINTS = 200
"""Times of every call, so that one compiled program serves all calls of a threshold."""


@jitted
def _compiled(threshold: Any, t: Any, delta: Any) -> Any:
    return threshold(t, delta)


def values(threshold: Callable, t: np.ndarray, delta: float) -> np.ndarray:
    """beta(t, delta) at up to `POINTS` times t [n]: [n], if the threshold keeps to its contract.

    Operation by operation each of its operations would be compiled by itself.

    Raises:
        Exception: whatever the threshold raises on traced arrays.
    """
    found = np.asarray(_compiled(threshold, np.resize(t, POINTS), np.full(POINTS, delta)))
    return found[: len(t)] if found.ndim and len(t) < POINTS else found
