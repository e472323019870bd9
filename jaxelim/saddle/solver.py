"""The optimal allocation, with a certificate.

Solves

    H* = max_{w in simplex} min_p H_p(w) + c . w        (c = 0 but in the optimistic form)

as "maximise s + c . w subject to H_p(w) >= s, w >= 0, sum_k w_k = 1", by a primal-dual
interior-point method: Newton steps on the perturbed optimality conditions. All that it
reads is `Evidence`: how far the truth lies outside each piece, and H_p at weights.

The whole pair, at its own distance mu from complementarity (w z = q r = mu), is one or
two steps away from the solution of a nearby problem. A start from (w, q) alone takes ten
or more.

The certificate does not depend on the method. For any mixture q over the pieces and
any weights w,

    H* <= max_k sum_p q_p (dH_p/dw_k (w) + c_k),

since H_p is concave and homogeneous of degree one. The reported gap compares this bound
with min_p H_p(w) + c . w.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.contracts.views import Evidence
from jaxelim.evidence.half_spaces import Derivatives
from jaxelim.lanes import PLAIN, LaneOps
from jaxelim.lanes import where as where_
from jaxelim.matrices import product
from jaxelim.saddle.newton import State, newton

Array = jax.Array | np.ndarray

_CENTRED = 0.3  # the complementarity mu is this share of what the gap allows
_WARM = 30  # most steps from a pair; more are taken from the centre
_FAR = 300  # relative gap of a pair that is no start


class Saddle(NamedTuple):
    """What `climb` returns: of Q pieces, a pair and its certificate."""

    pair: State  # in units of about the optimum
    levels: Any  # [Q] H_p(w)
    slope: Any  # [K] sum_p q_p dH_p/dw_k, q on the simplex
    value: Any  # [] min_p H_p(w) + c . w
    gap: Any  # [] relative duality gap; inf where there is none
    steps: Any  # [] int32 Newton steps
    looks: Any  # [] int32 evaluations of the pieces


class _Look(NamedTuple):
    """A pair and its certificate, in one unit."""

    pair: State
    levels: jax.Array  # [Q] H_p(w)
    slope: jax.Array  # [K]
    gap: jax.Array  # [] relative gap


def climb(
    evidence: Evidence, valid, bonus, gap, start: Any, *, known: Any = True, go: Any = True,
    most: int = 60, lanes: LaneOps = PLAIN,
) -> Saddle:  # fmt: skip
    """Run interior-point steps from a pair, or from weights alone.

    What is unsolved after the steps from a pair is solved from the centre.

    Args:
        evidence: of Q pieces.
        valid: [Q] bool, False on padding.
        bonus: [K] c.
        gap: relative duality gap to stop at; a pair within it is returned.
        start: weights [K] on the simplex, or a `State`, in units of about its optimum;
            its `q` is 0 where a piece has no multiplier yet.
        known: [] bool, whether a `State` is a pair; else its weights count.
        go: [] bool; False computes nothing of use.
        most: bound on the steps from the centre.
        lanes: the primitives, which solve for the steps.

    Returns:
        A `Saddle`. H* is 0 where the truth lies in a valid piece (a tie), or where no arm
        tells it from one. Then, or where `go` is False, value is 0 (bonus apart), gap is
        infinite, and all other fields are finite. Where the optimal allocation leaves V_w
        singular, weights stay positive, of the order of the gap.
    """
    ahead = evidence.outside() > 0
    go = jnp.asarray(go) & jnp.all(ahead | ~valid) & jnp.any(valid)
    # A solvable problem replaces an unsolvable one, so that a batch stays finite.
    live = valid & ahead
    live = jnp.where(jnp.any(live), live, True)
    problem = _Problem(evidence, live, bonus, gap, go, lanes)
    if not isinstance(start, State):
        return problem.from_centre(start, most)
    zero, none = jnp.zeros_like(start.s), jnp.int32(0)
    nothing = Saddle(start, jnp.zeros_like(start.q), start.w, zero, zero + jnp.inf, none, none)
    warm = jax.lax.cond(known & go, lambda: problem.from_pair(start), lambda: nothing)

    def cold() -> Saddle:
        new = problem.from_centre(start.w, most)
        return new._replace(steps=new.steps + warm.steps, looks=new.looks + warm.looks)

    return jax.lax.cond(go & ~(warm.gap <= gap), cold, lambda: warm)


class _Problem(NamedTuple):
    """The problem of `climb`."""

    evidence: Evidence
    live: Any  # [Q] bool, at least one
    bonus: Any  # [K]
    goal: Any  # []
    go: Any  # [] bool
    lanes: LaneOps

    def at(self, w) -> tuple[Derivatives, jax.Array]:
        """H_p at weights [K], and its values [Q], inf where not live."""
        at = self.evidence.weighted(w).derivatives()
        return at, jnp.where(self.live, at.value, jnp.inf)

    def from_centre(self, w, most: int) -> Saddle:
        """Steps from weights [K] made more even."""
        K, live = w.shape[0], self.live
        w = (w + 1 / K) / 2
        at, level = self.at(w)
        more = product(self.bonus, w)
        unit = jnp.min(level) + more
        unit = jnp.where(unit > 0, unit, 1)
        at, h, bonus = at.over(unit), jnp.where(live, level, 1) / unit, self.bonus / unit
        least = jnp.min(jnp.where(live, h, jnp.inf))
        # Multipliers largest at the piece of least information.
        q = jnp.where(live, 1 / jnp.where(live, h - least / 2, 1), 0)
        q = q / jnp.sum(q)
        slope = product(at.gradient, q) + bonus
        high = jnp.max(slope)
        short = jnp.maximum(high - least - more / unit, 4 * jnp.finfo(w.dtype).eps * high)
        s, nu = least - jnp.minimum(short, least) / 2, high + jnp.minimum(short, high / 10)
        nu = jnp.where(nu > 0, nu, 1)
        state = State(w, s, jnp.where(live, h - s, 1), q, nu - slope, nu)
        return self._climbed(state, at, unit, most)

    def from_pair(self, pair: State) -> Saddle:
        """Steps from a pair."""
        on, (at, level) = self.live, self.at(pair.w)
        old = on & (pair.q > 0)
        q = jnp.where(old, pair.q, 0)
        total = jnp.sum(q)
        q = q / jnp.where(total > 0, total, 1)
        share = jnp.sum(q / jnp.where(on, level, 1))
        unit = 1 / jnp.where(share > 0, share, 1) + product(self.bonus, pair.w)
        mu = self._floor(pair.w)
        missing = jnp.where(on, level, 1) / unit - pair.s
        r = jnp.where(on, jnp.maximum(missing, 0.1 * mu**0.5), 1)
        r = jnp.where(old, pair.r, r)
        q = jnp.where(old | ~on, q, mu / r)
        state = dataclasses.replace(pair, r=r, q=q)
        return self._climbed(state, at.over(unit), unit, _WARM, warm=True)

    def _floor(self, w) -> jax.Array:
        """The complementarity mu that steps aim at; less would only increase rounding errors."""
        goal = jnp.maximum(self.goal, jnp.finfo(w.dtype).eps)
        return _CENTRED * goal / (jnp.sum(self.live) + w.shape[0]).astype(w.dtype)

    def _climbed(
        self, state: State, at: Derivatives, unit, most: int, warm: bool = False
    ) -> Saddle:
        """At most so many steps from a pair.

        Args:
            state: the pair.
            at: H_p at its weights, over the unit.
            unit: [].
            most: bound on the steps.
            warm: give up a pair that is far off. Else return the best pair of all steps.
        """
        live, goal, bonus = self.live, self.goal, self.bonus / unit
        mu = self._floor(state.w)

        def look(state: State, at: Derivatives) -> _Look:
            level = jnp.where(live, at.value, jnp.inf)
            slope = product(at.gradient, state.q) / jnp.sum(state.q)
            low = jnp.min(level) + product(bonus, state.w)
            gap = (jnp.max(slope + bonus) - low) / low
            return _Look(state, level, slope, jnp.where(jnp.isfinite(gap), gap, jnp.inf))

        def body(carry: tuple) -> tuple:
            last, best, at, n = carry
            state = newton(last.pair, at, live, bonus, mu, lanes=self.lanes)
            at = self.at(state.w)[0].over(unit)
            last = look(state, at)
            return last, best if warm else where_(last.gap < best.gap, last, best), at, n + 1

        def more(carry: tuple) -> jax.Array:
            last, _, _, n = carry
            return self.go & (last.gap > goal) & (last.gap < jnp.inf) & (n < most)

        first = look(state, at)
        n = jnp.where(first.gap < _FAR, 0, most).astype(jnp.int32) if warm else jnp.int32(0)
        best = None if warm else first
        last, best, _, steps = jax.lax.while_loop(more, body, (first, best, at, n))
        last = last if best is None else best
        low = jnp.min(last.levels) + product(bonus, last.pair.w)
        usable = self.go & (last.gap < jnp.inf)
        value, gap = jnp.where(usable, low * unit, 0), jnp.where(usable, last.gap, jnp.inf)
        levels, slope = last.levels * unit, last.slope * unit
        return Saddle(last.pair, levels, slope, value, gap, steps - n, steps - n + 1)
