"""The information on pieces for Gaussian arms of unknown mean and variance.

With d_k(u) = log(1 + (m_k - u)^2/v_k)/2, v_k the variance,

    pair {mu_a <= mu_b}:  H_p(w) = min over u in [m_b, m_a] of w_a d_a(u) + w_b d_b(u),
    level of arm k:       H_p(w) = w_k d_k(level).

The sum of a pair may have two local minima, one near each mean. H_p then has a kink
where they are equal. So a pair counts as two pieces, one for each minimum, and each of
these is smooth. Every u gives H_p(w') <= w'_a d_a(u) + w'_b d_b(u) for all w', which is
a cut. So certificates hold for any u. (Jourdan, Degenne & Kaufmann 2023.)
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

from jaxelim.evidence.student import least_root
from jaxelim.lower_bound.arms import ArmInformation
from jaxelim.lower_bound.information import product
from jaxelim.lower_bound.solver import Solution, interior_point

_POLISH = 4  # Newton steps on each root; the gradient needs it to rounding
_FLAT = 1e-9  # least curvature of a minimum, relative to that near the means
_STATIONARY = 1e-9  # largest relative residual of a root

_MOST_PROGRAMS = 100
_LEAST_WEIGHT = 1e-12
_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclasses.dataclass(frozen=True)
class StudentModel:
    """Independent arms and pieces, as `ArmModel`; 2P pieces, the two minima of each pair."""

    means: jax.Array  # [K]
    variances: jax.Array  # [K]
    directions: jax.Array  # [P, K] entries 1, -1 and 0; zeros on padding
    offsets: jax.Array  # [P]

    @property
    def margins(self) -> jax.Array:
        """m_a - m_b, or the distance from the level: [2P]."""
        return jnp.tile(product(self.directions, self.means) - self.offsets, 2)

    def information(self, weights, gaps) -> ArmInformation:
        """H_p and its derivatives at weights [K], times the square of gaps [2P]."""
        dtype = self.means.dtype
        live, P = gaps > 0, self.offsets.shape[0]
        plus, minus = (self.directions > 0).astype(dtype), (self.directions < 0).astype(dtype)
        both = jnp.any(self.directions > 0, 1) & jnp.any(self.directions < 0, 1)
        margin = product(self.directions, self.means) - self.offsets
        gap = jnp.where(margin > 0, margin, 1)
        (w_a, v_a), (w_b, v_b) = (
            [product(side, x) for x in (weights, self.variances)] for side in (plus, minus)
        )
        v_a, v_b = jnp.where(v_a > 0, v_a, 1), jnp.where(v_b > 0, v_b, 1)
        near_b, near_a = minima(w_a, v_a, w_b, v_b, gap)
        x = jnp.concatenate([near_b, near_a])  # u = m_b + gap x
        w_a, v_a, w_b, v_b, gap = (jnp.tile(z, 2) for z in (w_a, v_a, w_b, v_b, gap))
        pair, line = live & jnp.tile(both, 2), live & ~jnp.tile(both, 2)
        up, down = gap * (1 - x), gap * x
        d_a, d_b = jnp.log1p(up**2 / v_a) / 2, jnp.log1p(down**2 / v_b) / 2
        w_k, v_k = w_a + w_b, jnp.tile(product(plus + minus, self.variances), 2)
        d = jnp.log1p(gap**2 / jnp.where(v_k > 0, v_k, 1)) / 2
        scale = jnp.square(gaps)
        value = jnp.where(pair, w_a * d_a + w_b * d_b, jnp.where(line, w_k * d, 0))
        by_a, by_b = (scale * jnp.where(pair, z, jnp.where(line, d, 0)) for z in (d_a, d_b))
        # The second derivative, by implicit differentiation of u.
        slope_a, slope_b = up / (v_a + up**2), down / (v_b + down**2)
        curve = (
            w_a * (v_a - up**2) / (v_a + up**2) ** 2 + w_b * (v_b - down**2) / (v_b + down**2) ** 2
        )
        curve = jnp.maximum(curve, _FLAT * (w_a / v_a + w_b / v_b))
        size = jnp.where(pair & (curve > 0), gaps / jnp.sqrt(jnp.where(curve > 0, curve, 1)), 0)
        plus, minus = jnp.tile(plus, (2, 1)), jnp.tile(minus, (2, 1))
        gradient = plus * by_a[:, None] + minus * by_b[:, None]
        bend = plus * (size * slope_a)[:, None] - minus * (size * slope_b)[:, None]
        assert gradient.shape[0] == 2 * P
        return ArmInformation(scale * value, gradient.T, bend.T)


def minima(w_a, v_a, w_b, v_b, gap) -> tuple[jax.Array, jax.Array]:
    """The local minima u = m_b + gap x nearest to m_b and to m_a: two x of the shape of gap.

    Equal where there is one. Where neither is found to be stationary they are as they are.
    """
    total = jnp.where(w_a + w_b > 0, w_a + w_b, 1)
    p, q = w_a / total, w_b / total
    a, b = v_a / gap**2, v_b / gap**2

    def cubic(x):
        c = p * (x - 1) * (x * x + b) + q * x * ((x - 1) ** 2 + a)
        slope = p * (x * x + b + 2 * x * (x - 1)) + q * ((x - 1) ** 2 + a + 2 * x * (x - 1))
        size = p * (1 - x) * (x * x + b) + q * x * ((x - 1) ** 2 + a)
        return c, slope, size

    def polished(x):
        for _ in range(_POLISH):
            c, slope, _ = cubic(x)
            step = jnp.where(slope > 0, c / jnp.where(slope > 0, slope, 1), 0)
            x = jnp.clip(x - jnp.clip(step, -1e-3, 1e-3), 0, 1)
        c, slope, size = cubic(x)
        return x, (jnp.abs(c) <= _STATIONARY * size) & (slope >= 0)

    near_b, found_b = polished(least_root(p, q, a, b))
    near_a, found_a = polished(1 - least_root(q, p, b, a))
    return jnp.where(found_b | ~found_a, near_b, near_a), jnp.where(
        found_a | ~found_b, near_a, near_b
    )


def solve_students(model: StudentModel, valid, bonus, gap, max_iterations: int) -> Solution:
    """Maximise over allocations the least information over pieces, as `solve_arms`.

    By the interior-point method. The mixture of a pair is the sum of those of its two
    minima.

    Args:
        model: the arms and their pieces.
        valid: [P] bool, False on padding.
        bonus: [K] c.
        gap: relative duality gap.
        max_iterations: bound on the interior-point steps.
    """
    positive, valid = model.margins > 0, jnp.tile(valid, 2)
    solvable = jnp.all(jnp.where(valid, positive, True)) & jnp.any(valid)
    gaps = (valid & positive).astype(model.means.dtype)
    found = interior_point(model, gaps, bonus, gap, max_iterations, 8, solvable)
    first, second = jnp.split(found.mixture, 2)
    return found._replace(mixture=first + second)


def cutting_planes(
    cuts: Callable, bonus: np.ndarray, start: np.ndarray, gap: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Maximise min_p H_p(w) + c . w by linear programs over cuts, on the host.

    Each step adds the cuts of all pieces at the solution of the linear program, and at its
    middle with the best weights so far. The program's dual is the mixture of the
    certificate.

    Args:
        cuts: gives values [Q] and slopes [Q, K] at weights [K], with the bonus.
        bonus: [K] c.
        start: [K] weights.
        gap: relative duality gap to stop at.

    Returns:
        Weights [K], a mixture [Q], the least value and the relative duality gap.
    """
    K = len(start)
    best, value, reached = start, -np.inf, np.inf
    known, places, mixture = np.zeros((0, K)), np.zeros(0, int), np.zeros(0)
    points = [start, np.full(K, 1 / K)]
    for _ in range(_MOST_PROGRAMS):
        for w in points:
            w = np.maximum(w, _LEAST_WEIGHT)
            w = w / w.sum()
            values, slopes = cuts(w)
            known = np.concatenate([known, slopes])
            places = np.concatenate([places, np.arange(len(values))])
            least = float(np.min(values) + bonus @ w)
            if least > value:
                best, value = w, least
        scale = value if value > 0 else 1.0
        rows = np.concatenate([-known / scale, np.ones((len(known), 1))], axis=1)
        program = linprog(
            [*[0.0] * K, -1.0], A_ub=rows, b_ub=np.zeros(len(rows)),
            A_eq=[[*[1.0] * K, 0.0]], b_eq=[1.0], bounds=[(0, None)] * K + [(None, None)],
            method="highs-ds", options=_TOLERANCES,
        )  # fmt: skip
        if program.status != 0:
            break
        dual = np.maximum(-program.ineqlin.marginals, 0)
        dual = dual / dual.sum()
        upper = float(np.max(dual @ known))
        if (upper - value) / scale < reached:
            reached = (upper - value) / scale
            mixture = np.bincount(places, dual, minlength=len(values))
        if reached <= gap:
            break
        w = program.x[:K]
        points = [w, (w + best) / 2]
    return best, mixture, value, max(reached, 0.0)
