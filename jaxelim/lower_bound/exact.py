"""Features in exact coordinates, for instances that are badly conditioned; on the host.

A float64 number is an integer times a power of two, so sums and products of features,
parameter and weights have no rounding in Python's integers. H_p does not change under a
linear map of the features. So features move to coordinates in which V_w is nearly the
identity, without an error, and are rounded there: from then on the problem is well
conditioned.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from jaxelim.errors import ArgumentError

EPS = float(np.finfo(np.float64).eps)
CLEAR = "features whose rank is clear: change to coordinates that are independent"
_NEAR = 0.1  # ||V_w - I|| at which coordinates are good enough
_MOST_ROUNDS = 60
_KEPT = 64  # bits that are read of an integer
_PRIME = 2**61 - 1
_NOUGHT = 2.0**-60  # entries of a map below this share of the largest of their column


class Integers(NamedTuple):
    """The numbers whole * 2^power, without rounding."""

    whole: np.ndarray  # object array of Python integers
    power: int

    @classmethod
    def of(cls, numbers: np.ndarray) -> "Integers":
        """Finite float64 numbers of any shape."""
        mantissa, power = np.frexp(numbers)
        some = mantissa != 0
        least = int(power[some].min()) if some.any() else 0
        whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
        return cls(whole << np.where(some, power - least, 0).astype(object), least - 53)

    def __matmul__(self, other: "Integers") -> "Integers":
        return Integers(self.whole @ other.whole, self.power + other.power)

    def __sub__(self, other: "Integers") -> "Integers":
        least = min(self.power, other.power)
        a, b = (x.whole << (x.power - least) for x in (self, other))
        return Integers(a - b, least)

    def rows(self, index: Any) -> "Integers":
        """The rows at `index`."""
        return Integers(self.whole[index], self.power)

    def rounded(self) -> np.ndarray:
        """float64 numbers, each within EPS of its size."""
        numbers = [_nearest(int(x), self.power) for x in self.whole.ravel()]
        return np.array(numbers).reshape(self.whole.shape)


def _nearest(whole: int, power: int) -> float:
    more = max(abs(whole).bit_length() - _KEPT, 0)
    return math.ldexp(float(whole >> more), power + more)


@dataclasses.dataclass(frozen=True)
class ExactInstance:
    """The features and directions of one instance, exact, in some coordinates."""

    arms: Integers  # [K, r]
    directions: Integers  # [P, r]
    margins: np.ndarray  # [P] y . theta - c, each within EPS of its size
    map: Integers  # [d, r]: arms = features @ map

    @classmethod
    def of(cls, arms, theta, directions, offsets, rows=None) -> "ExactInstance":
        """The instance in coordinates in which sum_k phi_k phi_k' is nearly the identity.

        Args:
            arms: [K, d] features.
            theta: [d].
            directions: [P, d].
            offsets: [P].
            rows: [P, K] with directions = rows @ arms, or None. Rows that are an arm or a
                difference of two are read; the rounding of other directions is not known,
                and they count as exact.

        Raises:
            ArgumentError: rounding decides the rank of the features.
        """
        start = reached(arms)
        if start is None:
            note = f"of {arms.shape[1]} coordinates some depend on others but for rounding"
            raise ArgumentError("arms", arms, CLEAR, note)
        phi, start = Integers.of(arms), Integers.of(start)
        y = Integers.of(directions) if rows is None or not _simple(rows) else _sums(phi, rows)
        level = Integers.of(offsets[:, None])
        margins = (y @ Integers.of(theta[:, None]) - level).rounded()[:, 0]
        return cls(phi @ start, y @ start, margins, start).whitened()

    def whitened(self, weights: np.ndarray | None = None, near: float = _NEAR) -> "ExactInstance":
        """The instance in coordinates in which V_w is nearly the identity.

        Args:
            weights: [K], above 0; None: 1.
            near: the distance ||V_w - I|| that is near enough.
        """
        at = self
        for _ in range(_MOST_ROUNDS):
            gram = at.gram(weights).rounded()
            if np.linalg.norm(gram - np.eye(len(gram))) < near:
                break
            size = np.sqrt(np.diagonal(gram))
            if not size.all():
                break
            values, vectors = np.linalg.eigh(gram / np.outer(size, size))
            # Smaller eigenvalues are rounding; the next round sees them.
            values = np.maximum(values, 4 * len(gram) * EPS)
            step = vectors / np.sqrt(values) / size[:, None]
            step[np.abs(step) < _NOUGHT * np.abs(step).max(0)] = 0
            at = at.moved(Integers.of(step))
        return at

    def among(self, some: np.ndarray) -> "ExactInstance":
        """The instance with the arms where `some` [K] only."""
        return dataclasses.replace(self, arms=self.arms.rows(some))

    def unspanned(self, some: np.ndarray) -> np.ndarray:
        """The directions that the arms where `some` [K] do not span, without rounding: [P]."""
        phi, y = self.arms.rows(some), self.directions
        least = min(phi.power, y.power)
        a, b = (x.whole << (x.power - least) for x in (phi, y))
        rank = _rank(Integers(a, least))
        return np.array([_rank(Integers(np.vstack([a, row]), least)) > rank for row in b])

    def images(self, weights: np.ndarray, pieces: np.ndarray) -> tuple[np.ndarray, Integers]:
        """The products V_w^-1 y_p, and the shares w_k phi_k' V_w^-1 y_p to twice float64.

        Args:
            weights: [K], for which the instance is `whitened`.
            pieces: [n] indices of directions.

        Returns:
            [n, r] float64, and [n, K].
        """
        y, design = self.directions.rows(pieces), self.gram(weights)
        inverse = np.linalg.inv(design.rounded())
        first = Integers.of(y.rounded() @ inverse)
        more = Integers.of((y - first @ design).rounded() @ inverse)
        least = min(first.power, more.power)
        coarse, fine = (x.whole << (x.power - least) for x in (first, more))
        v, some = Integers(coarse + fine, least), Integers.of(weights)
        cross = v @ Integers(self.arms.whole.T, self.arms.power)
        return v.rounded(), Integers(cross.whole * some.whole, cross.power + some.power)

    def moved(self, step: Integers) -> "ExactInstance":
        """The instance with features mapped by [r, r']."""
        return ExactInstance(
            self.arms @ step, self.directions @ step, self.margins, self.map @ step
        )

    def gram(self, weights: np.ndarray | None = None) -> Integers:
        """V_w: [r, r]."""
        left = self.arms
        if weights is not None:
            some = Integers.of(weights)
            left = Integers(left.whole * some.whole[:, None], left.power + some.power)
        return Integers(left.whole.T, left.power) @ self.arms


def reached(arms: np.ndarray) -> np.ndarray | None:
    """A map [d, r] to coordinates of the span of arms [K, d], of rank r; None if r is unclear.

    It is unclear where singular values are not 0, but below max(K, d) EPS of the largest,
    after the scales of arms and of coordinates have been removed.
    """
    columns = _powers(np.abs(arms).max(0))
    phi = arms / columns
    phi = phi / _powers(np.abs(phi).max(1))[:, None]
    _, s, vt = np.linalg.svd(phi, full_matrices=False)
    rank = int(np.sum(s > max(arms.shape) * EPS * s[0]))
    if rank < len(s) and _rank(Integers.of(arms)) != rank:
        return None
    d = arms.shape[1]
    return (np.eye(d) if rank == d else vt[:rank].T) / columns[:, None]


def _rank(numbers: Integers) -> int:
    """The rank of a matrix, without rounding: that modulo a large prime.

    It could be too small by chance only, about 1e-17.
    """
    left, rank = numbers.whole % _PRIME, 0
    for column in range(left.shape[1]):
        rows = np.flatnonzero(left[rank:, column])
        if not rows.size:
            continue
        first = rank + rows[0]
        left[[rank, first]] = left[[first, rank]]
        pivot = left[rank] * pow(int(left[rank, column]), -1, _PRIME) % _PRIME
        left[rank + 1 :] = (left[rank + 1 :] - left[rank + 1 :, column, None] * pivot) % _PRIME
        rank += 1
        if rank == len(left):
            break
    return rank


def _powers(size: np.ndarray) -> np.ndarray:
    """Powers of two near sizes; 1 for 0."""
    return np.where(size > 0, np.exp2(np.frexp(size)[1].astype(float)), 1.0)


def _simple(rows: np.ndarray) -> bool:
    """Whether each row is an arm or a difference of two."""
    return bool(np.isin(rows, (-1, 0, 1)).all() and (np.abs(rows).sum(1) <= 2).all())


def _sums(phi: Integers, rows: np.ndarray) -> Integers:
    """rows @ phi, for rows with few entries 1 and -1."""
    out = np.zeros((len(rows), phi.whole.shape[1]), dtype=object)
    for p, k in zip(*np.nonzero(rows), strict=True):
        out[p] = out[p] + int(rows[p, k]) * phi.whole[k]
    return Integers(out, phi.power)
