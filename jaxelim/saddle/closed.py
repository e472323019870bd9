"""Saddle points of independent arms that need no interior-point method, with their certificates.

Signs: w_k = q_k ~ 1/s_k, H_k(w) = w_k s_k. Best arm: by Newton's method on its own
conditions, with the mixture q_a ~ c_a/d(m_a, u_a). (Garivier & Kaufmann 2016, section 2.)
"""

import jax.numpy as jnp
import numpy as np

from jaxelim.contracts.shapes import Levels, Rows, Shape
from jaxelim.contracts.sides import Sides
from jaxelim.matrices import product
from jaxelim.saddle.best_arm import best_arm_weights
from jaxelim.saddle.solver import Solution, solve

_CLOSE = 1e-9  # of Newton's method; see `best_arm_weights`


def kind_of(directions: np.ndarray) -> str:
    """What the pieces of an answer are: "best-arm", "levels" (at most one an arm) or "any".

    Args:
        directions: [P, K] of one answer, with entries 1, -1 and 0.
    """
    plus, minus = directions > 0, directions < 0
    P, K = directions.shape
    pair = plus.any(1) & minus.any(1)
    if pair.all() and P == K - 1 and plus.any(0).sum() == 1 and minus.any(0).sum() == K - 1:
        return "best-arm"
    if not pair.any() and (np.abs(directions).sum(0) <= 1).all():
        return "levels"
    return "any"


def kind_of_shape(shape: Shape) -> str:
    """The same of a shape."""
    if isinstance(shape, Levels):
        return "levels"
    return "best-arm" if type(shape) is Rows and not shape.several else "any"


def optimum(evidence, kind: str, valid, bonus, gap) -> Solution:
    """`solve`, or a closed form where the kind has one. Pure, for jit and vmap.

    Args:
        evidence: as of `solve`; of one-parameter rewards if the kind is not "any".
        kind: as of `kind_of`; static.
        valid: [P] bool, False on padding.
        bonus: [K] c; read for the kind "any" only.
        gap: relative duality gap.
    """
    if kind == "any":
        return solve(evidence, valid, bonus, gap)
    shape: Sides = evidence.shape
    ahead = evidence.outside() > 0
    solvable, live = jnp.all(ahead | ~valid) & jnp.any(valid), valid & ahead
    if kind == "best-arm":
        weights = best_arm_weights(
            evidence.model, evidence.means, evidence.costs, counted=None, close=_CLOSE
        ).weights
        at = evidence.weighted(weights).derivatives()
        slope = jnp.take_along_axis(at.gradient, shape.second[None], 0)[0]
    else:
        at = evidence.weighted(jnp.ones_like(evidence.means)).derivatives()
        slope = at.value
        weights = shape.placed(_inverse(slope, live), jnp.zeros_like(slope), len(bonus)).sum(1)
        weights = jnp.where(jnp.any(live), weights / _positive(jnp.sum(weights)), 1 / len(bonus))
        at = evidence.weighted(weights).derivatives()
    mixture = _inverse(slope, live)
    mixture = mixture / _positive(jnp.sum(mixture))
    value = jnp.where(solvable, jnp.min(jnp.where(live, at.value, jnp.inf)), 0)
    reached = (jnp.max(product(at.gradient, mixture)) - value) / _positive(value)
    reached = jnp.where(solvable, jnp.maximum(reached, 0), jnp.inf)
    information = jnp.where(valid, at.value, jnp.inf)
    return Solution(weights, mixture, value, reached, jnp.int32(0), reached <= gap, information)


def _positive(x):
    return jnp.where(x > 0, x, 1)


def _inverse(x, live):
    return jnp.where(live & (x > 0), 1 / _positive(x), 0)
