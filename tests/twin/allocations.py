"""Section 8: w*, by cutting planes and quadratic programs; matrix games."""

import numpy as np
from scipy.optimize import linprog, minimize

FLOOR = 1e-12


def weights_of(seen, labels, last, active=None):
    """w* over the active pieces, and whether it is clear; `last` where it is not defined.

    `active` gives those of any answer; None: all are.
    """
    pieces, K = seen.pieces, seen.pieces.K
    if pieces.slack and pieces.kind != "osi":
        return slack_weights(seen, active or pieces.of)
    if len(labels) == 0:
        return last, True
    if pieces.slack:  # of each arm the side of larger d
        other = labels * [1, -1] + [0, 1]
        keep = seen.values(labels, np.ones(K)) >= seen.values(other, np.ones(K))
        labels = np.where(keep[:, None], labels, other)
    if seen.exact and pieces.kind == "osi":
        slopes = seen.values(labels, np.ones(K))
        w = np.zeros(K)
        w[labels[:, 0]] = slopes == 0 if slopes.min() == 0 else 1 / np.maximum(slopes, 1e-300)
        return w / w.sum(), True
    if (ties := seen.values(labels, np.ones(K)) == 0).any():
        if seen.exact and pieces.kind == "bai":  # the arms of the best mean share alike
            best = np.isin(np.arange(K), [labels[0, 0], *labels[ties, 1]])
            return best / best.sum(), True
        return last, True
    return piece_weights(seen, labels), True


def piece_weights(seen, labels, bonus=0.0, tolerance=1e-5):
    """The w of the largest min_p H_p(w) + w . bonus, by cutting planes, then by SLSQP.

    Each gradient bounds H_p(w) from above everywhere, and an LP maximizes the bounds' minimum.
    New bounds are taken halfway between its point and the best w so far.
    """
    K = seen.pieces.K
    cuts, w, best, best_w = np.zeros((0, K)), np.full(K, 1 / K), -1.0, None
    for _ in range(500):
        grads = seen.gradients(labels, np.maximum(w, FLOOR)) + bonus
        values = grads @ w
        if values.min() > best:
            best, best_w = values.min(), w
        cuts = np.vstack([cuts, grads[values <= 2 * values.min()]])
        point, upper = maximin(cuts)
        if upper - best <= tolerance * upper:
            return _polished(seen, labels, bonus, best_w, best)
        w = (best_w + point) / 2
    raise ArithmeticError(f"allocation between {best} and {upper}")


def _polished(seen, labels, bonus, w, value):
    """The most accurate w near the given one: maximise s subject to H_p(w) + w . bonus >= s."""
    K = seen.pieces.K

    def slopes(x):
        rows = (seen.gradients(labels, np.maximum(x[:K], FLOOR)) + bonus) / value
        return np.column_stack([rows, np.full(len(rows), -1.0)])

    total = {"type": "eq", "fun": lambda x: x[:K].sum() - 1,
             "jac": lambda x: np.append(np.ones(K), 0.0)}  # fmt: skip
    above = {"type": "ineq", "fun": lambda x: slopes(x) @ x, "jac": slopes}
    start, toward = np.append(w, 1.0), np.append(np.zeros(K), -1.0)
    found = minimize(
        lambda x: -x[K], start, jac=lambda _: toward, method="SLSQP", constraints=[total, above],
        bounds=[(0, 1)] * K + [(0, None)], options={"ftol": 1e-15, "maxiter": 200},
    )  # fmt: skip
    better = found.x[:K] / found.x[:K].sum()
    reached = (seen.gradients(labels, np.maximum(better, FLOOR)) + bonus) @ better
    return better if reached.min() >= value else w


def slack_weights(seen, active=None):
    """w* of the right answer of largest H*, ties to the lowest, and whether that is clear."""
    pieces, found = seen.pieces, []
    for answer in pieces.right(seen.means):
        labels = (active or pieces.of)(answer)
        w = piece_weights(seen, labels)
        mean = seen.means[answer].tolist() or [pieces.level]
        found.append((seen.values(labels, np.maximum(w, FLOOR)).min(), w, *mean))
    best = max(value for value, _, _ in found)
    near = [one for one in found if one[0] > best * (1 - 1e-6)]
    return near[0][1], len({mean for _, _, mean in near}) == 1


def maximin(payoffs):
    """Solve max over z in the simplex of min over rows of payoffs @ z; z and the value."""
    rows, K = payoffs.shape
    scale = np.max(np.abs(payoffs))
    if scale == 0.0:
        return np.full(K, 1.0 / K), 0.0
    cost, total = np.append(np.zeros(K), -1.0), np.append(np.ones(K), 0.0)[None]
    below = np.column_stack([-payoffs / scale, np.ones(rows)])
    box = [(0.0, None)] * K + [(None, None)]
    # HiGHS sometimes fails at the tight tolerance; its default is the fallback.
    for tolerance in (1e-10, 1e-7):
        options = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"),
                                tolerance)  # fmt: skip
        solved = linprog(cost, below, np.zeros(rows), total, [1.0], box, options=options)
        if solved.x is not None:
            break
    return solved.x[:K], solved.x[K] * scale


def unique(payoffs):
    """Whether only one z maximises the least entry of payoffs @ z over the simplex."""
    z, value = maximin(payoffs)
    slack, K = 1e-8 * np.abs(payoffs).max(), payoffs.shape[1]
    toward = np.random.default_rng(0).normal(size=K)
    ends = [
        linprog(sign * toward, -payoffs, np.full(len(payoffs), slack - value), np.ones((1, K)),
                [1.0], method="highs").x
        for sign in (1, -1)
    ]  # fmt: skip
    return all(end is not None and np.abs(end - z).max() < 1e-4 for end in ends)
