"""How exactly a sampling rule solves for its allocation."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim import checks
from jaxelim.contracts.views import View

_LEAST = 1e-6


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class EvidenceGap:
    """A relative duality gap that shrinks as evidence grows.

    gap_t = min(c, max(1e-6, c sqrt(2/Z_t))), Z_t the least LLR at the counts over the
    active pieces of the empirical answer, 0 in ties.

    H*(theta_hat) itself has a relative error of about sqrt(2/Z_t), so that c is the
    share of the estimate's error that a solve may add.

    Args:
        share: c, in (0, 1).

    Raises:
        ArgumentError: share is no number in (0, 1).
    """

    share: float = 0.1

    def __post_init__(self):
        share = checks.real("share", self.share, low=0, high=1, open=True)
        object.__setattr__(self, "share", share)


def checked(gap: Any) -> "float | EvidenceGap":
    """Check a gap: a number in (0, 1), or an `EvidenceGap`."""
    if isinstance(gap, EvidenceGap):
        return gap
    return checks.real("gap", gap, low=0, high=1, open=True)


def tolerance(gap: "float | EvidenceGap", view: View) -> Array:
    """The gap of this choice: [], float64.

    With slack an `EvidenceGap` is 1e-6, or c if that is less: solves then decide between answers.
    """
    time = view.time.astype(jnp.float64)
    if not isinstance(gap, EvidenceGap) or view.shape.slack:
        own = min(gap.share, _LEAST) if isinstance(gap, EvidenceGap) else gap
        return jnp.full_like(time, own)
    values = jnp.where(view.active, view.llr, jnp.inf).astype(jnp.float64)
    least = jnp.maximum(view.lanes.min(values), 2.0)  # below 2 the gap is c
    return jnp.minimum(gap.share, jnp.maximum(gap.share * jnp.sqrt(2 / least), _LEAST))
