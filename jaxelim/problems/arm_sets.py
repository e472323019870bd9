"""Sets of pieces that are one mask over the arms, or over the items."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import PieceSet, looks
from jaxelim.contracts.references import ReferenceRows
from jaxelim.lanes import index_like, over_arm_blocks


def refuted_against(seen, beta) -> Array:
    """The arms or items k with a refuted piece {mu_i <= mu_k} for some i: [K] bool.

    With a reference it is one of the candidates, [K + 1], and the last.
    """
    shape = seen.shape
    if isinstance(shape, ReferenceRows):
        pairs, below, above = (
            seen.about(part)
            for part in (shape.pairs, shape.all_levels(False), shape.all_levels(True))
        )
        beaten = refuted_against(pairs, beta) | below.refuted(beta, below.shape.exists)
        last = jnp.any(above.refuted(beta, above.shape.exists), 0, keepdims=True)
        return jnp.concatenate([beaten, last])
    if seen.threshold is not None:
        return jnp.any(looks.refuted_pairs(seen, beta), 0)

    def more(refuted, arms):
        for _, row in seen.family.refuted_pairs(seen, arms, beta):
            refuted = jnp.where(row, 1, refuted)
        return refuted

    # 0 or 1 in the floating type: XLA:CPU does not vectorise the loop with booleans.
    none = jnp.zeros(seen.shape.exists.shape, seen.means.dtype)
    return over_arm_blocks(none.shape[0], more, none) > 0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ArmSet(PieceSet):
    """A mask over the arms, or items, stored as the times at which they were dropped."""

    dropped: Array  # [K] int32, 0 while active
    left: Array  # [] int32: number of active arms

    @staticmethod
    def full(like: Array) -> "ArmSet":
        """The set with all arms; `like` [K] gives the number."""
        left = jnp.full(like.shape[1:], like.shape[0], jnp.int32)
        return ArmSet(jnp.zeros(like.shape, jnp.int32), left)

    def active(self, seen):
        return (self.dropped == 0) & (index_like(self.dropped) != seen.answer)

    def active_count(self, seen):
        return self.left - (seen.lanes.take(self.dropped, seen.answer) == 0).astype(jnp.int32)

    def drop(self, seen, refuted):
        dropped = jnp.where(refuted & (self.dropped == 0), seen.stats.t, self.dropped)
        return ArmSet(dropped, seen.lanes.zeros(dropped))

    def drop_all(self, seen, beta):
        return self.drop(seen, refuted_against(seen, beta))

    def tests(self, seen, full):
        return self.left * (self.dropped.shape[0] - 1) if full else self.active_count(seen)

    def settled(self, seen, full):
        return self.left <= 1

    def verdict(self, seen, full):
        arms = self.dropped[: seen.public.shape[0]]  # a reference is no part of an answer
        return jnp.where(self.left == 0, seen.public, arms == 0)

    def times(self):
        return self.dropped

    def remaining(self, lanes):
        return self.left
