"""The closest point of a piece with slack, for one-parameter families.

The piece {mu_b >= mu_a + slack} costs the least n_a d(a, x) + n_b d(b, x + slack) over x
in [b - slack, a] and the range of means. With V the variance, the minimum is at

    n_a (x - a) V(x + slack) + n_b (x + slack - b) V(x) = 0,

which has one root where log V is concave. (Garivier & Kaufmann 2021)
"""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

if TYPE_CHECKING:
    from jaxelim.families.one_parameter import OneParameter

_MOST = 100
"""Most iterations. It takes 3 to 10; this is enough for bisection alone."""


def closest(
    family: "OneParameter", n_a: Array, a: Array, n_b: Array, b: Array, slack: float | Array
) -> Array:
    """The x above, for a > b - slack; Newton's method, guarded by bisection.

    No entry depends on the others. The loop does not support reverse-mode derivatives.

    Args:
        family: gives V and the range of means; log V must be concave.
        n_a: precision counts of arm a, positive.
        a: its mean.
        n_b: precision counts of arm b, positive.
        b: its mean.
        slack: above 0, and below the length of the range of means.
    """
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in (n_a, a, n_b, b)))
    n_a, a, n_b, b = (jnp.broadcast_to(x, shape) for x in (n_a, a, n_b, b))
    low, high = np.asarray([family.low, family.high], a.dtype)
    share = n_a / (n_a + n_b)
    rest = n_b / (n_a + n_b)
    start = jnp.maximum(b - slack, low)
    end = jnp.maximum(jnp.minimum(a, high - slack), start)

    def slope(x: Array) -> Array:
        """The left side of the equation over (n_a + n_b) (V(x) + V(x + slack))."""
        here, there = family.variance(x), family.variance(x + slack)
        total = here + there
        total = jnp.where(total > 0, total, 1)
        return share * (x - a) * (there / total) + rest * (x + slack - b) * (here / total)

    def room(x: Array) -> Array:
        """The distance from the ends of the interval and of the range."""
        width = end - start
        width = jnp.minimum(width, x - low) if np.isfinite(low) else width
        return jnp.minimum(width, (high - slack) - x) if np.isfinite(high) else width

    enough = float(np.finfo(a.dtype).eps) ** 0.5  # the error is squared by the last step

    def body(carry):
        i, x, inner, outer, last, going = carry
        value, rise = jax.jvp(slope, (x,), (jnp.ones_like(x),))
        inner, outer = jnp.where(value < 0, x, inner), jnp.where(value < 0, outer, x)
        step = -value / jnp.where(rise > 0, rise, 1)
        new = x + step
        newton = (new > inner) & (new < outer) & (2 * jnp.abs(step) <= last)
        # The last step may end beyond an earlier iterate, by rounding.
        newton = (rise > 0) & (newton | (jnp.abs(step) <= enough * room(x)))
        middle = inner + (outer - inner) / 2
        new = jnp.where(newton | (value == 0), jnp.clip(new, inner, outer), middle)
        moved = jnp.abs(new - x)
        more = going & (moved > enough * room(new))
        return i + 1, jnp.where(going, new, x), inner, outer, jnp.where(going, moved, last), more

    def unfinished(carry):
        return jnp.any(carry[-1]) & (carry[0] < _MOST)

    x = a - (a - b + slack) * rest
    middle = start + (end - start) / 2
    x = jnp.where((x > start) & (x < end), x, middle)
    carry = jnp.int32(0), x, start, end, end - start, end > start
    return jax.lax.while_loop(unfinished, body, carry)[1]
