"""Instances at their true parameters, as arrays: what H* depends on."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.contracts import Family
from jaxelim.contracts.pieces import HalfSpaces, Pieces
from jaxelim.evidence.half_spaces import Derivatives
from jaxelim.instances.instance import Instance


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Truth:
    """One instance and the pieces of one answer, in the units of the family's `truth`."""

    family: Family = dataclasses.field(metadata={"static": True})
    features: Any  # [K, d]; None: independent arms
    theta: Any  # [d], or the means [K]; in units of the family's scale
    scales: Any  # see `Family.scales`
    pieces: Pieces
    costs: Any = None  # [K] of pulls; None: samples are counted

    def evidence(self) -> Any:
        """The evidence, whose weights are shares of cost."""
        about = self.family.truth(self.features, self.theta, self.scales, self.pieces)
        return about if self.costs is None else about.priced(self.costs)

    def at(self, weights) -> Derivatives:
        """H_p and its derivatives at weights [K]."""
        return self.evidence().weighted(weights).derivatives()


def each(instance: Instance, pieces: Pieces) -> Iterator[Truth]:
    """Host: the truth of each of I instances, with pieces of arrays [I, ..]; float64 NumPy."""
    family, size = instance.family, instance.size
    costs = None if instance.costs is None else np.asarray(instance.costs, np.float64)
    if family.linear:
        assert isinstance(pieces, HalfSpaces)
        pieces = dataclasses.replace(pieces, c=pieces.c / family.scale)
        every = instance.arms.reshape(size, instance.K, -1)
        points = instance.theta.reshape(size, -1) / family.scale
    else:
        every, points = [None] * size, instance.means.reshape(size, -1)
    for i, (features, theta) in enumerate(zip(every, points, strict=True)):
        scales: Any = np.ones(instance.K)
        if not family.linear:
            with scope.float64():
                scales = jax.device_get(family.scales(jnp.asarray(theta), instance.source))
        one = jax.tree.map(lambda x, i=i: x[i], pieces)
        yield Truth(family.plain(), features, theta, scales, one, costs)


def information_of(truth: Truth, weights: np.ndarray) -> np.ndarray:
    """Host: H_p(w) at weights [K], not negative, of any sum: [P] float64, inf on padding.

    It is 0 for a direction outside the span of the arms with weight.
    """
    half: Any = truth.pieces
    norms = np.ones(len(half.exists))
    if truth.features is not None:
        pulls = weights if truth.costs is None else weights / truth.costs
        norms = squared_norms(pulls, truth.features, half.y)
    if truth.family.design:
        gaps = np.maximum((half.y * truth.theta).sum(1) - half.c, 0)
        values = gaps**2 / (2 * np.where(half.exists, norms, 1))
    else:
        with scope.float64():
            values = jax.device_get(_values(truth, jnp.asarray(weights)))
        values = np.where(np.isinf(norms), 0, values)
    return np.where(half.exists, values, np.inf)


@jax.jit
def _values(truth: Truth, weights):
    return truth.evidence().weighted(weights).values()


def squared_norms(weights: np.ndarray, arms: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """||y_p||^2 in the inverse of V_w, for weights [K] that may be 0: [P].

    It is inf for a direction outside the span of the arms with weight. Gram-Schmidt's method
    makes the columns of sqrt(w) phi orthogonal, the longest first. Its sums are NumPy's own:
    those of a library would round by the processor.
    """
    size = np.sqrt((arms * arms).sum(0))
    size = np.where(size > 0, size, 1)
    columns, left = np.sqrt(weights)[:, None] * (arms / size), directions / size
    tolerance = max(arms.shape) * np.finfo(np.float64).eps
    first = np.sqrt((columns * columns).sum(0).max())
    start, norm = np.sqrt((left * left).sum(1)), np.zeros(len(directions))
    for _ in range(min(arms.shape)):
        lengths = np.sqrt((columns * columns).sum(0))
        j = int(lengths.argmax())
        if lengths[j] <= tolerance * first:
            break
        unit = columns[:, j] / lengths[j]
        along, part = (unit[:, None] * columns).sum(0), left[:, j] / lengths[j]
        along[j] = lengths[j]
        columns, left = columns - unit[:, None] * along, left - part[:, None] * along
        norm = norm + part * part
    return np.where(np.sqrt((left * left).sum(1)) <= 1e-8 * start, norm, np.inf)
