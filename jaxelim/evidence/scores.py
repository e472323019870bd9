"""Rewards 0 or 1 by their scores log(p/(1 - p)), p the probability of 1."""

import math

import jax.numpy as jnp
from jax import Array


def sides(scores: Array) -> tuple[Array, Array]:
    """The probabilities of 1 and of 0, each without cancellation; any shape."""
    small = jnp.exp(-jnp.abs(scores))
    large = 1 / (1 + small)
    small = small * large
    positive = scores >= 0
    return jnp.where(positive, large, small), jnp.where(positive, small, large)


def divergence(x: Array, y: Array) -> Array:
    """d(x, y), of the means at scores x and y: any shape.

    log(1 + p (exp(h) - 1)) - p h with h = y - x and p the probability of 1 at x. With
    that of 0 and -h it is the same. The smaller probability rounds less.
    """
    p, q = sides(x)
    share, h = jnp.where(p <= q, p, q), jnp.where(p <= q, y - x, x - y)
    return jnp.maximum(jnp.log1p(share * jnp.expm1(h)) - share * h, 0)


def forces(p: Array, q: Array, p_hat: Array, q_hat: Array) -> Array:
    """p - p_hat, the derivative of d(x, y) by y: from the smaller probabilities, any shape."""
    return jnp.where(p > q, q_hat - q, p - p_hat)


def largest_curvature(scores: Array) -> Array:
    """The least b with d(x, y) <= b (y - x)^2/2 for all y, at scores x: any shape.

    tanh(x/2)/(2 x). (Jaakkola & Jordan 2000.)
    """
    near = jnp.abs(scores) < 1e-3
    apart = jnp.where(near, 1, scores)
    return jnp.where(near, 0.25 - scores**2 / 48, jnp.tanh(apart / 2) / (2 * apart))


def score(mean: float) -> float:
    """log(mean/(1 - mean)), of a number in (0, 1)."""
    return math.log(mean) - math.log1p(-mean)


def ratio(a: Array, b: Array) -> Array:
    """a/b; 1 where b is 0."""
    return jnp.where(b != 0, a / jnp.where(b != 0, b, 1), 1)
