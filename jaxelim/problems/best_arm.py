"""The best arm or item, with slack or a reference; the m best arms."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.checks import outside_span, real, real_array
from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.sets import ArmSet, PairSet, largest
from jaxelim.errors import ArgumentError, UnsupportedError

LARGEST = 1e15  # the largest epsilon, in the units of the rewards and of a run
_ROUNDING = 8 * np.finfo(np.float64).eps


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BestArm(Problem):
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
    lanes_last: ClassVar[bool] = True

    def __post_init__(self) -> None:
        epsilon, items = real("epsilon", self.epsilon, low=0, high=LARGEST), self.items
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
        return isinstance(other, BestArm) and self._key() == other._key()

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
        return BestArm(scaled_slack(self.epsilon, scale), reference=reference)

    def static_part(self) -> "BestArm":
        if self.items is None:
            return self
        return BestArm(items=np.arange(self.items.size).reshape(self.items.shape))

    def constants(self):
        return () if self.items is None else self.items

    def width(self, arms):
        return arms if self.items is None else len(self.items)

    def check_arms(self, arms):
        refuse_slack_of_features(self, arms)
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
        if self.reference is not None and means.max() <= self.reference:
            if means.max() == self.reference:
                tied = f"arms {best.tolist()} with the largest mean, which is the reference"
                raise ArgumentError("instance", tied, "a largest mean off the reference")
        elif best.size > 1:
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
        return order[means[order] >= best - rounded_up(self.epsilon, best)]

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

    def public(self, seen, answer):
        return self._index(seen) == answer

    def _index(self, seen):
        """0, 1, .., the index of each arm or item, to compare with the answer."""
        index = jnp.arange(self.width(len(seen.means)), dtype=jnp.int32)
        return index.reshape(-1, *[1] * (seen.means.ndim - 1))

    def shape(self, seen, answer):
        exists = self._index(seen) != answer
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
        return ArmSet.full(seen.shape.exists)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class TopM(Problem):
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
    lanes_last: ClassVar[bool] = True

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


def scaled_slack(epsilon: float, scale: float) -> float:
    """epsilon/scale; above 0 where epsilon is."""
    return float(np.clip(epsilon / scale, 1 / LARGEST**10, LARGEST)) if epsilon else 0.0


def rounded_up(epsilon: float, mean: float) -> float:
    """epsilon, and what a difference of means of this size may be off by rounding."""
    return epsilon + _ROUNDING * (abs(mean) + epsilon)


def refuse_slack_of_features(problem: Problem, arms: np.ndarray) -> None:
    """Refuse slack for arms [K, d] that are not the canonical basis."""
    if problem.epsilon and not np.array_equal(arms, np.eye(len(arms))):
        allowed = f"unstructured arms: {problem!r} is not defined for others"
        raise UnsupportedError("instance", "linear", allowed)


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
