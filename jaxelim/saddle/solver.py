"""The optimal allocation, with a certificate.

Solves

    H* = max_{w in simplex} min_p H_p(w) + c . w        (c = 0 but in the optimistic form)

as "maximise s + c . w subject to H_p(w) >= s, w >= 0, sum_k w_k = 1", by a primal-dual
interior-point method: Newton steps on the perturbed optimality conditions

    sum_p q_p dH_p/dw_k + c_k + z_k = nu,   H_p(w) - s = r_p,   sum_k w_k = 1,
    sum_p q_p = 1,   q_p r_p = mu,   w_k z_k = mu.

All that it reads is `Evidence`: how far the truth lies outside each piece, and H_p at weights.

The whole pair is one or two steps away from the solution of a nearby problem. A start from
(w, q) alone takes ten or more.

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
from jax import Array

from jaxelim.contracts.views import Evidence
from jaxelim.evidence.half_spaces import Derivatives
from jaxelim.lanes import PLAIN, LaneOps, pytree
from jaxelim.lanes import where as where_
from jaxelim.matrices import product

_CENTRED = 0.3  # the complementarity mu is this share of what the gap allows
_WARM = 30  # most steps from a pair; more are taken from the centre
_FAR = 300  # relative gap of a pair that is no start
# Least share of the complementarity mu that a step aims at. Less centring, and Mehrotra's
# second-order correction, save steps but cycle on some instances of few arms.
_CENTRING = 1e-2
_LONG = 0.9  # a step to `floor` of at least this length needs no centring


@pytree
class State:
    """An iterate or a step. All but s and nu stay positive; the conditions need not hold."""

    w: Array  # [K] allocation
    s: Array  # [] level
    r: Array  # [P] slack of H_p >= s; 1 on padding
    q: Array  # [P] multipliers of the slack: the mixture; 0 on padding
    z: Array  # [K] multipliers of w >= 0
    nu: Array  # [] multiplier of sum w = 1

    @staticmethod
    def none(arms: Array, pieces: Array) -> "State":
        """No pair yet: uniform weights; arms [K] and pieces [P] give the shapes, in float64."""
        one, zero, unit = jnp.ones_like(arms), jnp.zeros_like(pieces), jnp.ones_like(arms[0])
        return State(one / arms.shape[0], unit, zero + 1, zero, one, unit)


class Saddle(NamedTuple):
    """A pair of Q pieces, and its certificate; in the solver's unit while it has no value."""

    pair: State  # in units of about the optimum
    levels: Any  # [Q] H_p(w)
    slope: Any  # [K] sum_p q_p dH_p/dw_k, q on the simplex
    gap: Any  # [] relative duality gap; inf where there is none
    value: Any = None  # [] min_p H_p(w) + c . w
    steps: Any = None  # [] int32 Newton steps
    looks: Any = None  # [] int32 evaluations of the pieces


