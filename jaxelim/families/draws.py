"""Draws from a random key, for one run and for many in lanes: a key [] or keys [B].

The draws of a lane depend on its own key and parameters alone. They are made in float64
and rounded to the type of the parameters. Rejection samplers repeat until every entry
of every lane is accepted; accepted entries do not change.
"""

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.families import threefry
from jaxelim.families.logarithm import log


def fold(key: Array, n: Array | int) -> Array:
    """The n-th key that follows from `key`, n >= 0: [], or [B] with lanes; n [] or [B]."""
    return threefry.typed(threefry.fold(threefry.words(key), n))


def normal(key: Array, like: Array) -> Array:
    """Standard normals of the shape and type of `like`, [K]."""
    return threefry.normal(threefry.words(key), like.shape[0]).astype(like.dtype)


def gamma(key: Array, shape: Array, least: float = 0.0) -> Array:
    """Gamma variables of scale 1 and shapes [K], positive: [K].

    A proposal is accepted with probability 0.95 or more. A shape a < 1 takes
    Gamma(a + 1) U^(1/a), U uniform. (Marsaglia & Tsang 2000.)

    Args:
        key: [], or [B].
        shape: [K], or [K, B].
        least: a number that no shape is below.
    """
    a, n, boosted = shape.astype(jnp.float64), shape.shape[0], least < 1
    words = threefry.words(key)
    d = (jnp.where(a < 1, a + 1, a) if boosted else a) - 1 / 3
    c = 1 / jnp.sqrt(9 * d)

    def proposed(attempt: Array) -> tuple[Array, Array]:
        """v, and whether it is accepted, in one attempt of every entry."""
        z = threefry.normal(threefry.fold(words, 2 * attempt), n)
        u = threefry.uniform(threefry.fold(words, 2 * attempt + 1), n)
        v = (1 + c * z) ** 3
        inside = v > 0
        bound = z * z / 2 + d * ((1 - v) + log(jnp.where(inside, v, 1)))
        return v, inside & (log(u) < bound)

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        attempt, kept, found = carry
        v, good = proposed(attempt)
        return attempt + 1, jnp.where(found, kept, v), found | good

    first = jnp.int32(2), *proposed(jnp.int32(1))
    _, v, _ = jax.lax.while_loop(lambda carry: jnp.any(~carry[2]), again, first)
    if boosted:
        u = 1 - threefry.uniform(threefry.fold(words, 0), n)  # above 0
        v = v * jnp.where(a < 1, jnp.exp(log(u) / jnp.minimum(a, 1)), 1)
    return (d * v).astype(shape.dtype)


def beta(key: Array, a: Array, b: Array, least: float = 0.0) -> Array:
    """Beta(a, b) variables, a and b [K], positive: [K]; `least` as of `gamma`."""
    both = gamma(key, jnp.concatenate([a, b]).astype(jnp.float64), least)
    x, y = both[: a.shape[0]], both[a.shape[0] :]
    return (x / (x + y)).astype(a.dtype)
