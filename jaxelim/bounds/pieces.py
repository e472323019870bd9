"""The truth of an instance: the pieces of its right answers, checked, and what H* depends on.

A problem gives them by `shape` at the true means. Another answer is right exactly in their
union. Of rewards whose arms have features they are half-spaces of scores.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.pieces import HalfSpaces, Pairs, Pieces
from jaxelim.contracts.views import Estimate
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.evidence.half_spaces import Derivatives, LinearContext
from jaxelim.instances.instance import Instance
from jaxelim.lanes import PLAIN, pytree
from jaxelim.numerics.jacobi import outside_span
from jaxelim.returned import traced_shape

# Features of a larger condition number are refused: half of the digits of float64 are left.
_WORST = 1e8
# The answer is tied where y . theta - c is below this share of the size of its terms.
_TIE = 16 * np.finfo(np.float64).eps
# A right answer counts where it is so far off the boundary of its pieces: H* is above 0.
_OFF = 1e-14


def pieces_of(instance: Instance, problem: Problem) -> list[Pieces]:
    """The pieces of every right answer, as NumPy arrays [I, ..].

    One for each rank of a right answer; the best again where an instance has fewer. There is
    one unless pairs have slack. Signs with slack are on the side of larger H*.

    Raises:
        ArgumentError: no instance, no problem or no pieces; theta lies in a piece or on its
            boundary, so that the answer is not unique and H* = 0; features that do not span a
            direction of a piece, or of condition number above 1e8; a level out of range.
        UnsupportedError: rewards of a family without H*, or pieces that the family knows no
            evidence about; or a problem with `shared_answers`.
    """
    if not isinstance(instance, Instance):
        raise ArgumentError("instance", instance, "a jaxelim.Instance")
    if not isinstance(problem, Problem):
        raise ArgumentError("problem", problem, "a problem: a jaxelim.contracts.Problem")
    family = instance.family
    if not family.has("truth"):
        raise UnsupportedError("family", family, f"a family with H*: {family!r} has none")
    if problem.shared_answers:
        allowed = "a problem with one answer for each public answer: where several share one, the "
        allowed += "alternative of a public answer is no union of pieces, and H* bounds nothing"
        raise UnsupportedError("problem", problem, allowed)
    traced = traced_shape(problem, instance.K, instance.d)
    family.check_shape(problem, traced)
    every = []
    for index, one in enumerate(instance.unbatched):
        if traced.slack or traced.items:
            problem.check_arms(one.arms)
            problem.check(one.arms, one.theta)  # names items where what follows names pieces
        label = f"instance {index}: " if instance.batched else ""
        every.append(_answers(label, one, problem, shape_at(problem, family, one.arms, one.theta)))
    most = max(map(len, every))
    ranks = [[own[rank if rank < len(own) else 0] for own in every] for rank in range(most)]
    return [_stacked(of_rank) for of_rank in ranks]


def shape_at(problem: Problem, family: Family, arms: Any, theta: Any) -> Pieces:
    """The pieces of the answer at a truth: features [K, d] and theta [d]."""
    with scope.engine():
        constants = jax.tree.map(jnp.asarray, problem.constants())
        means = jnp.asarray(family.mean(arms @ theta))
        seen = Estimate(PLAIN, means, jnp.asarray(theta), constants)
        return jax.device_get(problem.shape(seen, problem.answer(seen)))


def half_spaces_of(family: Family, arms: Any, constants: Any, shape: Any) -> HalfSpaces:
    """Pieces of one run as half-spaces of scores."""
    if shape.level is not None:
        shape = dataclasses.replace(shape, level=float(family.link(np.asarray(shape.level))))
    return LinearContext(PLAIN, arms, constants).half_spaces(shape)


def _answers(label: str, one: Instance, problem: Problem, shape: Any) -> list[Pieces]:
    """The pieces of each right answer of an instance, by decreasing mean, checked."""
    shapes = [shape]
    if shape.slack and shape.signs:
        shapes = [_farther(one, shape)]
    elif shape.slack and shape.several:
        allowed = "slack of pairs of one arm i: which set of several has the largest H* is open"
        raise UnsupportedError("problem", problem, allowed)
    elif shape.slack:  # every arm is right whose pieces do not hold the truth
        means = one.means if shape.level is None else np.append(one.means, shape.level)
        size = _OFF * (np.abs(means.max()) + shape.slack)
        right = np.argsort(-means, kind="stable")
        right = right[means[right] + shape.slack - means.max() > size]
        shapes = [jax.tree.map(np.asarray, shape.others(jnp.int32(i))) for i in right]
    pieces = []
    for shape in shapes:
        with scope.engine():
            found = half_spaces_of(one.family, one.arms, problem.constants(), shape)
        y, c, exists = (np.asarray(x) for x in (found.y, found.c, shape.exists))
        y, c, places = y[exists], c[exists], np.flatnonzero(exists).astype(np.int32)
        if not len(c) or not (np.isfinite(y).all() and np.isfinite(c).all()):
            note = "directions or offsets are not finite" if len(c) else "the answer has none"
            raise ArgumentError("problem", problem, "a problem with at least one piece", note)
        _refuse_ties(label, problem, one, shape, places, y, c)
        if isinstance(shape, HalfSpaces) or one.structure == "linear":
            _refuse_features(label, one, y)
        pieces.append(HalfSpaces(y, c, np.ones(len(c), bool)) if one.family.linear else shape)
    return pieces


def _farther(one: Instance, shape: Any) -> Pieces:
    """Signs with each arm on the side whose piece is farther: the answer of largest H*."""
    family = one.family
    with scope.engine():
        means = jnp.asarray(one.means)

        def away(signs: Any) -> Any:
            if family.square:
                return signs.outside(PLAIN, means)
            return family.truth(None, means, family.scales(means, one.source), signs).values()

        keep = np.asarray(away(shape) >= away(shape.flipped()))
    return dataclasses.replace(shape, above=np.where(keep, shape.above, ~shape.above))


def _stacked(pieces: list[Any]) -> Pieces:
    """The pieces of I instances, padded to the largest number: [I, ..]."""
    if isinstance(pieces[0], Pairs):
        return jax.tree.map(lambda *x: np.stack(x), *pieces)
    most = max(len(own.c) for own in pieces)

    def padded(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x, np.zeros((most - len(x), *x.shape[1:]), x.dtype)])

    return jax.tree.map(lambda *x: np.stack([padded(one) for one in x]), *pieces)


def _refuse_ties(label, problem, one, shape, places, y, c) -> None:
    tied = y @ one.theta - c <= _TIE * (np.abs(y) @ np.abs(one.theta) + np.abs(c))
    if not tied.any():
        return
    piece = int(np.argmax(tied))
    names = f"piece {piece}"
    if isinstance(shape, Pairs) and not shape.items:
        i, k = (int(x) for x in shape.arms(PLAIN, places[piece]))
        both = " and ".join(f"{x:.6g}" for x in one.means[sorted((i, k))])
        names = f"arms {min(i, k)} and {max(i, k)} have means {both}"
        if i == k:
            names = f"the mean of arm {i} is on the threshold"
    allowed = "an instance with one correct answer, off the boundary of every piece"
    if problem.name == "best-arm":
        allowed += "; or BestArm(epsilon=..)"
    raise ArgumentError("instance", one, allowed, f"{label}a tie, H* = 0: {names}")


def _refuse_features(label, one, directions) -> None:
    """Refuse features that do not span a direction, or nearly depend on one another.

    Their condition number is that on their span, with columns of length 1.
    """
    out, rank = outside_span(one.arms, directions)
    if out.any():
        note = f"{label}the features have rank {rank} and do not span the direction of piece "
        note += str(np.argmax(out))
        allowed = "features that span the direction of every piece"
        raise ArgumentError("instance", one, allowed, note)
    size = np.linalg.norm(one.arms, axis=0)
    s = np.linalg.svd(one.arms / np.where(size > 0, size, 1), compute_uv=False)
    condition = s[0] / s[s > max(one.arms.shape) * np.finfo(np.float64).eps * s[0]].min()
    if condition > _WORST:
        allowed = "features whose condition number is at most 1e8: take coordinates less alike"
        note = f"{label}their condition number is {condition:.1e}"
        raise ArgumentError("instance", one, allowed, note)


@pytree
class Truth:
    """One instance and the pieces of one answer, in the units of the family's `truth`."""

    family: Family = dataclasses.field(metadata={"static": True})
    features: Any  # [K, d]; None: independent arms
    theta: Any  # [d], or the means [K]; in units of the family's scale
    scales: Any  # see `Family.scales`
    pieces: Pieces
    costs: Any = None  # [K] of pulls; None: samples are counted

    @staticmethod
    def of(
        family: Family, arms: Any, theta: Any, pieces: Any, costs: Any, source: Any = None
    ) -> "Truth":
        """That of theta [d] and half-spaces of scores, or, of other families, of means [K]."""
        own = family.plain()
        if family.linear:
            pieces = dataclasses.replace(pieces, c=pieces.c / family.scale)
            return Truth(own, arms, theta / family.scale, np.ones(len(arms)), pieces, costs)
        scales = family.scales(jax.lax.stop_gradient(jnp.asarray(theta)), source)
        return Truth(own, None, theta, scales, pieces, costs)

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
    arms = instance.arms.reshape(size, instance.K, -1)
    points = (instance.theta if family.linear else instance.means).reshape(size, -1)
    for i in range(size):
        one = jax.tree.map(lambda x, i=i: x[i], pieces)
        with scope.engine():
            truth = Truth.of(family, arms[i], points[i], one, costs, instance.source)
        yield jax.device_get(truth)


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
        with scope.engine():
            values = jax.device_get(_values(truth, jnp.asarray(weights)))
        values = np.where(np.isinf(norms), 0, values)
    return np.where(half.exists, values, np.inf)


_values = jax.jit(lambda truth, weights: truth.evidence().weighted(weights).values())


def squared_norms(weights: np.ndarray, arms: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """||y_p||^2 in the inverse of V_w, for weights [K] that may be 0: [P].

    It is inf for a direction outside the span of the arms with weight. Gram-Schmidt's method, the
    longest column of sqrt(w) phi first, with NumPy's own sums: a library's round by the processor.
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
