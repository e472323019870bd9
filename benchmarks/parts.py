"""The cost of a step's parts, each alone in a compiled loop.

Their sum bounds what a step can reach in XLA's kernels. Shares of a running step are in
`benchmarks.kernels`; JAX's profiler takes longer than a kernel of one microsecond.
"""

import json
import os
import statistics
import sys
import time

from benchmarks.processes import script
from benchmarks.report import Section, Sitting

K, D, LANES = 50, 20, 64


def measured(steps: int, repeats: int) -> dict[str, float]:
    """Microseconds of processor time of each part, for one step of 64 lanes.

    Each is the median of `repeats` calls less that of the empty loop. K = 50, d = 20.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    from jaxelim import engine, scope
    from jaxelim.evidence.designs import ArmDesign, LinearContext, SquareDesign, weighted
    from jaxelim.lanes import LaneOps

    rng = np.random.default_rng(0)

    def timed(f, *state):
        """Time `f(space, step, *state)`, which returns the next state (a pytree).

        Its inputs must change each step, or XLA hoists it out of the loop.
        """

        def run(flag, phi, *state):
            space = LinearContext(LaneOps(flag), phi)
            return jax.lax.fori_loop(
                0, steps, lambda i, c: f(space, i.astype(jnp.int32), *c), state
            )

        call = jax.jit(run, compiler_options=engine.cpu_options("1"))
        given = (jnp.int32(1), phi, *jax.tree.map(jnp.asarray, state))
        jax.block_until_ready(call(*given))
        times = []
        for _ in range(repeats):
            began = time.process_time()
            jax.block_until_ready(call(*given))
            times.append(time.process_time() - began)
        return 1e6 * statistics.median(times) / steps

    with scope.engine():
        phi = jnp.asarray(rng.normal(size=(K, D)) / D**0.5)
        v_inv = np.linalg.inv(np.eye(D) + np.asarray(phi.T @ phi))
        own = lambda x: np.repeat(np.asarray(x)[..., None], LANES, -1)  # noqa: E731
        u, v, arm = (
            rng.normal(size=(D, LANES)),
            rng.normal(size=(K, LANES)),
            rng.integers(0, K, LANES).astype(np.int32),
        )
        square, arms = own(v_inv), own(v_inv @ phi.T)
        weights = rng.random((K, LANES))
        onward = lambda arm, i: (7 * arm + i) % K  # noqa: E731
        bare = timed(lambda s, i, u: (0.5 * u + 0.1,), u)
        parts = {
            "vector of K, in its place": (lambda s, i, v: (0.5 * v + 0.1,), v),
            "argmax over K": (lambda s, i, v: (0.5 * v + 1e-3 * s.lanes.argmax(v),), v),
            "argmax of a ratio over K": (
                lambda s, i, v, g: (0.5 * v + 1e-3 * s.lanes.argmax(v**2 / (1 + g)), 0.9 * g),
                v,
                v**2,
            ),
            "argmax with a root over K": (
                lambda s, i, v, g: (
                    0.5 * v + 1e-3 * s.lanes.argmax(jnp.sqrt(g) - v),
                    0.9 * g + 0.1,
                ),
                v,
                v**2,
            ),
            "Phi u": (lambda s, i, u: (0.5 * s.lanes.dot(s.features, u)[:D] + 0.1,), u),
            "V^-1 u": (lambda s, i, m, u: (m, 0.5 * s.lanes.symmetric_dot(m, u) + 0.1), square, u),
            "V^-1, updated": (
                lambda s, i, m, u: (m - u[:, None] * u[None], 0.99 * u),
                square,
                0.01 * u,
            ),
            "Phi V^-1, a row": (
                lambda s, i, m, k, x: (m, onward(k, i), x + s.lanes.column(m, k)),
                arms,
                arm,
                u,
            ),
            "Phi V^-1, updated": (
                lambda s, i, m, u, v: (m - u[:, None] * v[None], 0.99 * u, 0.99 * v),
                arms,
                0.01 * u,
                0.01 * v,
            ),
            "V_w^-1 and its diagonal over K": (
                lambda s, i, w: (0.9 * w + 1e-6 * weighted(s, w, 0.1).g + 0.01,),
                weights,
            ),
            "V_w, inverted": (
                lambda s, i, m: (
                    0.5 * m + 1e-3 * s.lanes.inverse(m) + 0.5 * jnp.eye(D)[..., None],
                ),
                square,
            ),
        }

        def pull(space, i, design, k):
            return design.add(space, k)[0], onward(k, i)

        found = {"a loop with nothing in it": bare} | {
            name: timed(*part) - bare for name, part in parts.items()
        }
        for name, design in (("V^-1", SquareDesign), ("Phi V^-1", ArmDesign)):
            g = own(np.sum(np.asarray(phi @ v_inv) * np.asarray(phi), 1))
            start = design(g, square if design is SquareDesign else arms)
            found[f"a pull, {name}"] = timed(pull, start, arm) - bare
        return found


def run(sitting: Sitting) -> Section:
    """Time all parts in one process on one core, a row each."""
    section = Section(
        f"Parts of a step, each alone: microseconds for {LANES} lanes, K = {K}, d = {D}, float64"
    )
    steps, repeats = (200, 3) if sitting.quick else (4000, sitting.repeats or 7)
    done = script("benchmarks.parts", steps, repeats, core=sitting.core)
    if done.returncode:
        section.failed.append(f"it ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    else:
        section.rows = [{"part": name, "us": us} for name, us in json.loads(done.stdout).items()]
    section.notes.append("All but the first are less the bare loop; a lane's share is a 64th.")
    return section


if __name__ == "__main__":
    if len(sys.argv) > 3:
        os.sched_setaffinity(0, {int(sys.argv[3])})
    print(json.dumps(measured(int(sys.argv[1]), int(sys.argv[2]))))
