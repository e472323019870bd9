"""Rewards that are 0 or 1."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.shapes import Levels, Rows, Shape
from jaxelim.contracts.slack import SlackRows
from jaxelim.families import draws
from jaxelim.families.divergences import poisson
from jaxelim.families.one_parameter import OneParameter
from jaxelim.lanes import LaneOps
from jaxelim.numerics.binet import remainder
from jaxelim.numerics.logarithm import log1p, log_ratio


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Bernoulli(OneParameter):
    r"""Rewards that are 1 with probability mu, else 0; means in [0, 1], both ends included.

    $$
    d(x, y) = x \log(x / y) + (1 - x) \log\left( \frac{1 - x}{1 - y} \right), V(y) = y (1 - y)
    $$

    Garivier & Kaufmann 2016; bounds: Kaufmann & Kalyanakrishnan 2013.
    """

    name: ClassVar[str] = "bernoulli"
    any_law: ClassVar[bool] = True
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    shapes: ClassVar[tuple[type[Shape], ...]] = (Rows, Levels, SlackRows)

    def check_rewards(self, rewards: np.ndarray) -> None:
        self.refuse_rewards(rewards, (rewards != 0) & (rewards != 1), "0 or 1")

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """1 where the noise, uniform on [0, 1), is below the mean, else 0."""
        return (noise < lanes.take(nature, arm)).astype(noise.dtype)

    def divergence(self, x: Array, y: Array) -> Array:
        """P(x, y) + P(1 - x, 1 - y): -log(1 - y) for x = 0, -log y for x = 1."""
        # (1 - x) - (1 - y) would lose the last digits of small means.
        difference = x - y
        return poisson(x, y, difference) + poisson(1 - x, 1 - y, -difference)

    def around(self, a: Array, up: Array, b: Array, down: Array) -> tuple[Array, Array, Array]:
        """From u = b + down and 1 - u = (1 - a) + up, sums of positive terms."""
        u, rest = b + down, (1 - a) + up
        d_a = poisson(a, u, up) + poisson(1 - a, rest, -up)
        d_b = poisson(b, u, -down) + poisson(1 - b, rest, down)
        return d_a, d_b, u * rest

    def variance(self, y: Array) -> Array:
        """y (1 - y)."""
        return y * (1 - y)

    def posterior(self, key: Array, counts: Array, means: Array) -> Array:
        """Beta(1 + S, 1 + N - S), S the successes: the prior is uniform."""
        successes = counts * means
        return draws.beta(key, 1 + successes, 1 + (counts - successes), least=1.0)

    def log_mixture_at(self, n: Array, m: Array, y: Array, c: Array) -> Array:
        """The prior is Beta(a, b), a = c at, b = c (1 - at). With S successes

        log B(S + a, N - S + b) - log B(a, b) - S log at - (N - S) log(1 - at).
        """
        rest = 1 - y
        a, b, off = c * y, c * rest, n * (m - y)
        total, yes, no = n + c, n * m + a, n * (1 - m) + b
        up, down = log_ratio(yes, total * y, off), log_ratio(no, total * rest, -off)
        value = (yes - 0.5) * up + (no - 0.5) * down + remainder(yes) + remainder(no)
        value = value - remainder(total) - log1p(n / c) / 2
        return value - remainder(a) - remainder(b) + remainder(c)

    def bracket(self, mean: Array, radius: Array) -> tuple[Array, Array]:
        """Numbers at or beyond the two bounds: on each side the nearer of two.

        The first comes from d(x, x + e) >= e^2/(2 V(x + 2e/3)), which follows from
        g(r) >= r^2/(2 (1 + r/3)). It solves a quadratic in e, and is sharp for small
        radii.

        The second comes from d(x, y) >= x log(x/y) + (1 - x) log(1 - x), and the same
        with 1 - x and 1 - y. It is sharp where the bound is near an end.
        """
        rest = 1 - mean
        order = mean * jnp.log(jnp.where(mean > 0, mean, 1))
        order = order + rest * jnp.log1p(jnp.where(rest > 0, -mean, 0))  # negative entropy

        def reach(x: Array) -> Array:
            """The root e >= 0 of the quadratic, upwards from x."""
            tilt, wide = (2 / 3) * radius * (1 - 2 * x), 1 + (8 / 9) * radius
            return (tilt + jnp.sqrt(tilt * tilt + 2 * radius * (x * (1 - x)) * wide)) / wide

        def exponent(x: Array) -> Array:
            """Log of a lower bound on the distance from the end that is x away from the mean."""
            return (order - radius) / jnp.where(x > 0, x, 1)

        lowest = jnp.where(mean > 0, jnp.exp(exponent(mean)), 0)
        highest = jnp.where(rest > 0, -jnp.expm1(exponent(rest)), 1)
        lower, upper = mean - reach(rest), mean + reach(mean)
        return jnp.maximum(lower, lowest), jnp.minimum(upper, highest)
