"""Checks and figures on allocations: `python -m experiments.allocations [bracket|gradients|example|design]`.

bracket: H* of the paper's eight instance-problems between linear programs. gradients: against differences on 200 random
instances. example: the two-dimensional example. design: the hardest instance and the best extra arm, with a figure.
"""

import importlib
import sys
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

from jaxelim.complexity.bounds import region_of
from jaxelim.instance import Instance
from jaxelim.instances import load_instance, two_dimensional

cx = importlib.import_module("jaxelim.complexity")  # the room; `jaxelim.complexity` as an attribute is the function


@dataclass(frozen=True)
class Top:
    """The set of the m largest means, told by its half-spaces."""

    m: int = 1

    def half_spaces(self, arms, theta):
        order = np.argsort(-(arms @ theta), kind="stable")
        top, rest = np.sort(order[: self.m]), np.sort(order[self.m :])
        directions = (arms[top][:, None] - arms[rest][None]).reshape(-1, arms.shape[1])
        return directions, np.zeros(len(directions))


@dataclass(frozen=True)
class Signs:
    """The signs of the means."""

    def half_spaces(self, arms, theta):
        return np.where(arms @ theta >= 0, 1.0, -1.0)[:, None] * arms, np.zeros(len(arms))


SHIPPED = [
    ("linear-d10", Top(1)), ("linear-d10-topm", Top(3)), ("linear-d20", Top(1)), ("linear-d20", Top(5)),
    ("linear-d20-osi", Signs()), ("unstructured-k40", Top(1)), ("unstructured-k40", Top(3)),
    ("unstructured-k40-osi", Signs()),
]  # fmt: skip


def tangents(weights, arms, theta, directions, offsets):
    """H_p(w) [P] and dH_p/dw_k [P, K] by a plain inverse: apart from the library's own."""
    inverse = np.linalg.inv(arms.T @ (weights[:, None] * arms))
    gaps = directions @ theta - offsets
    images = directions @ inverse
    norm = np.sum(images * directions, axis=1)
    return gaps**2 / (2 * norm), (gaps / norm)[:, None] ** 2 * (images @ arms.T) ** 2 / 2


def bracket():
    """Cuts at the solution and around it: the linear program over them bounds H* from above, any w from below."""
    print("instance              problem       H*               gap      steps   LP bracket, relative")
    rng = np.random.default_rng(0)
    for name, problem in SHIPPED:
        instance = load_instance(name)
        found = cx.complexity(instance, problem, 1e-10)
        pieces = problem.half_spaces(instance.arms, instance.theta)
        cuts, low, w = [], 0.0, found.allocation
        K = instance.K
        for _ in range(6):
            level, slope = tangents(w, instance.arms, instance.theta, *pieces)
            low = max(low, level.min())
            cuts.append(slope / found.value)
            w = 0.9999 * found.allocation + 1e-4 * rng.dirichlet(np.ones(K))
        rows = np.concatenate(cuts)
        solved = linprog(
            np.append(np.zeros(K), -1), A_ub=np.hstack([-rows, np.ones((len(rows), 1))]), b_ub=np.zeros(len(rows)),
            A_eq=[np.append(np.ones(K), 0)], b_eq=[1],
        )  # fmt: skip
        print(f"{name:21s} {problem!s:12s} {found.value:.10e} {found.gap:.1e} {found.iterations:4d}     "
              f"[{low / found.value - 1:+.1e}, {-solved.fun - 1:+.1e}]")  # fmt: skip


def differences(function, x, step):
    """Fourth-order central differences of function: [N, *x.shape] -> [N, ...], as [x.size, ...]."""
    basis = step * np.eye(x.size).reshape(-1, *x.shape)
    far, near, near_, far_ = np.split(function(np.concatenate([x + s * basis for s in (-2, -1, 1, 2)])), 4)
    return (far - 8 * near + 8 * near_ - far_) / (12 * step)


