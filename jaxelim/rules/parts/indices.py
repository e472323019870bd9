"""Parts of rules that compare all pairs of arms: gap indices, ambiguous pairs, dominated arms.

B_ij is an upper bound on mu_i - mu_j. Shapes leave the lanes out (see `jaxelim.lanes`).
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Family
from jaxelim.contracts.pieces import Interval
from jaxelim.contracts.sets import largest
from jaxelim.contracts.views import View
from jaxelim.lanes import ARMS_A_BLOCK, ArmBlock, LaneOps, balanced


def rank(
    lanes: LaneOps, rows: Callable[[ArmBlock], list[Array]], count: int, m: int, like: Array
) -> Array:
    """The m-th largest over i of rows(i) [K], entry by entry, ties counted separately: [K].

    Keeps the m largest so far in order, or the count - m smallest if those are fewer. A
    block of rows is sorted and merged into them. In each column of all `count` rows one entry
    is -inf, and does not count. `like` [K] gives shape and dtype.
    """
    smallest = count - m < m
    sign, kept = (-1, count - m) if smallest else (1, m)
    some = min(ARMS_A_BLOCK, count)

    def body(b, best):
        arms = ArmBlock(jnp.minimum(b * some, count - some), some)
        fresh = []
        for r, x in enumerate(rows(arms)):
            x = jnp.where(x == -jnp.inf, jnp.inf, x) if smallest else x
            # The last block repeats earlier arms; they must not count twice.
            fresh.append(jnp.where(arms.first + r < b * some, -jnp.inf, sign * x))
        return _merged(best, lanes.materialize(_sorted, fresh))

    best = (jnp.full_like(like, -jnp.inf),) * kept
    return sign * jax.lax.fori_loop(np.int32(0), np.int32(-(-count // some)), body, best)[-1]


def _sorted(x: list[Array]) -> list[Array]:
    """Sort arrays in descending order, entry by entry."""
    x = list(x)
    for n in range(1, len(x)):
        for i in range(n, 0, -1):
            x[i - 1], x[i] = jnp.maximum(x[i - 1], x[i]), jnp.minimum(x[i - 1], x[i])
    return x


def _merged(a: Sequence[Array], b: Sequence[Array]) -> tuple[Array, ...]:
    """The len(a) largest of a and b together; all are in descending order.

    The r-th largest is the max over n of the min of a's (r - n)-th and b's n-th.
    """
    out = []
    for r in range(len(a)):
        ways = [a[r]]
        for n in range(1, min(r + 1, len(b)) + 1):
            ways.append(jnp.minimum(a[r - n], b[n - 1]) if n <= r else b[r])
        out.append(balanced(jnp.maximum, ways))
    return tuple(out)  # not stacked: XLA:CPU computes inputs of a concatenation element by element


def ambiguous_pair(
    lanes: LaneOps, bounds: Array, column: Callable[[Array], Array], m: int
) -> tuple[Array, Array, Array]:
    """The guess J and its most ambiguous pair (b, c).

    J = the m arms j with the smallest `bounds` [K], the m-th largest B_ij over i != j;
    b = argmax_{j in J} max_{i not in J} B_ij,   c = argmax_{i not in J} B_ib.

    column(j) is B_.j [K]. Returns J [K] bool, and b, c [] int32.
    """
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
    """The candidates i that some judge j dominates: [K] bool; `judges` [K] bool.

    sqrt(width ||phi_j - phi_i||^2_{V^-1}) <= (phi_j - phi_i) . theta_hat, for unlike arms.
    """

    def body(j, out):
        norm = view.linear.distances(j)
        closer = jnp.sqrt(norm * width) <= view.linear.margins(j)
        return out | (judges[j] & (norm > 0) & closer)

    none = jnp.zeros(judges.shape, bool)
    return jax.lax.fori_loop(np.int32(0), np.int32(judges.shape[0]), body, none)


def of_pairs_alone(family: Family) -> bool:
    """Whether the evidence is of pairs alone, without intervals of arms or values at weights."""
    return family.has("overlap") and not family.has("interval")


def less_pulled(view: View, b: Array, c: Array) -> Array:
    """The less pulled of two arms; c if they have equal counts."""
    return jnp.where(view.lanes.take(view.counts, b) < view.lanes.take(view.counts, c), b, c)


def observed(view: View) -> tuple[Array, Interval]:
    """Means R_k/N_k [K], and their confidence intervals at level beta(t, delta)."""
    means = view.means
    if view.family.design:  # other families' means are R_k/N_k
        assert view.reward_sums is not None  # kept, as `reads` says
        means = view.reward_sums / view.counts
    return means, view.family.interval(view, means, view.beta)
