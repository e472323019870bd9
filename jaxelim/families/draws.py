"""Random numbers of runs, each a function of (seed, run, t) alone, and draws from a key.

For the noise of rewards, t counts samples from 0, the initial pulls included. For a rule's
random choices (`chance`, `rule_key`) it is `View.t`, which is one more.

Draws from a key are for one run and for many in lanes: a key [] or keys [B]. Those of a lane
depend on its own key and parameters alone. Rejection samplers repeat until every entry of every
lane is accepted; accepted entries do not change.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.numerics.logarithm import log

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


def fold(key: Array, n: Array | int) -> Array:
    """The n-th key that follows from `key`, n >= 0: [], or [B] with lanes; n [] or [B]."""
    if not key.ndim:
        return jax.random.fold_in(key, n)
    return jax.vmap(jax.random.fold_in)(key, jnp.broadcast_to(n, key.shape))


def uniform(key: Array, n: int) -> Array:
    """n uniforms of each key, inside (0, 1): odd multiples of 2^-53; [n], float64."""
    bits_of = partial(jax.random.bits, shape=(n,), dtype=jnp.uint64)
    bits = jax.vmap(bits_of, out_axes=-1)(key) if key.ndim else bits_of(key)
    exponent = np.float64(1).view(np.uint64)
    from_one = jax.lax.bitcast_convert_type((bits >> np.uint64(12)) | exponent, jnp.float64)
    return from_one - (1 - 2.0**-53)


def _normal(u: Array) -> Array:
    return np.sqrt(2.0) * jax.lax.erf_inv(2 * u - 1)


def normal(key: Array, like: Array) -> Array:
    """Standard normals of the shape and type of `like`, [K]."""
    return _normal(uniform(key, like.shape[0])).astype(like.dtype)


def gamma(key: Array, shape: Array, least: float = 0.0) -> Array:
    """Gamma variables of scale 1 and positive shapes [K], or [K, B] for keys [B]: as the shapes.

    No shape is below `least`. A shape a < 1 takes Gamma(a + 1) U^(1/a), U uniform. (Marsaglia &
    Tsang 2000.)
    """
    a, n, boosted = shape.astype(jnp.float64), shape.shape[0], least < 1
    d = (jnp.where(a < 1, a + 1, a) if boosted else a) - 1 / 3
    c = jnp.sqrt(1 / (9 * d))

    def proposed(attempt: Array) -> tuple[Array, Array]:
        """v, and whether it is accepted: with probability 0.95 or more."""
        both = uniform(fold(key, attempt), 2 * n)
        z, u = _normal(both[:n]), both[n:]
        v = (1 + c * z) ** 3
        inside = v > 0
        bound = z * z / 2 + d * ((1 - v) + log(jnp.where(inside, v, 1)))
        return v, inside & (log(u) < bound)

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        attempt, kept, accepted = carry
        v, good = proposed(attempt)
        return attempt + 1, jnp.where(accepted, kept, v), accepted | good

    first = jnp.int32(2), *proposed(jnp.int32(1))
    _, v, _ = jax.lax.while_loop(lambda carry: jnp.any(~carry[2]), again, first)
    if boosted:
        boost = jnp.exp(log(uniform(fold(key, 0), n)) / jnp.minimum(a, 1))
        v = v * jnp.where(a < 1, boost, 1)
    return (d * v).astype(shape.dtype)


def beta(key: Array, a: Array, b: Array, least: float = 0.0) -> Array:
    """Beta(a, b) variables, a and b [K], positive: [K]; `least` as of `gamma`."""
    both = gamma(key, jnp.concatenate([a, b]).astype(jnp.float64), least)
    x, y = both[: a.shape[0]], both[a.shape[0] :]
    return (x / (x + y)).astype(a.dtype)
