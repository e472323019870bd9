"""Draws from a random key, for one run and for many in lanes: a key [] or keys [B].

The draws of a lane depend on its own key and parameters alone. Rejection samplers repeat until
every entry of every lane is accepted; accepted entries do not change.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.numerics.logarithm import log


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
    return jax.lax.bitcast_convert_type((bits >> np.uint64(12)) | exponent, jnp.float64) - (
        1 - 2.0**-53
    )


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
