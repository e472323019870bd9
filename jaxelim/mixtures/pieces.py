"""E-values of the pieces of one run, from a family's `log_mixture`."""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.mixtures import infimum
from jaxelim.mixtures.grid import Grid, log_mean_exp, spread

if TYPE_CHECKING:
    from jaxelim.contracts import Family
    from jaxelim.contracts.views import ArmContext, Statistics

Tree = Any


class Stat(NamedTuple):
    """What the rewards of arms say: arrays of one shape. A family may have more, after these."""

    n: Array  # pulls, or pulls by their precision
    mean: Array  # the estimate


def each(family: "Family", stat: Tree, at: Array, priors: Any) -> Array:
    """log M of every prior, at tested means: [..] -> [.., J]."""
    c, stat, at = spread(priors, stat, at)
    return family.log_mixture(stat, at, c)


def log_e(
    family: "Family", space: "ArmContext", stats: "Statistics", pieces: Any, grid: Grid,
    above: bool = False,
) -> Array:  # fmt: skip
    """log e of every piece, for one run: [Q]; `space.lanes` has the plain form.

    e_p = inf over lambda in p of sum_j w_j prod_k M_{k,j}(lambda_k), j over the priors of
    the grid. The result is at most log e_p, and -inf where that is not above 0 or where
    there is no piece. Never NaN. With `above` it is at least log e_p, the sum at one mean.
    """
    closed = getattr(family, "log_e", None)
    if closed is not None:
        return closed(space, stats, pieces, grid)
    stat, priors = family.stat_of(stats.counts, stats.means, stats.moments), family.priors(grid)
    if pieces.signs:
        value = jnp.where(pieces.above, *_of_levels(family, stat, pieces, priors))
    else:
        (i, k), last = pieces.places(), stat.mean.shape[0]
        at_i, at_k = (jnp.minimum(j, last - 1) for j in (i, k))  # a reference follows below
        a, b = (jax.tree.map(lambda x, at=at: x[at], stat) for at in (at_i, at_k))
        known = stats.used_up
        still = None if known is None else (known[at_i], known[at_k])
        if above:
            value = between(family, a, b, pieces.slack, priors, still)
        elif family.convex_in:
            value = of_pairs(family, a, b, pieces.slack, priors[0])
        else:
            value = over_cells(family, a, b, pieces, priors, still)
        if pieces.refers:
            up, down = _of_levels(family, stat, pieces, priors)
            value = jnp.where(i == last, down[at_k], jnp.where(k == last, up[at_i], value))
    outside = pieces.outside(space.lanes, stats.means)
    return jnp.where(pieces.exists & (outside > 0) & (value > 0), value, -jnp.inf)


def _of_levels(family: Any, stat: Tree, pieces: Any, priors: tuple) -> list[Array]:
    """The mixture at level - slack, of arms above, and at level + slack, of those below: [K] each.

    Above 0 it falls from there towards the estimate.
    """
    level, slack = pieces.level, pieces.slack

    def at(mean: float, prior: Any) -> Array:
        return log_mean_exp(each(family, stat, jnp.full_like(stat.mean, mean), prior))

    up = at(level - slack, priors[0])
    if priors[0] is priors[1] and not slack:
        return [up, up]
    return [up, at(level + slack, priors[1])]


def of_pairs(family: Any, a: Tree, b: Tree, slack: Any, priors: Any) -> Array:
    """Where mu_b = mu_a + slack: of arms a and b [Q] whose mixtures are convex."""
    c, stat = spread(priors, jax.tree.map(lambda *x: jnp.stack(x), a, b))

    def components(at: Array) -> Array:
        return family.log_mixture(stat, jnp.broadcast_to(at, c.shape), c)

    return infimum.convex(
        components, a.mean, b.mean, a.n / (a.n + b.n), family.low, family.high, slack,
        family.convex_in == "reciprocal",
    )  # fmt: skip


def _both(priors: tuple) -> Array:
    """The priors of a and b, to broadcast: [2, 1, J]."""
    return jnp.stack([jnp.asarray(one) for one in priors])[:, None]


def _range(family: Any, a: Tree, b: Tree, slack: Any, known: Any) -> tuple[Array, Array]:
    """The range of u, that a piece has means u and u + slack; one mean where one is `known`."""
    low = jnp.maximum(b.mean - slack, family.low)
    high = jnp.minimum(a.mean, family.high - slack)
    if known is None:
        return low, high
    return jnp.where(known[0], high, low), jnp.where(known[1] & ~known[0], low, high)


def between(family: Any, a: Tree, b: Tree, slack: Any, priors: tuple, known: Any) -> Array:
    """At one mean between the estimates of arms a and b [Q], near the least: [Q]."""
    low, high = _range(family, a, b, slack, known)
    u = low + (high - low) * (a.n / (a.n + b.n))
    of_both = jax.tree.map(lambda *x: jnp.stack(x), a, b)
    value = family.together(*each(family, of_both, jnp.stack([u, u + slack]), _both(priors)))
    return jnp.where(jnp.isnan(value), jnp.inf, value)


def over_cells(
    family: Any, a: Tree, b: Tree, pieces: Any, priors: tuple, known: Any = None
) -> Array:
    """Of arms a and b [Q] whose mixtures fall up to the estimate and rise from there."""
    slack, same, of_priors = pieces.slack, priors[0] is priors[1], _both(priors)

    def value(piece: tuple) -> Array:
        exists, a, b, known = piece
        of_both = jax.tree.map(lambda *x: jnp.stack(x), a, b)
        low, high = _range(family, a, b, slack, known)
        beyond = low > family.low, high < family.high - slack
        if known is not None:
            beyond = tuple(side & ~known[0] & ~known[1] for side in beyond)

        def components(u: Array) -> Array:
            like = jax.tree.map(lambda x: jnp.broadcast_to(x, (*u.shape, 2)).T, of_both)
            return each(family, like, jnp.stack([u, u + slack]), of_priors)

        def bound() -> Array:
            sides = None if same else beyond
            return infimum.over_cells(components, family.together, low, high, sides)

        outside = exists & (a.mean - b.mean + slack > 0)
        return jax.lax.cond(outside, bound, lambda: jnp.full_like(low, -jnp.inf))

    return jax.lax.map(value, (pieces.exists, a, b, known))
