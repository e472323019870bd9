"""Gaussian rewards whose means and variances are unknown: losses, and where two arms meet.

With f degrees of freedom and v the variance of an arm's rewards, moving its mean by x has the
log-likelihood ratio f log(1 + x^2/v)/2. An arm without variance moves for nothing. (Jourdan,
Degenne & Kaufmann 2023.)
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

_MOST = 1e30
"""Largest ratio v/gap^2: beyond it a pair costs less than rounding."""

_STEPS, _POLISH, _FAR = 3, 2, 1e-3
"""Newton steps for the distance to a root, and for the root itself; the longest of these."""


class Spread(NamedTuple):
    """The statistics of arms, of any one shape."""

    n: Array
    mean: Array
    squares: Array  # M2 = sum of (x - m)^2 over an arm's rewards, by Welford's recurrence

    @property
    def variance(self) -> Array:
        """v = M2/N; 0 for one pull, or rewards that are all equal."""
        return self.squares / self.n


def more(stat: Spread, x: Array) -> Spread:
    """The statistics after one more reward: M2 never falls, and stays 0 while all are equal."""
    n, off = stat.n + 1, x - stat.mean
    mean = stat.mean + off / n
    return Spread(n, mean, stat.squares + off * (x - mean))


def loss(stat: Spread, by: Array) -> Array:
    """log(1 + by^2/v)/2; 0 where v = 0."""
    known = stat.squares > 0
    return jnp.log1p(by * by * jnp.where(known, stat.n / jnp.where(known, stat.squares, 1), 0)) / 2


def reach(stat: Spread, radius: Array) -> Array:
    """The x with loss(x) = radius; inf where the radius is, or v = 0."""
    known = (radius < jnp.inf) & (stat.squares > 0)
    wide = jnp.expm1(2 * jnp.where(known, radius, 0))
    return jnp.where(known, jnp.sqrt(stat.variance * wide), jnp.inf)


def meet(w_a: Array, a: Spread, w_b: Array, b: Spread, off: Array) -> Array:
    """The x in [0, off] with the least w_a loss(a, -x) + w_b loss(b, off - x).

    The derivative is a cubic with one root or three there; of three the outer two are minima.
    They are the least roots seen from both ends. The sum is compared at both, and it is
    nowhere below its minimum, so no root has to be classified. H_p has a kink where both
    minima are equal: H* and Track-and-Stop are not defined.

    Args:
        w_a, w_b: degrees of freedom or weights, at least 0; any shape.
        a, b: statistics.
        off: at least 0.
    """
    fixed_a, fixed_b = a.squares > 0, b.squares > 0  # an arm without variance moves all the way
    square = jnp.maximum(off * off, float(np.finfo(off.dtype).tiny))
    v_a, v_b = (
        jnp.minimum(jnp.where(fixed, stat.squares, 1) / (stat.n * square), _MOST)
        for fixed, stat in ((fixed_a, a), (fixed_b, b))
    )
    total = w_a + w_b
    share = 1 / jnp.where(total > 0, total, 1)
    p, q = w_a * share, w_b * share
    up, down = _least_root(p, q, v_a, v_b), _least_root(q, p, v_b, v_a)
    # What a costs with its mean at `up` from b's over what it costs `down` from its own; b's.
    of_a = (v_a + (1 - up) ** 2) / (v_a + down * down)
    of_b = (v_b + up * up) / (v_b + (1 - down) ** 2)
    x = jnp.where(p * jnp.log(of_a) + q * jnp.log(of_b) <= 0, 1 - up, down)
    return off * jnp.where(fixed_a, jnp.where(fixed_b, x, 0), 1)


def _least_root(p: Array, q: Array, other: Array, own: Array) -> Array:
    """The least root in [0, 1] of c(x) = p (x - 1)(x^2 + own) + q x ((x - 1)^2 + other).

    c(0) < 0, and c is concave up to h = (1 + q)/3. Where c >= 0 at its maximum in
    [0, h], the least root is at distance e before that maximum; e solves
    e^3 + 3 r e^2 + s e = c(maximum), with 3 r^2 = -c'(h) or s = c'(h), whichever is
    positive. Newton's method falls from above to e, then rises from below to the root.
    Where c < 0 there, the result is some other point of [0, 1].

    Args:
        p: share of the arm at 1, in [0, 1]; any shape.
        q: 1 - p.
        other: v/gap^2 of the arm at 1, positive.
        own: v/gap^2 of the arm at 0, positive.
    """
    linear, turn = p * own + q * (1 + other), (1 + q) / 3
    slope = linear - (1 + q) * turn
    rises = slope > 0
    r = jnp.sqrt(jnp.maximum(-slope, 0) / 3)
    top = jnp.maximum(turn - r, 0)

    def c(x: Array) -> Array:
        return ((x - (1 + q)) * x + linear) * x - p * own

    high, tiny = jnp.maximum(c(top), 0), float(np.finfo(p.dtype).tiny)
    wide, steep = 3 * r, jnp.maximum(slope, 0)
    # Each of the three terms alone gives an upper bound on e; the least is below 1.5 e.
    e = jnp.exp(jnp.log(jnp.maximum(high, tiny)) / 3)
    bound = jnp.where(rises, high / jnp.maximum(steep, tiny),
                      jnp.sqrt(high / jnp.maximum(wide, tiny)))  # fmt: skip
    e = jnp.minimum(e, bound)
    for _ in range(_STEPS):
        excess = ((e + wide) * e + steep) * e - high
        step = excess / jnp.maximum((3 * e + 2 * wide) * e + steep, tiny)
        e = jnp.clip(e - step, 0, e)
    x = jnp.clip(top - e, 0, 1)
    for _ in range(_POLISH):
        tilt = (3 * x - 2 * (1 + q)) * x + linear
        # Where c is flat its rounding would move x far; a true correction is small.
        step = jnp.clip(c(x) / jnp.maximum(tilt, tiny), -_FAR, _FAR)
        x = jnp.clip(x - jnp.where(tilt > 0, step, 0), 0, 1)
    return x
