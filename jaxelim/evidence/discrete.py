"""Evidence at a truth of bounded rewards: distributions of given points in [0, 1].

KL_inf of a distribution against means of at most u is the largest expected logarithm of
1 + b (x - u), b u <= 1; against means of at least u that of 1 - b (x - u). With the best
bet b its derivative in u is -b, or b. (Honda & Takemura 2010, theorem 8)
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.sides import Sides
from jaxelim.contracts.views import ArmContext, Evidence
from jaxelim.evidence.derivatives import Bent
from jaxelim.lanes import PLAIN

_BETS, _MEANS = 60, 60
"""Halvings of the search for a bet, and for a common mean."""


def kl_inf(points: Array, probabilities: Array, u: Array, up: bool) -> tuple[Array, Array, Array]:
    """KL_inf against means of at most u (up) or at least u, with the best bet and its curvature.

    Args:
        points, probabilities: [.., S].
        u: [..], inside (0, 1).
        up: whether the mean is above u; else below.

    Returns:
        [..] each; 0, 0 and 1 where the mean is on the other side. The third is the second
        derivative in u.
    """
    x, rest = (points, u) if up else (1 - points, 1 - u)
    off = x - rest[..., None]
    gains = jnp.sum(probabilities * off, -1) > 0

    def slope(bet: Array) -> Array:
        return jnp.sum(probabilities * off / (1 + bet[..., None] * off), -1)

    largest = 1 / rest

    def halved(step: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        rises = slope(middle) > 0
        return jnp.where(rises, middle, low), jnp.where(rises, high, middle)

    low, high = jax.lax.fori_loop(0, _BETS, halved, (jnp.zeros_like(rest), largest))
    # With no point at the end that loses all, the whole stake may be the best bet.
    least = jnp.min(jnp.where(probabilities > 0, x, jnp.inf), -1)
    whole = (least > 0) & (
        jnp.sum(jnp.where(probabilities > 0, probabilities * off / jnp.where(x > 0, x, 1), 0), -1)
        >= 0
    )
    bet = jnp.where(gains, jnp.where(whole, largest, (low + high) / 2), 0)
    wealth = jnp.where(probabilities > 0, 1 + bet[..., None] * off, 1)
    wealth = jnp.maximum(wealth, jnp.finfo(u.dtype).tiny)
    value = jnp.sum(probabilities * jnp.log(wealth), -1)
    inverse = probabilities / (wealth * wealth)
    curve = jnp.sum(inverse, -1) / jnp.maximum(jnp.sum(inverse * off * off, -1), 1e-300)
    curve = jnp.where(whole, largest * largest, curve)
    return jnp.where(gains, value, 0), bet, jnp.where(gains, curve, 1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DiscreteEvidence(Evidence):
    """The evidence of weights about pairs and levels, at a truth, with its derivatives."""

    space: ArmContext
    shape: Sides
    means: Array  # [K]
    weights: Array  # [K], over the costs
    points: Array  # [K, S], scaled to [0, 1]
    probabilities: Array  # [K, S]
    low: float = dataclasses.field(default=0.0, metadata={"static": True})
    width: float = dataclasses.field(default=1.0, metadata={"static": True})
    costs: Array | None = None  # [K], positive; None: all are 1

    @staticmethod
    def of(
        shape: Sides, means: Array, scales: Array, low: float, width: float
    ) -> "DiscreteEvidence":
        """The evidence under uniform weights; scales [K, 2 S] as of `Bounded.scales`."""
        points, probabilities = jnp.split(scales, 2, 1)
        even = jnp.full_like(means, 1 / means.shape[0])
        context = ArmContext(PLAIN, means)
        return DiscreteEvidence(context, shape, means, even, points, probabilities, low, width)

    def weighted(self, weights: Array) -> "DiscreteEvidence":
        return dataclasses.replace(self, weights=self.per_cost(weights))

    def values(self) -> Array:
        return self.derivatives().value

    def derivatives(self) -> Bent:
        shape = self.shape
        outside = self.outside() > 0
        pair, level = outside & (shape.sign == 0), outside & (shape.sign != 0)
        arms = [(self.points[i], self.probabilities[i]) for i in (shape.first, shape.second)]
        w_a, w_b = self.weights[shape.first], self.weights[shape.second]
        scaled = (self.means - self.low) / self.width
        offset = shape.offset / self.width
        slack = jnp.where(pair, -offset, 0)
        low = jnp.maximum(scaled[shape.second] - slack, 0)
        high = jnp.minimum(scaled[shape.first], 1 - slack)
        low, high = jnp.where(pair, low, 0.25), jnp.where(pair, high, 0.75)

        def halved(step: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            u = (low + high) / 2
            falls = kl_inf(*arms[0], u, True)[1]
            rises = kl_inf(*arms[1], u + slack, False)[1]
            before = w_a * falls > w_b * rises
            return jnp.where(before, u, low), jnp.where(before, high, u)

        low, high = jax.lax.fori_loop(0, _MEANS, halved, (low, high))
        u = (low + high) / 2
        at = (jnp.where(level, shape.level, 0.5 * self.width + self.low) - self.low) / self.width
        d_a, bet_a, curve_a = kl_inf(*arms[0], jnp.where(level, at, u), True)
        d_b, bet_b, curve_b = kl_inf(*arms[1], u + slack, False)
        below = kl_inf(*arms[0], at, False)[0]
        far = jnp.where(shape.sign > 0, d_a, below)
        slopes = jnp.where(pair, d_a, jnp.where(level, far, 0)), jnp.where(pair, d_b, 0)
        value = w_a * slopes[0] + jnp.where(pair, w_b * slopes[1], 0)
        curve = w_a * curve_a + w_b * curve_b
        size = jnp.where(pair & (curve > 0), jnp.sqrt(1 / jnp.where(curve > 0, curve, 1)), 0)
        count = self.means.shape[0]
        gradient = shape.placed(*slopes, count)
        bend = shape.placed(size * bet_a, -size * bet_b, count)
        return Bent(value, gradient, bend).by(self.costs)
