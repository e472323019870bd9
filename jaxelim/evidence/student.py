"""Evidence from Gaussian rewards whose means and variances are unknown.

With f_k degrees of freedom and v_k the variance of the rewards of arm k, a mean u
has log-likelihood ratio f_k log(1 + (m_k - u)^2/v_k)/2. A pair {mu_a <= mu_b} costs
the least sum of two such numbers over u in [m_b, m_a]; a level costs one of them. Weights w
in place of f give H_p(w). (Jourdan, Degenne & Kaufmann 2023.)

The sum of a pair may have two local minima, one near each mean. H_p then has a kink
where they are equal. H* and Track-and-Stop, which need its second derivative, are not defined.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.shapes import Levels, Rows, Shape
from jaxelim.contracts.views import ArmContext, Evidence
from jaxelim.evidence.references import evidence_about
from jaxelim.lanes import index_like

_MOST = 1e30
"""Largest ratio v/gap^2: beyond it a pair costs less than rounding."""

_STEPS, _POLISH, _FAR = 3, 2, 1e-3
"""Newton steps for the distance to a root, and for the root itself; the longest of these."""


def least_root(p: Array, q: Array, other: Array, own: Array) -> Array:
    """The least root in [0, 1] of c(x) = p (x - 1)(x^2 + own) + q x ((x - 1)^2 + other).

    c(0) < 0, and c is concave up to h = (1 + q)/3. Where c >= 0 at its maximum in
    [0, h], the least root is at distance e before that maximum; e solves
    e^3 + 3 r e^2 + s e = c(maximum), with 3 r^2 = -c'(h) or s = c'(h), whichever is
    positive. Newton's method falls from above to e, then rises from below to the root.
    Where c < 0 there, the result is some other point of [0, 1].

    Args:
        p: share of the arm at 1, in [0, 1]; any shape.
        q: 1 - p.
        other: v/gap^2 of the arm at 1, positive.
        own: v/gap^2 of the arm at 0, positive.
    """
    linear, turn = p * own + q * (1 + other), (1 + q) / 3
    slope = linear - (1 + q) * turn
    rises = slope > 0
    r = jnp.sqrt(jnp.maximum(-slope, 0) / 3)
    top = jnp.maximum(turn - r, 0)

    def c(x: Array) -> Array:
        return ((x - (1 + q)) * x + linear) * x - p * own

    high, tiny = jnp.maximum(c(top), 0), float(np.finfo(p.dtype).tiny)
    wide, steep = 3 * r, jnp.maximum(slope, 0)
    # Each of the three terms alone gives an upper bound on e; the least is below 1.5 e.
    e = jnp.exp(jnp.log(jnp.maximum(high, tiny)) / 3)
    e = jnp.minimum(e, jnp.where(rises, e, jnp.sqrt(high / jnp.maximum(wide, tiny))))
    e = jnp.minimum(e, jnp.where(rises, high / jnp.maximum(steep, tiny), e))
    for _ in range(_STEPS):
        excess = ((e + wide) * e + steep) * e - high
        step = excess / jnp.maximum((3 * e + 2 * wide) * e + steep, tiny)
        e = jnp.clip(e - step, 0, e)
    x = jnp.clip(top - e, 0, 1)
    for _ in range(_POLISH):
        tilt = (3 * x - 2 * (1 + q)) * x + linear
        # Where c is flat its rounding would move x far; a true correction is small.
        step = jnp.clip(c(x) / jnp.maximum(tilt, tiny), -_FAR, _FAR)
        x = jnp.clip(x - jnp.where(tilt > 0, step, 0), 0, 1)
    return x


def closest(f_a: Array, v_a: Array, f_b: Array, v_b: Array, gap: Array) -> tuple[Array, Array]:
    """log(1 + (m_a - u)^2/v_a)/2 and log(1 + (m_b - u)^2/v_b)/2 at the piece's closest point.

    u minimises f_a times the first plus f_b times the second over [m_b, m_a]. The derivative
    is a cubic with one root or three in that interval; of three the outer two are minima. They
    are the least roots seen from m_b and from m_a. The sum is compared at both, and a
    sum at any point is an upper bound on the minimum, so no root has to be classified.

    Args:
        f_a: degrees of freedom or weight of arm a, at least 0; any shape.
        v_a: its variance, positive.
        f_b, v_b: those of arm b.
        gap: m_a - m_b, positive.
    """
    square = jnp.maximum(gap * gap, float(np.finfo(gap.dtype).tiny))
    a, b = jnp.minimum(v_a / square, _MOST), jnp.minimum(v_b / square, _MOST)
    total = f_a + f_b
    total = jnp.where(total > 0, total, 1)
    p, q = f_a / total, f_b / total
    x, y = least_root(p, q, a, b), least_root(q, p, b, a)
    near_b = jnp.log1p((1 - x) ** 2 / a) / 2, jnp.log1p(x * x / b) / 2
    near_a = jnp.log1p(y * y / a) / 2, jnp.log1p((1 - y) ** 2 / b) / 2
    first = f_a * near_b[0] + f_b * near_b[1] <= f_a * near_a[0] + f_b * near_a[1]
    return jnp.where(first, near_b[0], near_a[0]), jnp.where(first, near_b[1], near_a[1])


def pair(f_a: Array, a: Array, v_a: Array, f_b: Array, b: Array, v_b: Array) -> Array:
    """The infimum log-likelihood ratio of the piece {mu_a <= mu_b}.

    0 unless a > b and both variances are positive.

    Args:
        f_a: degrees of freedom or weight of arm a, at least 0; any shape.
        a: its mean.
        v_a: its variance, at least 0.
        f_b, b, v_b: those of arm b.
    """
    costs = (a > b) & (v_a > 0) & (v_b > 0)
    gap, v_a, v_b = (jnp.where(costs, x, 1) for x in (a - b, v_a, v_b))
    of_a, of_b = closest(f_a, v_a, f_b, v_b, gap)
    return jnp.where(costs, f_a * of_a + f_b * of_b, 0)


def half_log(mean: Array, v: Array, level: Array, above: Array) -> Array:
    """log(1 + (mean - level)^2/v)/2 for a mean strictly on the side `above`, else 0.

    0 too where v = 0.

    Args:
        mean: any shape.
        v: the variance, at least 0.
        level: a number.
        above: bool, the side that the answer gives the arm.
    """
    beyond = jnp.where(above, mean > level, mean < level) & (v > 0)
    far = jnp.where(beyond, mean - level, 0)
    return jnp.log1p(far * far / jnp.where(beyond, v, 1)) / 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StudentEvidence(Evidence):
    """The evidence about pieces of one shape, under degrees of freedom or weights."""

    space: ArmContext
    shape: Shape
    means: Array  # [K]
    variances: Array  # [K] M2/N; an arm with 0 has pieces that cost nothing
    freedom: Array  # [K] degrees of freedom, or weights over the costs, at least 0
    costs: Array | None = None  # [K], positive; None: all are 1

    @staticmethod
    def of(
        space: ArmContext, shape: Shape, means: Array, variances: Array, freedom: Array,
        costs: Array | None = None,
    ) -> Evidence:  # fmt: skip
        """The evidence about pieces of this shape."""

        def plain(shape: Shape) -> StudentEvidence:
            kind = PairEvidence if isinstance(shape, Rows) else LevelEvidence
            return kind(space, shape, means, variances, freedom, costs)

        return evidence_about(shape, plain)

    def weighted(self, weights: Array) -> "StudentEvidence":
        """The same pieces under weights w [K], positive, of any sum."""
        return dataclasses.replace(self, freedom=self.per_cost(weights))

    def about(self, shape: Shape) -> Evidence:
        numbers = self.means, self.variances, self.freedom, self.costs
        return self.of(self.space, shape, *numbers)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairEvidence(StudentEvidence):
    """Evidence about pairs of arms."""

    def values(self) -> Array:
        lanes, shape = self.space.lanes, Rows.of(self.shape)
        arrays = self.freedom, self.means, self.variances
        sides = [shape.sides(lanes, x) for x in arrays]
        of_a, of_b = ([side[end] for side in sides] for end in (0, 1))
        values = lanes.materialize(pair, *of_a, *of_b)
        return shape.flat(values) if shape.several else values

    def gradient(self, piece: Array) -> Array:
        lanes = self.space.lanes
        i, k = self.shape.pair(lanes, piece)
        arrays = self.freedom, self.means, self.variances
        (f_a, a, v_a), (f_b, b, v_b) = ([lanes.take(x, j) for x in arrays] for j in (i, k))
        costs = (a > b) & (v_a > 0) & (v_b > 0)
        gap, v_a, v_b = (jnp.where(costs, x, 1) for x in (a - b, v_a, v_b))
        of_i, of_k = (jnp.where(costs, x, 0) for x in closest(f_a, v_a, f_b, v_b, gap))
        arms = index_like(self.means)
        return self.per_cost(jnp.where(arms == i, of_i, jnp.where(arms == k, of_k, 0)))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LevelEvidence(StudentEvidence):
    """Evidence about arms and a level."""

    def _half_logs(self) -> Array:
        shape = Levels.of(self.shape)
        level = jnp.asarray(shape.level, self.means.dtype)
        return half_log(self.means, self.variances, level, shape.above)

    def values(self) -> Array:
        return self.freedom * self._half_logs()

    def gradient(self, piece: Array) -> Array:
        return self.per_cost(jnp.where(index_like(self.means) == piece, self._half_logs(), 0))
