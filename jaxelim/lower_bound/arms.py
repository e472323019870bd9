"""The information on pieces, and the optimal allocation, for independent arms.

Rewards are of a one-parameter family with divergence d. With weights w, costs c and
n = w/c, and for a piece with a direction of unit entries,

    pair {mu_a <= mu_b}:  H_p(w) = n_a d(m_a, u) + n_b d(m_b, u),
                          u = (n_a m_a + n_b m_b)/(n_a + n_b),
    level of arm k:       H_p(w) = n_k d(m_k, level),

and dH_p/dw_k = d(m_k, lambda_k)/c_k, lambda the closest point. H_p is concave and
homogeneous of degree one. The second derivative of a pair is minus the square of the
vector (up/c_a, -down/c_b)/sqrt(V(u) (n_a + n_b)), up = m_a - u, down = u - m_b.
(Garivier & Kaufmann 2016, section 2.)
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.families import GaussianByArm, OneParameter
from jaxelim.lower_bound.arm_newton import best_arm_weights
from jaxelim.lower_bound.information import product
from jaxelim.lower_bound.solver import Solution, interior_point

_CLOSE = 1e-9  # of Newton's method; see `best_arm_weights`


class ArmInformation(NamedTuple):
    """H_p at one allocation, with the terms of its derivatives."""

    value: jax.Array  # [P] H_p(w)
    gradient: jax.Array  # [K, P] dH_p/dw_k
    bend: jax.Array  # [K, P]: the second derivative of H_p is minus its square

    def curvature(self, gaps, mixture):
        """-sum_p q_p d2H_p/dw2, a positive semi-definite [K, K] matrix, for q [P]."""
        return product(self.bend * mixture[None, :], self.bend.T)


@dataclasses.dataclass(frozen=True)
class ArmModel:
    """Independent arms and pieces, for the solvers: what `Coordinates` is to features."""

    family: OneParameter
    means: jax.Array  # [K]
    costs: jax.Array  # [K]
    directions: jax.Array  # [P, K] entries 1, -1 and 0; zeros on padding
    offsets: jax.Array  # [P]
    kind: str = "any"  # as of `kind_of`, or "slack"

    @property
    def margins(self) -> jax.Array:
        """m_a - m_b, or the distance from the level: [P]."""
        return product(self.directions, self.means) - self.offsets

    def information(self, weights, gaps) -> ArmInformation:
        """H_p and its derivatives at weights [K], times the square of gaps [P].

        Where a gap is 0, H_p and its derivatives are 0. Others must belong to pieces that do
        not contain the means.
        """
        if self.kind == "slack":
            return self._with_slack(weights, gaps)
        family, dtype = self.family, self.means.dtype
        plus, minus = (self.directions > 0).astype(dtype), (self.directions < 0).astype(dtype)
        a, b = product(plus, self.means), product(minus, self.means)
        n = weights / self.costs
        n_a, n_b = product(plus, n), product(minus, n)
        live = gaps > 0
        if self.kind in ("best-arm", "pairs"):
            pair, level = live, jnp.zeros_like(live)
        elif self.kind == "levels":
            pair, level = jnp.zeros_like(live), live
        else:
            both = jnp.any(self.directions > 0, 1) & jnp.any(self.directions < 0, 1)
            pair, level = live & both, live & ~both
        # Two means inside the range replace those of other places: derivatives stay finite.
        low, high = inside(family)
        d = jnp.zeros_like(a)
        if self.kind in ("levels", "any"):
            line = self.offsets * jnp.sum(self.directions, 1)
            d = family.divergence(jnp.where(level, a + b, high), jnp.where(level, line, low))
        scale = jnp.square(gaps)
        if self.kind == "levels":
            slope = jnp.where(level, scale * d, 0)
            gradient = (jnp.abs(self.directions) * slope[:, None]).T / self.costs[:, None]
            return ArmInformation((n_a + n_b) * slope, gradient, jnp.zeros_like(gradient))
        n_k = n_a + n_b
        a, b = jnp.where(pair, a, high), jnp.where(pair, b, low)
        n_a, n_b = jnp.where(pair, n_a, 1), jnp.where(pair, n_b, 1)
        total = n_a + n_b
        positive = jnp.where(total > 0, total, 1)
        up, down = (a - b) * (n_b / positive), (a - b) * (n_a / positive)
        seen = (n_a > 0) & (n_b > 0)  # H_p of a pair is 0 elsewhere
        safe_up, safe_down = (jnp.where(seen, z, (a - b) / 2) for z in (up, down))
        d_a, d_b, variance = family.around(a, safe_up, b, safe_down)
        value = jnp.where(seen, n_a * d_a + n_b * d_b, 0)
        value = jnp.where(pair, value, jnp.where(level, n_k * d, 0))
        by_a, by_b = (jnp.where(pair, z, jnp.where(level, d, 0)) for z in (d_a, d_b))
        gradient = plus * (scale * by_a)[:, None] + minus * (scale * by_b)[:, None]
        size = jnp.where(pair & seen, gaps / jnp.sqrt(variance * positive), 0)
        bend = plus * (size * up)[:, None] - minus * (size * down)[:, None]
        c = self.costs[:, None]
        return ArmInformation(scale * value, gradient.T / c, bend.T / c)

    def _with_slack(self, weights, gaps) -> ArmInformation:
        """The same for pairs {mu_b >= mu_a + slack}, slack minus the offset.

        With x the closest mean of a and y = x + slack that of b, the second derivative is
        minus the square of (p/c_a, q/c_b)/sqrt(n_a p' + n_b q'), p = (x - m_a)/V(x) and
        q = (y - m_b)/V(y).
        """
        family, dtype = self.family, self.means.dtype
        plus, minus = (self.directions > 0).astype(dtype), (self.directions < 0).astype(dtype)
        live, least = gaps > 0, jnp.finfo(dtype).tiny
        low, high = inside(family)
        slack = jnp.where(live, -self.offsets, high - low)
        n = jnp.maximum(weights, least) / self.costs
        a, b = (jnp.where(live, product(side, self.means), low) for side in (plus, minus))
        n_a, n_b = (jnp.where(live, product(side, n), 1) for side in (plus, minus))
        x, y = family.slack_middle(n_a, a, n_b, b, slack)

        def tilt(at, mean):
            variance = family.variance(at)
            return (at - mean) / jnp.where(variance > 0, variance, 1)

        (p, by_p), (q, by_q) = (
            jax.jvp(lambda at, mean=mean: tilt(at, mean), (at,), (jnp.ones_like(at),))
            for at, mean in ((x, a), (y, b))
        )
        d_a, d_b = (
            jnp.where(live, family.divergence(mean, at), 0) for mean, at in ((a, x), (b, y))
        )
        curved = n_a * by_p + n_b * by_q
        inner = live & (curved > 0) & jnp.isfinite(curved) & (p < 0) & (q > 0)
        scale, size = jnp.square(gaps), jnp.where(inner, gaps, 0)
        size = size / jnp.sqrt(jnp.where(inner, curved, 1))
        gradient = plus * (scale * d_a)[:, None] + minus * (scale * d_b)[:, None]
        bend = plus * (size * p)[:, None] + minus * (size * q)[:, None]
        c = self.costs[:, None]
        value = scale * (n_a * d_a + n_b * d_b)
        return ArmInformation(value, gradient.T / c, bend.T / c)


def inside(family: OneParameter) -> tuple[float, float]:
    """Two means inside the family's range."""
    low, high = family.low, family.high
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) / 4, high - (high - low) / 4
    if np.isfinite(high):
        return high - 2, high - 1
    return (low + 1, low + 2) if np.isfinite(low) else (0.0, 1.0)


