"""The least value of a mixture of two arms over the boundary of a pair's piece.

The piece is {mu_b >= mu_a + slack}. With g_kj = log M_kj, convex in a coordinate x of the
mean (the mean itself or 1/mean),

    F(mu_a, mu_b) = log mean_j exp(g_aj(mu_a) + g_bj(mu_b))

is convex in (x_a, x_b). So the least value over the piece is at mu_b = mu_a + slack, if F
falls there as the two means move out of the piece; and F is at least each of its tangents.
Newton's method, guarded by bisection, brackets the least point u of F(u, u + slack).
The result is where the tangents at the two ends of the bracket meet. It is a lower bound
after any number of steps.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.numerics.logarithm import log

MOST = 40
"""Most iterations. It takes 3 to 6; a bracket of a finite range needs about 50 halvings."""
ENOUGH = 1e-11
"""The gap between the bounds at which a loop ends, relative to 1 + |F|."""
_PAST = 0.25
"""Overshoot of a Newton step, relative to its length in standard deviations."""
_LEAST_PAST = 1e-6
"""Least overshoot, in standard deviations. It costs half its square."""
_TOWARD_END = 64.0
"""A search steps to this fraction of the distance from an end of the range."""

Component = Callable[[Array], Array]
Tree = Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tangent:
    """F and its partial derivatives at (u, u + slack): [Q] each."""

    at: Array  # u; an end of the range where there is no tangent yet
    value: Array
    by_a: Array
    by_b: Array
    known: Array  # bool

    @property
    def slope(self) -> Array:
        """dF/du."""
        return self.by_a + self.by_b

    def where(self, new: Array, other: "Tangent") -> "Tangent":
        """The other tangent where `new` holds."""
        return jax.tree.map(lambda old, x: jnp.where(new, x, old), self, other)


@dataclasses.dataclass(frozen=True)
class Boundary:
    """The boundary of a piece {mu_b >= mu_a + slack}, and the coordinate of convexity.

    Args:
        low, high: the range of means.
        slack: a number of at least 0; or [Q], of any sign, where the coordinate is the mean.
        reciprocal: whether the coordinate is 1/mean; else it is the mean.
        variance: V(mean), by which Newton's steps are scaled.
    """

    low: float
    high: float
    slack: float | Array
    reciprocal: bool
    variance: Callable[[Array], Array]

    @property
    def plain(self) -> bool:
        """Whether there is no slack."""
        return isinstance(self.slack, float | int) and not self.slack

    @property
    def range(self) -> tuple[Any, Any]:
        """The least and the largest u."""
        if isinstance(self.slack, float | int):
            return self.low, self.high - self.slack
        return self.low - jnp.minimum(self.slack, 0), self.high - jnp.maximum(self.slack, 0)

    def inside(self, u: Array) -> Array:
        """u, kept off the finite ends of the range."""
        if np.isfinite(self.high):
            u = jnp.minimum(u, float(np.nextafter(self.high, -np.inf)))
        if np.isfinite(self.low):
            least = np.nextafter(self.low, np.inf) if self.low else np.finfo(float).tiny
            u = jnp.maximum(u, float(least))
        return u

    def both(self, u: Array) -> Array:
        """The means u of arm a and u + slack of arm b: [2, Q]."""
        return self.inside(jnp.stack([u, u + self.slack]))

    def scale(self, u: Array) -> Array:
        """V(u) V(u + slack)/(V(u) + V(u + slack)), or V(u)/2 without slack."""
        here = self.variance(u)
        if self.plain:
            return here / 2
        there = self.variance(self.inside(u + self.slack))
        return here * there / (here + there)

    def coordinate(self, u: Array, of_b: bool) -> tuple[Array, Array]:
        """The coordinate of arm a or b at u, and du by it."""
        mean = self.inside(u + self.slack) if of_b and not self.plain else u
        return (1 / mean, -mean * mean) if self.reciprocal else (mean, jnp.ones_like(mean))

    def end(self, upper: bool, of_b: bool) -> Any:
        """The coordinate of arm a or b at an end of the range of u."""
        mean = self.range[upper] + (self.slack if of_b else 0.0)
        if not self.reciprocal:
            return mean
        return np.inf if mean == 0 else 1 / mean

    def lower(self, left: Tangent, right: Tangent, of_b: bool) -> Array:
        """Where the tangents meet, as functions of one arm's coordinate: [Q].

        One tangent alone is followed to the end of the range.
        """
        (x, by_x), (y, by_y) = (self.coordinate(side.at, of_b) for side in (left, right))
        falls, rises = left.slope * by_x, right.slope * by_y
        fall, rise = falls * (y - x), rises * (y - x)
        total = fall - rise
        share = (right.value - left.value - rise) / jnp.where(total < 0, total, -1)
        meet = left.value + fall * jnp.clip(jnp.where(total < 0, share, 0), 0, 1)
        from_left = _followed(left.value, falls, self.end(True, of_b) - x)
        from_right = _followed(right.value, rises, self.end(False, of_b) - y)
        alone = jnp.where(left.known, from_left, jnp.where(right.known, from_right, -jnp.inf))
        return jnp.where(left.known & right.known, jnp.minimum(meet, left.value), alone)

    def bound(self, left: Tangent, right: Tangent) -> Array:
        """The lower bound over the whole piece: [Q]; -inf where the boundary may not bind."""
        b_rises = (~left.known | (left.by_b >= 0)) & (~right.known | (right.by_b >= 0))
        a_falls = (~left.known | (left.by_a <= 0)) & (~right.known | (right.by_a <= 0))
        by_a, by_b = self.lower(left, right, False), self.lower(left, right, True)
        return jnp.maximum(jnp.where(b_rises, by_a, -jnp.inf), jnp.where(a_falls, by_b, -jnp.inf))


def _followed(value: Array, slope: Array, way: Array) -> Array:
    """value + slope way; the value where the slope is 0, however long the way."""
    flat = slope == 0
    return value + jnp.where(flat, 0, slope) * jnp.where(flat, 1, way)


def once(f: Callable[[Array], Tree], x: Array) -> Tree:
    """f(x), in a loop of one step, which stops XLA:CPU from computing it in every consumer.

    XLA must not find out that the loop has one step. So its count starts at a number that
    is 0 unless an entry is NaN.
    """
    f = jax.jit(f, inline=True)  # one trace serves eval_shape and the loop
    shapes = jax.eval_shape(f, x)
    empty = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    start = jnp.any(x != x).astype(jnp.int32) - 1
    _, state = jax.lax.while_loop(lambda c: c[0] < 0, lambda c: (c[0] + 1, f(x)), (start, empty))
    return state


def measured(
    boundary: Boundary, components: Component, u: Array, size: int
) -> tuple[Tangent, Array]:
    """The tangent at u, and F'' along the boundary: [Q]; `size`: J."""
    at = boundary.both(u)[..., None]
    at = jnp.broadcast_to(at, (*at.shape[:-1], size))

    def slopes(at: Array) -> tuple[Array, Array]:
        return jax.jvp(components, (at,), (jnp.ones_like(at),))

    def jet(at: Array) -> tuple[Array, Array, Array]:
        (g, first), (_, second) = jax.jvp(slopes, (at,), (jnp.ones_like(at),))
        return g, first, second

    g, first, second = once(jet, at)
    total = g[0] + g[1]
    most = jnp.max(total, -1, keepdims=True)
    weights = jnp.exp(total - most)
    mass = jnp.sum(weights, -1)
    value = most[..., 0] + log(mass / size)
    by_a, by_b = (jnp.sum(weights * slope, -1) / mass for slope in (first[0], first[1]))
    off = first[0] + first[1] - (by_a + by_b)[..., None]
    curve = jnp.sum(weights * (second[0] + second[1] + off * off), -1) / mass
    return Tangent(u, value, by_a, by_b, jnp.isfinite(value) & jnp.isfinite(by_a + by_b)), curve


def sloped(component: Component, at: Array) -> tuple[Array, Array]:
    """log mean_j exp(g_j) and its derivative at means [Q]; g [Q, J]."""
    g, first = jax.jvp(component, (at,), (jnp.ones_like(at),))
    most = jnp.max(g, -1, keepdims=True)
    weights = jnp.exp(g - most)
    mass = jnp.sum(weights, -1, keepdims=True)
    return (most + jnp.log(mass / g.shape[-1]))[..., 0], jnp.sum(weights / mass * first, -1)


def infimum(
    boundary: Boundary,
    components: Component,
    start: Array,
    reach: Array,
    needed: Array,
    size: int,
    equal: bool = False,
) -> Array:
    """A lower bound on F over the piece, equal to its infimum up to `ENOUGH` where that is above 0.

    -inf where F is not least at the boundary, or where the method did not find out.

    Args:
        boundary: the piece's.
        components: g of both arms at means [2, Q, J], equal along J, entry by entry.
        start: the first u, inside the range: [Q].
        reach: a length to begin a search with, above 0: [Q].
        needed: which entries to compute; others are -inf: [Q] bool.
        size: J.
        equal: the piece is {mu_b = mu_a + slack} alone.
    """
    low, high = boundary.range

    def unknown(end: Any) -> Tangent:
        at = jnp.broadcast_to(jnp.clip(jnp.asarray(end, start.dtype), -1e300, 1e300), start.shape)
        zero = jnp.zeros_like(start)
        return Tangent(at, zero, zero, zero, jnp.zeros_like(needed))

    def body(carry):
        i, u, left, right, going = carry
        here, curve = measured(boundary, components, u, size)
        falls = here.slope < 0
        left = left.where(going & here.known & falls, here)
        right = right.where(going & here.known & ~falls, here)
        # Newton's method for a root of scale(u) F'(u), which is nearly linear in u.
        scale, tilt = jax.jvp(boundary.scale, (u,), (jnp.ones_like(u),))
        slope = here.slope
        rise = tilt * slope + scale * curve
        sound = here.known & (rise > 0) & (curve > 0)
        step = -scale * slope / jnp.where(sound, rise, 1)
        deviation = jnp.sqrt(1 / jnp.where(sound, curve, 1))
        length = jnp.abs(step)
        past = length * jnp.minimum(_PAST * length / deviation, 0.5) + _LEAST_PAST * deviation
        new = u + jnp.where(falls, 1, -1) * (length + past)
        inside = sound & (new > left.at) & (new < right.at)
        middle = left.at + (right.at - left.at) / 2
        near_low = left.at + (u - left.at) / _TOWARD_END
        near_high = right.at + (u - right.at) / _TOWARD_END
        halved = jnp.where(left.known, jnp.where(right.known, middle, near_high), near_low)
        # Where the range has no end on the side of the root: farther and farther.
        open_end = jnp.where(
            falls,
            ~right.known & ~np.isfinite(boundary.high),
            ~left.known & ~np.isfinite(boundary.low),
        )
        far = u + jnp.where(falls, 1, -1) * (reach + 2 * jnp.abs(u - start))
        new = jnp.where(inside, new, jnp.where(open_end, far, halved))
        least = jnp.minimum(
            jnp.where(left.known, left.value, jnp.inf), jnp.where(right.known, right.value, jnp.inf)
        )
        gap = least - boundary.lower(left, right, False)
        done = (gap <= ENOUGH * (1 + jnp.abs(least))) | (least < 0) | ~here.known
        done = done | (new <= left.at) | (new >= right.at)
        return i + 1, jnp.where(going, boundary.inside(new), u), left, right, going & ~done

    def unfinished(carry):
        return jnp.any(carry[-1]) & (carry[0] < MOST)

    carry = jnp.int32(0), start, unknown(low), unknown(high), needed
    _, _, left, right, _ = jax.lax.while_loop(unfinished, body, carry)
    least = boundary.lower(left, right, False) if equal else boundary.bound(left, right)
    return jnp.where(needed & ~jnp.isnan(least), least, -jnp.inf)
