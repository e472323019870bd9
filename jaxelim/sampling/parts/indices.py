"""What rules that compare all pairs of arms have in common: gap indices, the ambiguous pair, arms that others beat.

B_ij bounds mu_i - mu_j from above. Shapes leave the lanes out (see `jaxelim.lanes`).
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.views import View
from jaxelim.lanes import ARMS_A_BLOCK, ArmBlock, LaneOps, balanced
from jaxelim.problems.top_m import largest


def rank(lanes: LaneOps, rows: Callable[[ArmBlock], list[Array]], count: int, m: int, like: Array) -> Array:
    """The m-th largest over i of rows(i) [K], entry by entry and equal entries counted apart: [K].

    `rows` gives the rows of some arms; of all count rows one entry in each column is -inf and stands for nothing. The m
    largest so far, or where that is shorter the count - m smallest, are kept in order, and some rows at a time, put in order
    themselves, are merged with them.
    """
    smallest = count - m < m
    sign, kept = (-1, count - m) if smallest else (1, m)
    some = min(ARMS_A_BLOCK, count)

    def body(b, best):
        arms = ArmBlock(jnp.minimum(b * some, count - some), some)
        fresh = []
        for r, x in enumerate(rows(arms)):
            x = jnp.where(x == -jnp.inf, jnp.inf, x) if smallest else x
            fresh.append(jnp.where(arms.first + r < b * some, -jnp.inf, sign * x))  # not once more
        return _merged(best, lanes.materialize(_sorted, fresh))

    best = (jnp.full_like(like, -jnp.inf),) * kept
    return sign * jax.lax.fori_loop(np.int32(0), np.int32(-(-count // some)), body, best)[-1]


def _sorted(x: list[Array]) -> list[Array]:
    """Arrays in descending order, entry by entry."""
    x = list(x)
    for n in range(1, len(x)):
        for i in range(n, 0, -1):
            x[i - 1], x[i] = jnp.maximum(x[i - 1], x[i]), jnp.minimum(x[i - 1], x[i])
    return x


def _merged(a: Sequence[Array], b: Sequence[Array]) -> tuple[Array, ...]:
    """The len(a) largest of a and b together, both in descending order, as it is: the r-th from some of a and the rest of b."""
    out = []
    for r in range(len(a)):
        ways = [a[r]]
        for n in range(1, min(r + 1, len(b)) + 1):
            ways.append(jnp.minimum(a[r - n], b[n - 1]) if n <= r else b[r])
        out.append(balanced(jnp.maximum, ways))
    return tuple(out)  # not stacked: XLA's CPU backend computes what feeds a concatenation element by element


def ambiguous_pair(
    lanes: LaneOps, bounds: Array, column: Callable[[Array], Array], m: int
) -> tuple[Array, Array, Array]:
    """J [K] bool, the m arms with the smallest bounds; b, the j of J with the largest max over i outside J of B_ij; c, the
    i outside J with the largest B_ib. `bounds` [K] holds the m-th largest B_ij over i != j, column(j) is B_.j: [K]."""
    chosen = largest(lanes, -bounds, m)

    def rival(j):
        against = jnp.where(chosen.member, -jnp.inf, column(j))
        i = lanes.argmax(against)
        return j, i, lanes.take(against, i)

    b, c, most = rival(chosen.top[0])
    for r in range(1, m):
        j, i, value = rival(chosen.top[r])
        better = (value > most) | ((value == most) & (j < b))
        b, c, most = jnp.where(better, j, b), jnp.where(better, i, c), jnp.maximum(most, value)
    return chosen.member, b, c


def dominated(view: View, judges: Array, width: Array) -> Array:
    """The arms i for which some judge j has sqrt(width ||phi_j - phi_i||^2_{V^-1}) <= (phi_j - phi_i) . theta_hat.

    [K] bool, as are `judges`; identical arms do not beat one another."""

    def body(j, out):
        norm = view.linear.distances(j)
        closer = jnp.sqrt(norm * width) <= view.linear.margins(j)
        return out | (judges[j] & (norm > 0) & closer)

    return jax.lax.fori_loop(np.int32(0), np.int32(view.means.shape[0]), body, jnp.zeros(view.means.shape, bool))


def less_pulled(view: View, b: Array, c: Array) -> Array:
    """The less pulled of two arms, c where they are even."""
    return jnp.where(view.lanes.take(view.counts, b) < view.lanes.take(view.counts, c), b, c)


def observed(view: View) -> tuple[Array, Array]:
    """Means R_k/N_k, and the radius sqrt(2 beta(t, delta)/N_k) of their confidence intervals: [K] each."""
    assert view.reward_sums is not None
    return view.reward_sums / view.counts, jnp.sqrt(2 * view.beta / view.counts)

