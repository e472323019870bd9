"""LinGapE's step alone in plain JAX, lanes last, on one fixed batch of lanes.

It draws no noise, keeps no counts or results and refills no lane. Beside the C loop it
is the second reference for the engine: it shows how XLA compares with C on a machine.

    NPROC=1 taskset -c 0 python -m benchmarks.anchor.lanes_last
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxelim as je

DELTA = 0.01


def pin(flag, f, x):
    """Materialize f(x) once: a branch on a traced flag stops XLA's recomputation."""
    return jax.lax.cond(flag > 0, f, lambda x: jnp.zeros(x.shape[1:], jnp.int32), x)


def argmax(flag, x):
    """First index of the largest entry along axis 0, as a balanced tree of compares."""

    def go(low, high):
        if high - low == 1:
            return x[low], jnp.full(x.shape[1:], low, jnp.int32)
        middle = (low + high) // 2
        (a, i), (b, j) = go(low, middle), go(middle, high)
        return jnp.where(b > a, b, a), jnp.where(b > a, j, i)

    return pin(flag, lambda _: go(0, x.shape[0])[1], x)


def take(x, i):
    """x[i] of each lane."""
    return jnp.take_along_axis(x, i[None], 0, mode="promise_in_bounds")[0]


def row(w, i):
    """w[i] of each lane, [d, B], by a flat gather."""
    _, d, b = w.shape
    places = i * (d * b) + np.arange(d, dtype=np.int32)[:, None] * b + np.arange(b, dtype=np.int32)
    return w.reshape(-1).at[places].get(mode="promise_in_bounds")


def step(phi, mu, state, noise):
    """One sample of every lane: best arm, selective elimination everywhere."""
    m, t, active, g, w, flag = (state[name] for name in ("m", "t", "active", "g", "w", "flag"))
    best = argmax(flag, m)
    to_best = phi @ row(w, best)
    norm = jnp.maximum(take(g, best) + g - 2 * to_best, 0)
    gap = take(m, best) - m
    time = t.astype(m.dtype)
    active = active & ~((gap > 0) & (gap**2 / 2 > jnp.log((time + 1) / DELTA) * norm))
    width = jnp.sqrt(2 * (np.log(1 / DELTA) + 2 * jnp.log(time + 2)))
    other = jnp.arange(m.shape[0], dtype=jnp.int32)[:, None] != best
    challenger = argmax(flag, jnp.where(active & other, width * jnp.sqrt(norm) - gap, -jnp.inf))
    y = to_best - phi @ row(w, challenger)
    arm = argmax(flag, y**2 / (1 + g))
    u = row(w, arm)
    along = phi @ u
    q = 1 / (1 + take(g, arm))
    surprise = (mu[arm] + noise - take(m, arm)) * q
    return {
        "m": m + along * surprise, "t": t + 1, "active": active, "g": g - along**2 * q,
        "w": w - (along * q)[:, None] * u[None], "flag": flag,
    }  # fmt: skip


def measure(lanes: int = 64, steps: int = 1500, repeats: int = 5) -> float:
    """Microseconds of processor time per lane and step, the median of the repeats."""
    with jax.enable_x64(True):
        instance, rng = je.load_instance("linear-d20"), np.random.default_rng(0)
        phi = instance.arms
        v_inv = np.linalg.inv(np.eye(instance.d) + phi.T @ phi)
        rewards = instance.means[:, None] + rng.normal(size=(instance.K, lanes))
        own = lambda x: jnp.broadcast_to(  # noqa: E731
            jnp.asarray(x)[..., None], (*np.shape(x), lanes)
        )
        state = {
            "m": jnp.asarray(phi @ v_inv @ phi.T @ rewards),
            "t": jnp.full(lanes, instance.K, jnp.int32),
            "active": jnp.ones((instance.K, lanes), bool),
            "g": own(np.diag(phi @ v_inv @ phi.T)),
            "w": own(phi @ v_inv),
            "flag": jnp.int32(1),
        }
        noise, mu = jnp.asarray(rng.normal(size=(steps, lanes))), jnp.asarray(instance.means)
        run = jax.jit(
            lambda state, noise: jax.lax.fori_loop(
                0, steps, lambda n, c: step(jnp.asarray(phi), mu, c, noise[n]), state
            ),
            compiler_options={"xla_cpu_prefer_vector_width": "512"},
        )
        jax.block_until_ready(run(state, noise))
        times = []
        for _ in range(repeats):
            began = time.process_time()
            jax.block_until_ready(run(state, noise))
            times.append(time.process_time() - began)
    return 1e6 * statistics.median(times) / steps / lanes


if __name__ == "__main__":
    print(f"us/step {measure():.4f}")