def kind_of(directions: np.ndarray) -> str:
    """What the pieces of an answer are: "best-arm", "pairs", "levels" or "any".

    "levels" has at most one an arm. The first and the third have closed forms.

    Args:
        directions: [P, K] of one answer.
    """
    plus, minus = directions > 0, directions < 0
    P, K = directions.shape
    pair = plus.any(1) & minus.any(1)
    if pair.all() and P == K - 1 and plus.any(0).sum() == 1 and minus.any(0).sum() == K - 1:
        return "best-arm"
    if not pair.any() and (np.abs(directions).sum(0) <= 1).all():
        return "levels"
    return "pairs" if pair.all() else "any"


def general(kind: str) -> str:
    """The kind without closed form, as a bonus has none."""
    return {"best-arm": "pairs", "pairs": "pairs", "slack": "slack"}.get(kind, "any")


def solve_arms(
    model: ArmModel, kind: str, valid, bonus, gap, max_iterations: int = 100
) -> Solution:
    """Maximise over allocations the least information over pieces.

    Best arm without bonus by Newton's method, with the mixture q_a ~ c_a/d(m_a, u_a); levels
    by their closed form w_k = q_k ~ c_k/d(m_k, level); others by the interior-point method.
    Pure, for jit and vmap.

    Args:
        model: the arms and their pieces.
        kind: as of `kind_of`, or "slack" for pairs with offsets below 0; static.
        valid: [P] bool, False on padding.
        bonus: [K] c; read for the kinds "pairs" and "any" only.
        gap: relative duality gap.
        max_iterations: bound on the interior-point steps.

    Returns:
        A `Solution`, certified by the mixture. For a tie as of `solve`.
    """
    margin = model.margins
    solvable = jnp.all(jnp.where(valid, margin > 0, True)) & jnp.any(valid)
    gaps = (valid & (margin > 0)).astype(model.means.dtype)
    if kind in ("pairs", "slack", "any"):
        return interior_point(model, gaps, bonus, gap, max_iterations, 8, solvable)
    live = gaps > 0
    K = model.means.shape[0]
    if kind == "best-arm":
        weights = best_arm_weights(
            model.family, model.means, model.costs, counted=None, close=_CLOSE
        ).weights
        lower = (model.directions < 0).astype(weights.dtype)
        info = model.information(weights, gaps)
        slope = jnp.sum(lower * info.gradient.T, 1)
    else:
        info = model.information(jnp.ones(K, gaps.dtype), gaps)
        slope = jnp.sum(info.gradient, 0)
        weights = product(jnp.abs(model.directions).T, _inverse(slope, live))
        weights = jnp.where(jnp.any(live), weights / _positive(jnp.sum(weights)), 1 / K)
        info = model.information(weights, gaps)
    mixture = _inverse(slope, live)
    mixture = mixture / _positive(jnp.sum(mixture))
    value = jnp.min(jnp.where(live, info.value, jnp.inf))
    value = jnp.where(solvable, value, 0)
    reached = (jnp.max(product(info.gradient, mixture)) - value) / _positive(value)
    reached = jnp.where(solvable, jnp.maximum(reached, 0), jnp.inf)
    return Solution(weights, mixture, value, reached, jnp.int32(0), reached <= gap)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ArmInputs:
    """The arguments of H* for derivatives; see `jaxelim.lower_bound.derivatives`."""

    family: OneParameter = dataclasses.field(metadata={"static": True})
    kind: str = dataclasses.field(metadata={"static": True})  # as of `kind_of`
    means: jax.Array  # [K]
    costs: jax.Array  # [K]
    directions: jax.Array  # [P, K]
    offsets: jax.Array  # [P]
    bonus: jax.Array  # [K]; read for the kinds "pairs" and "any" only

    def solve(self, valid, gap: float) -> Solution:
        """Solve for the saddle point."""
        return solve_arms(self._model, self.kind, valid, self.bonus, gap)

    def fixed(self) -> None:
        """Nothing: all of `at` is differentiable."""

    def at(self, weights, valid, where: None):
        """Information at weights and marks [P] of its pieces, differentiable in the inputs."""
        gaps = (valid & (self._model.margins > 0)).astype(self.means.dtype)
        return self._model.information(weights, gaps), gaps

    @property
    def _model(self) -> ArmModel:
        return ArmModel(
            self.family, self.means, self.costs, self.directions, self.offsets, self.kind
        )


def _positive(x):
    return jnp.where(x > 0, x, 1)


def _inverse(x, live):
    return jnp.where(live & (x > 0), 1 / _positive(x), 0)


def costless(family: OneParameter) -> OneParameter:
    """The family without its costs, which programs take as arrays: one program serves all."""
    return GaussianByArm((1.0, 1.0)) if isinstance(family, GaussianByArm) else family


def costs_of(family: OneParameter, means: jax.Array) -> jax.Array:
    """c_k: [K]."""
    costs = family.costs(means)
    return jnp.ones_like(means) if costs is None else costs
