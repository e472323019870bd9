"""Roots of one variable, entry by entry, for lanes: Newton's and Halley's methods, guarded."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_MOST = 100
"""Most iterations. A search takes 2 to 10; this is enough for bisection alone."""


def jet(f: Callable[[Array], Array], x: Array) -> tuple[Array, Array, Array]:
    """f(x), f'(x) and f''(x) of a function that goes entry by entry."""

    def sloped(x: Array) -> tuple[Array, Array]:
        return jax.jvp(f, (x,), (jnp.ones_like(x),))

    (value, slope), (_, bend) = jax.jvp(sloped, (x,), (jnp.ones_like(x),))
    return value, slope, bend


def rising(slope: Callable[[Array], Array], low: Array, high: Array, x: Array) -> Array:
    """`crossing` of a function whose derivative is taken here."""

    def both(x: Array) -> tuple[Array, Array]:
        return jax.jvp(slope, (x,), (jnp.ones_like(x),))

    # The error is squared by the last step.
    return crossing(both, low, high, x, float(np.finfo(x.dtype).eps) ** 0.5)


def crossing(
    f: Callable[[Array], tuple[Array, Array]], low: Array, high: Array, x: Array, enough: float
) -> Array:
    """The x in [low, high] where a function changes its sign from - to +, from a first guess x.

    Newton's method, guarded by bisection; f gives the function and its derivative, or a number
    near that. A step beyond an end goes most of the way there: the sign may change at the end
    alone. A step below `enough` times the distance to an end is the last. No entry depends on
    the others. The loop has no derivative in reverse.
    """

    def body(carry: Any) -> Any:
        i, x, inner, outer, last, going = carry
        value, rise = f(x)
        inner, outer = jnp.where(value < 0, x, inner), jnp.where(value < 0, outer, x)
        step = -value / jnp.where(rise > 0, rise, 1)
        new, near = x + step, enough * jnp.minimum(x - low, high - x)
        good = (new > inner) & (new < outer) & (2 * jnp.abs(step) <= last)
        # The last step may end beyond an earlier iterate, by rounding.
        good = (rise > 0) & (good | (jnp.abs(step) <= near))
        width = outer - inner
        middle = inner + width / 2
        middle = jnp.where((new >= outer) & (outer == high), outer - width / 16, middle)
        middle = jnp.where((new <= inner) & (inner == low), inner + width / 16, middle)
        new = jnp.where(good | (value == 0), jnp.clip(new, inner, outer), middle)
        moved = jnp.abs(new - x)
        more = going & (moved > near)
        return i + 1, jnp.where(going, new, x), inner, outer, jnp.where(going, moved, last), more

    def unfinished(carry: Any) -> Array:
        return jnp.any(carry[-1]) & (carry[0] < _MOST)

    x = jnp.where((x > low) & (x < high), x, low + (high - low) / 2)
    carry = jnp.int32(0), x, low, high, high - low, high > low
    return jax.lax.while_loop(unfinished, body, carry)[1]


