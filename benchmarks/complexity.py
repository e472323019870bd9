"""Time the solver of H* and its gradient: `python -m benchmarks.complexity`.

Times are processor time, summed over threads: what one core would take.
"""

import sys
import time

import jax
import numpy as np
from scipy.optimize import minimize

from jaxelim.bounds import complexity, optimum
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm

K, D, GAP = 50, 20, 1e-6


def draw(count, seed=0):
    """Instances with features uniform on the sphere and normal theta."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((count, K, D))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    return Instance(arms, rng.standard_normal((count, D)))


def scipy_solve(arms, theta, directions):
    """H* by sequential quadratic programming in epigraph form, exact derivatives."""
    gaps = directions @ theta

    def levels(w):
        factor = np.linalg.inv(arms.T @ (w[:, None] * arms))
        images = directions @ factor
        norm = np.sum(images * directions, axis=1)
        return gaps**2 / (2 * norm), (gaps / norm)[:, None] ** 2 * (images @ arms.T) ** 2 / 2

    start = np.full(K, 1 / K)
    scale = levels(start)[0].min()
    rows = -np.ones((len(gaps), 1))
    constraints = [
        dict(type="eq", fun=lambda x: x[:K].sum() - 1, jac=lambda x: np.append(np.ones(K), 0)),
        dict(type="ineq", fun=lambda x: levels(x[:K])[0] / scale - x[K],
             jac=lambda x: np.hstack([levels(x[:K])[1] / scale, rows])),
    ]  # fmt: skip
    found = minimize(
        lambda x: -x[K], np.append(start, 1), jac=lambda x: np.append(np.zeros(K), -1),
        method="SLSQP", bounds=[(1e-9, 1)] * K + [(0, None)], constraints=constraints,
        options=dict(maxiter=1000, ftol=1e-12),
    )  # fmt: skip
    # The method can break down: the value it reports need not be attained.
    weights = np.maximum(found.x[:K], 1e-12)
    return levels(weights / weights.sum())[0].min()


def seconds(function, repeats=3):
    """The least processor time of `repeats` calls, after one that compiles."""
    function()
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def main(count=1000):
    batch = draw(count)
    found = complexity(batch, BestArm(), GAP)
    spent = seconds(lambda: complexity(batch, BestArm(), GAP), 2)
    print(f"{count} instances, K = {K}, d = {D}, gap {GAP:g}: {count / spent:.0f} solves/s on one "
          "core, checks included")  # fmt: skip
    print(f"  converged {found.converged.sum()}, gap <= {found.gap.max():.1e}")
    for i in range(4):
        start = time.process_time()
        other = scipy_solve(batch.arms[i], batch.theta[i], found.pieces.y[i])
        once = time.process_time() - start
        print(f"scipy SLSQP, instance {i}: {once:.3f} s, {once / (spent / count):.0f} times one "
              f"of the batch; it reaches H* {other / found.value[i] - 1:+.1e}")  # fmt: skip
    with jax.enable_x64(True):
        arms, theta = batch.arms[:64], batch.theta[:64]

        def one(pair):
            return optimum(*pair, BestArm(), gap=GAP).value

        solve = jax.jit(lambda xs: jax.lax.map(one, xs, batch_size=8))
        slope = jax.jit(lambda xs: jax.lax.map(jax.value_and_grad(one), xs, batch_size=8))
        plain = seconds(lambda: jax.block_until_ready(solve((arms, theta))))
        both = seconds(lambda: jax.block_until_ready(slope((arms, theta))))
    print(f"value and gradient over value: {both / plain:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
