"""The best arm or item, with slack or a reference; the m best arms; arms above a level."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.checks import real, real_array
from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.sets import ArmSet, PairSet, SignSet, largest, whole
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.lanes import settings
from jaxelim.numerics.jacobi import outside_span

_LARGEST = 1e15  # the largest epsilon, in the units of the rewards and of a run
_ROUNDING = 8 * np.finfo(np.float64).eps


class OfArms(Problem):
    """What these problems have in common: slack is for unstructured arms alone."""

    lanes_last: ClassVar[bool] = True

    def check_arms(self, arms):
        if self.epsilon and not np.array_equal(arms, np.eye(len(arms))):
            allowed = f"unstructured arms: {self!r} is not defined for others"
            raise UnsupportedError("instance", "linear", allowed)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BestArm(OfArms):
    """Identify the arm with the largest mean.

    Pieces: y = phi_i - phi_k, c = 0, for the best arm i and every other arm k; K - 1 of
    them. The set of pieces is one mask over the arms. (Paper, section 2 and appendix
    "Identification Problems".)

    With epsilon above 0, every arm within epsilon of the largest mean is right, up to
    rounding. Pieces: {mu_k >= mu_i + epsilon}. Their set is a K x K mask of ordered pairs; a
    run stops when all pieces of some arm are eliminated. Unstructured arms only. (Garivier &
    Kaufmann 2021; Jourdan, Degenne & Kaufmann 2023)

    With items, identify the item with the largest z_p . theta; pulls are of arms. Pieces:
    y = z_i - z_p, c = 0, for the best item i and every other item p; P - 1 of them. For
    Gaussian rewards of one standard deviation and logistic ones. (Fiez, Jain, Jamieson &
    Ratliff 2019)

    With a reference, the answer is the best arm if its mean is above it, else no arm. The
    reference is a candidate of known mean, the last, that is never pulled. Pieces of arm i:
    those above, and {mu_i <= reference}; of no arm: {mu_k >= reference} for every arm k.
    With epsilon too, every candidate within epsilon of the largest is right.

    Args:
        epsilon: the slack, from 0 to 1e15, in the units of the rewards.
        items: the features z_p of P >= 2 different items, [P, d], of all instances of a
            batch; None: the arms.
        reference: a mean that the best arm must exceed, in the units of the rewards; None:
            some arm is the answer whatever its mean.

    Raises:
        ArgumentError: one is no such number or array, or items are given with another.
    """

    epsilon: float = 0.0
    items: Any = dataclasses.field(default=None, kw_only=True)
    reference: float | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        epsilon, items = real("epsilon", self.epsilon, low=0, high=_LARGEST), self.items
        if epsilon and items is not None:
            raise ArgumentError("epsilon", epsilon, "0 with items: slack is of arms")
        if self.reference is not None and items is not None:
            raise ArgumentError("reference", self.reference, "None with items")
        reference = None if self.reference is None else real("reference", self.reference)
        items = None if items is None else _different(items)
        vars(self).update(epsilon=epsilon, items=items, reference=reference)

    @property
    def times_axes(self) -> tuple[str, ...]:  # type: ignore[override]
        if self.epsilon:
            return ("better", "worse")
        if self.items is not None:
            return ("item",)
        return ("arm",) if self.reference is None else ("candidate",)

    @property
    def name(self) -> str:  # type: ignore[override]
        if self.items is not None:
            return "best-item"
        return "best-arm" if self.reference is None else "best-or-none"

    @property
    def answer_axis(self) -> str | None:  # type: ignore[override]
        return None if self.items is None else "item"

    @property
    def uses_theta(self) -> bool:  # type: ignore[override]
        return self.items is not None

    def _key(self) -> tuple:
        items = self.items
        rows = None if items is None else (items.shape, items.tobytes())
        return self.epsilon, self.reference, rows

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        items = None if self.items is None else self.items.tolist()
        given = dict(epsilon=self.epsilon or None, items=items, reference=self.reference)
        words = (f"{name}={x}" for name, x in given.items() if x is not None)
        return f"BestArm({', '.join(words)})"

    def __str__(self) -> str:
        if self.items is None:
            return repr(self)
        return f"BestArm(items=<{'x'.join(map(str, self.items.shape))}>)"

    def scaled(self, scale):
        if self.reference is None and not self.epsilon:
            return self
        reference = None if self.reference is None else self.reference / scale
        return BestArm(_scaled_slack(self.epsilon, scale), reference=reference)

    def static_part(self) -> "BestArm":
        if self.items is None:
            return self
        return BestArm(items=np.arange(self.items.size).reshape(self.items.shape))

    def constants(self):
        return () if self.items is None else self.items

    def width(self, arms):
        return arms if self.items is None else len(self.items)

    def check_arms(self, arms):
        super().check_arms(arms)
        if self.items is None:
            return
        if self.items.shape[1] != arms.shape[1]:
            allowed = f"features [P, {arms.shape[1]}], of the dimension of the arms"
            raise ArgumentError("items", self.items, allowed, f"its shape is {self.items.shape}")
        # A difference of two items is one of two differences from item 0.
        outside, _ = outside_span(arms, self.items[1:] - self.items[0])
        if outside.any():
            allowed = "items whose differences lie in the span of the arms: no arm tells others"
            pair = f"z_0 - z_{1 + int(np.argmax(outside))} does not"
            raise ArgumentError("items", self.items, allowed, pair)

    def check(self, arms, theta):
        if self.epsilon:
            return
        what, rows = ("arms", arms) if self.items is None else ("items", self.items)
        means = rows @ theta
        if self.items is not None and not np.isfinite(means).all():
            allowed = "items whose means z_p . theta do not overflow float64"
            raise ArgumentError("items", self.items, allowed)
        best = np.flatnonzero(means == means.max())
        level = -np.inf if self.reference is None else self.reference
        if means.max() == level:
            tied = f"arms {best.tolist()} with the largest mean, which is the reference"
            raise ArgumentError("instance", tied, "a largest mean off the reference")
        if best.size > 1 and means.max() > level:
            tied, allowed = f"{what} {best.tolist()} with the same largest mean", what[:-1]
            if self == BestArm():
                allowed += "; for equal arms, as in an A/A test, BestArm(epsilon=..), or means that"
                allowed += " differ by 1e-9 and a max_samples"
            raise ArgumentError("instance", tied, f"one best {allowed}")

    def right(self, means: np.ndarray) -> np.ndarray:
        """Host: the right answers, by decreasing mean (ties: lowest index first); K is no arm."""
        if self.reference is not None:
            means = np.append(means, self.reference)
        best = means.max()
        order = np.argsort(-means, kind="stable")
        return order[means[order] >= best - _rounded_up(self.epsilon, best)]

    def right_answers(self, means):
        return len(self.right(means)) if self.epsilon else 1

    def correct(self, answers, truth, means):
        if not self.epsilon:
            return super().correct(answers, truth, means)
        none = ~answers.any(-1, keepdims=True)
        return np.concatenate([answers, none], -1)[..., self.right(means)].any(-1)

    def answer(self, seen):
        theta_hat: Any = seen.theta_hat  # kept where `uses_theta` is on
        if self.items is not None:
            return seen.lanes.argmax(seen.lanes.dot(seen.constants, theta_hat))
        if self.reference is None:
            return seen.lanes.argmax(seen.means)
        none = seen.lanes.max(seen.means) < self.reference
        return jnp.where(none, jnp.int32(len(seen.means)), seen.lanes.argmax(seen.means))

    def _others(self, seen, answer):
        index = jnp.arange(self.width(len(seen.means)), dtype=jnp.int32)
        return index.reshape(-1, *[1] * (seen.means.ndim - 1)) != answer

    def public(self, seen, answer):
        return ~self._others(seen, answer)

    def shape(self, seen, answer):
        exists = self._others(seen, answer)
        if self.reference is not None:
            other = jnp.broadcast_to(answer != seen.means.shape[0], exists.shape[1:])
            exists = jnp.concatenate([exists, other[None]])
        return Pairs(answer, exists, slack=self.epsilon, level=self.reference,
                     count=exists.shape[0] - 1, items=self.items is not None)  # fmt: skip

    def wrong_answers(self, arms):
        return self.width(arms) - (self.reference is None)

    def pieces(self, seen, pair_times=False):
        if self.epsilon:
            return PairSet.full(seen.shape.exists, 1, pair_times)
        return ArmSet(*whole(seen.shape.exists))


@settings
class TopM(OfArms):
    """Identify the m arms with the largest means.

    Pieces: y = phi_j - phi_k, c = 0, for j in the answer and k outside it; m (K - m) of
    them. The set of pieces is a K x K mask of ordered pairs. (Paper, section 2 and
    appendix "Identification Problems".)

    Args:
        m: number of arms to identify, 1 .. K - 1.
    """

    m: int = 1
    name: ClassVar[str] = "top-m"
    times_axes: ClassVar[tuple[str, ...]] = ("better", "worse")

    def __post_init__(self):
        whole = isinstance(self.m, int | np.integer) and not isinstance(self.m, bool)
        if not whole or self.m < 1:
            raise ArgumentError("m", self.m, "an integer from 1 to K - 1")
        object.__setattr__(self, "m", int(self.m))

    def check_arms(self, arms):
        if self.m >= len(arms):
            raise ArgumentError("m", self.m, f"an integer from 1 to K - 1 = {len(arms) - 1}")

    def check(self, arms, theta):
        means = arms @ theta
        last, other = np.sort(means)[::-1][self.m - 1 : self.m + 1]
        if last == other:
            tied = np.flatnonzero(means == other).tolist()
            where = f"arms {tied} tied across the top-{self.m} boundary"
            raise ArgumentError("instance", where, "one top-m set")

    def answer(self, seen):
        return largest(seen.lanes, seen.means, self.m)

    def public(self, seen, answer):
        return answer.member

    def shape(self, seen, answer):
        exists = jnp.broadcast_to(~answer.member, (self.m, *answer.member.shape))
        exists = exists.reshape((-1, *exists.shape[2:]))
        return Pairs(answer.top, exists, count=self.m * (len(answer.member) - self.m))

    def wrong_answers(self, arms):
        return self.m * (arms - self.m)

    def pieces(self, seen, pair_times=False):
        return PairSet.full(seen.means, self.m, pair_times)


@settings
class Thresholding(OfArms):
    """Identify the arms with a mean at or above the level.

    Piece k: y = s_k phi_k, c = s_k level, with s_k = 1 for empirical means at or above
    the level, else -1; K of them. The ridge is not recentred on the level. (Paper,
    section 2 and appendix "Identification Problems", where the level is 0.)

    With epsilon above 0 an arm within epsilon of the level is right on either side, up to
    rounding. Pieces: {mu_k <= level - epsilon} of an arm k said to be above, else
    {mu_k >= level + epsilon}. Unstructured arms only.

    Args:
        level: the threshold on the means, in the units of the rewards.
        epsilon: the slack, from 0 to 1e15, in the units of the rewards.

    Raises:
        ArgumentError: level or epsilon is no such number.
    """

    level: float = 0.0
    epsilon: float = dataclasses.field(default=0.0, kw_only=True)
    name: ClassVar[str] = "thresholding"

    def __post_init__(self):
        level, most = real("level", self.level), _LARGEST
        vars(self).update(level=level, epsilon=real("epsilon", self.epsilon, low=0, high=most))

    def __repr__(self):
        slack = f", epsilon={self.epsilon}" if self.epsilon else ""
        return f"Thresholding(level={self.level}{slack})"

    def scaled(self, scale):
        return Thresholding(self.level / scale, epsilon=_scaled_slack(self.epsilon, scale))

    def check(self, arms, theta):
        if self.epsilon:
            return
        on = np.flatnonzero(arms @ theta == self.level)
        if on.size:
            tied = f"arms {on.tolist()} with their mean on the level {self.level}"
            raise ArgumentError("instance", tied, "no mean on it")

    def _either(self, means: np.ndarray) -> np.ndarray:
        """Host: the arms that are right on either side: [K] bool."""
        near = np.abs(means - self.level) <= _rounded_up(self.epsilon, self.level)
        return near & bool(self.epsilon)

    def right_answers(self, means):
        return 2 ** int(self._either(means).sum())

    def correct(self, answers, truth, means):
        return np.all((answers == truth) | self._either(means), -1)

    def answer(self, seen):
        return seen.means >= self.level

    def public(self, seen, answer):
        return answer

    def shape(self, seen, answer):
        return Pairs(None, jnp.ones_like(answer), answer, slack=self.epsilon, level=self.level,
                     count=answer.shape[0])  # fmt: skip

    def wrong_answers(self, arms):
        return arms

    def pieces(self, seen, pair_times=False):
        return SignSet(*whole(seen.means))


def _scaled_slack(epsilon: float, scale: float) -> float:
    """epsilon/scale; above 0 where epsilon is."""
    return float(np.clip(epsilon / scale, 1 / _LARGEST**10, _LARGEST)) if epsilon else 0.0


def _rounded_up(epsilon: float, mean: float) -> float:
    """epsilon, and what a difference of means of this size may be off by rounding."""
    return epsilon + _ROUNDING * (abs(mean) + epsilon)


def _different(items: Any) -> np.ndarray:
    """The items as an array [P, d], read-only, checked."""
    raw, items = items, real_array("items", items, ndim=2)
    allowed = "features [P, d] of P >= 2 different items, d >= 1"
    if items.shape[0] < 2 or items.shape[1] < 1:
        raise ArgumentError("items", raw, allowed, f"its shape is {items.shape}")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.sum(items**2, 1)).all():
            finite = "features whose squared norms do not overflow float64"
            raise ArgumentError("items", raw, finite)
    items = items + 0.0  # converts -0.0 to 0.0, which is equal but has other bytes
    _, first, which = np.unique(items, axis=0, return_index=True, return_inverse=True)
    first = first[which.ravel()]  # of those that are equal
    twice = np.flatnonzero(first != np.arange(len(items)))
    if twice.size:
        pair = f"items {first[twice[0]]} and {twice[0]} are equal"
        raise ArgumentError("items", raw, allowed, pair)
    items.setflags(write=False)
    return items
