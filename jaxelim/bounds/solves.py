"""Solves and values of H_p for many instances, on the host in float64."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.contracts import Family
from jaxelim.contracts.pieces import HalfSpaces, Pieces
from jaxelim.contracts.views import Derivatives
from jaxelim.instances.instance import Instance
from jaxelim.saddle import closed
from jaxelim.saddle.solver import Solution


class Truth(NamedTuple):
    """I instances as arrays, in the units of the family's `truth`; NumPy, or on the device."""

    features: Any  # [I, K, d]; None: independent arms
    theta: Any  # [I, d], or the means [I, K]; in units of the family's scale
    scales: Any  # [I, K] costs, or more; see `Family.scales`
    pieces: Any  # Pieces of [I, ..] arrays
    costs: Any = None  # [I, K] of pulls; None: samples are counted

    @staticmethod
    def of(instance: Instance, pieces: Pieces) -> "Truth":
        """The arrays of instances and their pieces."""
        costs = None
        if instance.costs is not None:
            costs = np.broadcast_to(instance.costs, (instance.size, instance.K))
        if instance.family.linear:
            arms = instance.arms.reshape(-1, instance.K, instance.d)
            theta = instance.theta.reshape(-1, instance.d) / instance.family.scale
            assert isinstance(pieces, HalfSpaces)
            pieces = dataclasses.replace(pieces, c=pieces.c / instance.family.scale)
            return Truth(arms, theta, np.ones(arms.shape[:2]), pieces, costs)
        means = instance.means.reshape(-1, instance.K)
        with scope.float64():
            scales = [instance.family.scales(jnp.asarray(x), instance.source) for x in means]
        scales = jax.tree.map(lambda *x: np.stack(x), *jax.device_get(scales))
        return Truth(None, means, scales, pieces, costs)

    def at(self, i: int) -> "Truth":
        """One of the instances, on the device."""
        return jax.tree.map(lambda x: jnp.asarray(x[i]), self)

    def evidence(self, family: Family) -> Any:
        """The evidence of one of the instances, whose weights are shares of cost."""
        about = family.truth(self.features, self.theta, self.scales, self.pieces)
        return about if self.costs is None else about.priced(self.costs)


@functools.partial(jax.jit, static_argnames=("family", "kind"))
def _solve(family, kind, truth, bonus, gap) -> Solution:
    return closed.optimum(truth.evidence(family), kind, truth.pieces.exists, bonus, gap)


def solve(
    instance: Instance, pieces: Pieces, bonus: np.ndarray | None = None, gap: float = 1e-6
) -> Solution:
    """Solve I instances, one after the other, by one program; float64 NumPy.

    Side by side XLA would compute products of matrices in a way that depends on the processor.

    Args:
        instance: one instance or a batch.
        pieces: of I instances.
        bonus: [I, K] or None.
        gap: relative duality gap.
    """
    truth, family = Truth.of(instance, pieces), instance.family.plain()
    plain = getattr(family, "exponential", False) and bonus is None
    kind = closed.kind_of(pieces) if plain else "any"
    bonus = np.zeros((instance.size, instance.K)) if bonus is None else bonus
    parts = []
    with scope.float64():
        for i, extra in enumerate(bonus):
            of_one = truth.at(i), jnp.asarray(extra), jnp.asarray(gap, jnp.float64)
            parts.append(_solve(family, kind, *of_one))
        parts = jax.device_get(parts)
    return jax.tree.map(lambda *x: np.stack(x), *parts)


@functools.partial(jax.jit, static_argnames="family")
def derivatives_at(family, truth, weights) -> Derivatives:
    """H_p of one instance of a `Truth` at weights [K], with its derivatives."""
    return truth.evidence(family).weighted(weights).derivatives()


@functools.partial(jax.jit, static_argnames="family")
def _values(family, truth, weights):
    return truth.evidence(family).weighted(weights).values()


def information(instance: Instance, pieces: Pieces, weights: np.ndarray) -> np.ndarray:
    """H_p(w), inf on padding, float64 NumPy: [I, P].

    It is 0 for a direction outside the span of the arms with weight.

    Args:
        instance: one instance or a batch.
        pieces: of I instances.
        weights: [I, K], not negative, of any sum.
    """
    truth, family, out = Truth.of(instance, pieces), instance.family.plain(), []
    for i, (w, valid) in enumerate(zip(weights, pieces.exists, strict=True)):
        one = jax.tree.map(lambda x, i=i: x[i], truth)
        half: Any = one.pieces
        norms = np.ones(len(valid))
        if one.features is not None:
            pulls = w if one.costs is None else w / one.costs
            norms = squared_norms(pulls, one.features, half.y)
        if family.design:
            gaps = np.maximum((half.y * one.theta).sum(1) - half.c, 0)
            values = gaps**2 / (2 * np.where(valid, norms, 1))
        else:
            with scope.float64():
                values = jax.device_get(_values(family, truth.at(i), jnp.asarray(w)))
            values = np.where(np.isinf(norms), 0, values)
        out.append(np.where(valid, values, np.inf))
    return np.stack(out)


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
