"""Evidence about pairs of arms and levels together, from the evidence about each."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.references import ReferenceRows
from jaxelim.contracts.shapes import Shape
from jaxelim.contracts.sides import Sides
from jaxelim.contracts.views import ArmContext, Evidence


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ReferenceEvidence(Evidence):
    """The evidence about one candidate's pieces: it asks that about pairs, and about levels."""

    closed_form = False

    space: ArmContext
    shape: ReferenceRows
    plain: Evidence  # from the same samples or weights, about pairs; without its space

    @property
    def means(self) -> Array:  # type: ignore[override]
        return self.plain.means

    @property
    def square(self) -> bool:  # type: ignore[override]
        return self.plain.square

    @property
    def costs(self) -> Array | None:  # type: ignore[override]
        return self.plain.costs

    @property
    def scales(self) -> Array:
        return self.plain.scales

    @property
    def of_arms(self) -> Evidence:
        return dataclasses.replace(self.plain, space=self.space)  # type: ignore[type-var]

    def _of(self, part: Shape) -> Evidence:
        return self.of_arms.about(part)

    def values(self) -> Array:
        return self.shape.combined(lambda part: self._of(part).values())

    def refuted(self, beta: Array) -> Array:
        return self.shape.combined(lambda part: self._of(part).refuted(beta))

    def _either(self, piece: Array, ask: Callable[[Evidence, Array], Array]) -> Array:
        """What `ask` gives of a piece [], by the evidence about its kind and its other arm."""
        _, arm = self.shape.pair(self.space.lanes, piece)
        pairs, levels = (ask(self._of(part), arm) for part in (self.shape.pairs, self.shape.levels))
        return jnp.where(self.shape.of_level(piece), levels, pairs)

    def gradient(self, piece: Array) -> Array:
        return self._either(piece, lambda plain, arm: plain.gradient(arm))

    def weighted(self, weights: Array) -> "ReferenceEvidence":
        return dataclasses.replace(self, plain=self.plain.weighted(weights))

    def with_derivatives(self) -> Evidence:
        shape = Sides.about(self.shape, len(self.means), self.means.dtype)
        return dataclasses.replace(self.of_arms.with_derivatives(), shape=shape)  # type: ignore[type-var]

    def priced(self, prices: Array) -> "ReferenceEvidence":
        return dataclasses.replace(self, plain=self.plain.priced(prices))

    def about(self, shape: Shape) -> Evidence:
        return self._of(shape)


def evidence_about(shape: Shape, plain: Callable[[Shape], Evidence]) -> Evidence:
    """plain(shape) for pairs or levels; where a shape has both, that about its parts."""
    if not isinstance(shape, ReferenceRows):
        return plain(shape)
    about: Evidence = plain(shape.pairs)
    bare = dataclasses.replace(about, space=None)  # type: ignore[type-var]
    return ReferenceEvidence(about.space, shape, bare)
