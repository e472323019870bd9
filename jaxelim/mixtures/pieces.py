"""E-values of the pieces of one run, from a family's `log_mixture`."""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.mixtures import infimum
from jaxelim.mixtures.grid import Grid, log_mean_exp, spread

if TYPE_CHECKING:
    from jaxelim.contracts import Family
    from jaxelim.contracts.shapes import Shape
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
    family: "Family", space: "ArmContext", stats: "Statistics", shape: "Shape", grid: Grid
) -> Array:
    """log e of every piece, for one run: [Q]; `space.lanes` has the plain form.

    e_p = inf over lambda in p of sum_j w_j prod_k M_{k,j}(lambda_k), j over the priors of
    the grid. The result is at most log e_p, and -inf where that is not above 0 or where
    there is no piece. Never NaN.
    """
    closed = getattr(family, "log_e", None)
    if closed is not None:
        return closed(space, stats, shape, grid)
    stat, priors = family.stat_of(stats.counts, stats.means, stats.moments), family.priors(grid)
    outside = shape.separation(space.lanes, stats.means)
    if shape.level is not None:
        value = _of_levels(family, stat, shape, priors)
    elif family.convex_in:
        value = of_pairs(family, *both_sides(shape, space.lanes, stat), shape.slack, priors[0])
    else:
        value = _over_cells(family, *both_sides(shape, space.lanes, stat), shape, priors)
    return jnp.where(shape.exists & (outside > 0) & (value > 0), value, -jnp.inf)


def _of_levels(family: Any, stat: Tree, shape: Any, priors: tuple) -> Array:
    """The mixture at the level. Above 0 it falls from there towards the estimate."""
    level = jnp.full_like(stat.mean, shape.level)
    up, down = priors
    value = log_mean_exp(each(family, stat, level, up))
    if up is down:
        return value
    return jnp.where(shape.above, value, log_mean_exp(each(family, stat, level, down)))


def of_pairs(family: Any, a: Tree, b: Tree, slack: Any, priors: Any) -> Array:
    """Where mu_b = mu_a + slack: of arms a and b [Q] whose mixtures are convex."""
    c, stat = spread(priors, jax.tree.map(lambda *x: jnp.stack(x), a, b))

    def components(at: Array) -> Array:
        return family.log_mixture(stat, jnp.broadcast_to(at, c.shape), c)

    return infimum.convex(
        components, a.mean, b.mean, a.n / (a.n + b.n), family.low, family.high, slack,
        family.convex_in == "reciprocal",
    )  # fmt: skip


def _over_cells(family: Any, a: Tree, b: Tree, shape: Any, priors: tuple) -> Array:
    """Of arms a and b [Q] whose mixtures fall up to the estimate and rise from there."""
    slack, (up, down) = shape.slack, priors

    def value(piece: tuple) -> Array:
        exists, a, b = piece
        low = jnp.maximum(b.mean - slack, family.low)
        high = jnp.minimum(a.mean, family.high - slack)
        beyond = low > family.low, high < family.high - slack

        def components(u: Array) -> tuple[Array, Array]:
            like = jax.tree.map(lambda x: jnp.broadcast_to(x, u.shape), (a, b))
            return each(family, like[0], u, up), each(family, like[1], u + slack, down)

        def bound() -> Array:
            sides = None if up is down else beyond
            return infimum.over_cells(components, family.together, low, high, sides)

        needed = exists & (a.mean - b.mean + slack > 0)
        return jax.lax.cond(needed, bound, lambda: jnp.full_like(low, -jnp.inf))

    return jax.lax.map(value, (shape.exists, a, b))


def both_sides(shape: Any, lanes: Any, x: Tree) -> tuple[Tree, Tree]:
    """x_i and x_k of every piece of one run, of arrays [K, ..]: [Q, ..] each."""

    def sides(x: Array) -> tuple[Array, Array]:
        if not shape.several:
            own = lanes.row(x, shape.first) if x.ndim > 1 else lanes.take(x, shape.first)
            return jnp.broadcast_to(own[None], x.shape), x
        own = x[shape.first][:, None]
        whole = (own.shape[0], *x.shape)
        a, b = jnp.broadcast_to(own, whole), jnp.broadcast_to(x[None], whole)
        return a.reshape((-1, *x.shape[1:])), b.reshape((-1, *x.shape[1:]))

    leaves, tree = jax.tree.flatten(x)
    ends = [sides(leaf) for leaf in leaves]
    return tuple(tree.unflatten([end[side] for end in ends]) for side in (0, 1))  # type: ignore[return-value]
