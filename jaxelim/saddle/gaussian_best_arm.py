"""The optimal allocation of best arm for independent Gaussian arms: one scalar root.

Let i be the best arm, g_a > 0 the gap of arm a, n_k = w_k/c_k its precision, c_k its
cost. With a = (g_a/min g)^2 the ratios

    z_a = n_a/n_i = 1/(a u - 1)

make all H_a equal. The allocation is optimal where S(u) = sum_a (c_a/c_i) z_a^2 = 1.
(Garivier & Kaufmann 2016, Theorem 5, for Gaussian rewards.) S^(-1/2) is increasing and
concave in u > 1, as in secular equations. So Newton's method for it lands left of the
root from any u, and climbs to it from there.

This is traced code for one run and for lanes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.lanes import LaneOps, index_like

_STEPS = 30  # 2 or 3 are taken from the solution of a sample before, some 6 from any u
_CLOSE = 1e-7  # a step from |S - 1| below this is the last; its error is squared


class GaussianWeights(NamedTuple):
    """The optimal allocation of best arm for Gaussian rewards."""

    weights: Array  # [K] w*, on the simplex; 0 at arms that are not `counted`
    root: Array  # [] u, where the next solve starts


def gaussian_weights(
    lanes: LaneOps, means: Array, best: Array, counted: Array, costs: Array | None = None,
    start: Array | None = None,
) -> GaussianWeights:  # fmt: skip
    """The allocation w* that maximises min_{a != i} H_a(w), i the best arm.

    The relative duality gap is below 1e-12. A lane's result does not depend on other
    lanes.

    Args:
        lanes: the primitives.
        means: [K], float64.
        best: [] int32, a counted arm of largest mean.
        counted: [K] bool, the arms that count.
        costs: [K] c_k > 0; None: 1.
        start: [] u of an earlier solve; None or 0: from the least u.

    Returns:
        A `GaussianWeights`. Several counted arms of largest mean share all weight
        evenly. If one arm counts it has weight 1.
    """
    ratio = None if costs is None else costs / lanes.take(costs, best)
    gap = lanes.take(means, best) - means
    here = index_like(means) == best
    other = counted & ~here
    square = jnp.where(other, gap * gap, jnp.inf)
    low = lanes.min(square)
    tied, alone = low == 0, low == jnp.inf
    going = ~(tied | alone)
    scaled = lanes.materialize(lambda square, low: square / low, square, jnp.where(going, low, 1))
    # At the least gaps z_a = 1/(u - 1), and one term of S is at most 1.
    least = jnp.asarray(2.0, means.dtype)
    if ratio is not None:
        least = 1 + jnp.sqrt(lanes.max(jnp.where(square <= low, ratio, 0)))

    def per_cost(x):
        return x if ratio is None else x * ratio

    def body(carry):
        i, u, going = carry

        def sums(scaled, u):
            z = 1 / (scaled * u - 1)
            squares = z * z
            return per_cost(squares), per_cost(squares * z)

        s, c = (lanes.sum(x) for x in sums(scaled, u))
        last = jnp.abs(s - 1) < _CLOSE
        moved = jnp.maximum(u + u * (s * jnp.sqrt(s) - s) / (s + c), least)
        return i + 1, jnp.where(going, moved, u), going & ~last

    u = jnp.maximum(jnp.zeros_like(low) if start is None else start, least)

    def more(carry):
        return (carry[0] < _STEPS) & jnp.any(carry[2])

    _, u, _ = jax.lax.while_loop(more, body, (jnp.int32(0), u, going))
    z = per_cost(1 / (scaled * u - 1))
    equal = (counted & (gap * gap == 0)).astype(means.dtype)
    share = jnp.where(tied, equal, jnp.where(here, 1, z))
    return GaussianWeights(share / lanes.sum(share), u)
