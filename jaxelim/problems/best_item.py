"""The best of items that are not the arms: transductive linear bandits."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.checks import outside_span, real_array
from jaxelim.contracts import Problem
from jaxelim.contracts.items import Items
from jaxelim.errors import ArgumentError, TieError
from jaxelim.lanes import index_like
from jaxelim.problems.arm_sets import ArmMask, ArmSet


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BestItem(Problem):
    """Identify the item with the largest z_p . theta; pulls are of arms. `BestArm(items=..)`.

    Pieces: y = z_i - z_p, c = 0, for the best item i and every other item p; P - 1 of
    them. The set of pieces is one mask over the items. All instances of a batch share
    the items. For linear Gaussian rewards, whether or not the arms are the canonical
    basis.

    Fiez, Jain, Jamieson & Ratliff 2019 (transductive linear bandits).

    Args:
        items: the features z_p in rows, [P, d], P >= 2.

    Raises:
        ArgumentError: items are no finite real numbers of this shape, or two are equal.
    """

    items: Any
    name: ClassVar[str] = "best-item"
    lanes_last: ClassVar[bool] = True
    uses_theta: ClassVar[bool] = True
    made_of_arms: ClassVar[bool] = False
    times_axes: ClassVar[tuple[str, ...]] = ("item",)
    answer_axis: ClassVar[str | None] = "item"

    def __post_init__(self) -> None:
        items = real_array("items", self.items, ndim=2)
        allowed = "features [P, d] of P >= 2 different items, d >= 1"
        if items.shape[0] < 2 or items.shape[1] < 1:
            raise ArgumentError("items", self.items, allowed, f"its shape is {items.shape}")
        with np.errstate(over="ignore"):
            if not np.isfinite(np.sum(items**2, 1)).all():
                note = "features whose squared norms do not overflow float64"
                raise ArgumentError("items", self.items, note)
        items = items + 0.0  # converts -0.0 to 0.0, which is equal but has other bytes
        _, first, which = np.unique(items, axis=0, return_index=True, return_inverse=True)
        twice = np.flatnonzero(first[which.ravel()] != np.arange(len(items)))
        if twice.size:
            pair = f"items {first[which.ravel()[twice[0]]]} and {twice[0]} are equal"
            raise ArgumentError("items", self.items, allowed, pair)
        items.setflags(write=False)
        object.__setattr__(self, "items", items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BestItem) and np.array_equal(self.items, other.items)

    def __hash__(self) -> int:
        return hash((self.items.shape, self.items.tobytes()))

    def __repr__(self) -> str:
        return f"BestArm(items={self.items.tolist()})"

    def __str__(self) -> str:
        return f"BestArm(items=<{'x'.join(map(str, self.items.shape))}>)"

    def static_part(self) -> "BestItem":
        """The problem with zeros in place of its items; only their shape is read of it."""
        bare = object.__new__(BestItem)
        object.__setattr__(bare, "items", np.zeros(self.items.shape))
        return bare

    def constants(self):
        return self.items

    def width(self, arms):
        return len(self.items)

    def check_arms(self, arms):
        if self.items.shape[1] != arms.shape[1]:
            allowed = f"features [P, {arms.shape[1]}], of the dimension of the arms"
            raise ArgumentError("items", self.items, allowed, f"its shape is {self.items.shape}")
        # A difference of two items is one of two differences from item 0.
        y = self.items[1:] - self.items[0]
        outside, _ = outside_span(arms, y)
        if outside.any():
            pair = f"z_0 - z_{1 + int(np.argmax(outside))}"
            allowed = "items whose differences lie in the span of the arms: no arm tells others"
            raise ArgumentError("items", self.items, allowed, f"{pair} does not")

    def check(self, arms, theta):
        means = self.items @ theta
        if not np.isfinite(means).all():
            allowed = "items whose means z_p . theta do not overflow float64"
            raise ArgumentError("items", self.items, allowed)
        best = np.flatnonzero(means == means.max())
        if best.size > 1:
            tied = f"items {best.tolist()} with the same largest mean"
            raise TieError("instance", tied, "one best item")

    def half_spaces(self, arms, theta):
        best = int(np.argmax(self.items @ theta))
        directions = np.delete(self.items[best] - self.items, best, 0)
        return directions, np.zeros(len(directions))

    def answer(self, seen):
        theta_hat = seen.theta_hat
        assert theta_hat is not None  # kept, as `uses_theta` is on
        return seen.lanes.argmax(seen.lanes.dot(seen.constants, theta_hat))

    def _each(self, answer):
        """0, 1, .., P - 1, [P] or [P, 1], to compare with the answer."""
        return index_like(jnp.zeros((len(self.items),) + (1,) * answer.ndim, bool))

    def public(self, seen, answer):
        return self._each(answer) == answer

    def shape(self, seen, answer):
        return Items(answer, self._each(answer) != answer, len(self.items) - 1)

    def wrong_answers(self, arms):
        return len(self.items) - 1

    def pieces(self, seen, pair_times=False):
        return ArmSet.full(seen.shape.exists)

    def plain_pieces(self, seen):
        return ArmMask(jnp.ones(seen.shape.exists.shape, bool))
