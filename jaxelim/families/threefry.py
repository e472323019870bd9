"""Threefry 2x32 as plain arithmetic, which XLA fuses with what reads the numbers.

The numbers are those of `jax.random` for Threefry keys, with its setting
`threefry_partitionable`. On CPUs JAX's own form is a loop over rounds, many times slower
for one number a lane. (Salmon, Moraes, Dror & Shaw 2011.)
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Words = tuple[Array, Array]
"""A key, or 64 random bits: two arrays of uint32, the high one first."""

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = np.uint32(0x1BD11BDA)


def words(key: Array) -> Words:
    """The words of a typed key, of any shape."""
    data = jax.random.key_data(key)
    return data[..., 0], data[..., 1]


def typed(key: Words) -> Array:
    """The typed key of these words."""
    return jax.random.wrap_key_data(jnp.stack(key, -1), impl="threefry2x32")


def _block(key: Words, high: Array, low: Array) -> Words:
    """Threefry with 20 rounds."""
    schedule = key[0], key[1], key[0] ^ key[1] ^ _PARITY
    x, y = high + schedule[0], low + schedule[1]
    for r in range(5):
        for turn in _ROTATIONS[r % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn)))
        x = x + schedule[(r + 1) % 3]
        y = y + (schedule[(r + 2) % 3] + np.uint32(r + 1))
    return x, y


def fold(key: Words, n: Array | int) -> Words:
    """`jax.random.fold_in`; n is an integer or an array to broadcast with the key."""
    low = jnp.asarray(n).astype(jnp.uint32)
    return _block(key, jnp.zeros_like(low), low)


def bits(key: Words, n: int | None = None) -> Array:
    """64 bits of each key, or n of them along a new first axis: uint64."""
    place = jnp.uint32(0)
    if n is not None:
        place = jnp.arange(n, dtype=jnp.uint32).reshape((n,) + (1,) * key[0].ndim)
    high, low = _block(key, jnp.zeros_like(place), place)
    return (high.astype(jnp.uint64) << np.uint64(32)) | low.astype(jnp.uint64)


def uniform(key: Words, n: int | None = None) -> Array:
    """Uniforms on [0, 1), multiples of 2^-52, of the shape of `bits`: float64."""
    mantissa = (bits(key, n) >> np.uint64(12)) | np.uint64(0x3FF0000000000000)
    return jax.lax.bitcast_convert_type(mantissa, jnp.float64) - 1


def normal(key: Words, n: int | None = None) -> Array:
    """Standard normals of the shape of `bits`: float64."""
    low = np.nextafter(-1.0, 0.0)
    u = jnp.maximum(low, uniform(key, n) * (1 - low) + low)
    return np.sqrt(2.0) * jax.lax.erf_inv(u)
