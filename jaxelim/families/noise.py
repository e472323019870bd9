"""Random numbers of runs, each a function of (seed, run, t) alone.

For the noise of rewards, t counts samples from 0, the initial pulls included. For a
rule's random choices (`chance`, `rule_key`) it is `View.t`, which is one more.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.errors import ArgumentError, UnsupportedError

LARGEST = 1e100  # squares of rewards must not overflow


def key(seed: int) -> Array:
    """The Threefry key of a seed in [0, 2^63); independent of JAX's default generator."""
    words: Any = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _at(key: Array, run: Array, t: Array) -> Array:
    return jax.random.fold_in(jax.random.fold_in(key, run), t)


def _of_run(sample: Callable, key: Array) -> Callable:
    return lambda run, t: sample(_at(key, run, t), dtype=jnp.float64)


SAMPLERS: dict[str, Callable] = {"normal": jax.random.normal, "uniform": jax.random.uniform}
KINDS = (*SAMPLERS, "run")
"""Standard normals, uniforms on [0, 1), or a uint64 of the run, the same at every t."""


def type_of(kind: str, dtype: Any) -> Any:
    """The type of the noise of a run in the floating type `dtype`."""
    return jnp.dtype(jnp.uint64) if kind == "run" else dtype


def check(kind: str, noise: np.ndarray, drawn: Any) -> None:
    """Refuse given noise [runs, T] that is not of this kind, for the source or family `drawn`."""
    if kind == "run":
        raise UnsupportedError("noise", noise, f"None: rewards of {drawn!r} have their own order")
    bad = np.abs(noise) > LARGEST if kind == "normal" else (noise < 0) | (noise >= 1)
    if bad.any():
        kinds = {"normal": f"standard normals, at most {LARGEST:g} in absolute value",
                 "uniform": f"uniforms, at least 0 and below 1, for {drawn!r}"}  # fmt: skip
        where = tuple(np.argwhere(bad)[0].tolist())
        raise ArgumentError("noise", noise, kinds[kind], f"{noise[where]:g} at {list(where)}")


def seeded(kind: str, key: Array, run: Array, start: Array, length: int, dtype) -> Array:
    """Draw noise [length, B]: run b has t = start_b, .., start_b + length - 1."""
    if kind == "run":
        apart = jax.random.fold_in(key, np.uint32(2**32 - 3))  # no run has this index
        keys = jax.vmap(partial(jax.random.fold_in, apart))(run)
        bits = jax.vmap(partial(jax.random.bits, shape=(), dtype=jnp.uint64))(keys)
        return jnp.broadcast_to(bits, (length, *run.shape))
    times = start + jnp.arange(length, dtype=jnp.int32)[:, None]
    of_runs = jax.vmap(jax.vmap(_of_run(SAMPLERS[kind], key)), (None, 0))
    return of_runs(run, times).astype(dtype)


def given(kind: str, table: Array, row: Array, start: Array, length: int, dtype) -> Array:
    """Read the same noise from a table [runs, T]; a run is truncated before its end."""
    times = jnp.minimum(start + jnp.arange(length, dtype=jnp.int32)[:, None], table.shape[1] - 1)
    return table[row, times].astype(dtype)


def chance(key: Array, run: Array, t: Array, dtype) -> Array:
    """Draw uniforms on [0, 1), [B], for a rule's random choices at t; independent of the noise."""
    apart = jax.random.fold_in(key, np.uint32(2**32 - 1))  # no run has this index
    return jax.vmap(_of_run(jax.random.uniform, apart))(run, t).astype(dtype)


def rule_key(key: Array, run: Array, t: Array) -> Array:
    """Keys [B] for a rule's own draws at t; independent of the noise and of `chance`."""
    apart = jax.random.fold_in(key, np.uint32(2**32 - 2))  # no run has this index either
    return jax.vmap(partial(_at, apart))(run, t)
