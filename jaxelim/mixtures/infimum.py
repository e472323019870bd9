"""Lower bounds on the least log e of two arms over a piece {mu_b >= mu_a + slack}.

At the estimates, which lie outside the piece, no mixture exceeds 1. So the least log e on the
boundary (u, u + slack), where it is above 0, is that of the piece, if log e is convex in the
means or in their reciprocals.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.mixtures.grid import log_mean_exp

STEPS = 6
"""Newton steps. Four are enough, but for slack and an arm with few pulls."""
APART = 0.02
"""From the last point to each tangent, in standard deviations; it costs half its square."""
_TOWARD_END = 16.0
"""A step leaves at least this fraction of the distance from an end of the range."""
CELLS = (8, 16, 40)
"""How many cells each pass of `over_cells` adds."""
Tree = Any


def convex(
    components: Callable[[Array], Array], a: Array, b: Array, share: Array,
    low: float, high: float, slack: Any, reciprocal: bool,
) -> Array:  # fmt: skip
    """A lower bound on F(u) = log mean_j exp(g_a(u) + g_b(u + slack)) over all u: [Q].

    Newton's method for a root of V(u) F'(u), then the point where two tangents of F meet,
    one on each side of where it ended. F is convex, so that is a lower bound wherever the
    method ended. Near enough to the least F it is 2e-4 below.

    Args:
        components: g of both arms at means [2, Q, J], entry by entry; convex in the mean,
            or in its reciprocal.
        a, b: the estimates: [Q].
        share: of the way from b - slack to a, where the method begins: [Q].
        low, high: the range of means.
        slack: a number of at least 0; or [Q] of any sign, where g is convex in the mean.
        reciprocal: whether g is convex in 1/mean, of means above 0.
    """
    first, last = low - jnp.minimum(slack, 0), high - jnp.maximum(slack, 0)
    bounded = np.isfinite(low), np.isfinite(high)
    curved = reciprocal and not (isinstance(slack, float) and slack == 0)

    def value(a: Array, b: Array) -> Array:
        both = jnp.stack([a, b])[..., None]
        if bounded[0]:
            both = jnp.maximum(both, np.nextafter(low, np.inf) if low else np.finfo(float).tiny)
        if bounded[1]:
            both = jnp.minimum(both, np.nextafter(high, -np.inf))
        return log_mean_exp(jnp.sum(components(both), 0))

    def scale(mean: Array) -> Array:
        """A variance of the range, in which F' is nearly linear."""
        up = mean - low if bounded[0] else jnp.ones_like(mean)
        return up * up if reciprocal else up * (high - mean) if bounded[1] else up

    def slope(u: Array) -> tuple[Array, Array]:
        """F and F'."""
        return jax.jvp(lambda u: value(u, u + slack), (u,), (jnp.ones_like(u),))

    def curve(u: Array) -> tuple[Array, Array]:
        """F' and F''."""
        (_, first), (_, second) = jax.jvp(slope, (u,), (jnp.ones_like(u),))
        return first, second

    def inside(u: Array, now: Array, part: float) -> Array:
        """u, with at least a part of the distance of `now` from the ends of the range."""
        if bounded[0]:
            u = jnp.clip(u, first + (now - first) * part, first + (now - first) / part)
        return jnp.minimum(u, last - (last - now) * part) if bounded[1] else u

    def step(done: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        """The next u, and F'' at u; the last call only finds F''."""
        u = carry[0]
        fall, bend = curve(u)
        size, tilt = jax.jvp(lambda u: harmonic(scale(u), scale(u + slack)), (u,), (u * 0 + 1,))
        rise = tilt * fall + size * bend
        new = u - jnp.where(rise > 0, size * fall / jnp.where(rise > 0, rise, 1), fall * jnp.inf)
        new = inside(new, u, 1 / _TOWARD_END)
        return jnp.where(jnp.isfinite(new) & (done < STEPS), new, u), bend

    of_b, of_a = (jnp.clip(x, first, last) for x in (b - slack, a))
    u = of_b + (of_a - of_b) * share
    near = 1e-3 * jnp.minimum(jnp.abs(a - b + slack) + 1e-9, last - first)
    u = jnp.where(u <= first, first + near, jnp.where(u >= last, last - near, u))
    u, bend = jax.lax.fori_loop(0, STEPS + 1, step, (u, u))
    off = APART / jnp.sqrt(jnp.where(bend > 0, bend, jnp.inf))
    at = jnp.stack([inside(u - off, u, 0.5), inside(u + off, u, 0.5)])
    found, fall = jax.vmap(slope)(at)
    x, ends = at, (first, last)
    if reciprocal:  # F falls or rises by 1/u
        x, ends, fall = 1 / at, (1 / last, jnp.inf), -fall * at * at
    bound = _where_they_meet(x, found, fall, *ends)
    if curved:  # the boundary bends: its tangents bound it where F rises with mu_b
        rises = jax.vmap(jax.grad(lambda a, b: jnp.sum(value(a, b)), 1))(at, at + slack) >= 0
        bound = jnp.where(jnp.all(rises, 0), bound, -jnp.inf)
    return jnp.where(jnp.isnan(bound), -jnp.inf, bound)


def harmonic(x: Array, y: Array) -> Array:
    """x y/(x + y)."""
    return x * (y / (x + y))


def _where_they_meet(x: Array, y: Array, slope: Array, low: Any, high: Any) -> Array:
    """The least larger value of two lines through (x, y) [2, Q], over [low, high]: [Q]."""
    apart = slope[1] - slope[0]
    line = y - slope * x
    meet = (line[0] - line[1]) / jnp.where(apart == 0, 1, apart)
    meet = jnp.where(slope[0] * slope[1] < 0, meet, jnp.where(slope[0] < 0, high, low))
    away = jnp.clip(meet, jnp.maximum(low, -1e300), jnp.minimum(high, 1e300)) - x
    return jnp.max(y + jnp.where(slope == 0, 0, slope * away), 0)


def over_cells(
    components: Callable[[Array], Array], together: Callable[[Array, Array], Array],
    low: Array, high: Array, beyond: tuple[Array, Array] | None,
) -> Array:  # fmt: skip
    """A lower bound on the least of together(g_a(u), g_b(u)) over low <= u <= high: [].

    g_a falls with u and g_b rises. So over a cell it is at least what it is for g_a at the
    upper end and g_b at the lower. Each pass makes the cells that decide smaller.

    Args:
        components: g_a and g_b at u [n]: [2, n, J].
        together: log e of both, which rises with each: [n, J] -> [n].
        low, high: [].
        beyond: whether there are means below `low`, where g_b may be -inf, and above `high`,
            where g_a may; [] bool each. None: beyond an end neither is less than there.
    """
    u = low + (high - low) * jnp.linspace(0, 1, CELLS[0] + 1)
    both = components(u)
    for more in CELLS[1:]:
        a, b = both
        # One call: each call of `together` is compiled.
        value = together(jnp.concatenate([a[1:], a]), jnp.concatenate([b[:-1], b]))
        cell, value = value[: len(u) - 1], value[len(u) - 1 :]
        value = jnp.minimum(value[1:], value[:-1])
        loss, above = jnp.maximum(value - cell, 0), value - jnp.min(value)
        parts = loss / (_even(loss, above, more) + above)
        parts = jnp.where(jnp.isfinite(parts), parts, 0) + 1e-9
        ends = jnp.concatenate([jnp.zeros(1), jnp.cumsum(parts)])
        new = jnp.interp(ends[-1] * np.linspace(0.5, more - 0.5, more) / more, ends, u)
        order = jnp.argsort(jnp.concatenate([u, new]), stable=True)
        u = jnp.concatenate([u, new])[order]
        both = jnp.concatenate([both, components(new)], 1)[:, order]
    a, b = both
    lost = jnp.full_like(a[:1], -jnp.inf)
    value = together(jnp.concatenate([a[1:], a[:1], lost]), jnp.concatenate([b[:-1], lost, b[-1:]]))
    sides = jnp.zeros(2, bool) if beyond is None else jnp.stack(beyond)
    there = jnp.concatenate([jnp.ones(len(u) - 1, bool), sides])
    return jnp.min(value, where=there, initial=jnp.inf)


def _even(loss: Array, above: Array, cells: int) -> Array:
    """The d with sum_i loss_i/(d + above_i) = cells: []. Parts of these losses are about d low."""
    loss = jnp.where(jnp.isfinite(loss), loss, 0)

    def halved(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        d = jnp.sqrt(low * high)
        many = jnp.sum(loss / (d + above)) > cells
        return jnp.where(many, d, low), jnp.where(many, high, d)

    most = jnp.maximum(jnp.sum(loss), 1e-6)
    return jax.lax.fori_loop(0, 12, halved, (1e-6 * jnp.ones_like(most), most))[1]
