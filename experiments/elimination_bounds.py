"""The paper's bounds on elimination times: `python -m experiments.elimination_bounds`.

Source: Tirinzoni & Degenne (2022), theorem on elimination times, the theorem that compares
LLR and elimination stopping, and the assumption of low information regret.

The script prints R(t) = t H* - min_p H_p(N_t) of several rules on the two-dimensional
example, and the bounds with it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

import jaxelim as je
from jaxelim.bounds.bounds import beta_at, first_time, heuristic
from jaxelim.bounds.pieces import squared_norms
from jaxelim.instances import two_dimensional

Threshold = Callable[[Any, Any], Any]
Regret = Callable[[float], float]

LEAST_SHARE = 1e-7
"""Least eps of a region, as a share of H*. A larger eps gives a larger set: bounds stay valid."""
_ROUNDS, _CLOSE = 60, 1e-9


class Example:
    """One instance of Gaussian rewards of one standard deviation, with its optimum."""

    def __init__(self, instance: je.Instance, problem: Any):
        self.optimum = je.complexity(instance, problem, 1e-10)
        self.arms, scale = instance.arms, instance.noise_std
        self.y = self.optimum.pieces.y[0]  # [P, d]
        self.gaps = (self.y @ instance.theta - self.optimum.pieces.c[0]) / scale
        self.value = float(self.optimum.value)

    def information(self, w: np.ndarray) -> np.ndarray:
        """H_p of weights [K] that may be 0: [P]."""
        return self.gaps**2 / (2 * squared_norms(w, self.arms, self.y))

    def slopes(self, w: np.ndarray) -> np.ndarray:
        """dH_p/dw_k: [P, K]."""
        images = np.linalg.solve(self.arms.T @ (w[:, None] * self.arms), self.y.T)
        pull = self.gaps / np.sum(self.y.T * images, 0)
        return (pull[:, None] * (self.arms @ images).T) ** 2 / 2

    def least_weights(self, eps: float) -> np.ndarray:
        """Lower bounds [K] on the weights of Omega_eps = {w : min_p H_p(w) >= H* - eps}.

        H_p is below its tangents, so linear programs over tangents bound from below. The next
        tangents are those on the boundary of Omega_eps, towards the program's solution.
        """
        K, best = len(self.arms), self.optimum.allocation
        best = 0.999999 * best + 1e-6 / K
        floor = min(self.value - max(eps, LEAST_SHARE * self.value), self.information(best).min())
        least = np.zeros(K)
        for k in range(K):
            cuts = self.slopes(best)
            for _ in range(_ROUNDS):
                found = linprog(
                    np.eye(K)[k], A_ub=-cuts / floor, b_ub=-np.ones(len(cuts)),
                    A_eq=np.ones((1, K)), b_eq=[1.0],
                )  # fmt: skip
                before, least[k] = least[k], max(found.fun, 0)
                low, high = 0.0, 1.0  # the share of the way to the solution that is inside
                for _ in range(40):
                    middle = (low + high) / 2
                    inside = self.information((1 - middle) * best + middle * found.x).min() >= floor
                    low, high = (middle, high) if inside else (low, middle)
                cuts = np.concatenate([cuts, self.slopes((1 - low) * best + low * found.x)])
                if low * (best[k] - found.x[k]) >= best[k] - found.x[k] - _CLOSE:
                    break
                if before and least[k] - before < _CLOSE:
                    break
        return least

    def least_information(self, eps: float) -> np.ndarray:
        """A lower bound [P] on H_p over Omega_eps: max(H* - eps, H_p(l)), l_k the least w_k."""
        return np.maximum(self.information(self.least_weights(eps)), max(self.value - eps, 0))


@dataclass(frozen=True)
class Bounds:
    """Bounds on mean elimination times, in samples, for rules of information regret R."""

    llr: int  # bound on E[tau] under LLR stopping, t-bar + 2
    full: np.ndarray  # [P] bounds on E[tau_p] under full elimination
    selective: np.ndarray  # [P] the same under selective elimination
    difference: float  # f(theta, delta): E[tau_llr] <= E[tau_elim] + f
    value: float  # H*


def elimination_bounds(
    instance: je.Instance, problem: Any, delta: float = 0.01, threshold: Threshold = heuristic,
    regret: Regret | None = None, resolution: float = 1.25,
) -> Bounds:  # fmt: skip
    """Bound the mean time of LLR stopping, and the mean time at which each piece is eliminated.

    E[tau_llr] <= t-bar + 2 and E[tau_p] <= min(t-bar_p, t-bar) + 2, with

        t-bar: the first t >= (B(t) + R(t))/H*,
        t-bar_p: the first t >= max(B(t)/m_p(t), G(t)),
        B(t) = (sqrt(beta(t, delta)) + sqrt(beta(t, 1/t^2)))^2.

    m_p(t) is the least H_p over the R(t)/t-optimal allocations; its lower bound replaces it.
    G is 0 for full elimination, and (4 beta(t, 1/t^2) + R(t))/H* for selective elimination.

    Args:
        instance: one instance of Gaussian rewards of one standard deviation.
        problem: what to identify.
        delta: error probability in (0, 1).
        threshold: beta, a callable of (t, delta), concave in t.
        regret: R, a callable of t, non-decreasing and concave; None: 0.
        resolution: ratio > 1 of successive times at which m_p is computed.
    """
    example = Example(instance, problem)
    H, P = example.value, len(example.gaps)
    R = regret or (lambda t: 0.0)

    def roots(t: int) -> float:
        both = beta_at(threshold, t, delta), beta_at(threshold, t, 1 / t**2)
        return (math.sqrt(both[0]) + math.sqrt(both[1])) ** 2

    def G(t: int) -> float:
        return (4 * beta_at(threshold, t, 1 / t**2) + R(t)) / H

    t_bar = first_time(lambda t: (roots(t) + R(t)) / H)
    found = {"full": np.full(P, t_bar), "selective": np.full(P, t_bar)}
    waits = {"full": lambda t: 0.0, "selective": G}
    done = {name: np.zeros(P, bool) for name in found}
    # The most information that any allocation gives on a piece bounds its time from below.
    most = np.max(example.information(np.ones(len(instance.arms))))
    t = min(first_time(lambda t: roots(t) / most), t_bar)
    while t < t_bar and not all(x.all() for x in done.values()):
        end = t_bar if regret is None else min(max(int(t * resolution), t + 1), t_bar)
        # R does not decrease, so on [t, end) R/t is at most this.
        least = example.least_information(R(end - 1) / t)
        for name, p in [(word, p) for word in found for p in np.flatnonzero(~done[word])]:

            def needed(t, wait=waits[name], m=least[p]):
                return max(roots(t) / m, wait(t)) if m > 0 else math.inf

            if end - 1 >= needed(end - 1):
                found[name][p] = min(first_time(needed, start=t), t_bar)
                done[name][p] = True
        t = end
    return Bounds(
        llr=t_bar + 2, full=found["full"] + 2, selective=found["selective"] + 2, value=H,
        difference=stopping_difference(delta, H, threshold, R, t_bar),
    )  # fmt: skip


def stopping_difference(
    delta: float, value: float, threshold: Threshold, regret: Regret, t: int
) -> float:
    """f(theta, delta) of the theorem that compares LLR and elimination stopping, in samples.

    f = 3 + (beta - log(1/delta) + 2 sqrt(beta beta') + beta' + R(t) + log 2.4)/H*, where
    beta = beta(t, delta) and beta' = beta(t, 1/t^2), at t = t-bar. f/log(1/delta) tends to 0.
    """
    beta, other = beta_at(threshold, t, delta), beta_at(threshold, t, 1 / t**2)
    cross = 2 * math.sqrt(beta * other) + other
    return 3 + (beta - math.log(1 / delta) + cross + regret(t) + math.log(2.4)) / value


class InformationRegret:
    """R(t) = t H* - min_p H_p(N_t) of one run, at t = 1 .. T.

    A call with t gives the largest regret up to t, at least 0; it is constant past T.
    """

    def __init__(self, pulls: np.ndarray, instance: je.Instance, problem: Any):
        example = Example(instance, problem)
        counts = np.cumsum(np.eye(instance.K)[pulls], 0)
        gathered = np.array([example.information(n).min() for n in counts])
        self.regret = np.arange(1, len(pulls) + 1) * example.value - gathered  # [T]
        self._bound = np.maximum.accumulate(np.maximum(self.regret, 0))

    def __call__(self, t: float) -> float:
        return float(self._bound[min(math.ceil(t), len(self._bound)) - 1])


def regret_of(instance: je.Instance, rule: Any, length: int, ridge: float = 0.0):
    """R(t) of a run of a rule with best arm, whatever its rewards say about stopping."""
    trace = je.trace(instance, je.BestArm(), rule, ridge=ridge, max_samples=length,
                     threshold=lambda t, delta: 1e9 + 0 * t)  # fmt: skip
    return InformationRegret(trace.arms, instance, je.BestArm())


def main(length: int = 20_000) -> None:
    instance = two_dimensional(5, 0.1)
    print(f"two-dimensional example, K = 5, eps = 0.1, delta = 0.01; R after {length} samples")
    rules = {"none": None, "Oracle": je.Oracle(), "LinGame": je.LinGame(), "FWS": je.FWS()}
    for name, rule in rules.items():
        R = regret_of(instance, rule, length, ridge=1.0) if rule else None
        bounds = elimination_bounds(instance, je.BestArm(), 0.01, regret=R)
        last = R(length) / bounds.value if R else 0.0
        print(f"  {name:8s} R/H* = {last:7.1f}   LLR {bounds.llr}, full {bounds.full.tolist()}, "
              f"selective {bounds.selective.tolist()}, f = {bounds.difference:.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
