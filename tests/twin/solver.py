"""Section 8: the optimal allocation, and the matrix game that it and FWS solve."""

import numpy as np
from scipy.optimize import linprog

from tests.twin.problems import gradients


def best_allocation(phi, y, c, theta, bonus=None, tolerance=1e-6, max_iterations=500):
    """max over the simplex of min_p H_p(w, theta) + w . bonus, by cutting planes.

    H_p(w) is the least value of a linear function of w over the points of the
    hyperplane. So each closest point gives an upper bound gradient . w, tight where it
    was taken. An LP maximizes the bounds' minimum. New bounds are taken halfway between
    the LP's point and the best w so far, which keeps V_w invertible. Only pieces within
    twice the least get one.

    Returns:
      w, its value, the LP's upper bound on the optimum, and iterations. The relative
      gap of value and bound is at most `tolerance`.

    Raises:
      ArithmeticError: the gap is larger after `max_iterations`.
    """
    K = len(phi)
    bonus = np.zeros(K) if bonus is None else bonus
    w, best_w, best = np.full(K, 1.0 / K), None, -np.inf
    cuts = np.zeros((0, K))
    for iteration in range(1, max_iterations + 1):
        grads = gradients(phi, y, c, theta, np.linalg.inv((phi.T * w) @ phi)) + bonus
        values = grads @ w
        if values.min() > best:
            best, best_w = values.min(), w
        cuts = np.vstack([cuts, grads[values <= 2.0 * values.min()]])
        point, upper = maximin(cuts)
        if upper - best <= tolerance * abs(upper):
            return best_w, best, upper, iteration
        w = 0.5 * (best_w + point)
    raise ArithmeticError(
        f"allocation between {best} and {upper} after {max_iterations} iterations"
    )


def maximin(payoffs):
    """Solve max over z in the simplex of min over rows of payoffs @ z; z and the value.

    It is a linear program. Payoffs are scaled to size 1, since the solver's tolerances
    are absolute.
    """
    rows, K = payoffs.shape
    scale = np.max(np.abs(payoffs))
    if scale == 0.0:
        return np.full(K, 1.0 / K), 0.0
    cost, total = np.append(np.zeros(K), -1.0), np.append(np.ones(K), 0.0)[None]
    below = np.column_stack([-payoffs / scale, np.ones(rows)])
    box = [(0.0, None)] * K + [(None, None)]
    # HiGHS sometimes fails at the tight tolerance; its default is the fallback.
    for tolerance in (1e-10, 1e-7):
        options = {
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
        }
        solved = linprog(
            cost, below, np.zeros(rows), total, [1.0], box, method="highs", options=options
        )
        if solved.x is not None:
            break
    else:
        raise ArithmeticError(solved.message)
    return solved.x[:K], solved.x[K] * scale
