"""Evidence from independent arms with rewards of a one-parameter family.

n_k = N_k/c_k are precision counts, c_k the arm's cost. A pair {mu_a <= mu_b} has LLR
n_a d(m_a, u) + n_b d(m_b, u), where u is the n-weighted mean of both. A level has LLR
n_k d(m_k, level). With weights in place of counts the value is H_p, and dH_p/dw_k is
d(m_k, u)/c_k or d(m_k, level)/c_k. (Garivier & Kaufmann 2016, section 2.)
"""

import dataclasses
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.shapes import Levels, Rows, Shape
from jaxelim.contracts.sides import Sides
from jaxelim.contracts.slack import SlackRows
from jaxelim.contracts.views import ArmContext, Evidence
from jaxelim.evidence.derivatives import Bent
from jaxelim.evidence.references import evidence_about
from jaxelim.lanes import PLAIN, index_like

if TYPE_CHECKING:
    from jaxelim.families.one_parameter import OneParameter


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ArmEvidence(Evidence):
    """The evidence about pieces of one shape, at given means, under given counts or weights."""

    family: "OneParameter" = dataclasses.field(metadata={"static": True})
    space: ArmContext
    shape: Shape
    means: Array  # [K]
    weights: Array  # [K] pulls or weights, positive
    costs: Array | None = None  # [K], positive; None: all are 1

    @property
    def precision(self) -> Array:
        """The precision counts n: [K]."""
        return self.per_cost(self.weights)

    def weighted(self, weights: Array) -> "ArmEvidence":
        return dataclasses.replace(self, weights=weights)

    def with_derivatives(self) -> "SidesEvidence":
        shape = Sides.about(self.shape, len(self.means), self.means.dtype)
        return SidesEvidence.of(self.family, shape, self.means, self.scales)

    def about(self, shape: Shape) -> Evidence:
        numbers = self.means, self.weights, self.costs
        return evidence_about(
            shape, lambda plain: _kind(plain)(self.family, self.space, plain, *numbers)
        )

    @property
    def square(self) -> bool:  # type: ignore[override]
        return self.family.square

    def _cost(self, n_a: Array, a: Array, n_b: Array, b: Array) -> Array:
        """The LLR of a pair, from precision counts and means, a's first."""
        return self.family.pair(n_a, a, n_b, b)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairEvidence(ArmEvidence):
    """Evidence about pairs of arms."""

    def values(self) -> Array:
        lanes, shape = self.space.lanes, Rows.of(self.shape)
        (a, b), (n_a, n_b) = (shape.sides(lanes, x) for x in (self.means, self.precision))
        values = lanes.materialize(lambda *pair: self._cost(*pair), n_a, a, n_b, b)
        return shape.flat(values) if shape.several else values

    def gradient(self, piece: Array) -> Array:
        arms, (a, b), u = self._ends(piece)
        # Two divergences a lane: all arms but the two have slope 0.
        higher = jnp.where(a > b, a, u)
        slopes = self._divergences(higher, u, b, u)
        return self.per_cost(self._placed(arms, slopes))

    def _ends(self, piece: Array) -> tuple[tuple, tuple, Array]:
        """The two arms, their means, and the middle; the lower mean where they are not apart."""
        lanes = self.space.lanes
        i, k = self.shape.pair(lanes, piece)
        (a, b), (n_a, n_b) = (
            [lanes.take(x, j) for j in (i, k)] for x in (self.means, self.precision)
        )
        u = jnp.where(a > b, self.family.middle(n_a, jnp.maximum(a, b), n_b, b), b)
        return (i, k), (a, b), u

    def _divergences(self, a: Array, x: Array, b: Array, y: Array) -> tuple[Array, Array]:
        """d(a, x) and d(b, y)."""

        def both(a: Array, x: Array, b: Array, y: Array) -> tuple[Array, Array]:
            return self.family.divergence(a, x), self.family.divergence(b, y)

        return self.space.lanes.materialize(both, a, x, b, y)

    def _placed(self, arms: tuple, numbers: tuple) -> Array:
        """The two numbers at the two arms, 0 elsewhere: [K]."""
        arm, (i, k) = index_like(self.means), arms
        return jnp.where(arm == i, numbers[0], jnp.where(arm == k, numbers[1], 0))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SlackEvidence(PairEvidence):
    """Evidence about pairs of arms with slack: n_a d(m_a, x) + n_b d(m_b, x + slack)."""

    def _cost(self, n_a: Array, a: Array, n_b: Array, b: Array) -> Array:
        return self.family.slack_pair(n_a, a, n_b, b, self.shape.slack)

    def gradient(self, piece: Array) -> Array:
        arms, means, moved = self._moved(piece)
        slopes = self._divergences(means[0], moved[0], means[1], moved[1])
        return self.per_cost(self._placed(arms, slopes))

    def _moved(self, piece: Array) -> tuple[tuple, tuple, tuple]:
        """The two arms, their means, and those at the closest point."""
        lanes, family, slack = self.space.lanes, self.family, self.shape.slack
        i, k = self.shape.pair(lanes, piece)
        (a, b), (n_a, n_b) = (
            [lanes.take(x, j) for j in (i, k)] for x in (self.means, self.precision)
        )
        apart = (a - b) + slack > 0
        x, y = family.slack_middle(n_a, jnp.where(apart, a, b), n_b, b, slack)
        return (i, k), (a, b), (jnp.where(apart, x, a), jnp.where(apart, y, b))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SidesEvidence(ArmEvidence):
    """Evidence about any pairs and levels of one run, with its derivatives.

    The second derivative of a pair is minus the square of the vector (up/c_a,
    -down/c_b)/sqrt(V(u) (n_a + n_b)), up = m_a - u, down = u - m_b. With slack, x the
    closest mean of a and y = x + slack that of b, it is minus the square of (p/c_a,
    q/c_b)/sqrt(n_a p' + n_b q'), p = (x - m_a)/V(x) and q = (y - m_b)/V(y).
    """

    shape: Sides

    @staticmethod
    def of(family: "OneParameter", shape: Sides, means: Array, costs: Array) -> "SidesEvidence":
        """The evidence under uniform weights; means [K] and costs [K]."""
        even = jnp.full_like(means, 1 / means.shape[0])
        return SidesEvidence(family, ArmContext(PLAIN, means), shape, means, even, costs)

    def values(self) -> Array:
        return self.derivatives().value

    def derivatives(self) -> Bent:
        shape, outside = self.shape, self.outside() > 0
        seen = self._loose if shape.slack else self._tight
        value, slopes, bends = seen(outside)
        gradient, bend = (shape.placed(a, b, len(self.means)) for a, b in (slopes, bends))
        return Bent(value, gradient, bend).by(self.costs)

    def _ends(self, x: Array) -> tuple[Array, Array]:
        """x [K] at both arms of each piece: [Q] each."""
        return x[self.shape.first], x[self.shape.second]

    def _tight(self, outside: Array) -> tuple[Array, tuple, tuple]:
        """Values [Q], slopes by the two arms, and bends, of pairs without slack and levels."""
        family, shape = self.family, self.shape
        pair, level = outside & (shape.sign == 0), outside & (shape.sign != 0)
        (a, b), (n_a, n_b) = self._ends(self.means), self._ends(self.precision)
        # Two means inside the range replace those of other places: derivatives stay finite.
        low, high = _inside(family)
        far = family.divergence(jnp.where(level, a, high), jnp.where(level, shape.level, low))
        far = jnp.where(level, far, 0)
        of_level = n_a * far
        a, b = jnp.where(pair, a, high), jnp.where(pair, b, low)
        n_a, n_b = jnp.where(pair, n_a, 1), jnp.where(pair, n_b, 1)
        total = n_a + n_b
        positive = jnp.where(total > 0, total, 1)
        up, down = (a - b) * (n_b / positive), (a - b) * (n_a / positive)
        seen = (n_a > 0) & (n_b > 0)  # H_p of a pair is 0 elsewhere
        safe_up, safe_down = (jnp.where(seen, z, (a - b) / 2) for z in (up, down))
        d_a, d_b, variance = family.around(a, safe_up, b, safe_down)
        value = jnp.where(pair & seen, n_a * d_a + n_b * d_b, of_level)
        slopes = jnp.where(pair, d_a, far), jnp.where(pair, d_b, 0)
        size = jnp.where(pair & seen, jnp.sqrt(1 / (variance * positive)), 0)
        return value, slopes, (size * up, -size * down)

    def _loose(self, outside: Array) -> tuple[Array, tuple, tuple]:
        """The same of pairs with slack."""
        family, dtype = self.family, self.means.dtype
        low, high = _inside(family)
        slack = jnp.where(outside, -self.shape.offset, high - low)
        n = jnp.maximum(self.precision, jnp.finfo(dtype).tiny)
        a, b = (jnp.where(outside, x, low) for x in self._ends(self.means))
        n_a, n_b = (jnp.where(outside, x, 1) for x in self._ends(n))
        x, y = family.slack_middle(n_a, a, n_b, b, slack)

        def tilt(at: Array, mean: Array) -> Array:
            variance = family.variance(at)
            return (at - mean) / jnp.where(variance > 0, variance, 1)

        (p, by_p), (q, by_q) = (
            jax.jvp(lambda at, mean=mean: tilt(at, mean), (at,), (jnp.ones_like(at),))
            for at, mean in ((x, a), (y, b))
        )
        slopes = tuple(
            jnp.where(outside, family.divergence(mean, at), 0) for mean, at in ((a, x), (b, y))
        )
        curved = n_a * by_p + n_b * by_q
        inner = outside & (curved > 0) & jnp.isfinite(curved) & (p < 0) & (q > 0)
        size = jnp.where(inner, jnp.sqrt(1 / jnp.where(inner, curved, 1)), 0)
        return n_a * slopes[0] + n_b * slopes[1], slopes, (size * p, size * q)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LevelEvidence(ArmEvidence):
    """Evidence about arms and a level."""

    def values(self) -> Array:
        shape = Levels.of(self.shape)
        level = jnp.asarray(shape.level, self.means.dtype)
        return self.family.level(self.precision, self.means, level, shape.above)

    def gradient(self, piece: Array) -> Array:
        shape = Levels.of(self.shape)
        level = jnp.asarray(shape.level, self.means.dtype)
        slope = self.family.level(jnp.ones_like(self.means), self.means, level, shape.above)
        return self.per_cost(jnp.where(index_like(self.means) == piece, slope, 0))


def _inside(family: "OneParameter") -> tuple[float, float]:
    """Two means inside the family's range."""
    low, high = family.low, family.high
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) / 4, high - (high - low) / 4
    if np.isfinite(high):
        return high - 2, high - 1
    return (low + 1, low + 2) if np.isfinite(low) else (0.0, 1.0)


def evidence_of(
    family: "OneParameter", space: ArmContext, shape: Shape, means: Array, weights: Array
) -> Evidence:
    """The evidence about pieces of this shape, with the family's costs."""

    costs = family.costs(means)
    return evidence_about(
        shape, lambda plain: _kind(plain)(family, space, plain, means, weights, costs)
    )


def _kind(shape: Shape) -> type[ArmEvidence]:
    """The class of evidence about pieces of this shape."""
    if isinstance(shape, SlackRows):
        return SlackEvidence
    return PairEvidence if isinstance(shape, Rows) else LevelEvidence
