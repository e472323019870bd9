"""The twin of logistic runs: a plain NumPy float64 reference, with SciPy for one search.

ell(theta) = sum_k S_k s_k - N_k log(1 + exp(s_k)) - ridge ||theta||^2/2, s = Phi theta.
Each maximum comes from Newton steps that are halved until ell rises; over a boundary
y . theta = c, from the same steps in its null space. An LLR is the difference of two
maxima. `by_scipy` finds the same difference with a general constrained optimiser.

Problems are ("bai",), ("topm", m), ("osi", level) and ("items", z); answers are bool.
Labels of pieces are (i, k), or (k, k) for a level.
"""

from types import SimpleNamespace

import numpy as np
import scipy.linalg
import scipy.optimize

from tests.twin.thresholds import heuristic

RIDGE = 1e-3


def mean(scores):
    """1/(1 + exp(-s))."""
    return np.exp(-np.logaddexp(0, -scores))


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
    return (value(arms, counts, ones, theta_hat, ridge)
            - value(arms, counts, ones, other, ridge))  # fmt: skip


def by_scipy(arms, counts, ones, y, c, ridge=RIDGE):
    """The same from two calls of SciPy, one of them with a linear constraint."""

    def cost(theta):
        return -value(arms, counts, ones, theta, ridge)

    def slope(theta):
        return -arms.T @ (ones - counts * mean(arms @ theta)) + ridge * theta

    def curvature(theta):
        p = mean(arms @ theta)
        return (arms.T * (counts * p * (1 - p))) @ arms + ridge * np.eye(len(theta))

    options = {"gtol": 1e-12, "xtol": 1e-14, "maxiter": 3000}
    line = scipy.optimize.LinearConstraint(y[None], -np.inf, c)
    start = np.zeros(arms.shape[1]) + y * c / (y @ y)
    free = scipy.optimize.minimize(cost, start, jac=slope, hess=curvature, method="trust-exact",
                                   options={"gtol": 1e-11})
    if y @ free.x <= c:
        return 0.0
    line = scipy.optimize.LinearConstraint(y[None], c, c)
    bound = scipy.optimize.minimize(cost, start, jac=slope, hess=curvature, constraints=[line],
                                    method="trust-constr", options=options)
    return bound.fun - free.fun


def answer_and_pieces(spec, arms, theta):
    """The answer at theta, and (label, y, c) of each of its pieces."""
    kind, K, scores = spec[0], len(arms), arms @ theta
    if kind == "osi":
        above, line = mean(scores) >= spec[1], np.log(spec[1] / (1 - spec[1]))
        signs = np.where(above, 1, -1)
        return above, [((k, k), signs[k] * arms[k], signs[k] * line) for k in range(K)]
    if kind == "items":
        z = spec[1]
        best = int(np.argmax(z @ theta))
        others = [p for p in range(len(z)) if p != best]
        return np.arange(len(z)) == best, [((best, p), z[best] - z[p], 0.0) for p in others]
    m = spec[1] if kind == "topm" else 1
    order = np.argsort(-scores, kind="stable")
    inside = np.isin(np.arange(K), order[:m])
    pairs = [(i, k) for i in np.flatnonzero(inside) for k in np.flatnonzero(~inside)]
    return inside, [((int(i), int(k)), arms[i] - arms[k], 0.0) for i, k in pairs]


def run(arms, theta, spec, *, noise, delta=0.1, beta=heuristic, length=None, ridge=RIDGE):
    """Uniform sampling, with the LLRs of all pieces after each sample.

    Args:
        arms, theta: [K, d], [d].
        spec: the problem.
        noise: uniforms [T].
        delta, beta: of the stopping rule.
        length: go on until so many samples; None: until the least LLR exceeds beta.

    Returns:
        arms, rewards: all samples. samples: when the rule stops, or None. answer: then,
        or at the end. states: after the initial pulls and each later sample, theta_hat
        and a dictionary of LLRs by label.
    """
    K = len(arms)
    counts, ones, hat = np.zeros(K), np.zeros(K), np.zeros(arms.shape[1])
    truth = mean(arms @ theta)
    states, rewards, stopped, answer = [], [], None, None
    for t in range(len(noise) if length is None else length):
        arm = t % K
        rewards.append(float(noise[t] < truth[arm]))
        counts[arm] += 1
        ones[arm] += rewards[-1]
        if t + 1 < K:
            continue
        hat = climb(arms, counts, ones, hat, ridge)
        now, pieces = answer_and_pieces(spec, arms, hat)
        llrs = {label: llr(arms, counts, ones, hat, y, c, ridge) for label, y, c in pieces}
        states.append((hat.copy(), llrs))
        if stopped is None and min(llrs.values()) > beta(t + 1, delta):
            stopped, answer = t + 1, now
            if length is None:
                break
    return SimpleNamespace(arms=np.arange(len(rewards)) % K, rewards=np.array(rewards),
                           samples=stopped, states=states,
                           answer=now if answer is None else answer)  # fmt: skip