def climb(
    evidence: Evidence, valid, bonus, gap, start: Any, *, known: Any = True, go: Any = True,
    most: int = 60, lanes: LaneOps = PLAIN,
) -> Saddle:  # fmt: skip
    """Run interior-point steps from a pair, or from weights alone.

    What is unsolved after the steps from a pair is solved from the centre.

    Args:
        evidence: of Q pieces, of which those that are `valid` [Q] count.
        bonus: [K] c.
        gap: relative duality gap to stop at; a pair within it is returned.
        start: weights [K] on the simplex, or a `State`, in units of about its optimum;
            its `q` is 0 where a piece has no multiplier yet.
        known: [] bool, whether a `State` is a pair; else its weights count.
        go: [] bool; False computes nothing of use.
        most: bound on the steps from the centre.

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
    nothing = Saddle(start, jnp.zeros_like(start.q), start.w, zero + jnp.inf, zero, none, none)
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

    def at(self, w) -> tuple[Derivatives, Array]:
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

    def _floor(self, w) -> Array:
        """The complementarity mu that steps aim at; less would only increase rounding errors."""
        goal = jnp.maximum(self.goal, jnp.finfo(w.dtype).eps)
        return _CENTRED * goal / (jnp.sum(self.live) + w.shape[0]).astype(w.dtype)

    def _climbed(
        self, state: State, at: Derivatives, unit, most: int, warm: bool = False
    ) -> Saddle:
        """At most so many steps from a pair; `at`: H_p at its weights, over the unit [].

        With `warm` a pair that is far off is given up. Else it returns the best pair of all steps.
        """
        live, goal, bonus = self.live, self.goal, self.bonus / unit
        mu = self._floor(state.w)

        def look(state: State, at: Derivatives) -> Saddle:
            level = jnp.where(live, at.value, jnp.inf)
            slope = product(at.gradient, state.q) / jnp.sum(state.q)
            low = jnp.min(level) + product(bonus, state.w)
            gap = (jnp.max(slope + bonus) - low) / low
            return Saddle(state, level, slope, jnp.where(jnp.isfinite(gap), gap, jnp.inf))

        def body(carry: tuple) -> tuple:
            last, best, at, n = carry
            state = _newton(last.pair, at, live, bonus, mu, self.lanes)
            at = self.at(state.w)[0].over(unit)
            last = look(state, at)
            return last, best if warm else where_(last.gap < best.gap, last, best), at, n + 1

        def more(carry: tuple) -> Array:
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
        return Saddle(last.pair, levels, slope, gap, value, steps - n, steps - n + 1)


def _newton(
    state: State, at: Derivatives, live: Array, bonus: Array, floor: Array, lanes: LaneOps
) -> State:
    """The next iterate, by a step to complementarity `floor`; one cut short is centred."""
    w, s, r, q, z, nu = (getattr(state, name) for name in ("w", "s", "r", "q", "z", "nu"))
    slopes, terms = at.gradient, (jnp.sum(live) + w.shape[0]).astype(w.dtype)

    def here(x: Array, other: float = 0.0) -> Array:
        """x [P] on live pieces, else `other`."""
        return jnp.where(live, x, other)

    primal, pull = here(at.value - s - r), here(q / r)
    matrix = at.curvature(q, pull)
    # Scale to a unit diagonal, since w spans many orders of magnitude.
    # XLA computes 1/sqrt(x) by an approximation that depends on the processor.
    size = jnp.sqrt(1 / (jnp.diagonal(matrix) + z / w))
    eps = 9 * jnp.finfo(w.dtype).eps
    matrix = matrix * size[:, None] * size[None] + jnp.diag(z / w * size * size + eps)
    solver = lanes.solver(matrix)
    pulled = product(slopes, pull)
    push = here((floor - q * r) / r) - pull * primal
    right = product(slopes, q) + bonus + z - nu + product(slopes, push) + (floor - z * w) / w
    per_mu = product(slopes, here(1 / r)) + 1 / w  # of a complementarity above `floor`
    columns = jnp.stack([right, per_mu, pulled, jnp.ones_like(w)], 1)
    to_floor, more, along, level = (size[:, None] * solver(size[:, None] * columns)).T

    def direction(target: Array | float) -> State:
        base, push = to_floor + (target - floor) * more, here((target - q * r) / r)
        # The sums remain: two equations for ds and dnu.
        a, b, e = jnp.sum(along), -jnp.sum(level), 1 - jnp.sum(w) - jnp.sum(base)
        c, d = jnp.sum(pull) - product(pulled, along), product(pulled, level)
        f = 1 - jnp.sum(q) - jnp.sum(push) + product(pull, primal) + product(pulled, base)
        det = a * d - b * c
        ds, dnu = (d * e - b * f) / det, (a * f - c * e) / det
        dw = base + along * ds - level * dnu
        dr = here(product(slopes.T, dw) - ds + primal)
        return State(dw, ds, dr, push - pull * dr, (target - z * w - z * dw) / w, dnu)

    def reach(step: State) -> Array:
        """The largest step that keeps w, r, q and z non-negative."""
        x = jnp.concatenate([w, r, q, z])
        dx = jnp.concatenate([step.w, step.r, step.q, step.z])
        return jnp.min(jnp.where(dx < 0, -x / jnp.where(dx < 0, dx, 1), jnp.inf))

    def complementarity(x: State) -> Array:
        return (jnp.sum(here(x.q * x.r)) + product(x.z, x.w)) / terms

    def move(step: State, length: Array) -> State:
        return jax.tree.map(lambda x, dx: x + length * dx, state, step)

    def centred() -> State:
        """Mehrotra's predictor says how far down mu can go."""
        far, mu = direction(0.0), complementarity(state)
        after = complementarity(move(far, jnp.minimum(1, reach(far))))
        return direction(jnp.maximum(mu * jnp.clip((after / mu) ** 3, _CENTRING, 1), floor))

    step = direction(floor)
    step = jax.lax.cond(reach(step) < _LONG, centred, lambda: step)
    new = move(step, jnp.minimum(1, 0.995 * reach(step)))
    return dataclasses.replace(new, w=new.w / jnp.sum(new.w))
