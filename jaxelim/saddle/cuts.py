"""The saddle point by linear programs over cuts, on the host: where steps do not reach the gap."""

from collections.abc import Callable

import numpy as np
import scipy  # its parts are imported on first use

_MOST_PROGRAMS = 100
_LEAST_WEIGHT = 1e-12
_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def cutting_planes(
    cuts: Callable, bonus: np.ndarray, start: np.ndarray, gap: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Maximise min_p H_p(w) + c . w by linear programs over cuts, on the host.

    Each step adds the cuts of all pieces at the solution of the linear program, and at its
    middle with the best weights so far. The program's dual is the mixture of the
    certificate.

    Args:
        cuts: gives values [Q] and slopes [Q, K] at weights [K], with the bonus.
        bonus: [K] c.
        start: [K] weights.
        gap: relative duality gap to stop at.

    Returns:
        Weights [K], a mixture [Q], the least value and the relative duality gap.
    """
    K = len(start)
    best, value, reached = start, -np.inf, np.inf
    known, places, mixture = np.zeros((0, K)), np.zeros(0, int), np.zeros(0)
    points = [start, np.full(K, 1 / K)]
    for _ in range(_MOST_PROGRAMS):
        for w in points:
            w = np.maximum(w, _LEAST_WEIGHT)
            w = w / w.sum()
            values, slopes = cuts(w)
            known = np.concatenate([known, slopes])
            places = np.concatenate([places, np.arange(len(values))])
            least = float(np.min(values) + bonus @ w)
            if least > value:
                best, value = w, least
        scale = value if value > 0 else 1.0
        rows = np.concatenate([-known / scale, np.ones((len(known), 1))], axis=1)
        program = scipy.optimize.linprog(
            [*[0.0] * K, -1.0], A_ub=rows, b_ub=np.zeros(len(rows)),
            A_eq=[[*[1.0] * K, 0.0]], b_eq=[1.0], bounds=[(0, None)] * K + [(None, None)],
            method="highs-ds", options=_TOLERANCES,
        )  # fmt: skip
        if program.status != 0:
            break
        dual = np.maximum(-program.ineqlin.marginals, 0)
        dual = dual / dual.sum()
        upper = float(np.max(dual @ known))
        if (upper - value) / scale < reached:
            reached = (upper - value) / scale
            mixture = np.bincount(places, dual, minlength=len(values))
        if reached <= gap:
            break
        w = program.x[:K]
        points = [w, (w + best) / 2]
    return best, mixture, value, max(reached, 0.0)
