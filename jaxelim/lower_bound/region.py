"""Linear objectives over near-optimal allocations Omega_eps = {w : min_p H_p(w) >= H* - eps}.

"Maximise b . w subject to H_p(w) >= h" is convex. The Newton steps of
`jaxelim.saddle.newton` solve it, with the level fixed. Any multipliers q >= 0 and
any weights w give a certificate, since H_p lies below its tangents:

    max over {v : H_p(v) >= h} of b . v  <=  max_k (b_k + sum_p q_p dH_p/dw_k (w)) - h sum_p q_p.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.evidence.derivatives import Crossed, product
from jaxelim.evidence.gaussian import HalfSpaceEvidence
from jaxelim.lower_bound.pieces import Pieces
from jaxelim.lower_bound.solves import information_of, standard
from jaxelim.saddle.newton import State, newton

# Least eps of a solve, as a share of H*. A larger eps gives a larger set and valid lower bounds.
LEAST_SHARE = 1e-7
_LANES = 8
_STEPS = 60


class _Carry(NamedTuple):
    state: State
    info: Crossed  # at state.w, in units of H*
    upper: jax.Array
    distance: jax.Array
    iterations: jax.Array


def maximise(
    arms, theta, directions, offsets, valid, value, start, objective, level, tolerance=1e-8
):
    """Maximise objective . w over {w in the simplex : H_p(w) >= level for all p}.

    Pure, for jit and vmap.

    Args:
        arms: [K, d], as for `solve`.
        theta: [d], as for `solve`.
        directions: [P, d], as for `solve`.
        offsets: [P], as for `solve`.
        valid: [P] bool, as for `solve`.
        value: [] a scale for information, H*.
        start: [K] positive weights in the region or near it, such as the
            optimal allocation.
        objective: [K] b, of the order of 1.
        level: [] the least information required, below H*.
        tolerance: absolute, on the objective.

    Returns:
        weights [K], feasible to about the tolerance, and an upper bound [] on the
        maximum. The bound does not depend on the weights.
    """
    evidence = HalfSpaceEvidence.of(arms, theta, directions, offsets)
    h = level / value
    K = arms.shape[0]
    terms = (jnp.sum(valid) + K).astype(arms.dtype)

    def under(w):
        return evidence.weighted(w).derivatives().over(value).among(None)

    def bound(info, q):
        return jnp.max(objective + product(info.gradient, q)) - h * jnp.sum(q)

    floor = 0.1 * tolerance / terms

    def body(carry: _Carry) -> _Carry:
        state = newton(carry.state, carry.info, valid, objective, floor, level_is_free=False)
        info = under(state.w)
        upper = bound(info, state.q)
        upper = jnp.where(jnp.isfinite(upper), jnp.minimum(upper, carry.upper), carry.upper)
        short = jnp.max(jnp.where(valid, jnp.maximum(h - info.value, 0), 0))
        distance = jnp.maximum(upper - product(objective, state.w), short)
        return _Carry(state, info, upper, distance, carry.iterations + 1)

    info = under(start)
    r = jnp.where(valid, jnp.maximum(info.value - h, 0.1), 1)
    q = jnp.where(valid, 0.1 / r / terms, 0)
    slope = product(info.gradient, q) + objective
    nu = jnp.max(slope) + 0.1 * (1 + jnp.max(slope) - jnp.min(slope))
    state = State(start, h, r, q, nu - slope, nu)
    never = jnp.full_like(value, jnp.inf)
    carry = _Carry(state, info, jnp.max(objective), never, jnp.int32(0))
    carry = jax.lax.while_loop(
        lambda c: (c.distance > tolerance) & (c.iterations < _STEPS), body, carry
    )
    return carry.state.w, carry.upper


@jax.jit
def _maximise_lanes(arms, theta, directions, offsets, valid, value, start, objectives, levels):
    def of_objective(objective, level):
        return maximise(arms, theta, directions, offsets, valid, value, start, objective, level)

    return jax.vmap(of_objective)(objectives, levels)


class Region(NamedTuple):
    """One instance of unit noise with its optimum; it defines Omega_eps for every eps."""

    arms: np.ndarray  # [K, d]
    theta: np.ndarray  # [d]
    pieces: Pieces  # of this instance: no leading axis
    value: float  # H*, from below
    allocation: np.ndarray  # [K] w*

    def information(self, weights) -> np.ndarray:
        """H_p [..., P] of weights [..., K]."""
        return information_of(np.asarray(weights), self.arms, self.theta, self.pieces)

    def maximise(self, objectives, eps) -> tuple[np.ndarray, np.ndarray]:
        """`maximise` for objectives [N, K] and slacks eps [N].

        Returns weights [N, K] in Omega_eps, and upper bounds [N].
        """
        eps = np.maximum(eps, LEAST_SHARE * self.value)
        size = np.max(np.abs(objectives), axis=1, keepdims=True)
        size = np.where(size > 0, size, 1)
        # The interior-point method needs positive weights.
        start = 0.999 * self.allocation + 0.001 / len(self.allocation)
        weights, bounds = [], []
        with scope.float64():
            shared = [
                jnp.asarray(x)
                for x in (self.arms, self.theta, *self.pieces, np.float64(self.value), start)
            ]
            for first in range(0, len(eps), _LANES):
                index = np.minimum(np.arange(first, first + _LANES), len(eps) - 1)
                arrays = (
                    jnp.asarray((objectives / size)[index]),
                    jnp.asarray(self.value - eps[index]),
                )
                w, upper = jax.device_get(_maximise_lanes(*shared, *arrays))
                weights.append(w)
                bounds.append(upper)
        weights, bounds = np.concatenate(weights)[: len(eps)], np.concatenate(bounds)[: len(eps)]
        return self.inside(weights, eps), bounds * size[:, 0]

    def inside(self, weights, eps) -> np.ndarray:
        """Move weights [N, K] towards w* until they lie in Omega_eps, eps [N]; H is concave."""
        best = np.min(self.information(self.allocation))
        least = np.min(self.information(weights), axis=-1)
        lack = np.maximum(best - eps - least, 0)
        share = np.where(
            lack > 0, np.minimum(lack / np.maximum(best - least, 1e-300) * (1 + 1e-9), 1), 0
        )[:, None]
        return (1 - share) * weights + share * self.allocation


def least_weights(region: Region, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """The least weight of every arm over Omega_eps.

    Returns certified lower bounds [K], and points [K, K] of Omega_eps that are
    close to them.
    """
    K = len(region.allocation)
    points, upper = region.maximise(-np.eye(K), np.full(K, eps))
    return np.maximum(-upper, 0), points


def least_information(
    region: Region, eps: float, *, starts: int = 8, rounds: int = 5, seed: int = 0
):
    """Bound the least information of every piece over Omega_eps, from both sides.

    Minimising the concave H_p over a convex set has many local solutions. The upper
    value is attained: it alternates between the closest point lambda for w and the best
    w in Omega_eps for lambda, from several starts. The lower value is certified: since
    H_p is monotone in w, it is max(H* - eps, H_p(l)), l_k the least w_k over Omega_eps.

    Args:
        region: the instance and its optimum.
        eps: slack >= 0, in the units of H*.
        starts: starting points: w*, the points of `least_weights`, then random ones.
        rounds: most alternations from each start.
        seed: of the random starts.

    Returns:
        lower [P] and upper [P], inf on padding.
    """
    least, points = least_weights(region, eps)
    valid = region.pieces.valid
    lower = np.maximum(region.information(least), max(region.value - eps, 0))
    rng = np.random.default_rng(seed)
    objectives = -rng.dirichlet(np.ones(len(least)), max(starts - 1 - len(points), 0))
    if len(objectives):
        points = np.concatenate(
            [points, region.maximise(objectives, np.full(len(objectives), eps))[0]]
        )
    points = np.concatenate([region.allocation[None], points])
    values = region.information(points)  # [N, P]
    upper = np.min(values, axis=0)
    current = points[np.argmin(values, axis=0)]  # the best start for each piece, [P, K]
    for _ in range(rounds):
        slopes = np.stack([_slope(region, w, p) for p, w in enumerate(current)])
        current, _ = region.maximise(-slopes, np.full(len(current), eps))
        reached = np.diagonal(region.information(current))
        if not (reached[valid] < upper[valid] * (1 - 1e-6)).any():
            break
        upper = np.minimum(upper, reached)
    # Both bound the same minimum. Where the points' tolerance puts `upper` below, `lower` holds.
    return lower, np.where(valid, np.maximum(upper, lower), np.inf)


def _slope(region: Region, w: np.ndarray, p: int) -> np.ndarray:
    """dH_p/dw [K] from the closest point, at w mixed with a little uniform weight.

    The mixture keeps V_w regular.
    """
    w = (1 - 1e-6) * w + 1e-6 / len(w)
    y = region.pieces.directions[p]
    map, (inside,), _ = standard(w, region.arms, y[None])
    gap = max(y @ region.theta - region.pieces.offsets[p], 0)
    along = region.arms @ map @ inside
    return (gap / max(inside @ inside, 1e-300) * along) ** 2 / 2