def outermost(
    f: Callable[[Array], Array], radius: Array, room: Array, other: Array, ended: Array | bool
) -> Array:
    """The largest x in [0, room] with f(x) <= radius, of f that rises from f(0) = 0.

    `other` is the distance to the end on the other side; `ended` says where room is finite, a
    bool where it is the same for all entries. f is finite inside the range, radius at least 0.

    Halley's method for sqrt(2 f), which is nearly linear, guarded by bisection. It takes y in
    place of x: x = room (1 - (1 + y)^-4), or a multiple of (1 + y)^4 - 1 where there is no
    end. So f may grow like log(room - x) or like log x. A step is of order 3 in the error.
    Every iterate but the last is rounded, so that the result has the same digits in every
    program. No entry depends on the others.
    """
    eps = np.finfo(radius.dtype)
    enough, rounded = float(eps.eps) ** (1 / 3) / 8, (eps.nexp, 2 * eps.nmant // 3)
    live, none = (radius > 0) & (room > 0) & (radius < jnp.inf), radius <= 0
    radius = jnp.where(live, radius, 1)

    def pick(closed: Any, open_: Any) -> Any:
        if isinstance(ended, bool):
            return closed if ended else open_
        return jnp.where(ended, closed, open_)

    _, first, second = jet(f, jnp.zeros_like(radius))
    guess = jnp.sqrt(jnp.maximum(first * first + 2 * second * radius, 0))
    guess = 2 * radius / (first + guess)
    guess = jnp.where((guess > 0) & (guess < jnp.inf), guess, pick(room, 1.0))
    unit = pick(room, guess + jnp.where(jnp.isfinite(other), other, 0))
    unit, aim = jnp.where(live, unit, 1), jnp.sqrt(2 * radius)
    last, ulp = unit * float(1 - eps.eps), pick(float(eps.eps) * unit, 0)

    def at(y: Array) -> tuple[Array, Array, Array]:
        """x, dx/dy, and the second derivative over the first."""
        p, z = y * (4 + y * (6 + y * (4 + y))), 1 + y
        inverse = 1 / z
        fourth = (inverse * inverse) * (inverse * inverse)
        x = jax.lax.reduce_precision(unit * pick(p * fourth, p), *rounded)
        left = jax.lax.reduce_precision(unit * fourth, *rounded)
        x = pick(jnp.minimum(jnp.where(y > 1, unit - left, x), last), x)
        tilt = (4 * unit) * pick(fourth * inverse, z * z * z)
        return x, tilt, pick(-5, 3) * inverse

    def halley(value: Array, slope: Array, bend: Array) -> Array:
        """The step that takes sqrt(2 value) to its aim; NaN or inf where there is none."""
        q, off, square = jnp.sqrt(2 * value), value - radius, slope * slope
        curved = square * (q * (q + aim)) - off * (2 * value * bend - square)
        return -4 * value * off * slope / curved

    def whole(y: Array, value: Array) -> Array:
        return pick((at(y)[0] >= last) & (value <= radius), jnp.zeros_like(live))

    def near(y: Array, value: Array, slope: Array, bend: Array) -> Array:
        close = jnp.abs(value - radius) <= enough * radius + ulp * slope
        return ~live | close | whole(y, value)

    def body(carry: Any) -> Any:
        i, y, (value, slope, bend), inner, outer = carry
        known, below = i > 0, value < radius  # of the first y nothing is known yet
        inner = jnp.where(known & below, y, inner)
        outer = jnp.where(known & ~below, y, outer)
        _, tilt, twist = at(y)
        new = y + halley(value, slope * tilt, tilt * (bend * tilt + slope * twist))
        middle = jnp.where(outer < jnp.inf, inner + (outer - inner) / 2, 2 * y)
        new = jnp.where((new > inner) & (new < outer), new, middle)
        new = jnp.where(near(y, value, slope, bend), y, jax.lax.reduce_precision(new, *rounded))
        new = jnp.where(known, new, y)
        return i + 1, new, jet(f, at(new)[0]), inner, outer

    def unfinished(carry: Any) -> Array:
        return jnp.any(~near(carry[1], *carry[2])) & (carry[0] <= _MOST) | (carry[0] == 0)

    y = jax.lax.reduce_precision(guess / (4 * unit), *rounded)
    unknown = y, y, y
    carry = jnp.int32(0), y, unknown, jnp.zeros_like(y), jnp.full_like(y, jnp.inf)
    _, y, jets, _, _ = jax.lax.while_loop(unfinished, body, carry)
    # Where f is steep the root is within rounding, and a step would leave it.
    x, step, value = at(y)[0], halley(*jets), jets[0]
    close = jnp.isfinite(step) & (jnp.abs(value - radius) <= enough * radius)
    best = x + jnp.where(close, step, 0)
    best = jnp.clip(best, 0, pick(last, room))
    return jnp.where(live & ~whole(y, jets[0]), best, jnp.where(none, 0, room))