def gradients(count=200, step=1e-4):
    """Largest errors of the derivatives of H* and w* relative to the largest entry; what is excluded, and why."""
    rng = np.random.default_rng(0)
    worst, excluded = np.zeros(2), []
    for i in range(count):
        problem = (Top(1), Top(2), Signs())[i % 3]
        linear = i % 2 == 0
        arms = rng.standard_normal((6, 3)) if linear else np.eye(5)
        theta = rng.standard_normal(arms.shape[1])
        found = cx.complexity_gradients(Instance(arms, theta), problem)

        def solved(thetas, problem=problem, arms=arms):
            return cx.complexity(Instance(arms, thetas), problem, 1e-12)

        def moved(features, problem=problem, theta=theta):
            return cx.complexity(Instance(features, np.tile(theta, (len(features), 1))), problem, 1e-12)

        scale = min(1.0, np.min(np.abs(problem.half_spaces(arms, theta)[0] @ theta)))
        h = step * scale
        for exact, function, x in ((found.value_theta, solved, theta), (found.value_arms, moved, arms)):
            numeric = differences(lambda z, f=function: f(z).value, x, h)
            worst[0] = max(worst[0], np.abs(exact.ravel() - numeric).max() / np.abs(numeric).max())
        if not found.stable or found.margin < 1e-3:
            excluded.append((i, "linear" if linear else "unstructured", str(problem), f"margin {found.margin:.1e}"))
            continue
        for exact, function, x in ((found.allocation_theta, solved, theta), (found.allocation_arms, moved, arms)):
            numeric = differences(lambda z, f=function: f(z).allocation, x, h).T
            # w* may not depend on theta at all (one active piece): then 1e-6 is the scale below which nothing is asked
            error = np.abs(exact.reshape(numeric.shape) - numeric).max() / max(np.abs(numeric).max(), 1e-6)
            worst[1] = max(worst[1], error)
    print(f"{count} instances: largest relative error {worst[0]:.1e} for H*, {worst[1]:.1e} for w*")
    print(f"excluded for w*: {len(excluded)} (active set within 1e-3 of a change)")
    for one in excluded:
        print(" ", *one)


def example():
    """The two-dimensional example: H_k against H_2, and the near-optimal allocations."""
    rng = np.random.default_rng(0)
    for eps in (0.3, 0.1, 0.03, 0.01):
        instance = two_dimensional(5, eps)
        region = region_of(instance, Top(1))
        values = region.information(rng.dirichlet(np.ones(5), 1000))
        ratio = np.min(values[:, 1:] / values[:, :1]) / ((1 - eps) / eps) ** 2
        _, upper = cx.least_information(region, eps**2 / 16)
        bounds = cx.elimination_bounds(instance, Top(1))
        print(f"eps {eps}: H*/(eps^2/8) - 1 = {region.value / (eps**2 / 8) - 1:+.1e}, "
              f"least H_k/((1 - eps)^2/eps^2 H_2) = {ratio:.4f} over 1000 w, "
              f"upper min of H_k over Omega = {upper[1:].min():.4f} >= {1 / 64:.4f}; "
              f"bounds: LLR {bounds.llr}, full {bounds.full.tolist()}")  # fmt: skip


def design(path="allocations.png"):
    """Theta moved within a ball, and an arm added, on an instance in the plane."""
    angles = np.linspace(0, np.pi, 5)
    instance = Instance(np.stack([np.cos(angles), np.sin(angles)], 1), [1.0, 0.7])
    directions, _ = Top(1).half_spaces(instance.arms, instance.theta)
    radius = 0.5 * np.min(directions @ instance.theta / np.linalg.norm(directions, axis=1))
    hard = cx.hardest_instance(instance, Top(1), radius, steps=60)
    extra = cx.best_extra_arm(instance, Top(1), steps=60)
    print(f"hardest instance within {radius:.3f}: T* {hard.before:.2f} -> {hard.after:.2f}")
    print(f"best extra arm {np.round(extra.features, 3)}: T* {extra.before:.2f} -> {extra.after:.2f}, "
          f"weight {extra.weight:.3f}")  # fmt: skip
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    left.plot(hard.times, label="hardest theta in the ball")
    left.plot(extra.times, label="extra arm")
    left.set(xlabel="gradient step", ylabel="T* (samples)", yscale="log")
    left.legend()
    for arm in instance.arms:
        right.plot([0, arm[0]], [0, arm[1]], color="0.7")
    right.plot([0, extra.features[0]], [0, extra.features[1]], color="C1", label="extra arm")
    right.plot(*instance.theta, "ko", label="theta")
    right.plot(*hard.instance.theta, "C0o", label="hardest theta")
    right.set(aspect="equal")
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    for name in sys.argv[1:] or ("bracket", "gradients", "example", "design"):
        {"bracket": bracket, "gradients": gradients, "example": example, "design": design}[name]()
