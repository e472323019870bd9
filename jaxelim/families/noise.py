"""Random numbers of runs: each a function of (seed, run, t) alone."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def key(seed: int) -> Array:
    """The key of a seed in [0, 2^63): Threefry's, whatever generator and offset JAX is set to."""
    words = jnp.array([seed >> 32, seed & 0xFFFFFFFF], jnp.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _of_run(sample: Callable, key: Array) -> Callable:
    def one(run, t):
        of_sample = jax.random.fold_in(jax.random.fold_in(key, run), t)
        return sample(of_sample, dtype=jnp.float64)

    return one


SAMPLERS: dict[str, Callable] = {"normal": jax.random.normal, "uniform": jax.random.uniform}
"""What a family may ask for: standard normals, or uniforms on [0, 1)."""


def _rounded(kind: str, x: Array, dtype) -> Array:
    """Noise in a run's own type. A uniform that float32 rounds to 1 becomes the number below 1."""
    x, dtype = x.astype(dtype), jnp.dtype(dtype)
    if kind != "uniform" or dtype == jnp.float64:
        return x
    return jnp.minimum(x, np.nextafter(dtype.type(1), dtype.type(0)))


def seeded(kind: str, key: Array, run: Array, start: Array, length: int, dtype) -> Array:
    """Noise [length, B]: of run b at t = start_b .. start_b + length - 1."""
    times = start + jnp.arange(length, dtype=jnp.int32)[:, None]
    each = jax.vmap(jax.vmap(_of_run(SAMPLERS[kind], key)), (None, 0))
    return _rounded(kind, each(run, times), dtype)


def given(kind: str, table: Array, row: Array, start: Array, length: int, dtype) -> Array:
    """The same from a table [runs, T]; past its end the last column is repeated. A run is cut off
    before it reads that."""
    times = jnp.minimum(start + jnp.arange(length, dtype=jnp.int32)[:, None], table.shape[1] - 1)
    return _rounded(kind, table[row, times], dtype)


def chance(key: Array, run: Array, t: Array, dtype) -> Array:
    """Uniforms on [0, 1) [B], for what a rule leaves to chance at t; independent of the noise."""
    apart = jax.random.fold_in(key, np.uint32(2**32 - 1))  # no run has this index
    return _rounded("uniform", jax.vmap(_of_run(jax.random.uniform, apart))(run, t), dtype)
