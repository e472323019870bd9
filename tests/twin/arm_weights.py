"""Optimal weights w* on independent arms, by bisection, cutting planes and quadratic programs."""

import numpy as np
from scipy.optimize import brentq, minimize

from tests.twin.solver import maximin

FLOOR = 1e-12


def best_arm_weights(seen, among):
    """w* of best arm over the arms `among`, by bisection on the runner-up's share.

    z_a = x_a/(1 + x_a) in (0, 1): the weight of a in u_a. Ties for the best share all.
    """
    world, means, K = seen.world, seen.means, seen.problem.K
    c = world.cost(K)
    i = max(among, key=lambda k: (means[k], -k))
    tied = [k for k in among if means[k] == means[i]]
    if len(tied) > 1:
        return np.isin(np.arange(K), tied) / len(tied)
    rivals = sorted((k for k in among if k != i), key=lambda k: -means[k])

    def parts(z, a):
        w = np.zeros(K)
        w[i], w[a] = 1 - z, z
        u, _ = world.meet(seen, i, a, w, 0.0)
        return world.loss(seen, i, u), world.loss(seen, a, u)

    def level(z, a):
        first, second = parts(z, a)
        return first + z / (1 - z) * second

    def shares(z_b):
        """z of every rival where the runner-up's is z_b."""
        found, y = {rivals[0]: z_b}, level(z_b, rivals[0])
        for a in rivals[1:]:
            if means[a] == means[rivals[0]]:
                found[a] = z_b
            else:
                found[a] = brentq(lambda z, a=a: level(z, a) - y, 0.0, z_b, xtol=1e-17, rtol=1e-15)
        return found

    def excess(z_b):
        ratios = {a: parts(z, a) for a, z in shares(z_b).items()}
        return sum(c[a] / c[i] * first / second for a, (first, second) in ratios.items()) - 1

    found = shares(brentq(excess, 1e-12, 1 - 1e-12, xtol=1e-17, rtol=1e-15))
    w = np.zeros(K)
    w[i] = c[i]
    for a, z in found.items():
        w[a] = c[a] * z / (1 - z)
    return w / w.sum()


def piece_weights(seen, labels, tolerance=1e-5):
    """w* over any pieces, by cutting planes, then by sequential quadratic programs.

    Each gradient bounds H from above everywhere.
    """
    K = seen.problem.K
    cuts, w, best, best_w = np.zeros((0, K)), np.full(K, 1 / K), -1.0, None
    for _ in range(500):
        grads = np.array([seen.gradient(label, np.maximum(w, FLOOR)) for label in labels])
        values = grads @ w
        if values.min() > best:
            best, best_w = values.min(), w
        cuts = np.vstack([cuts, grads[values <= 2 * values.min()]])
        point, upper = maximin(cuts)
        if upper - best <= tolerance * upper:
            return polished(seen, labels, best_w, best)
        w = (best_w + point) / 2
    raise ArithmeticError(f"between {best} and {upper}")


def polished(seen, labels, w, value):
    """The most accurate w near the given one: maximise s subject to H_p(w) >= s."""
    K = seen.problem.K

    def inside(x):
        return np.maximum(x[:-1], FLOOR)

    def grads(x):
        rows = [np.append(seen.gradient(label, inside(x)) / value, -1) for label in labels]
        return np.array(rows)

    total = {"type": "eq", "fun": lambda x: x[:-1].sum() - 1,
             "jac": lambda x: np.append(np.ones(K), 0.0)}  # fmt: skip
    above = {"type": "ineq", "fun": lambda x: grads(x)[:, :-1] @ x[:-1] - x[-1], "jac": grads}
    start, toward = np.append(w, 1.0), np.append(np.zeros(K), -1.0)
    found = minimize(
        lambda x: -x[-1], start, jac=lambda _: toward, method="SLSQP", constraints=[total, above],
        bounds=[(0, 1)] * K + [(0, None)], options={"ftol": 1e-15, "maxiter": 200},
    )  # fmt: skip
    better = found.x[:-1] / found.x[:-1].sum()
    return better if seen.values(labels, np.maximum(better, FLOOR)).min() >= value else w


def weights_of(seen, labels, last):
    """w* over the active pieces, by kind, and whether it is clear; `last` where not defined."""
    problem = seen.problem
    if problem.kind == "slack":
        return slack_weights(seen)
    if len(labels) == 0:
        return last, True
    if problem.kind == "osi":
        slopes = seen.values(labels, np.ones(problem.K))
        w = np.zeros(problem.K)
        w[labels[:, 0]] = slopes == 0 if slopes.min() == 0 else 1 / np.maximum(slopes, 1e-300)
        return w / w.sum(), True
    if problem.kind == "bai":
        return best_arm_weights(seen, [int(labels[0, 0]), *labels[:, 1].tolist()]), True
    if seen.values(labels, np.ones(problem.K)).min() == 0:  # a tie
        return last, True
    return piece_weights(seen, labels), True


def slack_weights(seen):
    """w* of the right answer of largest H*, ties to the lowest, and whether that is clear."""
    problem, found = seen.problem, []
    for i in problem.right(seen.means):
        labels = problem.pieces(np.arange(problem.K) == i)
        w = piece_weights(seen, labels)
        found.append((seen.values(labels, np.maximum(w, FLOOR)).min(), w, seen.means[i]))
    best = max(value for value, _, _ in found)
    near = [one for one in found if one[0] > best * (1 - 1e-6)]
    return near[0][1], len({mean for _, _, mean in near}) == 1
