"""Saddle points of independent arms that need no interior-point method, with their certificates.

Signs: w_k = q_k ~ 1/s_k, H_k(w) = w_k s_k. Best arm: by Newton's method on its own
conditions, with the mixture q_a ~ c_a/d(m_a, u_a). (Garivier & Kaufmann 2016, section 2.)
"""

import jax.numpy as jnp

from jaxelim.contracts.pieces import Pieces
from jaxelim.matrices import product
from jaxelim.saddle.best_arm import best_arm_weights
from jaxelim.saddle.solver import Solution, solve

_CLOSE = 1e-9  # of Newton's method; see `best_arm_weights`


def kind_of(pieces: Pieces) -> str:
    """Of which closed form pieces are: "signs", "best-arm", or "any" for none."""
    if pieces.signs:
        return "signs"
    one = pieces.candidates is not None and not pieces.several
    return "best-arm" if one and not (pieces.slack or pieces.refers or pieces.items) else "any"


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
    ahead = evidence.outside() > 0
    solvable, live = jnp.all(ahead | ~valid) & jnp.any(valid), valid & ahead
    if kind == "best-arm":
        weights = best_arm_weights(
            evidence.model, evidence.means, evidence.costs, counted=None, close=_CLOSE
        ).weights
        at = evidence.weighted(weights).derivatives()
        slope = jnp.diagonal(at.gradient)  # dH_a/dw_a, as place a is the pair of arm a
    else:
        at = evidence.weighted(jnp.ones_like(evidence.means)).derivatives()
        slope = at.value
        weights = _inverse(slope, live)
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
